import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * A sequence of longs behind a blocking exchange, and a consumer that never begins: its input stays
 * in the TaskManager for whoever asks. BatchJob REST-PORT JAR RECORDS
 */
public final class BatchJob {
    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.createRemoteEnvironment(
                        "127.0.0.1", Integer.parseInt(arguments[0]), arguments[1]);
        env.setRuntimeMode(RuntimeExecutionMode.BATCH);
        env.setParallelism(1);
        env.fromSequence(1, Long.parseLong(arguments[2]))
                .rebalance()
                .map(new Waiting())
                .name("waiting")
                .sinkTo(new DiscardingSink<>());
        env.executeAsync("interop");
        System.out.println("submitted");
    }

    /** Takes its time before the first record. */
    public static final class Waiting extends RichMapFunction<Long, Long> {
        @Override
        public void open(OpenContext context) throws Exception {
            Thread.sleep(3_600_000);
        }

        @Override
        public Long map(Long value) {
            return value;
        }
    }
}
