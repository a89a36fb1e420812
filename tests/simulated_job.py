"""What tests of jobs share: a program run in virtual time, with everything watched."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from flinknet.graph import StreamGraph, execution_graph_of, job_graph_of, physical_plan_of
from flinknet.job import StreamTask
from flinknet.simulator.cost_model import CostModel
from flinknet.simulator.faults import NO_FAULTS, Faults
from flinknet.simulator.task_manager import SteppedTask
from tests.driving import run_on
from tests.job_cluster import WorkerFactory, job_cluster
from tests.protocol_checker import ProtocolChecker

US, MS, S = 1_000, 1_000_000, 1_000_000_000

COSTS = CostModel(2000.0, 0.2, 20_000.0, 2000.0, 300.0, ())


class WatchedJob:
    """A cluster whose probes check the protocol, and whose channels are compared byte by byte."""

    def __init__(
        self,
        graph: StreamGraph,
        *,
        task_managers: int | None = 2,
        slots: int = 2,
        texts: Mapping[str, bytes] | None = None,
        faults: Faults = NO_FAULTS,
        seed: int = 1,
        end_ns: int | None = None,
        workers: WorkerFactory | None = None,
    ) -> None:
        self.job = job_graph_of(graph)
        self.plan = physical_plan_of(
            execution_graph_of(self.job),
            task_managers=task_managers,
            slots_per_task_manager=slots,
        )
        self.checker = ProtocolChecker(seed)
        self.written: defaultdict[int, bytearray] = defaultdict(bytearray)
        self.read: defaultdict[int, bytearray] = defaultdict(bytearray)
        self.cluster = job_cluster(
            self.plan,
            self.job,
            COSTS,
            texts=texts,
            probes=[self.checker] * self.plan.task_managers,
            faults=faults,
            seed=seed,
            end_ns=end_ns,
            workers=workers,
        )
        for task in self.cluster.tasks.values():
            self._watch(task)
        create_task = self.cluster.job.create_task

        def create_watched(*arguments: Any) -> SteppedTask:
            stepped = create_task(*arguments)
            self._watch(stepped.task)
            return stepped

        self.cluster.job.create_task = create_watched  # type: ignore[method-assign]

    def _watch(self, task: StreamTask) -> None:
        for output in task.outputs.each:
            self._watch_writer(output)
        if task.gate is not None:
            for channel, channel_input in zip(task.gate.channels, task.receivers, strict=True):
                self._watch_reader(channel_input, channel.index)

    def _watch_writer(self, output: Any) -> None:
        emit = output.emit

        def watched(channel: int, records: Any) -> None:
            for index in output.channels if channel < 0 else [output.channels[channel]]:
                self.written[index] += records.data
            emit(channel, records)

        output.emit = watched

    def _watch_reader(self, channel_input: Any, index: int) -> None:
        receive = channel_input.receive

        def watched(runs: Any, *, now_ns: int) -> int:
            for memory, offset, count, record_bytes in runs:
                self.read[index] += memory[offset : offset + count * record_bytes]
            return int(receive(runs, now_ns=now_ns))

        channel_input.receive = watched

    def run(self, **options: int) -> Any:
        """To the end. Every record has come once and in order on each channel then, and all memory
        was given back.
        """
        run_on(self.cluster, **options)
        if not options:
            assert self.cluster.is_finished
            assert self.read == self.written
            self.cluster.close()
            for task_manager in self.cluster.task_managers:
                memory = task_manager.memory
                assert memory.available_buffers == memory.total_buffers
        return self.cluster


def run_job(graph: StreamGraph, **options: Any) -> Any:
    """A program from beginning to end."""
    return WatchedJob(graph, **options).run()


def task_named(cluster: Any, name: str) -> Any:
    """A task."""
    (found,) = [each for each in cluster.tasks.values() if each.name == name]
    return found


def printed(cluster: Any) -> Counter[str]:
    """Lines that were printed, without the numbers of subtasks."""
    return Counter(line.partition("> ")[2] or line for line in cluster.job.io.lines)
