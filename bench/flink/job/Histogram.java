import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * Counts in the buckets of flinknet.histogram: values below 256 have one each, above every power of
 * two is cut into 128, so that a value is off by at most 0.4 %.
 */
final class Histogram {
    private static final int SUB_BUCKET_BITS = 7;
    private static final int VALUE_BITS = 50;

    private final long[] counts = new long[(1 << SUB_BUCKET_BITS) * (VALUE_BITS - SUB_BUCKET_BITS + 1)];
    private long total;
    private long min = Long.MAX_VALUE;
    private long max = Long.MIN_VALUE;

    void add(long valueNs) {
        long value = Math.min(Math.max(valueNs, 0), (1L << VALUE_BITS) - 1);
        int shift = Math.max(63 - Long.numberOfLeadingZeros(value | 1) - SUB_BUCKET_BITS, 0);
        counts[(shift << SUB_BUCKET_BITS) + (int) (value >>> shift)]++;
        total += value;
        min = Math.min(min, value);
        max = Math.max(max, value);
    }

    /** As flinknet's LogLinearHistogram.from_dict reads it: the buckets that are not empty. */
    @Override
    public String toString() {
        String buckets =
                IntStream.range(0, counts.length)
                        .filter(index -> counts[index] != 0)
                        .mapToObj(index -> "\"" + index + "\":" + counts[index])
                        .collect(Collectors.joining(",", "{", "}"));
        String extremes = max < min ? "null,\"max\":null" : min + ",\"max\":" + max;
        return "{\"total\":" + total + ",\"min\":" + extremes + ",\"buckets\":" + buckets + "}";
    }
}
