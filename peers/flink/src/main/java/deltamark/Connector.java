package deltamark;

import java.util.Set;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.sink.SinkV2Provider;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.SourceProvider;
import org.apache.flink.table.factories.DynamicTableSinkFactory;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.types.RowKind;

/** The connector of the tables: sources of rows that were fed, and a sink that collects changes. */
public final class Connector implements DynamicTableSourceFactory, DynamicTableSinkFactory {
    static final String NAME = "deltamark";

    static final ConfigOption<String> RELATION =
        ConfigOptions.key("relation").stringType().noDefaultValue().withDescription("the relation of a source");

    /** Rows arrive and leave, each as a whole; there is no key. */
    private static final ChangelogMode ARRIVE_AND_LEAVE = ChangelogMode.newBuilder()
        .addContainedKind(RowKind.INSERT).addContainedKind(RowKind.DELETE).build();

    @Override
    public String factoryIdentifier() {
        return NAME;
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of();
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of(RELATION);
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        return new TableSource(FactoryUtil.createTableFactoryHelper(this, context).getOptions().get(RELATION));
    }

    @Override
    public DynamicTableSink createDynamicTableSink(Context context) {
        return new TableSink((RowType) context.getPhysicalRowDataType().getLogicalType());
    }

    private record TableSource(String relation) implements ScanTableSource {
        @Override
        public ChangelogMode getChangelogMode() {
            return ARRIVE_AND_LEAVE;
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            return SourceProvider.of(new RowSource(relation));
        }

        @Override
        public DynamicTableSource copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return relation;
        }
    }

    private record TableSink(RowType type) implements DynamicTableSink {
        @Override
        public ChangelogMode getChangelogMode(ChangelogMode requested) {
            return ChangelogMode.all();
        }

        @Override
        public SinkRuntimeProvider getSinkRuntimeProvider(Context context) {
            return SinkV2Provider.of(new ChangeSink(type));
        }

        @Override
        public DynamicTableSink copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return "answer";
        }
    }
}
