import static org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;

import org.apache.flink.api.common.operators.SlotSharingGroup;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Source, rebalance (or key by number), sink: what `flinknet bench` does, as a job of Flink.
 *
 * <p>Arguments are `key=value`; see {@link Settings}. With two slot sharing groups every slot of
 * the sources asks for the external resource "source", every slot of the sinks for "sink", so that
 * only a TaskManager that has it takes them, and all channels cross a connection.
 */
public final class ExchangeJob {
    public static void main(String[] arguments) throws Exception {
        Settings settings = new Settings(arguments);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setBufferTimeout(settings.bufferTimeoutMs);
        if (settings.checkpointIntervalMs > 0) {
            env.enableCheckpointing(settings.checkpointIntervalMs);
        }
        var source =
                env.addSource(new OpenLoopSource(settings), "source", BYTE_PRIMITIVE_ARRAY_TYPE_INFO)
                        .setParallelism(settings.producers);
        DataStream<byte[]> exchanged =
                settings.isKeyed ? source.keyBy(Stamps::number, Types.LONG) : source.rebalance();
        var sink =
                exchanged
                        .transform("sink", Types.VOID, new LatencySink(settings))
                        .setParallelism(settings.consumers);
        if (settings.isSplit) {
            source.slotSharingGroup(group("source"));
            sink.slotSharingGroup(group("sink"));
        }
        env.execute("exchange");
    }

    private static SlotSharingGroup group(String name) {
        return SlotSharingGroup.newBuilder(name)
                .setCpuCores(1)
                .setTaskHeapMemoryMB(32)
                .setExternalResource(name, 1)
                .build();
    }
}
