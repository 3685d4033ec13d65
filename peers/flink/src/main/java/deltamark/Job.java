package deltamark;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExecutionOptions;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.PlanReference;
import org.apache.flink.table.api.TableDescriptor;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.api.config.ExecutionConfigOptions;
import org.apache.flink.table.api.config.OptimizerConfigOptions;
import org.apache.flink.table.api.config.TableConfigOptions;
import org.apache.flink.table.data.RowData;

/** A job of Flink that maintains a query, in a cluster within this process that lives as long as the job. */
final class Job implements AutoCloseable {
    private static final String ANSWER = "the answer";

    /** A bundle of changes ends with its batch, unless it has this many rows. */
    private static final long BUNDLED_ROWS = 1_000_000;

    private final Exchange exchange;
    private final String plan;
    private final JobClient client;
    private final CompletableFuture<?> end;
    private final NetChanges rowOfNothing;

    /** The changes that were made before the first batch: constant rows. */
    private NetChanges early;
    private boolean showsRowOfNothing;
    private long answerRows;
    private long batches;

    Job(String sql, Map<String, Columns> relations, Columns answer, int workers, Snapshot restored) throws Exception {
        try {
            var tables = environment(EnvironmentSettings.newInstance().inStreamingMode(), workers, restored);
            relations.forEach((name, columns) -> create(
                tables, name, relation(columns, Connector.NAME).option(Connector.RELATION, name)));
            create(tables, ANSWER, answer(answer));
            var planned = restored == null ? compiled(tables, sql) : new Plan(restored.plan());
            if (restored == null && planned.hasCrossProduct()) {
                tables.getConfig().set(OptimizerConfigOptions.TABLE_OPTIMIZER_JOIN_REORDER_ENABLED, true);
                planned = compiled(tables, sql);
            }
            rowOfNothing = planned.isGlobalAggregate() ? answerToNoRows(sql, relations, answer) : null;
            plan = planned.bundledByWatermark();
            exchange = Exchange.begin();
            // some operators refuse their queries here, as a window with another order than that of time does
            client = tables.loadPlan(PlanReference.fromJsonString(plan)).execute().getJobClient().orElseThrow();
        } catch (Exception | AssertionError | StackOverflowError error) { // the planner raises all of them
            throw new Plan.RefusedException(error);
        }
        end = client.getJobExecutionResult();
        if (restored != null) {
            batches = restored.batches();
            answerRows = restored.answerRows();
            showsRowOfNothing = restored.showsRowOfNothing();
        }
        exchange.release(batches, relations.keySet().stream()
            .collect(Collectors.toMap(name -> name, name -> ArrowRows.none(workers))));
        // all tasks run when the watermark of this empty batch has passed them
        var opened = exchange.await(batches, end);
        early = restored == null ? opened : new NetChanges();
    }

    /** Apply a batch; return its changes. */
    NetChanges apply(Map<String, List<List<RowData>>> rows) throws Exception {
        exchange.release(++batches, rows);
        var changes = exchange.await(batches, end);
        changes.addAll(early);
        early = new NetChanges();
        if (rowOfNothing != null) {
            answerRows += changes.growth();
            if (showsRowOfNothing != (answerRows == 0)) {
                showsRowOfNothing = !showsRowOfNothing;
                rowOfNothing.weights().forEach((row, weight) -> changes.add(row, showsRowOfNothing ? weight : -weight));
            }
        }
        return changes;
    }

    /** Write a savepoint into a directory, and beside it what a new job needs; return the bytes of both. */
    long snapshot(Path directory, long time) throws Exception {
        var savepoint = client.triggerSavepoint(directory.toUri().toString(), SavepointFormatType.DEFAULT).get();
        return new Snapshot(plan, savepoint, time, batches, answerRows, showsRowOfNothing).write(directory);
    }

    private static Plan compiled(StreamTableEnvironment tables, String sql) throws Exception {
        return new Plan(tables.compilePlanSql(insert(sql)).asJsonString());
    }

    /**
     * Run a query over no rows in batch mode. A job in streaming mode has no answer until the first row of an aggregate
     * without groups arrives, nor after the last one has left.
     */
    private static NetChanges answerToNoRows(String sql, Map<String, Columns> relations, Columns answer)
            throws Exception {
        var tables = environment(EnvironmentSettings.newInstance().inBatchMode(), 1, null);
        relations.forEach((name, columns) -> create(
            tables, name, relation(columns, "datagen").option("number-of-rows", "0")));
        create(tables, ANSWER, answer(answer));
        var exchange = Exchange.begin();
        var result = tables.executeSql(insert(sql));
        return exchange.await(Exchange.END, result.getJobClient().orElseThrow().getJobExecutionResult());
    }

    private static TableDescriptor.Builder relation(Columns columns, String connector) {
        return TableDescriptor.forConnector(connector).schema(columns.schema(Columns.INPUT_DIGITS));
    }

    private static TableDescriptor.Builder answer(Columns columns) {
        return TableDescriptor.forConnector(Connector.NAME).schema(columns.schema(Columns.ANSWER_DIGITS));
    }

    private static void create(StreamTableEnvironment tables, String name, TableDescriptor.Builder table) {
        tables.createTemporaryTable(quoted(name), table.build());
    }

    private static String insert(String sql) {
        return "INSERT INTO " + quoted(ANSWER) + " " + sql;
    }

    private static String quoted(String name) {
        return "`" + name + "`";
    }

    private static StreamTableEnvironment environment(
            EnvironmentSettings.Builder mode, int workers, Snapshot restored) {
        var options = new Configuration();
        options.set(TaskManagerOptions.NUM_TASK_SLOTS, workers);
        options.set(StateBackendOptions.STATE_BACKEND, "hashmap");
        options.set(RestartStrategyOptions.RESTART_STRATEGY, "none");
        options.set(PipelineOptions.OBJECT_REUSE, true);
        options.set(ExecutionOptions.BUFFER_TIMEOUT, Duration.ofMillis(1));
        options.set(TableConfigOptions.LOCAL_TIME_ZONE, "UTC");
        options.set(ExecutionConfigOptions.TABLE_EXEC_MINIBATCH_ENABLED, true);
        options.set(ExecutionConfigOptions.TABLE_EXEC_MINIBATCH_ALLOW_LATENCY, Duration.ofMillis(1));
        options.set(ExecutionConfigOptions.TABLE_EXEC_MINIBATCH_SIZE, BUNDLED_ROWS);
        if (restored != null) {
            options.set(StateRecoveryOptions.SAVEPOINT_PATH, restored.savepoint());
        }
        var flink = StreamExecutionEnvironment.createLocalEnvironment(workers, options);
        return StreamTableEnvironment.create(flink, mode.withConfiguration(options).build());
    }

    @Override
    public void close() throws Exception {
        if (end.isDone()) {
            return;
        }
        client.cancel().get();
        try {
            end.get();
        } catch (ExecutionException cancelled) {
            // a cancelled job has no result
        }
    }
}
