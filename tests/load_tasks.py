"""Tasks of the load generator for tests, with what a test does not care about filled in."""

from __future__ import annotations

from functools import cache

from flinknet.config import NetworkConfig, RecordSize, Scenario, WorkloadConfig
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.consumer import ConsumerConnection, SingleInputGate, UnionInputGate
from flinknet.core.probe import Probe
from flinknet.core.producer import (
    BROADCAST,
    BroadcastSelector,
    ChannelSelector,
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
from tests.pair import Pair
from tests.probes import ListProbe


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


NETWORK = NetworkConfig(segment_size_bytes=1000, buffer_timeout_ns=1_000_000)
SIZE = RecordSize(20, 20)


class TaskPair(Pair):
    """One source, one sink task with that many channels, and the clock that drives them."""

    def __init__(
        self,
        selector: ChannelSelector,
        *,
        network: NetworkConfig = NETWORK,
        channels: int = 1,
        size: RecordSize = SIZE,
        arrivals: Arrivals | None = None,
        records: int | None = None,
        start_ns: int = 0,
        measured_from_ns: int = 0,
        end_ns: int | None = None,
        delay_ns: int = 0,
    ) -> None:
        self.probe = ListProbe()
        super().__init__(network, channels=channels, probe=self.probe)
        self.drive()
        is_broadcast = isinstance(selector, BroadcastSelector)
        self.writer = RecordWriter(
            self.partition, selector, buffer_timeout_ns=network.buffer_timeout_ns
        )
        self.source = source_task(
            self.writer,
            RecordBatcher(
                WorkloadConfig(record_size=size),
                (BROADCAST,) if is_broadcast else tuple(range(channels)),
                epoch_ns=0,
                seed=1,
            ),
            OutputFlusher(network.buffer_timeout_ns, start_ns=start_ns),
            self.probe,
            channels,
            arrivals=arrivals,
            records=records,
            start_ns=start_ns,
            measured_from_ns=measured_from_ns,
            end_ns=end_ns,
        )
        self.sinks = tuple(
            LatencySink(
                epoch_ns=0, delay_ns_per_record=max(0, delay_ns), is_open_loop=arrivals is not None
            )
            for _ in range(channels)
        )
        self.sink = sink_task(self.gate, self.sinks, self.probe, delay_ns_per_record=delay_ns)

    def turn(self) -> bool:
        """Everybody once; then the clock goes to the next instant anybody named.

        Returns: False when nothing can happen any more.
        """
        now_ns = self.now_ns
        due = [self.source.step(now_ns=now_ns)]
        moved = self.step()
        due.append(self.sink.step(now_ns=now_ns))
        moved = self.step() or moved
        if moved or any(each is not None and each <= now_ns for each in due):
            return True
        named = [each for each in due if each is not None]
        if not named:
            return False
        self.now_ns = min(named)
        return True

    def run(self, limit: int = 100_000) -> None:
        for _ in range(limit):
            if self.sink.is_finished or not self.turn():
                break
        else:
            raise AssertionError("the tasks never came to their end")
        for sink in self.sinks:
            sink.settle()

    def received(self) -> list[int]:
        return [sink.records for sink in self.sinks]
