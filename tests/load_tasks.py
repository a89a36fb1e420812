"""Tasks of the load generator for tests, with what a test does not care about filled in."""

from __future__ import annotations

from functools import cache

from flinknet.config import NetworkConfig, Scenario, WorkloadConfig
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.consumer import ConsumerConnection, SingleInputGate, UnionInputGate
from flinknet.core.probe import Probe
from flinknet.core.producer import (
    OutputFlusher,
    RecordWriter,
    ResultPartition,
    ResultPartitionManager,
)
from flinknet.job.descriptor import InputChannelDescriptor, Start, TaskDeploymentDescriptor
from flinknet.job.gates import create_gates, create_partitions
from flinknet.job.load.arrivals import Arrivals
from flinknet.job.load.load_tasks import LoadTask
from flinknet.job.load.outputs import LoadGenerator, RecordBatcher
from flinknet.job.load.plan import load_plan_of
from flinknet.job.load.sink import LatencySink
from flinknet.job.stream_task import StreamTask


@cache
def source_and_sink(channels: int) -> tuple[TaskDeploymentDescriptor, TaskDeploymentDescriptor]:
    """Source 0, which writes channels 0, 1, …, and sink 0, which reads channel 0."""
    tasks = load_plan_of(Scenario(workload=WorkloadConfig(consumers=channels))).tasks
    return tasks[0], tasks[1]


def source_task(
    writer: RecordWriter,
    batcher: RecordBatcher,
    flusher: OutputFlusher,
    probe: Probe,
    channels: int,
    *,
    arrivals: Arrivals | None = None,
    records: int | None = None,
    start_ns: int = 0,
    measured_from_ns: int = 0,
    end_ns: int | None = None,
) -> StreamTask:
    """Source 0, which writes channels 0, 1, …"""
    start = Start(start_ns, measured_from_ns, end_ns=end_ns)
    generator = LoadGenerator(arrivals, batcher.batch_records, start, records=records)
    task = LoadTask(source_and_sink(channels)[0], Scenario(), probe, start=Start(0, 0))
    return task.source(generator, batcher, writer, flusher)


def sink_task(
    gate: SingleInputGate | UnionInputGate,
    sinks: tuple[LatencySink, ...],
    probe: Probe,
    *,
    delay_ns_per_record: int = 0,
    takes_runs: bool = False,
) -> StreamTask:
    """Sink 0."""
    task = LoadTask(source_and_sink(1)[1], Scenario(), probe, start=Start(0, 0))
    return task.sink(gate, sinks, delay_ns_per_record=delay_ns_per_record, takes_runs=takes_runs)


def partitions_of(
    descriptor: TaskDeploymentDescriptor, memory: NetworkBufferPool, manager: ResultPartitionManager
) -> tuple[ResultPartition, ...]:
    """The partitions of a task."""
    return create_partitions(descriptor, NetworkConfig(), memory, manager)


def gates_of(
    descriptor: TaskDeploymentDescriptor, memory: NetworkBufferPool
) -> tuple[SingleInputGate, ...]:
    """The gates of a task, whose channels are never requested."""

    def connect(channel: InputChannelDescriptor) -> ConsumerConnection:
        raise AssertionError(channel)

    manager = ResultPartitionManager()
    return create_gates(descriptor, NetworkConfig(), memory, partitions=manager, connect=connect)
