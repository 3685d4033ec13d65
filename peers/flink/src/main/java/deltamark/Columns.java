package deltamark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.function.Predicate;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.flink.table.api.Schema;

/**
 * The columns of a relation or of the answer: their names, and their types in the protocol and in Flink. key: the
 * columns in which no two live rows are equal, or none.
 */
record Columns(List<Column> list, List<String> key) {
    /** The digits of decimals in relations, and in answers. */
    static final int INPUT_DIGITS = 15;
    static final int ANSWER_DIGITS = 38;

    /** The digits of a second in timestamps. */
    static final int TIMESTAMP_DIGITS = 6;

    /** A column. scale: the digits behind the point of a decimal; nullable: whether it may have NULL. */
    record Column(String name, Kind kind, int scale, boolean nullable) {
        String sqlType(int decimalDigits) {
            var type = kind == Kind.DECIMAL ? "DECIMAL(" + decimalDigits + ", " + scale + ")" : kind.sqlType;
            return nullable ? type : type + " NOT NULL";
        }
    }

    /** A type of a column. Times of Flink have no fractions of a second, and its intervals have milliseconds. */
    enum Kind {
        INT64("BIGINT"), DECIMAL(null), DATE32("DATE"), DOUBLE("DOUBLE"), STRING("STRING"), BOOL("BOOLEAN"),
        TIMESTAMP("TIMESTAMP(" + TIMESTAMP_DIGITS + ")"), TIMESTAMPTZ("TIMESTAMP_LTZ(" + TIMESTAMP_DIGITS + ")"),
        TIME("TIME(0)"), INTERVAL("INTERVAL DAY(6) TO SECOND(3)");

        private final String sqlType;

        Kind(String sqlType) {
            this.sqlType = sqlType;
        }

        static Kind named(String name) {
            return Stream.of(values()).filter(kind -> kind.name().equalsIgnoreCase(name)).findFirst()
                .orElseThrow(() -> new IllegalArgumentException("the adapter has no columns of the type " + name));
        }
    }

    /** Read the columns of a relation, of which some may have NULL, and its first key. */
    static Columns ofRelation(JsonNode relation) {
        var nullable = new HashSet<String>();
        relation.path("nullable").forEach(name -> nullable.add(name.asText()));
        var key = new ArrayList<String>();
        relation.path("keys").path(0).forEach(name -> key.add(name.asText()));
        return of(relation.get("columns"), nullable::contains, key);
    }

    /** Read the columns of the answer, which may have NULL. */
    static Columns ofAnswer(JsonNode pairs) {
        return of(pairs, name -> true, List.of());
    }

    /** Read pairs of a name and a type, such as `["l_quantity", "decimal(2)"]`. */
    private static Columns of(JsonNode pairs, Predicate<String> isNullable, List<String> key) {
        var columns = new ArrayList<Column>();
        for (var pair : pairs) {
            var type = pair.get(1).asText().split("[()]");
            var scale = type.length > 1 ? Integer.parseInt(type[1]) : 0;
            var name = pair.get(0).asText();
            columns.add(new Column(name, Kind.named(type[0]), scale, isNullable.test(name)));
        }
        return new Columns(columns, key);
    }

    /** Return the columns and the key of a table. A statement of SQL could not declare an interval. */
    Schema schema(int decimalDigits) {
        var schema = Schema.newBuilder();
        list.forEach(each -> schema.column(each.name(), each.sqlType(decimalDigits)));
        return (key.isEmpty() ? schema : schema.primaryKey(key)).build();
    }

    /** Return the places of the columns by which changes must stay in order: those of the key, or else all. */
    int[] orderedBy() {
        return IntStream.range(0, list.size())
            .filter(at -> key.isEmpty() || key.contains(list.get(at).name())).toArray();
    }
}
