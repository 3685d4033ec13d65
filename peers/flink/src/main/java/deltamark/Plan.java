package deltamark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.Map;

/** The compiled plan of a query, as the JSON that Flink writes and reads. */
final class Plan {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final JsonNode root;
    private final Map<Integer, JsonNode> nodes = new HashMap<>();

    /** A query that Flink cannot plan; the cause says why. */
    static final class RefusedException extends Exception {
        RefusedException(Throwable cause) {
            super(cause);
        }
    }

    Plan(String text) throws Exception {
        root = JSON.readTree(text);
        root.get("nodes").forEach(node -> nodes.put(node.get("id").asInt(), node));
    }

    /**
     * Let bundles of changes end with the watermarks of the sources. Flink plans bundles that end by the clock of the
     * machine, since no query needs event time.
     */
    String bundledByWatermark() throws Exception {
        for (var node : nodes.values()) {
            if (node.path("miniBatchInterval").isObject()) {
                ((ObjectNode) node.get("miniBatchInterval")).put("mode", "RowTime").put("interval", 1);
            }
        }
        return JSON.writeValueAsString(root);
    }

    /** Return whether a join has no condition, because the tables of FROM are joined in their order. */
    boolean hasCrossProduct() {
        return nodes.values().stream().map(node -> node.path("joinSpec")).anyMatch(
            join -> join.isObject() && join.get("leftKeys").isEmpty() && join.path("nonEquiCondition").isNull());
    }

    /** Return whether the answer always has one row: that of an aggregate without groups, or columns computed of it. */
    boolean isGlobalAggregate() {
        var node = input(node("sink"));
        while (node != null && isKind(node, "calc") && node.path("condition").isNull()) {
            node = input(node);
        }
        return node != null && isKind(node, "group-aggregate") && node.get("grouping").isEmpty();
    }

    private JsonNode node(String kind) {
        return nodes.values().stream().filter(node -> isKind(node, kind)).findFirst().orElseThrow();
    }

    private static boolean isKind(JsonNode node, String kind) {
        return node.get("type").asText().contains(kind);
    }

    /** Return the only input of a node, or null if there are several. */
    private JsonNode input(JsonNode node) {
        JsonNode found = null;
        for (var edge : root.get("edges")) {
            if (edge.get("target").asInt() == node.get("id").asInt()) {
                if (found != null) {
                    return null;
                }
                found = nodes.get(edge.get("source").asInt());
            }
        }
        return found;
    }
}
