package deltamark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/** The columns of a relation or of the answer: their names, and their types in the protocol and in Flink. */
record Columns(List<Column> list) {
    /** The digits of decimals in relations, and in answers. */
    static final int INPUT_DIGITS = 15;
    static final int ANSWER_DIGITS = 38;

    /** A column. scale: the digits behind the point of a decimal. */
    record Column(String name, Kind kind, int scale) {
        String sqlType(int decimalDigits) {
            return kind == Kind.DECIMAL ? "DECIMAL(" + decimalDigits + ", " + scale + ")" : kind.sqlType;
        }
    }

    /** A type of a column. */
    enum Kind {
        INT64("BIGINT"), DECIMAL(null), DATE32("DATE"), DOUBLE("DOUBLE"), STRING("STRING");

        private final String sqlType;

        Kind(String sqlType) {
            this.sqlType = sqlType;
        }
    }

    /** Read pairs of a name and a type, such as `["l_quantity", "decimal(2)"]`. */
    static Columns of(JsonNode pairs) {
        var columns = new ArrayList<Column>();
        for (var pair : pairs) {
            var type = pair.get(1).asText().split("[()]");
            var scale = type.length > 1 ? Integer.parseInt(type[1]) : 0;
            columns.add(new Column(pair.get(0).asText(), Kind.valueOf(type[0].toUpperCase()), scale));
        }
        return new Columns(columns);
    }

    /** Return the columns as CREATE TABLE has them. suffix: follows each type. */
    String sql(int decimalDigits, String suffix) {
        return list.stream().map(each -> "`" + each.name() + "` " + each.sqlType(decimalDigits) + suffix)
            .collect(Collectors.joining(", "));
    }
}
