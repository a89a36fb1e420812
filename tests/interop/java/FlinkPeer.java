import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.core.io.IOReadableWritable;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;
import org.apache.flink.runtime.checkpoint.CheckpointOptions;
import org.apache.flink.runtime.checkpoint.CheckpointType;
import org.apache.flink.runtime.checkpoint.channel.ChannelStateWriter;
import org.apache.flink.runtime.checkpoint.channel.InputChannelInfo;
import org.apache.flink.runtime.checkpoint.channel.ResultSubpartitionInfo;
import org.apache.flink.runtime.clusterframework.types.ResourceID;
import org.apache.flink.runtime.deployment.InputGateDeploymentDescriptor;
import org.apache.flink.runtime.deployment.ResultPartitionDeploymentDescriptor;
import org.apache.flink.runtime.deployment.TaskDeploymentDescriptorFactory.ShuffleDescriptorAndIndex;
import org.apache.flink.runtime.event.AbstractEvent;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.executiongraph.ExecutionAttemptID;
import org.apache.flink.runtime.io.network.NettyShuffleEnvironment;
import org.apache.flink.runtime.io.network.NettyShuffleServiceFactory;
import org.apache.flink.runtime.io.network.TaskEventDispatcher;
import org.apache.flink.runtime.io.network.api.CancelCheckpointMarker;
import org.apache.flink.runtime.io.network.api.CheckpointBarrier;
import org.apache.flink.runtime.io.network.api.EndOfData;
import org.apache.flink.runtime.io.network.api.EndOfPartitionEvent;
import org.apache.flink.runtime.io.network.api.StopMode;
import org.apache.flink.runtime.io.network.api.serialization.RecordDeserializer;
import org.apache.flink.runtime.io.network.api.serialization.RecordDeserializer.DeserializationResult;
import org.apache.flink.runtime.io.network.api.serialization.SpillingAdaptiveSpanningRecordDeserializer;
import org.apache.flink.runtime.io.network.api.writer.RecordWriter;
import org.apache.flink.runtime.io.network.api.writer.RecordWriterBuilder;
import org.apache.flink.runtime.io.network.buffer.Buffer;
import org.apache.flink.runtime.io.network.partition.ChannelStateHolder;
import org.apache.flink.runtime.io.network.partition.CheckpointedResultPartition;
import org.apache.flink.runtime.io.network.partition.ResultPartition;
import org.apache.flink.runtime.io.network.partition.ResultPartitionID;
import org.apache.flink.runtime.io.network.partition.ResultPartitionType;
import org.apache.flink.runtime.io.network.partition.consumer.BufferOrEvent;
import org.apache.flink.runtime.io.network.partition.consumer.SingleInputGate;
import org.apache.flink.runtime.jobgraph.IntermediateDataSetID;
import org.apache.flink.runtime.jobgraph.IntermediateResultPartitionID;
import org.apache.flink.runtime.metrics.groups.UnregisteredMetricGroups;
import org.apache.flink.runtime.iterative.event.TerminationEvent;
import org.apache.flink.runtime.shuffle.NettyShuffleDescriptor;
import org.apache.flink.runtime.shuffle.NettyShuffleDescriptor.NetworkPartitionConnectionInfo;
import org.apache.flink.runtime.shuffle.PartitionDescriptor;
import org.apache.flink.runtime.shuffle.ShuffleEnvironmentContext;
import org.apache.flink.runtime.shuffle.ShuffleIOOwnerContext;
import org.apache.flink.runtime.state.CheckpointStorageLocationReference;
import org.apache.flink.runtime.taskmanager.NettyShuffleEnvironmentConfiguration;
import org.apache.flink.shaded.netty4.io.netty.buffer.ByteBuf;
import org.apache.flink.shaded.netty4.io.netty.buffer.Unpooled;
import org.apache.flink.types.Either;
import org.apache.flink.util.CloseableIterator;
import org.apache.flink.util.concurrent.ScheduledExecutorServiceAdapter;

