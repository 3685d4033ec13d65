package deltamark;

import java.util.HashMap;
import java.util.Map;
import org.apache.flink.table.data.binary.BinaryRowData;
import org.apache.flink.types.RowKind;

/** The changes of a batch: rows with weights other than 0. */
final class NetChanges {
    private final Map<BinaryRowData, Integer> weights = new HashMap<>();

    /** Add a change. The row may be used again by the caller. */
    void add(RowKind kind, BinaryRowData row) {
        row.setRowKind(RowKind.INSERT); // rows are equal regardless of the kind of the change
        var weight = kind == RowKind.INSERT || kind == RowKind.UPDATE_AFTER ? 1 : -1;
        var present = weights.get(row);
        if (present == null) {
            weights.put(row.copy(), weight);
        } else if (present + weight == 0) {
            weights.remove(row);
        } else {
            weights.put(row, present + weight);
        }
    }

    void addAll(NetChanges others) {
        others.weights.forEach(this::add);
    }

    void add(BinaryRowData row, int weight) {
        weights.merge(row, weight, (one, other) -> one + other == 0 ? null : one + other);
    }

    Map<BinaryRowData, Integer> weights() {
        return weights;
    }

    int size() {
        return weights.size();
    }

    /** Return the number of rows by which the answer grows. */
    long growth() {
        return weights.values().stream().mapToLong(Integer::longValue).sum();
    }
}
