package deltamark;

import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.typeutils.RowDataSerializer;
import org.apache.flink.table.types.logical.RowType;

/** A sink that collects the net changes of a batch, and hands them over when the watermark of the batch arrives. */
final class ChangeSink implements Sink<RowData> {
    private final RowType type;

    ChangeSink(RowType type) {
        this.type = type;
    }

    @Override
    public SinkWriter<RowData> createWriter(WriterInitContext context) {
        return new Writer(new RowDataSerializer(type), context.getTaskInfo().getNumberOfParallelSubtasks());
    }

    private static final class Writer implements SinkWriter<RowData> {
        private final RowDataSerializer serializer;
        private final int writers;
        private final Exchange exchange = Exchange.current();
        private NetChanges changes = new NetChanges();

        Writer(RowDataSerializer serializer, int writers) {
            this.serializer = serializer;
            this.writers = writers;
        }

        @Override
        public void write(RowData row, Context context) {
            changes.add(row.getRowKind(), serializer.toBinaryRow(row));
        }

        @Override
        public void writeWatermark(Watermark watermark) {
            if (watermark.getTimestamp() != Exchange.END) {
                handOver(watermark.getTimestamp());
            }
        }

        @Override
        public void flush(boolean atEnd) {
            if (atEnd) { // aggregates in batch mode emit their rows after the last watermark
                handOver(Exchange.END);
            }
        }

        private void handOver(long batch) {
            exchange.handOver(batch, changes, writers);
            changes = new NetChanges();
        }

        @Override
        public void close() {}
    }
}
