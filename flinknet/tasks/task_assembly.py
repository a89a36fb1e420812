"""Assembly of tasks: what a Deployment says, as what runs between gates and partitions."""

from __future__ import annotations

from flinknet.core.consumer import SingleInputGate, SpillStore, UnionInputGate
from flinknet.core.probe import Probe
from flinknet.core.producer import (
    BROADCAST,
    BroadcastSelector,
    BufferWritingResultPartition,
    OutputFlusher,
    RecordWriter,
)
from flinknet.workload.arrivals import (
    RECORDED,
    Arrivals,
    RecordedArrivals,
    ScheduledArrivals,
)
from flinknet.workload.forward import RecordForwarder
from flinknet.workload.sink import LatencySink

from .checkpoints import (
    CheckpointResponder,
    ForwardingCheckpoints,
    InputCheckpoints,
    OutputCheckpoints,
    ignore,
    reader_and_writer,
)
from .deployment import Deployment, sink_name, source_name
from .partitioners import create_selector
from .relay import RelayTask
from .sink import SinkTask
from .source import RecordBatcher, SourceTask


def create_source(
    deployment: Deployment,
    producer: int,
    partition: BufferWritingResultPartition,
    probe: Probe,
    respond: CheckpointResponder = ignore,
    *,
    start_ns: int,
    measured_from_ns: int,
    end_ns: int | None,
    give_up_ns: int | None = None,
    timestamp_epoch_ns: int = 0,
) -> SourceTask:
    """The task of the first vertex that makes records as the workload has it.

    Args:
        end_ns: when it stops; None for a workload that has a number of records.
        give_up_ns: when records of a rate that are due and have not been sent are given up.
        timestamp_epoch_ns: the instant that timestamps of barriers count from.
    """
    scenario = deployment.scenario
    workload, network, seed = scenario.workload, scenario.network, scenario.seed
    channels = tuple(each.index for each in deployment.channels_of_producer(producer))
    selector = create_selector(deployment.edges[0].partitioner, len(channels), seed + producer)
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
    writer = RecordWriter(partition, selector, buffer_timeout_ns=network.buffer_timeout_ns)
    return SourceTask(
        producer,
        writer,
        RecordBatcher(
            workload,
            (BROADCAST,) if is_broadcast else tuple(range(len(channels))),
            epoch_ns=start_ns,
            seed=seed * 7_368_787 + producer,
        ),
        OutputFlusher(network.buffer_timeout_ns, start_ns=start_ns),
        probe,
        channels,
        arrivals=arrivals,
        records=workload.records,
        start_ns=start_ns,
        measured_from_ns=measured_from_ns,
        end_ns=end_ns,
        seed=seed * 15_485_863 + producer,
        checkpoints=OutputCheckpoints(
            source_name(producer), writer, channels, respond, epoch_ns=timestamp_epoch_ns
        ),
    )


def create_relay(
    deployment: Deployment,
    vertex: int,
    subtask: int,
    gate: SingleInputGate | UnionInputGate,
    partition: BufferWritingResultPartition,
    sinks: tuple[LatencySink, ...],
    flusher: OutputFlusher,
    probe: Probe,
    respond: CheckpointResponder = ignore,
    *,
    epoch_ns: int,
    spills: SpillStore | None = None,
    timestamp_epoch_ns: int = 0,
) -> RelayTask:
    """The task of a vertex between the first and the last, without anything that makes records.

    Args:
        epoch_ns: the instant that stamps of records count from.
        timestamp_epoch_ns: the instant that timestamps of barriers count from.
    """
    scenario = deployment.scenario
    (input_edge,), (output_edge,) = deployment.inputs_of(vertex), deployment.outputs_of(vertex)
    channels = deployment.channels_of_producer(subtask, output_edge.index)
    selector = create_selector(output_edge.partitioner, len(channels), scenario.seed + subtask)
    is_broadcast = isinstance(selector, BroadcastSelector)
    indices = tuple(each.index for each in channels)
    name = deployment.task_name(vertex, subtask)
    writer = RecordWriter(partition, selector, buffer_timeout_ns=scenario.network.buffer_timeout_ns)
    return RelayTask(
        subtask,
        (input_edge.index, output_edge.index),
        gate,
        sinks,
        writer,
        RecordForwarder((BROADCAST,) if is_broadcast else range(len(channels)), epoch_ns=epoch_ns),
        flusher,
        probe,
        indices,
        ForwardingCheckpoints(
            reader_and_writer(name),
            gate,
            writer,
            indices,
            output_edge.partitioner,
            scenario.network,
            respond,
            epoch_ns=timestamp_epoch_ns,
        ),
        delay_ns_per_record=scenario.workload.relay_delay_ns_per_record,
        spills=spills,
        start_ns=epoch_ns,
        name=name,
    )


def create_sink(
    deployment: Deployment,
    consumer: int,
    gate: SingleInputGate | UnionInputGate,
    sinks: tuple[LatencySink, ...],
    probe: Probe,
    respond: CheckpointResponder = ignore,
    *,
    delay_ns_per_record: int,
    start_ns: int,
    spills: SpillStore | None = None,
    takes_runs: bool = False,
    timestamp_epoch_ns: int = 0,
) -> SinkTask:
    """The task of the last vertex, that takes records out.

    Args:
        timestamp_epoch_ns: the instant that timestamps of barriers count from.
    """
    return SinkTask(
        consumer,
        gate,
        sinks,
        probe,
        delay_ns_per_record=delay_ns_per_record,
        checkpoints=InputCheckpoints(
            sink_name(consumer),
            gate,
            deployment.scenario.network,
            respond,
            epoch_ns=timestamp_epoch_ns,
        ),
        spills=spills,
        takes_runs=takes_runs,
        start_ns=start_ns,
    )


def scheduled_records(
    rate_per_s: float, records: int | None, start_ns: int, end_ns: int | None
) -> int:
    """Records of one source: those asked for behind the warm-up, or all from start to end."""
    if records is not None:
        return records
    assert end_ns is not None
    return max(1, round((end_ns - start_ns) / 1e9 * rate_per_s))
