import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.SplittableRandom;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;

/**
 * Emits each record when it is due, whatever became of those before: the instants follow from the
 * rate and the start alone. What is due together is emitted together. Without a rate a record is
 * due when it can be emitted.
 */
final class OpenLoopSource extends RichParallelSourceFunction<byte[]> {
    private static final long serialVersionUID = 1L;

    /** Records emitted under one hold of the checkpoint lock, so that a barrier gets its turn. */
    private static final int BATCH_RECORDS = 256;

    /** Load begins so long after the sources, and up to so much later, by the seed: the flushers
     * of their tasks have begun with them, and bursts are to lie to beats by chance. */
    private static final long START_AFTER_NS = 50_000_000;

    private static final long START_SPREAD_NS = 1_000_000_000;
    private static final long LONGEST_WAIT_FOR_END_NS = 60_000_000_000L;

    private final Settings settings;
    private volatile boolean isRunning = true;

    OpenLoopSource(Settings settings) {
        this.settings = settings;
    }

    @Override
    public void run(SourceContext<byte[]> context) throws Exception {
        // The serializer of a byte array writes four bytes of length before it. The array can be
        // used again, for the exchange serialises it before collect() returns.
        byte[] sameSize = new byte[settings.valueBytes - Integer.BYTES];
        int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        SplittableRandom sizes = new SplittableRandom(settings.seed - 1 - subtask);
        Arrivals arrivals = new Arrivals(settings, subtask);
        long epochNs = commonEpochNs(subtask);
        long measuredFromNs = epochNs + settings.warmupNs;
        long endNs = measuredFromNs + settings.durationNs;
        boolean isOpenLoop = settings.ratePerSecond > 0;
        Instant wall = Instant.now();
        long wallNs = wall.getEpochSecond() * 1_000_000_000 + wall.getNano() - System.nanoTime();
        long number = 0;
        long latestNs = 0;
        long nowNs = epochNs;
        while (isRunning) {
            nowNs = System.nanoTime();
            long dueNs = isOpenLoop ? epochNs + arrivals.dueNs() : nowNs;
            if (dueNs >= endNs) {
                break;
            }
            if (dueNs > nowNs) {
                LockSupport.parkNanos(dueNs - nowNs);
                continue;
            }
            synchronized (context.getCheckpointLock()) {
                for (int i = 0; i < BATCH_RECORDS && dueNs <= nowNs && dueNs < endNs; i++) {
                    byte[] record = settings.isExponential ? ofAnySize(sizes) : sameSize;
                    Stamps.write(record, dueNs, dueNs >= measuredFromNs, subtask, number, nowNs);
                    if (settings.hasTimestamps) {
                        context.collectWithTimestamp(record, (wallNs + dueNs) / 1_000_000);
                    } else {
                        context.collect(record);
                    }
                    latestNs = Math.max(latestNs, nowNs - dueNs);
                    number++;
                    arrivals.next();
                    nowNs = System.nanoTime();
                    dueNs = isOpenLoop ? epochNs + arrivals.dueNs() : nowNs;
                }
            }
        }
        Figures figures = new Figures();
        figures.put("records", number);
        figures.put("epoch_ns", epochNs);
        figures.put("measured_from_ns", measuredFromNs);
        figures.put("ended_ns", nowNs);
        figures.put("latest_ns", latestNs);
        figures.write(settings.out, "source", subtask);
        waitForEnd();
    }

    private byte[] ofAnySize(SplittableRandom random) {
        double bytes = -Math.log1p(-random.nextDouble()) * settings.valueBytes;
        return new byte[Math.max((int) bytes - Integer.BYTES, Stamps.WITH_LATENESS_BYTES)];
    }

    /** The instant from which all sources count: shortly after the last of them has come up. */
    private long commonEpochNs(int subtask) throws Exception {
        Figures ready = new Figures();
        ready.put("ready_ns", System.nanoTime());
        ready.write(settings.out, "ready", subtask);
        long latestNs = Long.MIN_VALUE;
        for (int source = 0; source < settings.producers && isRunning; ) {
            Path file = Figures.file(settings.out, "ready", source);
            if (Files.exists(file)) {
                String digits = Files.readString(file).replaceAll("[^0-9]", "");
                latestNs = Math.max(latestNs, Long.parseLong(digits));
                source++;
            } else {
                Thread.sleep(5);
            }
        }
        long laterNs = new SplittableRandom(settings.seed).nextLong(START_SPREAD_NS);
        long epochNs = latestNs + START_AFTER_NS + laterNs;
        LockSupport.parkNanos(epochNs - System.nanoTime());
        return epochNs;
    }

    private void waitForEnd() throws InterruptedException {
        long giveUpNs = System.nanoTime() + LONGEST_WAIT_FOR_END_NS;
        while (isRunning
                && !settings.endFile.isEmpty()
                && !Files.exists(Path.of(settings.endFile))
                && System.nanoTime() < giveUpNs) {
            Thread.sleep(20);
        }
    }

    @Override
    public void cancel() {
        isRunning = false;
    }
}
