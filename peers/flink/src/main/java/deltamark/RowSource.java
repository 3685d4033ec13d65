package deltamark;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.table.data.RowData;

/**
 * A source of the rows of a relation, with a watermark after each batch. It has no splits, since each reader has a
 * queue of its own.
 */
final class RowSource implements Source<RowData, RowSource.NoSplit, Void> {
    private static final int ROWS_PER_POLL = 1000;

    private final String relation;

    RowSource(String relation) {
        this.relation = relation;
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SourceReader<RowData, NoSplit> createReader(SourceReaderContext context) {
        return new Reader(Exchange.current().queue(relation, context.getIndexOfSubtask()));
    }

    @Override
    public SplitEnumerator<NoSplit, Void> createEnumerator(SplitEnumeratorContext<NoSplit> context) {
        return new NoEnumerator();
    }

    @Override
    public SplitEnumerator<NoSplit, Void> restoreEnumerator(SplitEnumeratorContext<NoSplit> context, Void state) {
        return new NoEnumerator();
    }

    @Override
    public SimpleVersionedSerializer<NoSplit> getSplitSerializer() {
        return new NoSerializer<>();
    }

    @Override
    public SimpleVersionedSerializer<Void> getEnumeratorCheckpointSerializer() {
        return new NoSerializer<>();
    }

    private static final class Reader implements SourceReader<RowData, NoSplit> {
        private final BatchQueue queue;
        private BatchQueue.Batch batch;
        private int next;

        Reader(BatchQueue queue) {
            this.queue = queue;
        }

        @Override
        public void start() {}

        @Override
        public InputStatus pollNext(ReaderOutput<RowData> output) {
            if (batch == null) {
                batch = queue.poll();
                next = 0;
            }
            if (batch == null) {
                return InputStatus.NOTHING_AVAILABLE;
            }
            var rows = batch.rows();
            var until = Math.min(rows.size(), next + ROWS_PER_POLL);
            while (next < until) {
                output.collect(rows.get(next++));
            }
            if (next == rows.size()) {
                output.emitWatermark(new Watermark(batch.number()));
                batch = null;
            }
            return InputStatus.MORE_AVAILABLE;
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            return queue.available();
        }

        @Override
        public List<NoSplit> snapshotState(long checkpoint) {
            return List.of();
        }

        @Override
        public void addSplits(List<NoSplit> splits) {}

        @Override
        public void notifyNoMoreSplits() {}

        @Override
        public void close() {}
    }

    record NoSplit() implements SourceSplit {
        @Override
        public String splitId() {
            return "";
        }
    }

    private static final class NoEnumerator implements SplitEnumerator<NoSplit, Void> {
        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int reader, String host) {}

        @Override
        public void addSplitsBack(List<NoSplit> splits, int reader) {}

        @Override
        public void addReader(int reader) {}

        @Override
        public Void snapshotState(long checkpoint) {
            return null;
        }

        @Override
        public void close() {}
    }

    /** The serializer of splits, which there are none of, and of the state of an enumerator, which has none. */
    private static final class NoSerializer<T> implements SimpleVersionedSerializer<T> {
        @Override
        public int getVersion() {
            return 0;
        }

        @Override
        public byte[] serialize(T object) {
            return new byte[0];
        }

        @Override
        public T deserialize(int version, byte[] bytes) {
            return null;
        }
    }
}
