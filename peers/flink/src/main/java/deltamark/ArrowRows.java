package deltamark;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.IntFunction;
import java.util.stream.IntStream;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.DateDayVector;
import org.apache.arrow.vector.DecimalVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.IntVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.dictionary.Dictionary;
import org.apache.arrow.vector.ipc.ArrowFileReader;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.types.RowKind;

/** Reads the changes of a relation from an Arrow file. */
final class ArrowRows {
    private static final int DECIMAL_BYTES = 16;

    private ArrowRows() {}

    /** Return a batch without rows. */
    static List<List<RowData>> none(int workers) {
        return IntStream.range(0, workers).<List<RowData>>mapToObj(worker -> new ArrayList<>()).toList();
    }

    /**
     * Read the rows of each worker. Equal rows have the same worker, as have all rows with the same key, so that a row
     * never leaves before it arrives, nor arrives before the old row with its key has left.
     */
    static List<List<RowData>> read(Path file, Columns columns, int workers) throws IOException {
        var shares = none(workers);
        try (var memory = new RootAllocator();
             var channel = FileChannel.open(file);
             var reader = new ArrowFileReader(channel, memory)) {
            while (reader.loadNextBatch()) {
                var root = reader.getVectorSchemaRoot();
                var diffs = (BigIntVector) root.getVector("diff");
                var getters = new ArrayList<IntFunction<Object>>();
                for (var column : columns.list()) {
                    var vector = root.getVector(column.name());
                    var getter = getter(column, vector, reader.getDictionaryVectors());
                    getters.add(column.nullable() ? row -> vector.isNull(row) ? null : getter.apply(row) : getter);
                }
                var orderedBy = columns.orderedBy();
                for (var row = 0; row < root.getRowCount(); row++) {
                    var values = new Object[getters.size()];
                    for (var at = 0; at < values.length; at++) {
                        values[at] = getters.get(at).apply(row);
                    }
                    var rowData = GenericRowData.of(values);
                    var worker = workers == 1 ? 0 : Math.floorMod(hash(values, orderedBy), workers);
                    rowData.setRowKind(kind(diffs.get(row)));
                    shares.get(worker).add(rowData);
                }
            }
        }
        return shares;
    }

    private static int hash(Object[] values, int[] columns) {
        return IntStream.of(columns).map(at -> Objects.hashCode(values[at])).reduce(1, (one, next) -> 31 * one + next);
    }

    private static RowKind kind(long diff) {
        if (diff != 1 && diff != -1) {
            throw new IllegalArgumentException("a row with diff " + diff);
        }
        return diff > 0 ? RowKind.INSERT : RowKind.DELETE;
    }

    private static IntFunction<Object> getter(Columns.Column column, FieldVector vector, Map<Long, Dictionary> words) {
        switch (column.kind()) {
            case INT64:
                return ((BigIntVector) vector)::get;
            case DATE32:
                return ((DateDayVector) vector)::get;
            case DECIMAL:
                var numbers = ((DecimalVector) vector).getDataBuffer(); // the lower halves hold 15 digits
                return row -> DecimalData.fromUnscaledLong(
                    numbers.getLong((long) row * DECIMAL_BYTES), Columns.INPUT_DIGITS, column.scale());
            case STRING:
                var encoding = vector.getField().getDictionary();
                if (encoding == null) {
                    return row -> StringData.fromBytes(((VarCharVector) vector).get(row));
                }
                var texts = (VarCharVector) words.get(encoding.getId()).getVector();
                var strings = IntStream.range(0, texts.getValueCount())
                    .mapToObj(word -> StringData.fromBytes(texts.get(word))).toArray();
                return row -> strings[((IntVector) vector).get(row)];
            default:
                throw new IllegalArgumentException("a relation with a column of " + column.kind());
        }
    }
}
