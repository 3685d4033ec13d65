package deltamark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/** The loop of the adapter: requests of the engine protocol (docs/protocol.md of deltamark) and their replies. */
public final class Main {
    private static final int PROTOCOL = 2;
    private static final int LONGEST_ERROR = 200;

    private static Query query;

    public static void main(String[] arguments) throws Exception {
        var replies = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // what a library prints must not be taken for a reply
        var requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var json = new ObjectMapper();
        for (var line = requests.readLine(); line != null; line = requests.readLine()) {
            var request = json.readTree(line);
            if (request.path("do").asText().equals("close")) {
                break;
            }
            replies.println(json.writeValueAsString(reply(request)));
        }
        endQuery();
        System.exit(0); // threads of Flink may outlive its jobs
    }

    private static ObjectNode reply(JsonNode request) {
        try {
            return switch (request.path("do").asText()) {
                case "hello" -> object().put("protocol", PROTOCOL).put("name", "Flink 2.3.0")
                    .put("output", "batches").put("maintains", true).put("session", true).put("nulls", true)
                    .put("snapshots", true);
                case "open" -> open(request, null);
                case "restore" -> open(request, Snapshot.read(Path.of(request.get("snapshot").asText())));
                case "feed" -> query.feed(request);
                case "apply" -> query.apply();
                case "changes" -> query.changes();
                case "snapshot" -> query.snapshot(request);
                case "state" -> object();
                case "end" -> endQuery();
                default -> object().put("error", "not a request of this protocol: " + request);
            };
        } catch (Exception error) {
            error.printStackTrace();
            return object().put("error", oneLine(error));
        }
    }

    /** Open a query, in the state of a snapshot if there is one. */
    private static ObjectNode open(JsonNode request, Snapshot restored) throws Exception {
        endQuery();
        try {
            query = new Query(request, restored);
            return restored == null ? object() : object().put("time", restored.time());
        } catch (Plan.RefusedException error) {
            return object().put("refused", oneLine(error.getCause()));
        }
    }

    private static ObjectNode endQuery() throws Exception {
        if (query != null) {
            query.close();
            query = null;
        }
        return object();
    }

    static ObjectNode object() {
        return JsonNodeFactory.instance.objectNode();
    }

    /** Return the innermost cause of an error as one line. */
    private static String oneLine(Throwable error) {
        var cause = error;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        var text = (cause.getClass().getSimpleName() + ": " + cause.getMessage()).replaceAll("\\s+", " ");
        return text.substring(0, Math.min(text.length(), LONGEST_ERROR));
    }
}
