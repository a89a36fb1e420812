import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;

/** Numbers of one subtask, written as a JSON object that appears whole or not at all. */
final class Figures {
    private final Map<String, Object> values = new LinkedHashMap<>();

    void put(String name, Object value) {
        values.put(name, value);
    }

    static Path file(String folder, String task, int subtask) {
        return Path.of(folder, task + "-" + subtask + ".json");
    }

    void write(String folder, String task, int subtask) throws IOException {
        String json =
                values.entrySet().stream()
                        .map(each -> "\"" + each.getKey() + "\":" + each.getValue())
                        .collect(Collectors.joining(",", "{", "}\n"));
        Path file = file(folder, task, subtask);
        Path draft = file.resolveSibling(file.getFileName() + ".draft");
        Files.writeString(draft, json);
        Files.move(draft, file, StandardCopyOption.ATOMIC_MOVE);
    }
}
