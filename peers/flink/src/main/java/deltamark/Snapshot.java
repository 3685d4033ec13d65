package deltamark;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A snapshot of a job: a savepoint of Flink, the plan whose operators have its state, and what the adapter knows beside
 * them. It is written in one file beside the savepoint, after the savepoint is complete.
 *
 * @param plan the compiled plan, since a new one may name its operators otherwise
 * @param savepoint the path that Flink has given to the savepoint
 * @param time the last logical time whose rows the state contains
 */
record Snapshot(
        String plan, String savepoint, long time, long batches, long answerRows, boolean showsRowOfNothing) {
    private static final String FILE = "snapshot.json";
    private static final ObjectMapper JSON = new ObjectMapper();

    static Snapshot read(Path directory) throws Exception {
        var content = JSON.readTree(directory.resolve(FILE).toFile());
        return new Snapshot(
            content.get("plan").asText(), content.get("savepoint").asText(), content.get("time").asLong(),
            content.get("batches").asLong(), content.get("answerRows").asLong(),
            content.get("showsRowOfNothing").asBoolean());
    }

    /** Write the snapshot; return the bytes of all files of the directory. */
    long write(Path directory) throws Exception {
        var content = Main.object().put("plan", plan).put("savepoint", savepoint).put("time", time)
            .put("batches", batches).put("answerRows", answerRows).put("showsRowOfNothing", showsRowOfNothing);
        Files.write(directory.resolve(FILE), JSON.writeValueAsBytes(content));
        try (var files = Files.walk(directory)) {
            return files.filter(Files::isRegularFile).mapToLong(file -> file.toFile().length()).sum();
        }
    }
}
