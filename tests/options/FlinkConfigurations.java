import java.io.File;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.InetAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Enumeration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.FallbackKey;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.runtime.taskmanager.NettyShuffleEnvironmentConfiguration;
import org.apache.flink.runtime.util.bash.BashJavaUtils;
import org.apache.flink.runtime.util.bash.FlinkConfigLoader;

/**
 * What Flink makes of configurations, a line of fields with tabs between for each.
 *
 * <pre>
 * FlinkConfigurations options JAR   every option: key, type, default, deprecated and fallback keys
 * FlinkConfigurations files DIR     every directory with a file: its name, then "refused" and why,
 *                                   or network buffers, bytes of them, and KEY=VALUE of its options
 * </pre>
 */
public final class FlinkConfigurations {
    private FlinkConfigurations() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // BashJavaUtils logs there
        String jar = arguments[1];
        if (arguments[0].equals("options")) {
            for (ConfigOption<?> option : options(jar).values()) {
                out.println(String.join("\t", described(option)));
            }
            return;
        }
        Map<String, ConfigOption<?>> options = options(jar);
        File[] directories = new File(arguments[2]).listFiles(File::isDirectory);
        Arrays.sort(directories);
        for (File each : directories) {
            String answer;
            try {
                answer = answer(each, options);
            } catch (Throwable error) {
                Throwable cause = error;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                answer = "refused\t" + String.valueOf(cause.getMessage()).replaceAll("\\s+", " ");
            }
            out.println(each.getName() + "\t" + answer);
        }
    }

    private static String answer(File directory, Map<String, ConfigOption<?>> options)
            throws Exception {
        String[] place = {"--configDir", directory.getPath()};
        Class<?> commands =
                Class.forName("org.apache.flink.runtime.util.bash.BashJavaUtils$Command");
        Method run =
                BashJavaUtils.class.getDeclaredMethod("runCommand", commands, String[].class);
        run.setAccessible(true);
        Object command = null;
        for (Object each : commands.getEnumConstants()) {
            command = each.toString().equals("GET_TM_RESOURCE_PARAMS") ? each : command;
        }
        String dynamic = (String) ((List<?>) run.invoke(null, command, place)).get(1);
        Configuration configuration = FlinkConfigLoader.loadConfiguration(place);
        List<String> answer = new ArrayList<>();
        for (ConfigOption<?> option : options.values()) {
            boolean isLegacySize = option.key().matches("taskmanager.(heap.*|.*numberOfBuffers)");
            if (!isLegacySize && configuration.contains(option)) { // those are not always read
                answer.add(option.key() + "=" + text(configuration.get(option)));
            }
        }
        String[] words = dynamic.split("\\s+");
        for (int i = 1; i < words.length; i++) {
            if (words[i - 1].equals("-D")) {
                String[] pair = words[i].split("=", 2);
                configuration.setString(pair[0], pair[1]);
            }
        }
        MemorySize network =
                MemorySize.parse(configuration.toMap().get("taskmanager.memory.network.max"));
        NettyShuffleEnvironmentConfiguration shuffle =
                NettyShuffleEnvironmentConfiguration.fromConfiguration(
                        configuration, network, false, InetAddress.getLoopbackAddress());
        answer.add(0, String.valueOf(network.getBytes()));
        answer.add(0, String.valueOf(shuffle.numNetworkBuffers()));
        return String.join("\t", answer);
    }

    /** Durations count ms, sizes bytes. */
    private static String text(Object value) {
        if (value instanceof Duration) {
            return String.valueOf(((Duration) value).toMillis());
        }
        return value instanceof MemorySize
                ? String.valueOf(((MemorySize) value).getBytes())
                : String.valueOf(value).replaceAll("\\s+", " ");
    }

    private static String[] described(ConfigOption<?> option) throws Exception {
        Field type = ConfigOption.class.getDeclaredField("clazz");
        type.setAccessible(true);
        List<String> deprecated = new ArrayList<>();
        List<String> fallback = new ArrayList<>();
        for (FallbackKey key : option.fallbackKeys()) {
            (key.isDeprecated() ? deprecated : fallback).add(key.getKey());
        }
        return new String[] {
            option.key(),
            ((Class<?>) type.get(option)).getSimpleName(),
            text(option.defaultValue()),
            String.join(",", deprecated),
            String.join(",", fallback)
        };
    }

    /** By key, without those whose key is another's deprecated one. */
    private static Map<String, ConfigOption<?>> options(String jar) throws Exception {
        Map<String, ConfigOption<?>> found = new TreeMap<>();
        try (JarFile file = new JarFile(jar)) {
            for (Enumeration<JarEntry> entry = file.entries(); entry.hasMoreElements(); ) {
                String name = entry.nextElement().getName();
                if (name.matches("org/apache/flink/(?!.*shaded)[^$]*Options[^/$]*\\.class")) {
                    add(found, name.replace('/', '.').substring(0, name.length() - 6));
                }
            }
        }
        for (ConfigOption<?> option : new ArrayList<>(found.values())) {
            for (FallbackKey key : option.fallbackKeys()) {
                if (!key.getKey().equals(option.key())) {
                    found.remove(key.getKey());
                }
            }
        }
        return found;
    }

    private static void add(Map<String, ConfigOption<?>> found, String name) throws Exception {
        Field[] fields;
        try {
            fields = Class.forName(name).getDeclaredFields();
        } catch (LinkageError error) { // of a system that is not here
            return;
        }
        for (Field field : fields) {
            if (Modifier.isStatic(field.getModifiers())
                    && field.getType().equals(ConfigOption.class)) {
                field.setAccessible(true);
                ConfigOption<?> option = (ConfigOption<?>) field.get(null);
                if (option != null && !field.isAnnotationPresent(Deprecated.class)) {
                    found.put(option.key(), option);
                } else if (option != null) {
                    found.putIfAbsent(option.key(), option);
                }
            }
        }
    }
}
