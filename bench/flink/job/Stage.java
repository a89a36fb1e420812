import java.io.Serializable;
import java.util.Arrays;
import java.util.List;

/**
 * A task behind the sources, and how records get to it.
 *
 * @param partitioner rebalance, hash, forward or broadcast; into this task.
 * @param serviceNs what a record takes here.
 * @param slowSubtask the only subtask that takes this time; -1: all of them.
 * @param hotShare of the records that have one key in common, if they are keyed.
 * @param isComputing the service takes the processor, instead of waiting for another system.
 * @param failsAfterNs a relay fails so long after its first attempt began; 0: it does not.
 */
record Stage(
        int parallelism,
        String partitioner,
        long serviceNs,
        int slowSubtask,
        double hotShare,
        boolean isComputing,
        long failsAfterNs)
        implements Serializable {

    /** Reads the fields of each stage, separated by colons; stages by semicolons. */
    static List<Stage> parse(String text) {
        return Arrays.stream(text.split(";")).map(Stage::parseOne).toList();
    }

    private static Stage parseOne(String text) {
        String[] fields = text.split(":");
        return new Stage(
                Integer.parseInt(fields[0]),
                fields[1],
                Long.parseLong(fields[2]),
                Integer.parseInt(fields[3]),
                Double.parseDouble(fields[4]),
                Boolean.parseBoolean(fields[5]),
                Long.parseLong(fields[6]));
    }
}
