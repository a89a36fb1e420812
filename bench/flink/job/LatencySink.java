import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Counts all records and checks their order within each source; times those of the measured part,
 * from the intended instant and (uncorrected) from the emission.
 */
final class LatencySink extends AbstractStreamOperator<Void>
        implements OneInputStreamOperator<byte[], Void> {
    private static final long serialVersionUID = 1L;

    private final Settings settings;
    private transient Histogram latency;
    private transient Histogram uncorrected;
    private transient long[] nextNumbers;
    private transient long records;
    private transient long measuredRecords;
    private transient long sumOfNumbers;
    private transient long outOfOrder;
    private transient long firstArrivalNs;
    private transient long firstMeasuredNs;
    private transient long lastMeasuredNs;
    private transient Service service;

    LatencySink(Settings settings) {
        this.settings = settings;
    }

    @Override
    public void open() throws Exception {
        super.open();
        latency = new Histogram();
        uncorrected = new Histogram();
        nextNumbers = new long[settings.producers];
        firstMeasuredNs = Long.MAX_VALUE;
        service =
                new Service(
                        settings.stages.get(settings.stages.size() - 1),
                        getRuntimeContext().getTaskInfo().getIndexOfThisSubtask());
    }

    @Override
    public void processElement(StreamRecord<byte[]> element) {
        byte[] record = element.getValue();
        long nowNs = System.nanoTime();
        if (records++ == 0) {
            firstArrivalNs = nowNs;
        }
        long number = Stamps.number(record);
        int source = Stamps.source(record);
        if (number < nextNumbers[source]) {
            outOfOrder++;
        }
        nextNumbers[source] = number + 1;
        sumOfNumbers += number;
        nowNs = service.work(nowNs);
        if (Stamps.isMeasured(record)) {
            long intendedNs = Stamps.intendedNs(record);
            measuredRecords++;
            firstMeasuredNs = Math.min(firstMeasuredNs, intendedNs);
            lastMeasuredNs = nowNs;
            latency.add(nowNs - intendedNs);
            if (Stamps.hasLateness(record)) {
                uncorrected.add(nowNs - intendedNs - Stamps.latenessNs(record));
            }
        }
    }

    @Override
    public void finish() throws Exception {
        super.finish();
        Figures figures = new Figures();
        figures.put("records", records);
        figures.put("measured_records", measuredRecords);
        figures.put("sum_of_numbers", sumOfNumbers);
        figures.put("out_of_order", outOfOrder);
        figures.put("first_arrival_ns", firstArrivalNs);
        figures.put("first_measured_ns", firstMeasuredNs);
        figures.put("last_measured_ns", lastMeasuredNs);
        figures.put("latency_ns", latency);
        figures.put("uncorrected_ns", uncorrected);
        figures.write(settings.out, "sink", getRuntimeContext().getTaskInfo().getIndexOfThisSubtask());
    }
}
