package deltamark;

import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.table.data.RowData;

/** The place in this process where a job takes its batches, and where it leaves its changes. */
final class Exchange {
    /** The number of the last batch: the whole input of a job in batch mode. */
    static final long END = Watermark.MAX_WATERMARK.getTimestamp();

    private static final long CHECK_MS = 500;

    private static volatile Exchange current;

    private final Map<String, BatchQueue> queues = new ConcurrentHashMap<>();
    private final Map<Long, Collected> collected = new ConcurrentHashMap<>();

    /** The changes of a batch, of which some writers may be missing. */
    private static final class Collected {
        private final NetChanges changes = new NetChanges();
        private final CompletableFuture<NetChanges> complete = new CompletableFuture<>();
        private int writers;

        synchronized void add(NetChanges more, int expectedWriters) {
            changes.addAll(more);
            writers++;
            if (writers == expectedWriters) {
                complete.complete(changes);
            }
        }
    }

    /** Begin a new exchange, which the sources and the sink of the next job use. */
    static Exchange begin() {
        current = new Exchange();
        return current;
    }

    static Exchange current() {
        return current;
    }

    /** Return the batches of a worker of a relation. */
    BatchQueue queue(String relation, int worker) {
        return queues.computeIfAbsent(relation + "/" + worker, key -> new BatchQueue());
    }

    /** Release a batch to the sources: the rows of each relation by worker. */
    void release(long number, Map<String, List<List<RowData>>> rows) {
        rows.forEach((relation, shares) -> {
            for (var worker = 0; worker < shares.size(); worker++) {
                queue(relation, worker).add(new BatchQueue.Batch(number, shares.get(worker)));
            }
        });
    }

    /** Take the changes of a writer. expectedWriters: the number of writers of the job. */
    void handOver(long number, NetChanges changes, int expectedWriters) {
        collected.computeIfAbsent(number, key -> new Collected()).add(changes, expectedWriters);
    }

    /**
     * Wait until all writers have handed over the changes of a batch. A job that has ended by itself reads no relation,
     * as that of `SELECT a FROM t WHERE FALSE`: return its last changes, once. Fail if it has failed.
     */
    NetChanges await(long number, CompletableFuture<?> end) throws Exception {
        var changes = collected.computeIfAbsent(number, key -> new Collected()).complete;
        while (true) {
            try {
                var found = changes.get(CHECK_MS, TimeUnit.MILLISECONDS);
                collected.remove(number);
                return found;
            } catch (TimeoutException stillWaiting) {
                if (end.isDone() && !changes.isDone()) {
                    end.get();
                    var last = collected.remove(END);
                    return last == null ? new NetChanges() : last.complete.getNow(new NetChanges());
                }
            }
        }
    }
}
