"""Tasks of a load, built from descriptors between their gates and partitions."""

from __future__ import annotations

from collections.abc import Sequence

from flinknet.arrays import RecordedLoad
from flinknet.config import RECORDED, Scenario, SlowConsumer
from flinknet.core.consumer import SingleInputGate, SpillStore, UnionInputGate
from flinknet.core.probe import Probe
from flinknet.core.producer import (
    BROADCAST,
    BroadcastSelector,
    ChannelSelector,
    OutputFlusher,
    RecordWriter,
    ResultPartition,
)

from ..barriers import CheckpointResponder, ignore
from ..descriptor import ResultPartitionDeploymentDescriptor, Start, TaskDeploymentDescriptor
from ..gates import input_of
from ..selectors import create_selector
from ..stream_task import StreamTask
from ..task_frame import TaskFrame
from .arrivals import (
    Arrivals,
    KeyDraws,
    RecordedArrivals,
    RecordedSelector,
    RecordedSizes,
    ScheduledArrivals,
    TakeSizes,
)
from .outputs import (
    Forward,
    ForwardedOutput,
    Generate,
    GeneratedOutput,
    LoadGenerator,
    Measure,
    RecordBatcher,
)
from .payload import RecordForwarder
from .plan import task_name
from .run_input import RunInput
from .sink import MEASURED, STAMPED, CountingSink, LatencySink, StampedSink

GENERATOR = "load"
"""Operator id of the generator in its task."""


class LoadTask(TaskFrame):
    """Assembles one subtask of a run, in which stamps of records count from its start, between its
    partitions and gates. Records too long for memory go to `spills`, if any.
    """

    def __init__(
        self,
        descriptor: TaskDeploymentDescriptor,
        scenario: Scenario,
        probe: Probe,
        respond: CheckpointResponder = ignore,
        *,
        start: Start,
        spills: SpillStore | None = None,
    ) -> None:
        name = task_name(descriptor)
        super().__init__(descriptor, name, scenario.network, probe, respond, start)
        self._scenario = scenario
        self._spills = spills

    def source(
        self,
        generator: LoadGenerator,
        batcher: RecordBatcher,
        writer: RecordWriter,
        flusher: OutputFlusher,
    ) -> StreamTask:
        """The task that generates records."""
        (described,) = self.descriptor.outputs
        output = GeneratedOutput(
            described.edge,
            writer,
            batcher,
            flusher,
            described.channels,
            self.context,
            key_draws(self._scenario, self.descriptor.subtask),
        )
        self.set_outputs((output,), (described.partitioner,))
        return self.task(Generate(output, self.context), {GENERATOR: generator}, None)

    def relay(
        self,
        gate: SingleInputGate | UnionInputGate,
        sinks: tuple[LatencySink, ...],
        partition: ResultPartition,
        flusher: OutputFlusher,
    ) -> StreamTask:
        """The task that forwards records (Flink: OneInputStreamTask around an identity map). The
        sinks, one per channel of the gate, check and time the incoming records.
        """
        (described,) = self.descriptor.outputs
        writer = self._writer(partition, described)
        forwarder = RecordForwarder(_numbered(writer, described), epoch_ns=self.start.start_ns)
        output = ForwardedOutput(
            described.edge,
            writer,
            forwarder,
            flusher,
            described.channels,
            self.context,
            key_draws(self._scenario, self.descriptor.subtask),
        )
        self.set_outputs((output,), (described.partitioner,))
        delay_ns = self._scenario.workload.relay_delays_ns[self.descriptor.vertex - 1]
        chain = Forward(output, self.context, delay_ns_per_record=delay_ns)
        reading = self.input_checkpoints(gate)
        return self.task(chain, {}, RunInput(gate, sinks, self.probe, reading, spills=self._spills))

    def sink(
        self,
        gate: SingleInputGate | UnionInputGate,
        sinks: tuple[LatencySink, ...],
        *,
        delay_ns_per_record: int = 0,
        takes_runs: bool = False,
    ) -> StreamTask:
        """The task that consumes records; see RunInput."""
        measure = Measure(self.context, sinks)
        run_input = RunInput(
            gate,
            sinks,
            self.probe,
            self.input_checkpoints(gate),
            measure=measure,
            delay_ns_per_record=delay_ns_per_record,
            takes_runs=takes_runs,
            spills=self._spills,
        )
        return self.task(measure, {}, run_input)

    def scheduled_source(self, partition: ResultPartition, flusher: OutputFlusher) -> StreamTask:
        """The task that generates records by the workload of the scenario."""
        workload, seed, start = self._scenario.workload, self._scenario.seed, self.start
        producer, (output,) = self.descriptor.subtask, self.descriptor.outputs
        selector: ChannelSelector | None = None
        arrivals: Arrivals | None = None
        take_sizes: TakeSizes | None = None
        if workload.arrivals.startswith(RECORDED):
            recorded = RecordedLoad.load(
                workload.arrivals,
                producer,
                start_ns=start.start_ns,
                measured_from_ns=start.measured_from_ns,
            )
            arrivals = RecordedArrivals(recorded.instants_ns)
            if recorded.value_bytes is not None:
                take_sizes = RecordedSizes(recorded.value_bytes).take
            if recorded.subpartitions is not None:
                selector = RecordedSelector(recorded.subpartitions)
        elif not workload.is_max_rate:
            records = workload.records
            arrivals = ScheduledArrivals(
                workload.arrivals,
                workload.rate_per_s,
                start_ns=start.start_ns,
                records=scheduled_records(
                    workload.rate_per_s, records, start.start_ns, start.end_ns
                ),
                seed=seed * 1_000_003 + producer,
                counted_from_ns=None if records is None else start.measured_from_ns,
                give_up_ns=start.give_up_ns,
            )
        writer = self._writer(partition, output, selector)
        batcher = RecordBatcher(
            workload,
            tuple(_numbered(writer, output)),
            epoch_ns=start.start_ns,
            seed=seed * 7_368_787 + producer,
            take_sizes=take_sizes,
        )
        generator = LoadGenerator(arrivals, batcher.batch_records, start, records=workload.records)
        return self.source(generator, batcher, writer, flusher)

    def _writer(
        self,
        partition: ResultPartition,
        described: ResultPartitionDeploymentDescriptor,
        selector: ChannelSelector | None = None,
    ) -> RecordWriter:
        if selector is None:
            seed = self._scenario.seed + self.descriptor.subtask
            selector = create_selector(described.partitioner, described.subpartitions, seed)
        return RecordWriter(partition, selector, buffer_timeout_ns=described.buffer_timeout_ns)


