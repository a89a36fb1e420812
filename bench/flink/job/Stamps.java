import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/**
 * What a record carries, big-endian.
 *
 * <pre>
 * bytes  field
 *     8  intended instant in ns of System.nanoTime; bit 62 is set in the measured part
 *     8  source subtask (16 bits), number in the source (48 bits)
 *     8  emitted minus intended instant, in ns; if there is room
 *     …  padding
 * </pre>
 *
 * On Linux System.nanoTime is CLOCK_MONOTONIC, the same in all processes of a host.
 */
final class Stamps {
    static final int SMALLEST_ARRAY_BYTES = 16;
    static final int WITH_LATENESS_BYTES = 24;
    private static final long MEASURED = 1L << 62;
    private static final int NUMBER_BITS = 48;
    private static final long HOT_KEY = -1;
    private static final VarHandle LONG =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);

    private Stamps() {}

    static void write(
            byte[] record, long intendedNs, boolean isMeasured, int source, long number, long now) {
        LONG.set(record, 0, isMeasured ? intendedNs | MEASURED : intendedNs);
        LONG.set(record, 8, ((long) source << NUMBER_BITS) | number);
        if (hasLateness(record)) {
            LONG.set(record, 16, now - intendedNs);
        }
    }

    static boolean hasLateness(byte[] record) {
        return record.length >= WITH_LATENESS_BYTES;
    }

    static boolean isMeasured(byte[] record) {
        return ((long) LONG.get(record, 0) & MEASURED) != 0;
    }

    static long intendedNs(byte[] record) {
        return (long) LONG.get(record, 0) & ~MEASURED;
    }

    static int source(byte[] record) {
        return (int) ((long) LONG.get(record, 8) >>> NUMBER_BITS);
    }

    static long number(byte[] record) {
        return (long) LONG.get(record, 8) & ((1L << NUMBER_BITS) - 1);
    }

    /** A key of its own, but for a share of all records, which have one in common. */
    static long key(byte[] record, double hotShare) {
        long id = (long) LONG.get(record, 8);
        long mixed = id * 0x9E3779B97F4A7C15L;
        mixed = (mixed ^ (mixed >>> 32)) * 0xD6E8FEB86659FD93L;
        return (mixed >>> 11) * 0x1.0p-53 < hotShare ? HOT_KEY : number(record);
    }

    static long latenessNs(byte[] record) {
        return (long) LONG.get(record, 16);
    }
}
