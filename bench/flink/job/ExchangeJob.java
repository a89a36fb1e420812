import static org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;

import org.apache.flink.api.common.operators.SlotSharingGroup;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Sources, stages in a row, the last of them sinks: what `flinknet bench` does, as a job of Flink.
 *
 * <p>Arguments are `key=value`; see {@link Settings}. With two slot sharing groups the slots of the
 * sources and of every second task ask for the external resource "even", those between for "odd",
 * so that only a TaskManager that has it takes them, and all channels cross a connection.
 */
public final class ExchangeJob {
    private static final String[] GROUPS = {"even", "odd"};

    public static void main(String[] arguments) throws Exception {
        Settings settings = new Settings(arguments);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.disableOperatorChaining();
        if (settings.bufferTimeoutMs != null) {
            env.setBufferTimeout(settings.bufferTimeoutMs);
        }
        if (settings.checkpointIntervalMs > 0) {
            env.enableCheckpointing(settings.checkpointIntervalMs);
        }
        SingleOutputStreamOperator<byte[]> before =
                env.addSource(new OpenLoopSource(settings), "source", BYTE_PRIMITIVE_ARRAY_TYPE_INFO)
                        .setParallelism(settings.producers);
        place(before, settings, 0);
        int last = settings.stages.size();
        for (int at = 1; at < last; at++) {
            Stage stage = settings.stages.get(at - 1);
            before =
                    exchanged(before, stage)
                            .transform(
                                    "stage-" + at,
                                    BYTE_PRIMITIVE_ARRAY_TYPE_INFO,
                                    new Relay(settings, stage, at))
                            .setParallelism(stage.parallelism());
            place(before, settings, at);
        }
        Stage sink = settings.stages.get(last - 1);
        place(
                exchanged(before, sink)
                        .transform("sink", Types.VOID, new LatencySink(settings))
                        .setParallelism(sink.parallelism()),
                settings,
                last);
        env.execute("exchange");
    }

    private static DataStream<byte[]> exchanged(DataStream<byte[]> stream, Stage to) {
        double hotShare = to.hotShare();
        return switch (to.partitioner()) {
            case "hash" -> stream.keyBy(record -> Stamps.key(record, hotShare), Types.LONG);
            case "forward" -> stream.forward();
            case "broadcast" -> stream.broadcast();
            default -> stream.rebalance();
        };
    }

    private static void place(SingleOutputStreamOperator<?> task, Settings settings, int position) {
        if (settings.isSplit) {
            task.slotSharingGroup(group(GROUPS[position % 2]));
        }
    }

    private static SlotSharingGroup group(String name) {
        return SlotSharingGroup.newBuilder(name)
                .setCpuCores(0.25)
                .setTaskHeapMemoryMB(16)
                .setExternalResource(name, 1)
                .build();
    }
}