def key_draws(scenario: Scenario, subtask: int) -> KeyDraws:
    workload = scenario.workload
    return KeyDraws(workload.keys, workload.key_skew, scenario.seed * 15_485_863 + subtask)


def _numbered(
    writer: RecordWriter, described: ResultPartitionDeploymentDescriptor
) -> Sequence[int]:
    """The channels whose records are numbered: the subpartitions, or BROADCAST for all of them."""
    if isinstance(writer.selector, BroadcastSelector):
        return (BROADCAST,)
    return range(described.subpartitions)


def generator_of(task: StreamTask) -> LoadGenerator:
    generator = task.sources[GENERATOR]
    assert isinstance(generator, LoadGenerator)
    return generator


def run_input_of(task: StreamTask) -> RunInput:
    assert isinstance(task.network_input, RunInput)
    return task.network_input


def create_load_task(
    descriptor: TaskDeploymentDescriptor,
    scenario: Scenario,
    partitions: Sequence[ResultPartition],
    gates: Sequence[SingleInputGate],
    probe: Probe,
    respond: CheckpointResponder = ignore,
    *,
    start: Start,
    spills: SpillStore | None = None,
    records: str = MEASURED,
) -> StreamTask:
    """Create the task of a descriptor between its partitions and gates, in order, for the workload
    of the scenario; see LoadTask. A sink expects MEASURED, STAMPED or COUNTED records.
    """
    task = LoadTask(descriptor, scenario, probe, respond, start=start, spills=spills)
    workload = scenario.workload
    if partitions:
        flusher = OutputFlusher(descriptor.outputs[0].buffer_timeout_ns, start_ns=start.start_ns)
    if not gates:
        return task.scheduled_source(partitions[0], flusher)
    gate = input_of(gates)
    delay_ns = 0 if partitions else delay_of(descriptor.subtask, workload.slow_consumers)
    sinks = []
    for _ in gate.channels:
        if records == MEASURED:
            sink = LatencySink(
                epoch_ns=start.start_ns,
                delay_ns_per_record=max(delay_ns, 0),
                is_open_loop=not workload.is_max_rate,
            )
            sink.measured_from_ns = start.measured_from_ns
            sink.measured_to_ns = start.measured_to_ns
        else:
            foreign = StampedSink if records == STAMPED else CountingSink
            sink = foreign(delay_ns_per_record=max(delay_ns, 0))
        sinks.append(sink)
    if partitions:
        return task.relay(gate, tuple(sinks), partitions[0], flusher)
    takes_runs = records == MEASURED
    return task.sink(gate, tuple(sinks), delay_ns_per_record=delay_ns, takes_runs=takes_runs)


def delay_of(consumer: int, slow_consumers: Sequence[SlowConsumer]) -> int:
    """The initial delay per record of a consumer: 0 if not slow, or only for a limited time."""
    for slow in slow_consumers:
        if slow.index == consumer:
            return slow.delay_ns_per_record if slow.slow_ns is None else 0
    return 0


def scheduled_records(
    rate_per_s: float, records: int | None, start_ns: int, end_ns: int | None
) -> int:
    """Records of one source: as configured after the warm-up, or all from start to end."""
    if records is not None:
        return records
    assert end_ns is not None
    return max(1, round((end_ns - start_ns) / 1e9 * rate_per_s))
