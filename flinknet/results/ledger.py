"""The ledger of a job: where the time of its tasks and channels went, and what became of its
checkpoints. The rules of `verdict` read nothing else. A figure that nobody saw is absent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from .measures import CreditPath

CREDIT, SOCKET, BARRIER = "waiting_for_credit", "in_socket", "blocked_by_alignment"
"""Names of places where the oldest record of a channel can be."""

LATE, UNANSWERED, WITHOUT_CREDIT = "late", "unanswered", "without_credit"
"""Names of further shares of a channel: buffers that took over 2 ms from one TaskManager to the
other; time in which buffers waited long for any credit; time without credit, whether or not
anything waited for it."""


class SeenBy(StrEnum):
    OWN_EVENTS = "own events"
    TAP = "tap"
    FLINK = "Flink's metrics"


@dataclass(frozen=True, slots=True)
class TaskTime:
    """One subtask: its time as shares; and its records as a rate or a number, which compares with
    those of its siblings."""

    name: str
    task_manager: str | None = None
    working: float | None = None  # it had a record to work on and did not wait for its output
    waits_for_input: float | None = None
    waits_for_output: float | None = None
    held_by_barrier: float | None = None  # the longest that a channel to it was blocked
    stood_still: float | None = None  # its TaskManager sent nothing back for long, on any channel
    records: float | None = None  # in its input
    queued_buffers: float | None = None  # in its input queues, on average

    @property
    def works(self) -> float:
        """Share of the time in which it worked; 0 where nobody saw it."""
        return self.working or 0.0


@dataclass(frozen=True, slots=True)
class VertexTime:
    """One vertex and its subtasks, in their order."""

    name: str
    tasks: Sequence[TaskTime]

    @property
    def works(self) -> float:
        """Largest share of the time in which one of its subtasks worked."""
        return max((each.works for each in self.tasks), default=0.0)

    @property
    def waits_for_output(self) -> float | None:
        """Largest share in which a subtask waited for its output; None where nobody saw it."""
        waited = [each.waits_for_output for each in self.tasks]
        return max((each for each in waited if each is not None), default=None)


@dataclass(frozen=True, slots=True)
class InputTime:
    """The channels of one edge to one consumer: shares of their time, by the names above, of the
    channel with the largest one, or the least UNANSWERED. Sender, producer and connection are those
    of the channel with the largest LATE."""

    consumer: int  # its subtask; below 0 where that is unknown
    task_manager: str
    channels: int
    records: int
    most: Mapping[str, float] = field(default_factory=dict)  # of one channel
    sender: str = ""
    producer: int = -1
    connection: str = ""
    is_loopback: bool = False  # the channels do not leave the host


@dataclass(frozen=True, slots=True)
class EdgeTime:
    """One edge of a job."""

    source: int
    target: int
    name: str
    source_name: str = ""
    inputs: Sequence[InputTime] = ()  # the recorded channels; empty where none was
    sent: Mapping[int, int] = field(default_factory=dict)
    behind: frozenset[int] = frozenset()  # places of the edges that its records come to
    unsure: frozenset[int] = frozenset()  # places of the edges that its records may come to
    buffers: float | None = None  # that each channel may have under way
    has_barriers: bool = True  # enough checkpoints passed to judge how they align
    is_credit_known: bool = True
    flushing: float = 0.0  # mean share in which the oldest record waits for the flusher
    written: float | None = None  # of a blocking exchange: time before its first buffer, as a share
    credit: Sequence[CreditPath] = ()  # by pair of TaskManagers; empty: none was recorded

    def most(self, what: str) -> float:
        """Largest share of a channel; 0 where none shows it."""
        return max((each.most.get(what, 0.0) for each in self.inputs), default=0.0)


@dataclass(frozen=True, slots=True)
class CheckpointCounts:
    """Checkpoints that ended in the part that was recorded: completed, failed after `timeout_ns`
    (expired), and failed for another reason."""

    completed: int = 0
    expired: int = 0
    failed: int = 0
    timeout_ns: int = 0

    @property
    def ended(self) -> int:
        return self.completed + self.expired + self.failed


@dataclass(frozen=True, slots=True)
class HostTime:
    """The event loop of a TaskManager: shares of the time in which it was busy, in which it wanted
    a processor in vain, and in which it neither ran nor wanted one."""

    busy: float = 0.0
    lacked: float = 0.0
    stood_still: float = 0.0


@dataclass(frozen=True, slots=True)
class Ledger:
    """All tasks and edges of one job, its local channels included."""

    vertices: Mapping[int, VertexTime]  # by their numbers in the job
    edges: Sequence[EdgeTime]
    checkpoints: CheckpointCounts = CheckpointCounts()
    hosts: Mapping[str, HostTime] = field(default_factory=dict)  # by name, as far as seen
    tasks_by: SeenBy = SeenBy.OWN_EVENTS  # who saw how busy the tasks were, and their records
    is_unpaced: bool = False  # the sources emit as fast as they can: something is always the limit
    is_behind: bool = False  # records were due faster than they were taken
    overtime_ns: int = 0  # for how long the job went on after its sources had ended

    @property
    def tasks(self) -> Iterator[TaskTime]:
        return (task for vertex in self.vertices.values() for task in vertex.tasks)

    @property
    def inputs(self) -> Iterator[tuple[EdgeTime, InputTime]]:
        return ((edge, each) for edge in self.edges for each in edge.inputs)

    def works_at(self, place: str) -> float:
        """How long the tasks of a TaskManager worked, together, as a share of the time."""
        return sum(each.works for each in self.tasks if each.task_manager == place)

    def before(self, vertex: int) -> list[int]:
        """The vertices whose records come to this one, the nearest first."""
        found, nearest = list[int](), [vertex]
        while nearest:
            sources = [each.source for each in self.edges if each.target in nearest]
            nearest = [each for each in dict.fromkeys(sources) if each not in (*found, vertex)]
            found += nearest
        return found

    def waits_for(self, vertex: int) -> tuple[EdgeTime | None, float]:
        """The edge that a vertex reads whose producers waited most, and their `waits_before`."""
        own = (each for each in self.edges if each.target == vertex)
        edge = max(own, key=self.waits_before, default=None)
        return edge, 0.0 if edge is None else self.waits_before(edge)

    def waits_before(self, edge: EdgeTime) -> float:
        """Share of the time in which producers of an edge waited; 0 where nobody saw it."""
        source = self.vertices.get(edge.source)
        return 0.0 if source is None else source.waits_for_output or 0.0

    def task_of(self, edge: EdgeTime, consumer: int) -> TaskTime:
        """The task that reads an input; of an unknown one nothing but that."""
        vertex = self.vertices.get(edge.target)
        if vertex is None or not 0 <= consumer < len(vertex.tasks):
            return TaskTime("an unknown consumer")
        return vertex.tasks[consumer]

    def place_of(self, vertex: int, subtasks: Sequence[int]) -> str | None:
        """The TaskManager of some subtasks, if all of them are on one that is known."""
        tasks = self.vertices[vertex].tasks
        places = {tasks[each].task_manager for each in subtasks}
        return places.pop() if len(places) == 1 else None


def task_of(vertex: str, subtask: int, count: int) -> str:
    """The name of a subtask of a vertex whose subtasks have none: consumer 3 of 4."""
    singular, _, number = vertex.partition(" ")
    number = f"{number}." if number else ""
    return f"{singular.removesuffix('s')} {number}{subtask} of {count}"
