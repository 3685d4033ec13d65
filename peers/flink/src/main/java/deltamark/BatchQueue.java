package deltamark;

import java.util.ArrayDeque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.table.data.RowData;

/** The batches that a reader of a relation has not yet taken. */
final class BatchQueue {
    private final ArrayDeque<Batch> waiting = new ArrayDeque<>();
    private CompletableFuture<Void> available = new CompletableFuture<>();

    /** The rows of a batch for one reader. */
    record Batch(long number, List<RowData> rows) {}

    synchronized void add(Batch batch) {
        waiting.add(batch);
        available.complete(null);
    }

    /** Return the next batch, or null if there is none. */
    synchronized Batch poll() {
        var batch = waiting.poll();
        if (waiting.isEmpty() && available.isDone()) {
            available = new CompletableFuture<>();
        }
        return batch;
    }

    /** Return a future that is complete while a batch waits. */
    synchronized CompletableFuture<Void> available() {
        return available;
    }
}
