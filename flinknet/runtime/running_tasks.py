# mypyc
"""RunningTasks: the tasks of one TaskManager, made from its deployment when the run starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from flinknet.config import SlowConsumer
from flinknet.core.consumer import SingleInputGate, SpillStore, UnionInputGate
from flinknet.core.probe import Probe
from flinknet.core.producer import OutputFlusher, ResultPartition
from flinknet.job.barriers import CheckpointResponder
from flinknet.job.gates import input_of
from flinknet.job.load.assembly import (
    LoadTasks,
    create_relay,
    create_source,
    delay_of,
    run_input_of,
)
from flinknet.job.load.deployment import Deployment
from flinknet.job.load.sink import LatencySink
from flinknet.job.stream_task import StreamTask

from .messages import Start


@dataclass(frozen=True, slots=True)
class RunningTasks:
    """The subtasks of one TaskManager: of the first vertex, of those between, and of the last."""

    sources: tuple[StreamTask, ...] = ()
    relays: tuple[StreamTask, ...] = ()
    sinks: tuple[StreamTask, ...] = ()

    @property
    def all(self) -> tuple[StreamTask, ...]:
        """Every task, upstream first."""
        return (*self.sources, *self.relays, *self.sinks)

    @property
    def reading(self) -> tuple[StreamTask, ...]:
        """Those that read a gate."""
        return (*self.relays, *self.sinks)

    def changes_of_delay(
        self, slow_consumers: Sequence[SlowConsumer], *, from_ns: int
    ) -> list[tuple[int, Callable[[], None]]]:
        """Instants and what to do then, so that consumers that are slow for a time are slow from
        `from_ns` on for as long.
        """
        changes: list[tuple[int, Callable[[], None]]] = []
        for slow in slow_consumers:
            for sink in self.sinks:
                if slow.slow_ns is not None and sink.index == slow.index:
                    set_delay = run_input_of(sink).set_delay
                    changes.append((from_ns, partial(set_delay, slow.delay_ns_per_record)))
                    changes.append((from_ns + slow.slow_ns, partial(set_delay, 0)))
        return changes


class TaskStarter:
    """Makes the tasks of a TaskManager whose channels are open.

    Args:
        partitions, gates: by edge and subtask.
        respond: takes the tasks' answers about checkpoints.
        spills: takes records that are too long for memory.
    """

    def __init__(
        self,
        deployment: Deployment,
        partitions: Mapping[tuple[int, int], ResultPartition],
        gates: Mapping[tuple[int, int], SingleInputGate],
        probe: Probe,
        respond: CheckpointResponder,
        spills: SpillStore,
        start: Start,
    ) -> None:
        self._deployment = deployment
        self._partitions = partitions
        self._gates = gates
        self._probe = probe
        self._start = start
        self._load = LoadTasks(
            deployment.scenario.network,
            respond,
            start_ns=start.start_ns,
            timestamp_epoch_ns=start.timestamp_epoch_ns,
            spills=spills,
        )

    def tasks_on(self, task_manager: int) -> RunningTasks:
        """All tasks that the deployment puts on a TaskManager."""
        deployment = self._deployment
        return RunningTasks(
            tuple(map(self._create_source, deployment.producers_on(task_manager))),
            tuple(
                self._create_relay(vertex, subtask)
                for vertex in range(1, len(deployment.vertices) - 1)
                for subtask in deployment.vertices[vertex].subtasks_on(task_manager)
            ),
            tuple(map(self._create_sink, deployment.consumers_on(task_manager))),
        )

    def _create_source(self, producer: int) -> StreamTask:
        start = self._start
        return create_source(
            self._load,
            self._deployment,
            producer,
            self._partitions[0, producer],
            self._probe,
            start_ns=start.start_ns,
            measured_from_ns=start.measured_from_ns,
            end_ns=start.end_ns,
            give_up_ns=start.give_up_ns,
        )

    def _create_relay(self, vertex: int, subtask: int) -> StreamTask:
        gate = self._input_of(vertex, subtask)
        edge = self._deployment.outputs_of(vertex)[0].index
        timeout_ns = self._deployment.scenario.network.buffer_timeout_ns
        return create_relay(
            self._load,
            self._deployment,
            vertex,
            subtask,
            gate,
            self._partitions[edge, subtask],
            self._latency_sinks(gate),
            OutputFlusher(timeout_ns, start_ns=self._start.start_ns),
            self._probe,
        )

    def _create_sink(self, consumer: int) -> StreamTask:
        gate = self._input_of(len(self._deployment.vertices) - 1, consumer)
        delay_ns = delay_of(consumer, self._deployment.scenario.workload.slow_consumers)
        return self._load.sink(
            consumer,
            gate,
            self._latency_sinks(gate, delay_ns=max(delay_ns, 0)),
            self._probe,
            delay_ns_per_record=delay_ns,
            takes_runs=True,
        )

    def _input_of(self, vertex: int, subtask: int) -> SingleInputGate | UnionInputGate:
        return input_of(
            [self._gates[edge.index, subtask] for edge in self._deployment.inputs_of(vertex)]
        )

    def _latency_sinks(
        self, gate: SingleInputGate | UnionInputGate, *, delay_ns: int = 0
    ) -> tuple[LatencySink, ...]:
        sinks = []
        for _ in gate.channels:
            sink = LatencySink(
                epoch_ns=self._start.start_ns,
                delay_ns_per_record=delay_ns,
                is_open_loop=not self._deployment.scenario.workload.is_max_rate,
            )
            sink.measured_from_ns = self._start.measured_from_ns
            sink.measured_to_ns = self._start.measured_to_ns
            sinks.append(sink)
        return tuple(sinks)
