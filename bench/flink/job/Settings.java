import java.io.Serializable;
import java.util.Arrays;
import java.util.Map;
import java.util.stream.Collectors;

/** What the job is told, as `key=value`; durations in the unit their name says. */
final class Settings implements Serializable {
    private static final long serialVersionUID = 1L;

    /** Records per second of each source; 0: as fast as they go. */
    final double ratePerSecond;

    /** Bytes of a value on the wire: the length that BytePrimitiveArraySerializer writes, then the array. */
    final int valueBytes;

    final long bufferTimeoutMs;
    final long checkpointIntervalMs;
    final long warmupNs;
    final long durationNs;
    final long sinkDelayNs;
    final int producers;
    final int consumers;
    final boolean isSplit;
    final boolean isKeyed;

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
        valueBytes = Integer.parseInt(given.get("value-bytes"));
        bufferTimeoutMs = Long.parseLong(given.get("buffer-timeout-ms"));
        checkpointIntervalMs = Long.parseLong(given.get("checkpoint-interval-ms"));
        warmupNs = Long.parseLong(given.get("warmup-ns"));
        durationNs = Long.parseLong(given.get("duration-ns"));
        sinkDelayNs = Long.parseLong(given.get("sink-delay-ns"));
        producers = Integer.parseInt(given.get("producers"));
        consumers = Integer.parseInt(given.get("consumers"));
        isSplit = given.get("placement").equals("split");
        isKeyed = given.get("partitioner").equals("hash");
        endFile = given.getOrDefault("end-file", "");
        out = given.get("out");
    }
}
