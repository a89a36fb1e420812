import org.apache.flink.api.common.TaskInfo;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Passes records on as they are, each after its service time; its first attempt may fail. Times the
 * records of the measured part where they come, from the intended instant.
 */
final class Relay extends AbstractStreamOperator<byte[]>
        implements OneInputStreamOperator<byte[], byte[]> {
    private static final long serialVersionUID = 1L;

    private final Settings settings;
    private final Stage stage;
    private final int number;
    private transient Histogram latency;
    private transient Service service;
    private transient long failsAtNs;

    Relay(Settings settings, Stage stage, int number) {
        this.settings = settings;
        this.stage = stage;
        this.number = number;
    }

    @Override
    public void open() throws Exception {
        super.open();
        latency = new Histogram();
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
        long nowNs = System.nanoTime();
        byte[] record = element.getValue();
        if (Stamps.isMeasured(record)) {
            latency.add(nowNs - Stamps.intendedNs(record));
        }
        service.work(nowNs);
        output.collect(element);
    }

    @Override
    public void finish() throws Exception {
        super.finish();
        Figures figures = new Figures();
        figures.put("latency_ns", latency);
        int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        figures.write(settings.out, "stage-" + number, subtask);
    }
}
