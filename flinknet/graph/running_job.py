"""A job running on a real Flink cluster, as described by its JobManager.

Plain values: `capture.rest` creates them from the JobManager's answers, the planner reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from flinknet.core.wire.ids import JobVertexID
from flinknet.core.wiring import DistributionPattern, Wiring

_POINTWISE = ("FORWARD", "RESCALE")
"""Ship strategies that do not connect all producers with all consumers."""


@dataclass(frozen=True, slots=True)
class RunningSubtask:
    """One subtask: its current attempt and its TaskManager (None: not placed yet)."""

    index: int
    attempt: int
    state: str
    task_manager: str | None


@dataclass(frozen=True, slots=True)
class RunningInput:
    """One input of a vertex, with the names of its partitioner, such as REBALANCE, and of its
    partition type, such as pipelined_bounded; the latter is empty if not reported.
    """

    source: JobVertexID
    ship_strategy: str
    exchange: str

    @property
    def pattern(self) -> DistributionPattern:
        name = self.ship_strategy.upper()
        if name.startswith(_POINTWISE):
            return DistributionPattern.POINTWISE
        return DistributionPattern.ALL_TO_ALL


@dataclass(frozen=True, slots=True)
class RunningVertex:
    """One vertex of a job, with its inputs in the order of its gates; no slot sharing group if the
    release does not report it.
    """

    id: JobVertexID
    name: str
    parallelism: int
    max_parallelism: int
    inputs: tuple[RunningInput, ...]
    subtasks: tuple[RunningSubtask, ...]
    slot_sharing_group: str | None = None

    def task_name(self, subtask: int) -> str:
        return f"{self.name} ({subtask + 1}/{self.parallelism})"

    @property
    def task_managers(self) -> tuple[str | None, ...]:
        places = {each.index: each.task_manager for each in self.subtasks}
        return tuple(places.get(index) for index in range(self.parallelism))


@dataclass(frozen=True, slots=True)
class RunningJob:
    """One job, with its vertices in topological order, and its start in ms since 1970."""

    id: str
    name: str
    state: str
    is_batch: bool
    started_at_ms: int
    vertices: tuple[RunningVertex, ...]

    def vertex(self, vertex_id: JobVertexID) -> RunningVertex | None:
        return next((each for each in self.vertices if each.id == vertex_id), None)

    def edges(self) -> list[tuple[RunningVertex, RunningVertex, RunningInput]]:
        """Producer, consumer and input of each edge, by consumer."""
        found = []
        for target in self.vertices:
            for each in target.inputs:
                source = self.vertex(each.source)
                if source is not None:
                    found.append((source, target, each))
        return found

    def with_parallelism(self, parallelism: Mapping[JobVertexID, int]) -> RunningJob:
        """The job with other parallelisms; changed vertices are not placed. As in Flink, a forward
        exchange between unequal parallelisms is a rebalance, and a maximum that nobody set grows.
        """
        changed = {each.id: parallelism.get(each.id, each.parallelism) for each in self.vertices}
        return replace(
            self,
            vertices=tuple(
                replace(
                    each,
                    parallelism=changed[each.id],
                    max_parallelism=(
                        each.max_parallelism if changed[each.id] <= each.max_parallelism else -1
                    ),
                    subtasks=() if each.id in parallelism else each.subtasks,
                    inputs=tuple(
                        replace(one, ship_strategy="REBALANCE")
                        if one.ship_strategy.upper() == "FORWARD"
                        and changed.get(one.source) != changed[each.id]
                        else one
                        for one in each.inputs
                    ),
                )
                for each in self.vertices
            ),
        )


@dataclass(frozen=True, slots=True)
class RunningTaskManager:
    """One TaskManager of a cluster, with the port that consumers connect to, and the IP addresses
    of its host, as far as its name can be resolved; None where the JobManager does not report a
    value.
    """

    id: str
    host: str
    data_port: int
    slots: int
    network_memory_bytes: int | None = None
    network_segments: int | None = None
    network_segments_used: int | None = None
    addresses: tuple[str, ...] = ()


def wiring_of(source: RunningVertex, target: RunningVertex, joined: RunningInput) -> Wiring:
    return Wiring(joined.pattern, source.parallelism, target.parallelism)
