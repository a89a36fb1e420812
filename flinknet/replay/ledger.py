"""Where the time of each task of a job went, and what became of its checkpoints: the evidence that
verdicts are judged by. A figure that nobody saw is absent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flinknet.predict.exchange import recorded_network
from flinknet.results import TaskMetrics, VertexMetrics
from flinknet.trace.job_names import named_edges
from flinknet.trace.metrics import number_of
from flinknet.trace.recordings import checkpoints_within
from flinknet.units import NS_PER_MS

from .observe.checkpoints import COMPLETED, FAILED
from .observe.flink_metrics import series_of, vertex_metrics
from .read import RecordedRun

NAMES_MAX = 4
"""Names that are listed before the rest are counted."""


@dataclass(frozen=True, slots=True)
class Link:
    """An edge from one vertex to another."""

    source: int
    target: int
    name: str


@dataclass(frozen=True, slots=True)
class CheckpointCounts:
    """Checkpoints that ended while the trace was recorded.

    Attributes:
        expired: failed after `timeout_ns`.
        failed: for another reason.
    """

    completed: int = 0
    expired: int = 0
    failed: int = 0
    timeout_ns: int = 0

    @property
    def ended(self) -> int:
        """Number of all of them."""
        return self.completed + self.expired + self.failed


@dataclass(frozen=True, slots=True)
class Ledger:
    """All tasks and edges of one job, its local channels included.

    Attributes:
        vertices: by their numbers in the job, with the time of each subtask.
        stopped: TaskManagers that stand still at times.
    """

    vertices: Mapping[int, VertexMetrics]
    links: Sequence[Link]
    checkpoints: CheckpointCounts = CheckpointCounts()
    stopped: frozenset[str] = frozenset()

    def before(self, vertex: int) -> list[int]:
        """The vertices whose records come to this one, the nearest first."""
        found, nearest = list[int](), [vertex]
        while nearest:
            sources = [each.source for each in self.links if each.target in nearest]
            nearest = [each for each in dict.fromkeys(sources) if each not in (*found, vertex)]
            found += nearest
        return found

    def back_pressure(self, vertex: int) -> float | None:
        """Share of the time in which a task waited for its output, of the subtask that waited most;
        None where nobody saw it."""
        waited = [each.back_pressured for each in self.vertices[vertex].tasks]
        return max((each for each in waited if each is not None), default=None)

    def waiting_input(self, vertex: int) -> tuple[Link | None, float]:
        """The edge that a vertex reads whose producers waited most, and for what share of the time;
        0 where nobody saw them wait."""
        own = [each for each in self.links if each.target == vertex]
        waited = {link: self.back_pressure(link.source) or 0.0 for link in own}
        most = max(own, key=lambda link: waited[link], default=None)
        return most, 0.0 if most is None else waited[most]

    def place_of(self, vertex: int, subtasks: Sequence[int]) -> str | None:
        """The TaskManager of some subtasks, if all of them are on one that is known."""
        tasks = self.vertices[vertex].tasks
        places = {tasks[each].task_manager for each in subtasks}
        return places.pop() if len(places) == 1 else None


def working(task: TaskMetrics) -> float:
    """Share of the time in which a task was busy; 0 where nobody saw it."""
    return task.busy or 0.0


def named(names: Sequence[str]) -> str:
    """Some names as a list in words; of more than NAMES_MAX, the first ones and a count."""
    shown = list(names[:NAMES_MAX])
    if len(names) > NAMES_MAX:
        shown.append(f"{len(names) - NAMES_MAX} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def flink_ledger(run: RecordedRun) -> Ledger | None:
    """The job of a captured run by Flink's own metrics; None where no task reported its time."""
    named = named_edges(run.manifest)
    if not named or not run.manifest.is_from_between:
        return None
    described = {each["index"]: each for each in run.manifest.scenario["job"]["vertices"]}
    ends = {named[each.edge].source for each in run.manifest.channels if each.edge in named}
    jobs = {described[each].get("job") for each in ends or described}
    series = series_of(run)
    vertices = {
        index: vertex_metrics(each, series)
        for index, each in described.items()
        if each.get("job") in jobs
    }
    if all(task.busy is None for vertex in vertices.values() for task in vertex.tasks):
        return None
    links = [Link(each.source, each.target, each.name) for each in named.values()]
    return Ledger(vertices, [each for each in links if each.source in vertices], _checkpoints(run))


def _checkpoints(run: RecordedRun) -> CheckpointCounts:
    """The checkpoints that ended while the run was recorded, its start-up included. One that failed
    after the timeout has expired: Flink's answer has no reason."""
    from_ns, to_ns = run.from_ns, run.to_ns
    if run.whole_ns is not None and not run.is_asked_part:
        from_ns, to_ns = run.whole_ns
    timeout_ns = recorded_network(run.manifest).checkpoint_timeout_ns
    lines = checkpoints_within(run.place, from_ns, to_ns)
    ended = {str(each["checkpoint"]): each for each in lines}.values()
    completed = sum(each.get("status") == COMPLETED for each in ended)
    failed_ms = [
        number_of(each.get("duration_ms")) or 0.0 for each in ended if each.get("status") == FAILED
    ]
    expired = sum(each * NS_PER_MS >= timeout_ns for each in failed_ms)
    return CheckpointCounts(completed, expired, len(failed_ms) - expired, timeout_ns)