/**
 * One end of an exchange, with Flink's own shuffle environment on a real data port: what a
 * TaskManager has below its tasks. Compiles against 1.20 and 2.x.
 *
 * <p>FlinkPeer produce|consume key=value ... ; one line of "key=value ..." at each step on stdout:
 *
 * <pre>
 * listening port=N        produce: the partitions can be requested
 * done records=... ...    the exchange is over
 * failed CLASS: MESSAGE   it failed; the chain of causes, by " <- "
 * </pre>
 *
 * <p>Keys of both: partitions (120 hex digits each, by commas), subpartitions (how many each
 * partition has), records (of each channel), size (of a value, in bytes), type
 * (ResultPartitionType), and any of Flink's keys. produce: port, timeout (ms), barrier-every
 * (records), unaligned, say-at (records; "written records=N" then), fail-when-stalled (behind
 * say-at the partition fails when its writer waits for buffers, "partition-failed" then), close-when-dismissed (at the end
 * of stdin the writer gives its partition up, "closed released=B" then). consume: host, port, delay
 * (ms, before each buffer), cancel-at (records; then the gates are closed), announce (a buffer size,
 * wished for after the first buffer), say-at (records; "read records=N" then), tell-at (records;
 * the producer is sent a TerminationEvent then). A producer says "told event=CLASS" of such events.
 */
public final class FlinkPeer {

    private static final long INSTANT_MASK = (1L << 44) - 1;

    private final Map<String, String> options;
    final NettyShuffleEnvironment environment;
    final ShuffleIOOwnerContext owner;
    final int port;
    final TaskEventDispatcher told = new TaskEventDispatcher();

    /** A record as flinknet has it: tag 1 (no timestamp) and a value of a known size. */
    static final class Stamped implements IOReadableWritable {
        final byte[] value;
        private final byte[] expected;

        Stamped(int size) {
            value = new byte[size];
            for (int i = 0; i < size; i++) {
                value[i] = (byte) (i * 31 + 7);
            }
            expected = value.clone();
        }

        void stamp(long number, long instant) {
            put(number << 44 | instant & INSTANT_MASK, 0);
            if (value.length >= 16) {
                put(0, 8);
            }
        }

        private void put(long word, int at) {
            for (int i = 0; i < 8; i++) {
                value[at + i] = (byte) (word >>> (56 - 8 * i));
            }
        }

        /** The number in the stamp, if all of the value behind it is what it must be. */
        void check(long number) {
            long stamp = 0;
            for (int i = 0; i < 8; i++) {
                stamp = stamp << 8 | value[i] & 0xff;
            }
            if (stamp >>> 44 != (number & 0xfffff)) {
                throw new IllegalStateException(
                        "record " + number + " expected, number " + (stamp >>> 44) + " came");
            }
            int from = value.length < 16 ? 8 : 16;
            if (!Arrays.equals(
                    value, from, value.length, expected, from, expected.length)) {
                throw new IllegalStateException("record " + number + " has other content");
            }
        }

        @Override
        public void write(DataOutputView out) throws IOException {
            out.writeByte(1);
            out.write(value);
        }

        @Override
        public void read(DataInputView in) throws IOException {
            byte tag = in.readByte();
            if (tag != 1) {
                throw new IOException("tag " + tag);
            }
            in.readFully(value);
        }
    }

    /** Takes what an unaligned barrier overtakes, as if it were stored. */
    static final class Forgetful extends ChannelStateWriter.NoOpChannelStateWriter {
        @Override
        public void addOutputData(
                long checkpoint, ResultSubpartitionInfo info, int first, Buffer... data) {
            for (Buffer buffer : data) {
                buffer.recycleBuffer();
            }
        }

