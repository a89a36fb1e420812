import java.io.Serializable;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** What the job is told, as `key=value`; durations in the unit their name says. */
final class Settings implements Serializable {
    private static final long serialVersionUID = 1L;

    /** Records per second of each source; 0: as fast as they go. */
    final double ratePerSecond;

    /** regular, poisson, onoff or steps; see {@link Arrivals}. */
    final String arrivals;

    /** Of a burst and of the silence behind it; of a step. */
    final long onNs;

    final long offNs;

    /**
     * Bytes of a value on the wire, the mean of them if they differ: the length that
     * BytePrimitiveArraySerializer writes, then the array.
     */
    final int valueBytes;

    /** Whether the lengths are distributed exponentially. */
    final boolean isExponential;

    /** Whether records carry the instants at which they were due, in ms of the wall clock. */
    final boolean hasTimestamps;

    final long seed;

    /** Null: as the cluster is configured. */
    final Long bufferTimeoutMs;

    final long checkpointIntervalMs;
    final long warmupNs;
    final long durationNs;
    final int producers;

    /** Behind the sources, in a row; the last one is the sink. */
    final List<Stage> stages;

    final boolean isSplit;

    /** The sources end when this file appears, so that the metrics can be read before; else at once. */
    final String endFile;

    /** Where each subtask writes its figures. */
    final String out;

    Settings(String[] arguments) {
        Map<String, String> given =
                Arrays.stream(arguments)
                        .map(each -> each.split("=", 2))
                        .collect(Collectors.toMap(pair -> pair[0], pair -> pair[1]));
        ratePerSecond = Double.parseDouble(given.get("rate"));
        arrivals = given.get("arrivals");
        onNs = Long.parseLong(given.get("on-ns"));
        offNs = Long.parseLong(given.get("off-ns"));
        valueBytes = Integer.parseInt(given.get("value-bytes"));
        isExponential = given.get("sizes").equals("exponential");
        hasTimestamps = Boolean.parseBoolean(given.getOrDefault("timestamps", "false"));
        seed = Long.parseLong(given.get("seed"));
        String timeout = given.get("buffer-timeout-ms");
        bufferTimeoutMs = timeout.isEmpty() ? null : Long.valueOf(timeout);
        checkpointIntervalMs = Long.parseLong(given.get("checkpoint-interval-ms"));
        warmupNs = Long.parseLong(given.get("warmup-ns"));
        durationNs = Long.parseLong(given.get("duration-ns"));
        producers = Integer.parseInt(given.get("producers"));
        stages = Stage.parse(given.get("stages"));
        isSplit = given.get("placement").equals("split");
        endFile = given.getOrDefault("end-file", "");
        out = given.get("out");
    }
}
