"""Assembly: the subtasks of a workload as StreamTasks between their gates and partitions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from flinknet.config import NetworkConfig, SlowConsumer
from flinknet.core.consumer import SingleInputGate, SpillStore, UnionInputGate
from flinknet.core.probe import Probe
from flinknet.core.producer import (
    BROADCAST,
    BroadcastSelector,
    OutputFlusher,
    RecordWriter,
    ResultPartition,
)

from ..barriers import (
    CheckpointResponder,
    OutputCheckpoints,
    barrier_of,
    ignore,
)
from ..checkpoints import (
    INPUT,
    BranchingCheckpoints,
    TaskAcknowledgements,
    output_name,
)
from ..context import ProcessingContext
from ..partitioners import create_selector
from ..stream_task import StreamTask
from .arrivals import (
    RECORDED,
    Arrivals,
    RecordedArrivals,
    ScheduledArrivals,
)
from .deployment import Deployment, sink_name, source_name
from .forward import RecordForwarder
from .generator import LoadGenerator, RecordBatcher
from .operators import Forward, Generate, Measure
from .outputs import ForwardedOutput, GeneratedOutput
from .run_input import RunInput
from .sink import LatencySink

GENERATOR = "load"
"""Id of the operator that generates, among the sources of its task."""


class LoadTasks:
    """Makes the subtasks of a run that have their partitions and gates.

    Args:
        respond: takes the tasks' answers about checkpoints.
        start_ns: when tasks start; stamps of records count from there.
        timestamp_epoch_ns: the instant that timestamps of barriers count from.
        spills: takes records that are too long for memory; None to keep all of them there.
    """

    def __init__(
        self,
        network: NetworkConfig,
        respond: CheckpointResponder = ignore,
        *,
        start_ns: int,
        timestamp_epoch_ns: int = 0,
        spills: SpillStore | None = None,
    ) -> None:
        self._network = network
        self._respond = respond
        self._start_ns = start_ns
        self._epoch_ns = timestamp_epoch_ns
        self._spills = spills

    def source(
        self,
        index: int,
        generator: LoadGenerator,
        batcher: RecordBatcher,
        writer: RecordWriter,
        flusher: OutputFlusher,
        probe: Probe,
        channels: Sequence[int],
        *,
        partitioner: str,
        seed: int,
    ) -> StreamTask:
        """A subtask that makes records.

        Args:
            channels: indices of the partition's channels in the run.
            partitioner: of the edge, which decides how its barriers are aligned.
            seed: of the keys that are drawn for hash partitioning.
        """
        context = ProcessingContext()
        output = GeneratedOutput(0, writer, batcher, flusher, channels, context, seed=seed)
        name = source_name(index)
        answers = TaskAcknowledgements(name, [output_name(0)], self._respond)
        return StreamTask(
            name,
            index,
            Generate(output, context),
            {GENERATOR: generator},
            None,
            (output,),
            [
                (
                    self._output_checkpoints(output, answers),
                    partial(barrier_of, self._network, partitioner),
                )
            ],
            answers,
            context,
            probe,
            start_ns=self._start_ns,
        )

    def relay(
        self,
        name: str,
        index: int,
        edge: int,
        gate: SingleInputGate | UnionInputGate,
        sinks: tuple[LatencySink, ...],
        writer: RecordWriter,
        flusher: OutputFlusher,
        probe: Probe,
        channels: Sequence[int],
        *,
        partitioner: str,
        delay_ns_per_record: int = 0,
    ) -> StreamTask:
        """A subtask that passes records on (Flink: OneInputStreamTask around an identity map).

        Args:
            edge: index of the edge it writes.
            sinks: one for each channel of the gate; they check and time what arrives here.
            channels: indices of the partition's channels in the run.
            partitioner: of the edge it writes, which decides how its barriers are aligned.
        """
        context = ProcessingContext()
        is_broadcast = isinstance(writer.selector, BroadcastSelector)
        numbered = (BROADCAST,) if is_broadcast else range(len(channels))
        forwarder = RecordForwarder(numbered, epoch_ns=self._start_ns)
        output = ForwardedOutput(edge, writer, forwarder, flusher, channels, context)
        answers = TaskAcknowledgements(name, [output_name(edge), INPUT], self._respond)
        checkpoints = self._output_checkpoints(output, answers)
        reading = BranchingCheckpoints(
            INPUT,
            gate,
            [(checkpoints, partitioner)],
            self._network,
            answers.receive,
            output.write,
            epoch_ns=self._epoch_ns,
        )
        return StreamTask(
            name,
            index,
            Forward(output, context, delay_ns_per_record=delay_ns_per_record),
            {},
            RunInput(gate, sinks, probe, reading, spills=self._spills),
            (output,),
            [(checkpoints, partial(barrier_of, self._network, partitioner))],
            answers,
            context,
            probe,
            start_ns=self._start_ns,
        )

    def sink(
        self,
        index: int,
        gate: SingleInputGate | UnionInputGate,
        sinks: tuple[LatencySink, ...],
        probe: Probe,
        *,
        delay_ns_per_record: int = 0,
        takes_runs: bool = False,
    ) -> StreamTask:
        """A subtask that takes records out.

        Args:
            sinks, delay_ns_per_record, takes_runs: see RunInput.
        """
        context = ProcessingContext()
        name = sink_name(index)
        answers = TaskAcknowledgements(name, [INPUT], self._respond)
        reading = BranchingCheckpoints(
            INPUT, gate, (), self._network, answers.receive, _nothing, epoch_ns=self._epoch_ns
        )
        measure = Measure(context)
        return StreamTask(
            name,
            index,
            measure,
            {},
            RunInput(
                gate,
                sinks,
                probe,
                reading,
                measure=measure,
                delay_ns_per_record=delay_ns_per_record,
                takes_runs=takes_runs,
                spills=self._spills,
            ),
            (),
            (),
            answers,
            context,
            probe,
            start_ns=self._start_ns,
        )

    def _output_checkpoints(
        self, output: GeneratedOutput | ForwardedOutput, answers: TaskAcknowledgements
    ) -> OutputCheckpoints:
        return OutputCheckpoints(
            output_name(output.edge),
            output.writer,
            output.channels,
            answers.receive,
            epoch_ns=self._epoch_ns,
        )


def generator_of(task: StreamTask) -> LoadGenerator:
    """What makes the records of a source."""
    generator = task.sources[GENERATOR]
    assert isinstance(generator, LoadGenerator)
    return generator


def run_input_of(task: StreamTask) -> RunInput:
    """What reads the gates of a relay or a sink."""
    assert isinstance(task.network_input, RunInput)
    return task.network_input


def create_source(
    tasks: LoadTasks,
    deployment: Deployment,
    producer: int,
    partition: ResultPartition,
    probe: Probe,
    *,
    start_ns: int,
    measured_from_ns: int,
    end_ns: int | None,
    give_up_ns: int | None = None,
) -> StreamTask:
    """The task of the first vertex that makes records as the workload has it.

    Args:
        end_ns: when it stops; None for a workload that has a number of records.
        give_up_ns: when records of a rate that are due and have not been sent are given up.
    """
    scenario = deployment.scenario
    workload, network, seed = scenario.workload, scenario.network, scenario.seed
    channels = tuple(each.index for each in deployment.channels_of_producer(producer))
    partitioner = deployment.edges[0].partitioner
    selector = create_selector(partitioner, len(channels), seed + producer)
    is_broadcast = isinstance(selector, BroadcastSelector)
    arrivals: Arrivals | None = None
    if workload.arrivals.startswith(RECORDED):
        arrivals = RecordedArrivals.load(
            workload.arrivals, producer, start_ns=start_ns, measured_from_ns=measured_from_ns
        )
    elif not workload.is_max_rate:
        arrivals = ScheduledArrivals(
            workload.arrivals,
            workload.rate_per_s,
            start_ns=start_ns,
            records=scheduled_records(workload.rate_per_s, workload.records, start_ns, end_ns),
            seed=seed * 1_000_003 + producer,
            counted_from_ns=None if workload.records is None else measured_from_ns,
            give_up_ns=give_up_ns,
        )
    batcher = RecordBatcher(
        workload,
        (BROADCAST,) if is_broadcast else tuple(range(len(channels))),
        epoch_ns=start_ns,
        seed=seed * 7_368_787 + producer,
    )
    return tasks.source(
        producer,
        LoadGenerator(
            arrivals,
            batcher.batch_records,
            records=workload.records,
            start_ns=start_ns,
            measured_from_ns=measured_from_ns,
            end_ns=end_ns,
        ),
        batcher,
        RecordWriter(partition, selector, buffer_timeout_ns=network.buffer_timeout_ns),
        OutputFlusher(network.buffer_timeout_ns, start_ns=start_ns),
        probe,
        channels,
        partitioner=partitioner,
        seed=seed * 15_485_863 + producer,
    )


def create_relay(
    tasks: LoadTasks,
    deployment: Deployment,
    vertex: int,
    subtask: int,
    gate: SingleInputGate | UnionInputGate,
    partition: ResultPartition,
    sinks: tuple[LatencySink, ...],
    flusher: OutputFlusher,
    probe: Probe,
) -> StreamTask:
    """The task of a vertex between the first and the last."""
    scenario = deployment.scenario
    (edge,) = deployment.outputs_of(vertex)
    channels = deployment.channels_of_producer(subtask, edge.index)
    selector = create_selector(edge.partitioner, len(channels), scenario.seed + subtask)
    return tasks.relay(
        deployment.task_name(vertex, subtask),
        subtask,
        edge.index,
        gate,
        sinks,
        RecordWriter(partition, selector, buffer_timeout_ns=scenario.network.buffer_timeout_ns),
        flusher,
        probe,
        tuple(each.index for each in channels),
        partitioner=edge.partitioner,
        delay_ns_per_record=scenario.workload.relay_delay_ns_per_record,
    )


def delay_of(consumer: int, slow_consumers: Sequence[SlowConsumer]) -> int:
    """The delay per record that a consumer begins with: 0 for those that are not slow, or only for
    a while, which is a part of the measured one.
    """
    for slow in slow_consumers:
        if slow.index == consumer:
            return slow.delay_ns_per_record if slow.slow_ns is None else 0
    return 0


def scheduled_records(
    rate_per_s: float, records: int | None, start_ns: int, end_ns: int | None
) -> int:
    """Records of one source: those asked for behind the warm-up, or all from start to end."""
    if records is not None:
        return records
    assert end_ns is not None
    return max(1, round((end_ns - start_ns) / 1e9 * rate_per_s))


def _nothing() -> None:
    """Before a barrier of a task without outputs there is nothing to write."""
