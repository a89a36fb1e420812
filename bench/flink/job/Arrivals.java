import java.util.SplittableRandom;

/**
 * When a source's records are due, counted from its start; the same in every run with the same
 * seed.
 *
 * <p>regular: one gap after another; poisson: gaps that are distributed exponentially; onoff:
 * regular for a while, then silence, with the same mean rate; steps: poisson, at one rate after
 * another, each four times the one before, and again from the first.
 */
final class Arrivals {
    /** Of the mean rate; their mean is 1. */
    private static final double[] STEPS = {4. / 85, 16. / 85, 64. / 85, 256. / 85};

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
            case "poisson", "steps" -> (long) poissonNs;
            case "onoff" -> inBursts();
            default -> (long) (number * gapNs);
        };
    }

    void next() {
        number++;
        poissonNs -= Math.log1p(-random.nextDouble()) * gapNs / factor();
    }

    private double factor() {
        if (!settings.arrivals.equals("steps")) {
            return 1;
        }
        return STEPS[(int) ((long) poissonNs / settings.onNs % STEPS.length)];
    }

    private long inBursts() {
        long periodNs = settings.onNs + settings.offNs;
        double busyNs = number * gapNs * settings.onNs / periodNs;
        long period = (long) (busyNs / settings.onNs);
        return period * periodNs + (long) (busyNs - (double) period * settings.onNs);
    }
}
