import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;

import org.apache.flink.runtime.deployment.InputGateDeploymentDescriptor;
import org.apache.flink.runtime.deployment.TaskDeploymentDescriptorFactory.ShuffleDescriptorAndIndex;
import org.apache.flink.runtime.io.network.partition.ResultPartition;
import org.apache.flink.runtime.io.network.partition.ResultPartitionID;
import org.apache.flink.runtime.io.network.partition.consumer.InputChannel;
import org.apache.flink.runtime.io.network.partition.consumer.SingleInputGate;
import org.apache.flink.runtime.iterative.event.TerminationEvent;

/**
 * Flink's shuffle environment for peers that misbehave to it: it does what standard input says, line
 * by line, and answers each line with one of its own.
 *
 * <pre>
 * serve PARTITION SUBPARTITIONS   a partition that can be requested            ok
 * write PARTITION                 a record into every subpartition, flushed    ok
 * fail PARTITION                  its task fails                               ok
 * told PARTITION                  has its task got an event?                   told true|false
 * read PORT PARTITION...          a gate for each partition at that port       ok
 * release PARTITION               its gate closes                              ok
 * state PARTITION                 its channel     state number=N required=N failed=true|false
 * </pre>
 *
 * <p>The first line says the data port, as FlinkPeer does. Partitions are 120 hex digits. Keys of the
 * command line are Flink's.
 */
public final class Misbehaved {

    private final FlinkPeer peer;
    private final Map<String, ResultPartition> partitions = new HashMap<>();
    private final Map<String, SingleInputGate> gates = new HashMap<>();
    private final Map<String, InputChannel> channels = new HashMap<>();
    private final Set<String> told = new HashSet<>();

    private Misbehaved(FlinkPeer peer) {
        this.peer = peer;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (String argument : arguments) {
            int equals = argument.indexOf('=');
            options.put(argument.substring(0, equals), argument.substring(equals + 1));
        }
        options.put("listen", "");
        FlinkPeer peer = new FlinkPeer(options);
        Misbehaved self = new Misbehaved(peer);
        FlinkPeer.say("listening port=" + peer.port);
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            try {
                FlinkPeer.say(self.obey(line.split(" ")));
            } catch (Throwable error) {
                FlinkPeer.say("failed " + FlinkPeer.chain(error));
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private String obey(String[] words) throws Exception {
        String partition = words[1];
        switch (words[0]) {
            case "serve":
                serve(partition, Integer.parseInt(words[2]));
                return "ok";
            case "write":
                ResultPartition written = partitions.get(partition);
                for (int i = 0; i < written.getNumberOfSubpartitions(); i++) {
                    written.emitRecord(ByteBuffer.wrap(new byte[100]), i);
                }
                written.flushAll();
                return "ok";
            case "fail":
                partitions.get(partition).fail(new RuntimeException("why"));
                return "ok";
            case "told":
                synchronized (told) {
                    return "told " + told.contains(partition);
                }
            case "read":
                for (int i = 2; i < words.length; i++) {
                    read(Integer.parseInt(words[1]), words[i]);
                }
                return "ok";
            case "release":
                gates.get(partition).close();
                return "ok";
            case "state":
                return state(channels.get(partition));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private void serve(String hex, int subpartitions) throws Exception {
        ResultPartitionID id = FlinkPeer.partition(hex);
        List<ResultPartition> made =
                peer.environment.createResultPartitionWriters(
                        peer.owner, List.of(peer.deployment(id, subpartitions, 1)));
        ResultPartition partition = made.get(0);
        peer.told.registerPartition(id);
        peer.told.subscribeToEvent(
                id,
                event -> {
                    synchronized (told) {
                        told.add(hex);
                    }
                },
                TerminationEvent.class);
        partition.setup();
        partitions.put(hex, partition);
    }

    private void read(int at, String hex) throws Exception {
        ResultPartitionID id = FlinkPeer.partition(hex);
        ShuffleDescriptorAndIndex[] sources = {
            new ShuffleDescriptorAndIndex(
                    peer.descriptor(id, new InetSocketAddress("127.0.0.1", at)), 0)
        };
        SingleInputGate gate =
                peer.environment
                        .createInputGates(
                                peer.owner,
                                FlinkPeer::producerRuns,
                                List.of(
                                        new InputGateDeploymentDescriptor(
                                                id.getPartitionId().getIntermediateDataSetID(),
                                                peer.type(),
                                                0,
                                                sources)))
                        .get(0);
        gate.setup();
        gate.setChannelStateWriter(new FlinkPeer.Forgetful());
        gate.finishReadRecoveredState();
        while (!gate.getStateConsumedFuture().isDone()) {
            gate.pollNext();
        }
        gate.requestPartitions();
        gates.put(hex, gate);
        channels.put(hex, gate.getChannel(0));
    }

    /** What a consumer has made of what came, without reading it. */
    private static String state(InputChannel channel) throws Exception {
        Object number = value(channel, "expectedSequenceNumber");
        Object required = value(value(channel, "bufferManager"), "numRequiredBuffers");
        Object cause = ((AtomicReference<?>) value(channel, "cause")).get();
        String why = cause == null ? "" : " " + FlinkPeer.chain((Throwable) cause);
        return "state number=" + number + " required=" + required + " failed=" + (cause != null) + why;
    }

    private static Object value(Object of, String name) throws Exception {
        for (Class<?> each = of.getClass(); each != null; each = each.getSuperclass()) {
            for (Field field : each.getDeclaredFields()) {
                if (field.getName().equals(name)) {
                    field.setAccessible(true);
                    return field.get(of);
                }
            }
        }
        throw new NoSuchFieldException(name);
    }
}
