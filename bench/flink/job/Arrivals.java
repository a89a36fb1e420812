import java.util.SplittableRandom;

/**
 * When a source's records are due, counted from its start; the same in every run with the same
 * seed.
 *
 * <p>regular: one gap after another; poisson: gaps that are distributed exponentially; onoff:
 * regular for a while, then silence, with the same mean rate.
 */
final class Arrivals {
    private final Settings settings;
    private final SplittableRandom random;
    private final double gapNs;
    private long number;
    private double poissonNs;

    Arrivals(Settings settings, int subtask) {
        this.settings = settings;
        random = new SplittableRandom(settings.seed + subtask);
        gapNs = 1e9 / settings.ratePerSecond;
    }

    /** Of the record that {@link #next} has reached. */
    long dueNs() {
        return switch (settings.arrivals) {
            case "poisson" -> (long) poissonNs;
            case "onoff" -> inBursts();
            default -> (long) (number * gapNs);
        };
    }

    void next() {
        number++;
        poissonNs -= Math.log1p(-random.nextDouble()) * gapNs;
    }

    private long inBursts() {
        long periodNs = settings.onNs + settings.offNs;
        double busyNs = number * gapNs * settings.onNs / periodNs;
        long period = (long) (busyNs / settings.onNs);
        return period * periodNs + (long) (busyNs - (double) period * settings.onNs);
    }
}
