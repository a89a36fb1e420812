import org.apache.flink.api.common.TaskInfo;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** Passes records on as they are, each after its service time; its first attempt may fail. */
final class Relay extends AbstractStreamOperator<byte[]>
        implements OneInputStreamOperator<byte[], byte[]> {
    private static final long serialVersionUID = 1L;

    private final Stage stage;
    private transient Service service;
    private transient long failsAtNs;

    Relay(Stage stage) {
        this.stage = stage;
    }

    @Override
    public void open() throws Exception {
        super.open();
        TaskInfo info = getRuntimeContext().getTaskInfo();
        service = new Service(stage, info.getIndexOfThisSubtask());
        boolean fails = stage.failsAfterNs() > 0 && info.getAttemptNumber() == 0;
        failsAtNs = fails ? System.nanoTime() + stage.failsAfterNs() : Long.MAX_VALUE;
    }

    @Override
    public void processElement(StreamRecord<byte[]> element) {
        if (System.nanoTime() > failsAtNs) {
            throw new IllegalStateException("fails once, on purpose");
        }
        service.work(System.nanoTime());
        output.collect(element);
    }
}
