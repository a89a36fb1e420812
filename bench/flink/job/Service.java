import java.util.concurrent.locks.LockSupport;

/** Takes the time that a record needs in a subtask. */
final class Service {
    /** Waits shorter than this are not worth a sleep; they add up to one that is. */
    private static final long SHORTEST_SLEEP_NS = 200_000;

    private final long serviceNs;
    private final boolean isComputing;
    private long busyUntilNs;

    Service(Stage stage, int subtask) {
        boolean isSlow = stage.slowSubtask() < 0 || stage.slowSubtask() == subtask;
        serviceNs = isSlow ? stage.serviceNs() : 0;
        isComputing = stage.isComputing();
    }

    /**
     * Returns when the record that came at `nowNs` is done: as late as a sleep ended, for until then
     * nothing else was done, or later where the rest is not worth one.
     */
    long work(long nowNs) {
        if (serviceNs == 0) {
            return nowNs;
        }
        busyUntilNs = Math.max(busyUntilNs, nowNs) + serviceNs;
        while (busyUntilNs - System.nanoTime() > SHORTEST_SLEEP_NS) {
            if (isComputing) {
                Thread.onSpinWait();
            } else {
                LockSupport.parkNanos(busyUntilNs - System.nanoTime());
            }
        }
        return Math.max(busyUntilNs, System.nanoTime());
    }
}
