import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** Passes records on as they are, each after its service time. */
final class Relay extends AbstractStreamOperator<byte[]>
        implements OneInputStreamOperator<byte[], byte[]> {
    private static final long serialVersionUID = 1L;

    private final Stage stage;
    private transient Service service;

    Relay(Stage stage) {
        this.stage = stage;
    }

    @Override
    public void open() throws Exception {
        super.open();
        service = new Service(stage, getRuntimeContext().getTaskInfo().getIndexOfThisSubtask());
    }

    @Override
    public void processElement(StreamRecord<byte[]> element) {
        service.work(System.nanoTime());
        output.collect(element);
    }
}
