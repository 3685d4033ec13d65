package deltamark;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.BitVector;
import org.apache.arrow.vector.DateDayVector;
import org.apache.arrow.vector.DecimalVector;
import org.apache.arrow.vector.DurationVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.Float8Vector;
import org.apache.arrow.vector.TimeMicroVector;
import org.apache.arrow.vector.TimeStampVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowFileWriter;
import org.apache.arrow.vector.types.DateUnit;
import org.apache.arrow.vector.types.FloatingPointPrecision;
import org.apache.arrow.vector.types.TimeUnit;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.TimestampData;

/** Writes changes to an Arrow file. */
final class ArrowChanges {
    private static final int DECIMAL_BITS = 128;
    private static final int TIME_BITS = 64;
    private static final long MICROSECONDS_OF_A_MILLISECOND = 1000;

    private ArrowChanges() {}

    /** Write the changes of batches, which are given by their times. */
    static void write(Path file, Columns columns, Map<Long, NetChanges> batches) throws IOException {
        var fields = new ArrayList<Field>();
        fields.add(Field.notNullable("time", new ArrowType.Int(64, true)));
        fields.add(Field.notNullable("diff", new ArrowType.Int(64, true)));
        columns.list().forEach(column -> fields.add(Field.nullable(column.name(), type(column))));
        try (var memory = new RootAllocator();
             var root = VectorSchemaRoot.create(new Schema(fields), memory);
             var channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
             var writer = new ArrowFileWriter(root, null, channel)) {
            var at = 0;
            for (var batch : batches.entrySet()) {
                for (var change : batch.getValue().weights().entrySet()) {
                    ((BigIntVector) root.getVector(0)).setSafe(at, batch.getKey());
                    ((BigIntVector) root.getVector(1)).setSafe(at, change.getValue());
                    setRow(root, at++, change.getKey(), columns);
                }
            }
            root.setRowCount(at);
            writer.start();
            writer.writeBatch();
            writer.end();
        }
    }

    private static void setRow(VectorSchemaRoot root, int at, RowData row, Columns columns) {
        for (var column = 0; column < columns.list().size(); column++) {
            if (!row.isNullAt(column)) { // unset places are NULL
                set(root.getVector(column + 2), at, row, column, columns.list().get(column));
            }
        }
    }

    private static void set(FieldVector vector, int at, RowData row, int column, Columns.Column type) {
        switch (type.kind()) {
            case INT64 -> ((BigIntVector) vector).setSafe(at, row.getLong(column));
            case DATE32 -> ((DateDayVector) vector).setSafe(at, row.getInt(column));
            case DOUBLE -> ((Float8Vector) vector).setSafe(at, row.getDouble(column));
            case STRING -> ((VarCharVector) vector).setSafe(at, row.getString(column).toBytes());
            case DECIMAL -> ((DecimalVector) vector).setSafe(
                at, row.getDecimal(column, Columns.ANSWER_DIGITS, type.scale()).toBigDecimal());
            case BOOL -> ((BitVector) vector).setSafe(at, row.getBoolean(column) ? 1 : 0);
            case TIMESTAMP, TIMESTAMPTZ -> ((TimeStampVector) vector).setSafe(
                at, microseconds(row.getTimestamp(column, Columns.TIMESTAMP_DIGITS)));
            case TIME -> ((TimeMicroVector) vector).setSafe(at, row.getInt(column) * MICROSECONDS_OF_A_MILLISECOND);
            case INTERVAL -> ((DurationVector) vector).setSafe(
                at, row.getLong(column) * MICROSECONDS_OF_A_MILLISECOND);
        }
    }

    private static long microseconds(TimestampData moment) {
        return moment.getMillisecond() * MICROSECONDS_OF_A_MILLISECOND + moment.getNanoOfMillisecond() / 1000;
    }

    private static ArrowType type(Columns.Column column) {
        return switch (column.kind()) {
            case INT64 -> new ArrowType.Int(64, true);
            case DATE32 -> new ArrowType.Date(DateUnit.DAY);
            case DOUBLE -> new ArrowType.FloatingPoint(FloatingPointPrecision.DOUBLE);
            case STRING -> ArrowType.Utf8.INSTANCE;
            case DECIMAL -> new ArrowType.Decimal(Columns.ANSWER_DIGITS, column.scale(), DECIMAL_BITS);
            case BOOL -> ArrowType.Bool.INSTANCE;
            case TIMESTAMP -> new ArrowType.Timestamp(TimeUnit.MICROSECOND, null);
            case TIMESTAMPTZ -> new ArrowType.Timestamp(TimeUnit.MICROSECOND, "UTC");
            case TIME -> new ArrowType.Time(TimeUnit.MICROSECOND, TIME_BITS);
            case INTERVAL -> new ArrowType.Duration(TimeUnit.MICROSECOND);
        };
    }
}
