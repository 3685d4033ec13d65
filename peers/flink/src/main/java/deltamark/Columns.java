package deltamark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.function.Predicate;
import java.util.stream.Collectors;

/** The columns of a relation or of the answer: their names, and their types in the protocol and in Flink. */
record Columns(List<Column> list) {
    /** The digits of decimals in relations, and in answers. */
    static final int INPUT_DIGITS = 15;
    static final int ANSWER_DIGITS = 38;

    /** A column. scale: the digits behind the point of a decimal; nullable: whether it may have NULL. */
    record Column(String name, Kind kind, int scale, boolean nullable) {
        String sqlType(int decimalDigits) {
            var type = kind == Kind.DECIMAL ? "DECIMAL(" + decimalDigits + ", " + scale + ")" : kind.sqlType;
            return nullable ? type : type + " NOT NULL";
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

    /** Read the columns of a relation, of which some may have NULL. */
    static Columns ofRelation(JsonNode relation) {
        var nullable = new HashSet<String>();
        relation.path("nullable").forEach(name -> nullable.add(name.asText()));
        return of(relation.get("columns"), nullable::contains);
    }

    /** Read the columns of the answer, which may have NULL. */
    static Columns ofAnswer(JsonNode pairs) {
        return of(pairs, name -> true);
    }

    /** Read pairs of a name and a type, such as `["l_quantity", "decimal(2)"]`. */
    private static Columns of(JsonNode pairs, Predicate<String> isNullable) {
        var columns = new ArrayList<Column>();
        for (var pair : pairs) {
            var type = pair.get(1).asText().split("[()]");
            var scale = type.length > 1 ? Integer.parseInt(type[1]) : 0;
            var name = pair.get(0).asText();
            columns.add(new Column(name, Kind.valueOf(type[0].toUpperCase()), scale, isNullable.test(name)));
        }
        return new Columns(columns);
    }

    /** Return the columns as CREATE TABLE has them. */
    String sql(int decimalDigits) {
        return list.stream().map(each -> "`" + each.name() + "` " + each.sqlType(decimalDigits))
            .collect(Collectors.joining(", "));
    }
}
