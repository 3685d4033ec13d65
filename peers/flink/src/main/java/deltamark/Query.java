package deltamark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.table.data.RowData;

/** An open query: a job of Flink that maintains it, and the changes that were not yet asked for. */
final class Query implements AutoCloseable {
    private final Path directory;
    private final int workers;
    private final boolean collects;
    private final Map<String, Columns> relations = new HashMap<>();
    private final Columns answer;
    private final Job job;

    private final Map<Long, NetChanges> waiting = new HashMap<>();
    private Map<String, List<List<RowData>>> batch;
    private long time;
    private int files;

    Query(JsonNode request, Snapshot restored) throws Exception {
        directory = Path.of(request.get("directory").asText());
        workers = request.get("workers").asInt();
        collects = request.get("collect").asBoolean();
        request.get("relations").fields().forEachRemaining(
            each -> relations.put(each.getKey(), Columns.ofRelation(each.getValue())));
        try {
            answer = Columns.ofAnswer(request.get("answer"));
        } catch (IllegalArgumentException error) {
            throw new Plan.RefusedException(error);
        }
        time = restored == null ? -1 : restored.time();
        job = new Job(request.get("sql").asText(), relations, answer, workers, restored);
    }

    /** Read the files of a batch, and make rows for the sources. */
    ObjectNode feed(JsonNode request) throws Exception {
        time = request.get("time").asLong();
        batch = new HashMap<>();
        for (var entry : relations.entrySet()) {
            var file = request.get("relations").get(entry.getKey());
            batch.put(entry.getKey(), file == null
                ? ArrowRows.none(workers)
                : ArrowRows.read(directory.resolve(file.asText()), entry.getValue(), workers));
        }
        return Main.object();
    }

    /** Apply the batch; the clock runs until its net changes are in memory. */
    ObjectNode apply() throws Exception {
        var started = System.nanoTime();
        var changes = job.apply(batch);
        var seconds = (System.nanoTime() - started) / 1e9;
        batch = null;
        if (collects) {
            waiting.put(time, changes);
        }
        return Main.object().put("changes", changes.size()).put("seconds", seconds);
    }

    /** Write the state after the last batch into a directory. */
    ObjectNode snapshot(JsonNode request) throws Exception {
        return Main.object().put("bytes", job.snapshot(Path.of(request.get("directory").asText()), time));
    }

    /** Write the changes since the last call. */
    ObjectNode changes() throws Exception {
        var file = "changes-" + ++files + ".arrow";
        ArrowChanges.write(directory.resolve(file), answer, waiting);
        waiting.clear();
        return Main.object().put("file", file);
    }

    @Override
    public void close() throws Exception {
        job.close();
    }
}