        @Override
        public void addInputData(
                long checkpoint, InputChannelInfo info, int first, CloseableIterator<Buffer> data) {
            try {
                data.close();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public void addOutputDataFuture(
                long checkpoint,
                ResultSubpartitionInfo info,
                int first,
                CompletableFuture<List<Buffer>> data) {
            data.thenAccept(buffers -> buffers.forEach(Buffer::recycleBuffer));
        }
    }

    FlinkPeer(Map<String, String> options) throws Exception {
        this.options = options;
        Configuration configuration = new Configuration();
        options.forEach(
                (key, value) -> {
                    if (key.contains(".")) {
                        configuration.setString(key, value);
                    }
                });
        boolean producing = options.containsKey("listen");
        configuration.setString(
                "taskmanager.data.port", producing ? options.getOrDefault("port", "0") : "0");
        ScheduledExecutorService timers = Executors.newScheduledThreadPool(1);
        ExecutorService io = Executors.newFixedThreadPool(2);
        environment =
                new NettyShuffleServiceFactory()
                        .createShuffleEnvironment(
                                new ShuffleEnvironmentContext(
                                        configuration,
                                        ResourceID.generate(),
                                        MemorySize.parse(text("memory", "64mb")),
                                        false,
                                        InetAddress.getLoopbackAddress(),
                                        1,
                                        new String[] {text("tmp", System.getProperty("java.io.tmpdir"))},
                                        told,
                                        UnregisteredMetricGroups
                                                .createUnregisteredTaskManagerMetricGroup(),
                                        io,
                                        new ScheduledExecutorServiceAdapter(timers)));
        port = environment.start();
        owner =
                environment.createShuffleIOOwnerContext(
                        "interop",
                        ExecutionAttemptID.randomId(),
                        UnregisteredMetricGroups.createUnregisteredTaskMetricGroup());
    }

    public static void main(String[] arguments) {
        Map<String, String> options = new HashMap<>();
        for (String argument : Arrays.asList(arguments).subList(1, arguments.length)) {
            int equals = argument.indexOf('=');
            options.put(argument.substring(0, equals), argument.substring(equals + 1));
        }
        int code = 0;
        try {
            if (arguments[0].equals("produce")) {
                options.put("listen", "");
                new FlinkPeer(options).produce();
            } else {
                new FlinkPeer(options).consume();
            }
        } catch (Throwable error) {
            say("failed " + chain(error));
            if (options.containsKey("verbose")) {
                error.printStackTrace();
            }
            code = 1;
        }
        System.out.flush();
        Runtime.getRuntime().halt(code); // threads of the environment would live on
    }

    // ------------------------------------------------------------------------------ producing

    private void produce() throws Exception {
        List<ResultPartitionID> ids = partitions();
        int subpartitions = number("subpartitions", 1);
        List<ResultPartitionDeploymentDescriptor> descriptors = new ArrayList<>();
        for (ResultPartitionID id : ids) {
            descriptors.add(deployment(id, subpartitions, ids.size()));
        }
        List<ResultPartition> written = environment.createResultPartitionWriters(owner, descriptors);
        for (ResultPartition partition : written) {
            told.registerPartition(partition.getPartitionId());
            told.subscribeToEvent(
                    partition.getPartitionId(),
                    event -> say("told event=" + event.getClass().getSimpleName()),
                    TerminationEvent.class);
            partition.setup();
            if (partition instanceof ChannelStateHolder) {
                ((ChannelStateHolder) partition).setChannelStateWriter(new Forgetful());
            }
        }
        boolean isPipelined = type().isPipelinedOrPipelinedBoundedResultPartition();
        if (isPipelined) {
            say("listening port=" + port);
        }
        List<long[]> totals = inParallel(written, this::write);
        if (!isPipelined) {
            say("listening port=" + port);
            awaitDismissal(); // until the reader has had enough
        }
        long records = totals.stream().mapToLong(total -> total[0]).sum();
        say("done records=" + records);
        environment.close();
    }

    private long[] write(ResultPartition partition) throws Exception {
        int subpartitions = partition.getNumberOfSubpartitions();
        boolean isPipelined = type().isPipelinedOrPipelinedBoundedResultPartition();
        long records = number("records", 1000);
        RecordWriter<Stamped> writer =
                new RecordWriterBuilder<Stamped>()
                        .setTimeout(isPipelined ? number("timeout", 100) : -1)
                        .setTaskName("interop")
                        .build(partition);
        if (isPipelined) {
            ((CheckpointedResultPartition) partition).finishReadRecoveredState(true);
        }
        long sayAt = number("say-at", -1);
        AtomicLong written = new AtomicLong();
        Thread breaker = new Thread(() -> {});
        if (options.containsKey("close-when-dismissed")) {
            Thread emitting = Thread.currentThread();
            breaker = new Thread(() -> closeWhenDismissed(partition, emitting, written));
        } else if (options.containsKey("fail-when-stalled")) {
            breaker = new Thread(() -> failWhenStalled(partition, written, sayAt));
        }
        breaker.start();
        try {
            emit(writer, records, sayAt, written);
        } catch (Exception error) {
            breaker.join(); // the data port answers until the test has seen what it wants to see
            throw error;
        }
        partition.notifyEndOfData(StopMode.DRAIN);
        writer.flushAll();
        if (isPipelined) {
            partition.getAllDataProcessedFuture().get();
        }
        partition.finish();
        writer.close();
        if (isPipelined) {
            partition.close(); // its own use ends; those of its readers last
        }
        while (isPipelined && !partition.isReleased()) {
            Thread.sleep(5);
        }
        return new long[] {records * subpartitions};
    }

    private void emit(RecordWriter<Stamped> writer, long records, long sayAt, AtomicLong written)
            throws Exception {
        long barrierEvery = number("barrier-every", 0);
        Stamped record = new Stamped(number("size", 100));
        long start = System.nanoTime();
        long checkpoint = 0;
        for (long number = 0; number < records; number++) {
            if (number == sayAt) {
                say("written records=" + number);
            }
            written.set(number);
            if (barrierEvery > 0 && number % barrierEvery == barrierEvery - 1) {
                CheckpointOptions aligned = CheckpointOptions.alignedNoTimeout(
                        CheckpointType.CHECKPOINT, CheckpointStorageLocationReference.getDefault());
                boolean isUnaligned = options.containsKey("unaligned");
                CheckpointOptions how = isUnaligned ? CheckpointOptions.unaligned(
                        CheckpointType.CHECKPOINT, CheckpointStorageLocationReference.getDefault())
                        : aligned;
                writer.broadcastEvent(
                        new CheckpointBarrier(++checkpoint, System.currentTimeMillis(), how),
                        isUnaligned);
            }
            record.stamp(number, System.nanoTime() - start);
            for (int channel = 0; channel < writer.getNumberOfSubpartitions(); channel++) {
                writer.emit(record, channel);
            }
        }
    }

    /** Fails a partition whose writer waits for buffers: data is due then, and cannot leave. */
    private static void failWhenStalled(
            ResultPartition partition, AtomicLong written, long since) {
        try {
            long before = -1;
            while (written.get() <= since || written.get() != before) {
                before = written.get();
                Thread.sleep(500);
            }
            partition.fail(new RuntimeException("the interop producer fails on demand"));
            say("partition-failed records=" + before);
            awaitDismissal();
        } catch (IOException | InterruptedException never) {
            throw new AssertionError(never);
        }
    }

    private static void awaitDismissal() throws IOException {
        while (System.in.read() >= 0) {
        }
    }

    /**
     * Ends the writer's own use of a partition; it is released if nobody else uses it. The writer
     * must wait for buffers by then: what it writes with is not to be closed under its hands.
     */
    private static void closeWhenDismissed(
            ResultPartition partition, Thread emitting, AtomicLong written) {
        try {
            awaitDismissal();
            long before = -1;
            while (emitting.getState() == Thread.State.RUNNABLE || written.get() != before) {
                before = written.get();
                Thread.sleep(20);
            }
            partition.close();
            for (int i = 0; i < 200 && !partition.isReleased(); i++) {
                Thread.sleep(20);
            }
            say("closed released=" + partition.isReleased());
        } catch (Throwable error) {
            say("failed " + chain(error));
            System.out.flush();
            Runtime.getRuntime().halt(1); // nobody would end the writer
        }
    }

    // ------------------------------------------------------------------------------ consuming

    private void consume() throws Exception {
        InetSocketAddress producer =
                new InetSocketAddress(text("host", "127.0.0.1"), number("port", 0));
        List<ResultPartitionID> ids = partitions();
        List<InputGateDeploymentDescriptor> descriptors = new ArrayList<>();
        for (int subpartition = 0; subpartition < number("subpartitions", 1); subpartition++) {
            ShuffleDescriptorAndIndex[] sources = new ShuffleDescriptorAndIndex[ids.size()];
            for (int i = 0; i < sources.length; i++) {
                sources[i] = new ShuffleDescriptorAndIndex(descriptor(ids.get(i), producer), i);
            }
            IntermediateDataSetID dataSet = ids.get(0).getPartitionId().getIntermediateDataSetID();
            descriptors.add(
                    new InputGateDeploymentDescriptor(dataSet, type(), subpartition, sources));
        }
        List<SingleInputGate> gates =
                environment.createInputGates(owner, FlinkPeer::producerRuns, descriptors);
        for (SingleInputGate gate : gates) {
            gate.setup();
        }
        List<Reader> readers = new ArrayList<>();
        for (SingleInputGate gate : gates) {
            readers.add(new Reader(gate));
        }
        try {
            inParallel(readers, Reader::read);
        } finally {
            for (SingleInputGate gate : gates) {
                gate.close();
            }
        }
        Map<String, Long> sums = new TreeMap<>();
        for (Reader reader : readers) {
            reader.counts.forEach((name, count) -> sums.merge(name, count, Long::sum));
        }
        StringBuilder line = new StringBuilder("done");
        sums.forEach((name, count) -> line.append(' ').append(name).append('=').append(count));
        Thread.sleep(200); // the last messages leave
        say(line.toString());
        environment.close();
    }

    /** What the JobManager would say when a partition is not found: its producer runs. */
    static void producerRuns(
            IntermediateDataSetID dataSet,
            ResultPartitionID partition,
            java.util.function.Consumer<
                            ? super
                                    org.apache.flink.runtime.io.network.partition
                                            .PartitionProducerStateProvider.ResponseHandle>
                    respond) {
        respond.accept(
                new org.apache.flink.runtime.io.network.partition.PartitionProducerStateProvider
                        .ResponseHandle() {
                    @Override
                    public ExecutionState getConsumerExecutionState() {
                        return ExecutionState.RUNNING;
                    }

                    @Override
                    public Either<ExecutionState, Throwable> getProducerExecutionState() {
                        return Either.Left(ExecutionState.RUNNING);
                    }

                    @Override
                    public void cancelConsumption() {
                        say("cancelled by the producer's state");
                    }

                    @Override
                    public void failConsumption(Throwable cause) {
                        say("failed " + chain(cause));
                        System.out.flush();
                        Runtime.getRuntime().halt(1);
                    }
                });
    }

    /** Reads one gate as a task does: records, and what each event asks for. */
    private final class Reader {
        final Map<String, Long> counts = new TreeMap<>();
        private final SingleInputGate gate;
        private final Stamped record = new Stamped(number("size", 100));
        private final Map<InputChannelInfo, RecordDeserializer<Stamped>> deserializers =
                new HashMap<>();
        private final Map<InputChannelInfo, Long> numbers = new HashMap<>();
        private final Map<Long, List<InputChannelInfo>> aligned = new HashMap<>();
        private long records;

        Reader(SingleInputGate gate) {
            this.gate = gate;
        }

        long[] read() throws Exception {
            long cancelAt = number("cancel-at", -1);
            int delay = number("delay", 0);
            long sayAt = number("say-at", -1);
            long tellAt = number("tell-at", -1);
            gate.setChannelStateWriter(new Forgetful());
            gate.finishReadRecoveredState();
            while (!gate.getStateConsumedFuture().isDone()) {
                gate.pollNext();
            }
            gate.requestPartitions();
            while (!gate.isFinished() && (cancelAt < 0 || records < cancelAt)) {
                Optional<BufferOrEvent> next = gate.getNext();
                if (!next.isPresent()) {
                    continue;
                }
                BufferOrEvent item = next.get();
                if (item.isEvent()) {
                    handle(item.getEvent(), item.getChannelInfo());
                } else {
                    count("buffers", 1);
                    if (counts.get("buffers") == 1 && options.containsKey("announce")) {
                        gate.announceBufferSize(number("announce", 0));
                    }
                    if (delay > 0) {
                        Thread.sleep(delay);
                    }
                    take(item);
                    if (tellAt >= 0 && records >= tellAt) {
                        gate.sendTaskEvent(TerminationEvent.INSTANCE);
                        tellAt = -1;
                    }
                    if (sayAt >= 0 && records >= sayAt) {
                        say("read records=" + records);
                        sayAt = -1;
                    }
                }
            }
            counts.put("records", records);
            return new long[] {records};
        }

        private void take(BufferOrEvent item) throws IOException {
            InputChannelInfo channel = item.getChannelInfo();
            RecordDeserializer<Stamped> deserializer =
                    deserializers.computeIfAbsent(
                            channel,
                            any ->
                                    new SpillingAdaptiveSpanningRecordDeserializer<>(
                                            new String[] {System.getProperty("java.io.tmpdir")}));
            deserializer.setNextBuffer(item.getBuffer());
            long number = numbers.getOrDefault(channel, 0L);
            DeserializationResult result;
            do {
                result = deserializer.getNextRecord(record);
                if (result.isFullRecord()) {
                    record.check(number++);
                    records++;
                    count("bytes", record.value.length);
                }
            } while (!result.isBufferConsumed());
            numbers.put(channel, number);
        }

        private void handle(AbstractEvent event, InputChannelInfo channel) throws IOException {
            count(event.getClass().getSimpleName(), 1);
            String name = event.getClass().getSimpleName();
            if (name.equals("EndOfChannelStateEvent")
                    || name.equals("EndOfOutputChannelStateEvent")) {
                gate.resumeConsumption(channel);
            } else if (event instanceof CheckpointBarrier) {
                CheckpointBarrier barrier = (CheckpointBarrier) event;
                if (!barrier.getCheckpointOptions().isUnalignedCheckpoint()) {
                    align(barrier.getId(), channel);
                }
            } else if (event instanceof EndOfData) {
                gate.acknowledgeAllRecordsProcessed(channel);
            } else if (!(event instanceof EndOfPartitionEvent)
                    && !(event instanceof CancelCheckpointMarker)
                    && !name.equals("EventAnnouncement")) {
                throw new IllegalStateException("unexpected event " + event);
            }
        }

        private void align(long checkpoint, InputChannelInfo channel) throws IOException {
            List<InputChannelInfo> blocked =
                    aligned.computeIfAbsent(checkpoint, any -> new ArrayList<>());
            blocked.add(channel);
            if (blocked.size() == gate.getNumberOfInputChannels()) {
                for (InputChannelInfo each : blocked) {
                    gate.resumeConsumption(each);
                }
                count("checkpoints", 1);
            }
        }

        private void count(String name, long more) {
            counts.merge(name, more, Long::sum);
        }
    }

    // ------------------------------------------------------------------------------ the rest

    private interface Work<T> {
        long[] run(T on) throws Exception;
    }

    /** Runs one thread for each; the first error ends the process. */
    private static <T> List<long[]> inParallel(List<T> all, Work<T> work) throws Exception {
        AtomicReference<Throwable> error = new AtomicReference<>();
        List<long[]> results = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (T each : all) {
            Thread thread =
                    new Thread(
                            () -> {
                                try {
                                    long[] result = work.run(each);
                                    synchronized (results) {
                                        results.add(result);
                                    }
                                } catch (Throwable caught) {
                                    error.compareAndSet(null, caught);
                                }
                            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            while (thread.isAlive() && error.get() == null) {
                thread.join(20);
            }
        }
        if (error.get() != null) {
            throw new Exception("interop", error.get());
        }
        return results;
    }

    ResultPartitionDeploymentDescriptor deployment(
            ResultPartitionID id, int subpartitions, int partitions) {
        return new ResultPartitionDeploymentDescriptor(
                new PartitionDescriptor(
                        id.getPartitionId().getIntermediateDataSetID(),
                        partitions,
                        id.getPartitionId(),
                        type(),
                        subpartitions,
                        0,
                        false,
                        true,
                        false),
                descriptor(id, new InetSocketAddress("127.0.0.1", port)),
                128);
    }

    NettyShuffleDescriptor descriptor(ResultPartitionID id, InetSocketAddress address) {
        return new NettyShuffleDescriptor(
                new ResourceID("producer"), new NetworkPartitionConnectionInfo(address, 0), id);
    }

    private List<ResultPartitionID> partitions() {
        List<ResultPartitionID> ids = new ArrayList<>();
        for (String hex : text("partitions", "").split(",")) {
            ids.add(partition(hex));
        }
        return ids;
    }

    static ResultPartitionID partition(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        ByteBuf buffer = Unpooled.wrappedBuffer(bytes);
        IntermediateResultPartitionID partition = IntermediateResultPartitionID.fromByteBuf(buffer);
        return new ResultPartitionID(partition, ExecutionAttemptID.fromByteBuf(buffer));
    }

    ResultPartitionType type() {
        return ResultPartitionType.valueOf(text("type", "PIPELINED_BOUNDED"));
    }

    private String text(String name, String otherwise) {
        return options.getOrDefault(name, otherwise);
    }

    private int number(String name, int otherwise) {
        return Integer.parseInt(text(name, Integer.toString(otherwise)));
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static String chain(Throwable error) {
        StringBuilder text = new StringBuilder();
        for (Throwable each = error; each != null; each = each.getCause()) {
            if (each.getMessage() != null && each.getMessage().equals("interop")) {
                continue;
            }
            text.append(text.length() == 0 ? "" : " <- ");
            text.append(each.getClass().getSimpleName()).append(": ").append(each.getMessage());
        }
        return text.toString().replace('\n', ' ');
    }
}
