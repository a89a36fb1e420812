"""Trials of the control plane: JobMasters, and TaskManagers that do what they are told when it is
their turn, die, come back, and lag behind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from flinknet.core.wire.ids import ExecutionAttemptID
from flinknet.errors import InvariantViolatedError, StalledError
from flinknet.graph import StreamGraph, execution_graph_of, job_graph_of
from flinknet.graph.execution_graph import ExecutionState
from flinknet.graph.job_graph import JobGraph
from flinknet.job.descriptor import TaskDeploymentDescriptor
from flinknet.runtime.cluster import control_messages as say
from flinknet.runtime.cluster.job_master import JobMaster
from flinknet.runtime.cluster.job_state import JobState
from flinknet.runtime.cluster.placement import SharedCluster
from tests.graph.programs import environment, same

from .draw import Draw
from .trial import Marks

_E = ExecutionState
_NEXT = {_E.DEPLOYING: _E.INITIALIZING, _E.INITIALIZING: _E.RUNNING, _E.RUNNING: _E.FINISHED}
S = 1_000_000_000
STEPS = 40
"""In which something goes wrong, at most; everybody behaves afterwards."""

STRATEGIES = (
    {"restart-strategy.type": "none"},
    {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "1s",
    },
    {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "20",
        "restart-strategy.fixed-delay.delay": "0s",
        "jobmanager.execution.failover-strategy": "full",
    },
)


@cache
def _job_of(shape: str, parallelism: int, strategy: int) -> JobGraph:
    settings = {**STRATEGIES[strategy], "slot.request.timeout": "30s"}
    if shape == "batch":
        settings["execution.runtime-mode"] = "BATCH"
    return job_graph_of(_program(shape, parallelism, settings))


def _program(shape: str, parallelism: int, settings: dict[str, str]) -> StreamGraph:
    env = environment(settings)
    env.set_parallelism(parallelism)
    env.disable_operator_chaining()
    source = env.from_sequence(1, 9).name("A")
    if shape == "pipelines":
        source.forward().print().name("B")
    elif shape == "joined":
        source.shuffle().print().name("B")
    else:
        source.rebalance().map(same).name("B").print()
    return env.execute(shape)


@dataclass
class _Task:
    """An attempt on a TaskManager."""

    job: int
    attempt_id: ExecutionAttemptID
    slot: int
    state: ExecutionState = _E.DEPLOYING
    is_told_to_cancel: bool = False


@dataclass
class _TaskManager:
    """A process: what it runs, and what is under way to it and from it."""

    index: int
    tasks: dict[ExecutionAttemptID, _Task] = field(default_factory=dict)
    incoming: deque[tuple[int, Any]] = field(default_factory=deque)
    outgoing: deque[tuple[int, ExecutionAttemptID, ExecutionState]] = field(default_factory=deque)


class ControlRun:
    """One run of a trial."""

    def __init__(self, draw: Draw, marks: Marks) -> None:
        self._draw = draw
        self._marks = marks
        self._now_ns = 0
        self._numbers = iter(range(1_000_000))
        self._slots = draw.between("slots", 1, 2)
        self._task_managers: dict[int, _TaskManager] = {}
        self._jobs = [self._draw_job(number) for number in range(draw.one_of("jobs", (1, 1, 2)))]
        self._shared = SharedCluster(self._slots)
        self._masters: list[JobMaster] = []
        self._attempts_of: dict[tuple[int, str], int] = {}
        self._count = draw.between("TaskManagers", 1, 3)

    def _draw_job(self, number: int) -> JobGraph:
        draw = self._draw
        return _job_of(
            draw.one_of(f"job {number} shape", ("pipelines", "joined", "batch")),
            draw.between(f"job {number} parallelism", 1, 2),
            draw.below(f"job {number} restarts", len(STRATEGIES)),
        )

    def run(self) -> None:
        """Whatever goes wrong, then the end. Raises: InvariantViolatedError, StalledError."""
        self._start_masters()
        for _ in range(self._count):
            self._start_task_manager()
        for number in range(self._draw.below("steps", STEPS + 1)):
            self._disturb(number)
            self._check()
        self._come_to_the_end()

    def _start_masters(self) -> None:
        self._shared = SharedCluster(self._slots)
        self._attempts_of.clear()
        self._masters = [
            JobMaster(
                execution_graph_of(job, str(next(self._numbers))),
                self._count,
                self._shared,
                now_ns=self._now_ns,
            )
            for job in self._jobs
        ]

    def _start_task_manager(self) -> None:
        index = next(self._numbers)
        self._task_managers[index] = _TaskManager(index)
        for master in self._masters:
            master.register(index, now_ns=self._now_ns)
            self._take()

    # What happens

    def _disturb(self, number: int) -> None:
        draw = self._draw
        what = draw.one_of(
            f"step {number}",
            (
                *("goes on",) * 12,
                *("time passes", "a task fails", "a task fails", "loss", "start"),
                *("freeze", "cancel", "JobManager"),
            ),
        )
        places = list(self._task_managers.values())
        if what == "JobManager":
            if draw.below(f"step {number} dies", 4) == 3:
                self._lose_job_manager()
        elif what == "cancel":
            if draw.below(f"step {number} cancels", 4) == 3:
                master = draw.one_of(f"step {number} job", self._masters)
                master.cancel("it was cancelled", now_ns=self._now_ns)
                self._marks["JobMaster: a job was cancelled"] += 1
        elif what == "start" and len(places) < 4:
            self._start_task_manager()
            self._marks["JobMaster: a TaskManager came later"] += 1
        elif what == "time passes":
            self._pass_time()
        elif places:
            self._happen_at(draw.one_of(f"step {number} where", places), what, number)
        self._take()

    def _happen_at(self, place: _TaskManager, what: str, number: int) -> None:
        draw = self._draw
        if what == "loss":
            self._lose(place)
        elif what == "a task fails" and place.tasks:
            task = draw.one_of(f"step {number} task", list(place.tasks.values()))
            self._change(place, task, _E.FAILED)
            self._marks["JobMaster: a task failed"] += 1
        elif what == "freeze":
            self._marks["JobMaster: a TaskManager lagged behind"] += bool(place.incoming)
        else:
            kind = draw.below(f"step {number} kind", 3)
            for _ in range(1 + draw.below(f"step {number} often", 4)):
                self._go_on(place, kind)

    def _go_on(self, place: _TaskManager, kind: int) -> bool:
        """Deliver to a TaskManager, deliver from it, or let its tasks go on."""
        if kind == 0 and place.incoming:
            self._receive(place, *place.incoming.popleft())
        elif kind == 1 and place.outgoing:
            job, attempt_id, state = place.outgoing.popleft()
            error = "ValueError: no" if state is _E.FAILED else ""
            message = say.TaskStateChanged(attempt_id, state, error)
            self._masters[job].update_state(message, now_ns=self._now_ns)
            self._take()
        elif kind == 2 and place.tasks:
            for task in list(place.tasks.values()):
                following = _E.CANCELED if task.is_told_to_cancel else _NEXT[task.state]
                if following is not _E.FINISHED or self._may_finish(task):
                    self._change(place, task, following)
        else:
            return False
        return True

    def _may_finish(self, task: _Task) -> bool:
        """A task that reads a pipelined partition ends after who writes it."""
        graph = self._masters[task.job].graph
        subtask = graph.subtask(task.attempt_id.execution_vertex_id)
        return all(
            channel.source.producer.state is _E.FINISHED
            for result in graph.results.values()
            for edge in result.edges
            for channel in edge.execution_edges()
            if channel.target is subtask
        )

    def _receive(self, place: _TaskManager, job: int, message: Any) -> None:
        if isinstance(message, TaskDeploymentDescriptor):
            self._deploy(place, job, message)
        elif isinstance(message, say.CancelTask):
            task = place.tasks.get(message.attempt_id)
            if task is not None:
                task.is_told_to_cancel = True

    def _deploy(self, place: _TaskManager, job: int, message: TaskDeploymentDescriptor) -> None:
        vertex_id = message.attempt_id.execution_vertex_id
        for other in self._task_managers.values():
            for task in other.tasks.values():
                if task.job == job and task.attempt_id.execution_vertex_id == vertex_id:
                    raise InvariantViolatedError(
                        f"{message.name} runs twice: {task.attempt_id} and {message.attempt_id}",
                        self._draw.seed,
                    )
        place.tasks[message.attempt_id] = _Task(job, message.attempt_id, message.slot)

    def _change(self, place: _TaskManager, task: _Task, state: ExecutionState) -> None:
        task.state = state
        place.outgoing.append((task.job, task.attempt_id, state))
        if state.is_terminal:
            del place.tasks[task.attempt_id]

    def _lose(self, place: _TaskManager) -> None:
        """Its process is gone, with what was under way."""
        del self._task_managers[place.index]
        running = bool(place.tasks)
        self._marks["JobMaster: a TaskManager died"] += 1
        self._marks["JobMaster: a TaskManager died with its tasks"] += running
        for master in self._masters:
            master.lose(place.index, "the TaskManager has died", now_ns=self._now_ns)
            self._take()

    def _lose_job_manager(self) -> None:
        """Its TaskManagers end with it; all begins again."""
        self._marks["JobMaster: a JobManager died and was started again"] += 1
        self._task_managers.clear()
        self._start_masters()
        for _ in range(self._count):
            self._start_task_manager()

    def _pass_time(self) -> bool:
        """To the next deadline of a job. Returns: whether there is one."""
        due = [each.next_deadline_ns() for each in self._masters if not each.state.is_terminal]
        next_ns = min((each for each in due if each is not None), default=None)
        if next_ns is None:
            return False
        self._now_ns = max(self._now_ns, next_ns)
        for master in self._masters:
            master.handle_deadline(now_ns=self._now_ns)
            self._take()
        return True

    def _take(self) -> None:
        """What JobMasters want done is on its way then."""
        for job, master in enumerate(self._masters):
            for deployment in master.deployments:
                for task in deployment.tasks:
                    self._note_attempt(job, task)
                    self._send(task.task_manager, job, task)
            master.deployments.clear()
            for index, message in master.to_send:
                self._send(index, job, message)
            master.to_send.clear()
            for index, _ in master.to_end:
                self._marks["JobMaster: a task did not end in time"] += 1
                if index in self._task_managers:
                    self._lose(self._task_managers[index])
            master.to_end.clear()
            if master.state.is_terminal:
                master.release_slots()
        for master in self._masters:
            if not master.state.is_terminal and any(e.state.is_terminal for e in self._masters):
                master.slots_changed(now_ns=self._now_ns)
                if master.deployments:
                    self._take()

    def _send(self, index: int, job: int, message: Any) -> None:
        if index in self._task_managers:
            self._task_managers[index].incoming.append((job, message))

    def _note_attempt(self, job: int, task: TaskDeploymentDescriptor) -> None:
        number = task.attempt_id.attempt_number
        before = self._attempts_of.get((job, task.name), -1)
        if number <= before:
            raise InvariantViolatedError(
                f"{task.name}: attempt {number} behind {before}", self._draw.seed
            )
        self._attempts_of[job, task.name] = number
        self._marks["JobMaster: a task began again"] += number > 0

    # What must hold

    def _check(self) -> None:
        for place in self._task_managers.values():
            used = {(task.job, task.slot) for task in place.tasks.values()}
            slots = [slot for _, slot in used]
            if len(slots) != len(set(slots)) or any(not 0 <= e < self._slots for e in slots):
                raise InvariantViolatedError(f"slots {sorted(used)} are taken", self._draw.seed)
        for master in self._masters:
            states = [each.state for each in master.graph.subtasks()]
            is_over = master.state is JobState.FINISHED
            if is_over and any(each is not _E.FINISHED for each in states):
                raise InvariantViolatedError(f"finished with {states}", self._draw.seed)

    def _come_to_the_end(self) -> None:
        """Everybody behaves: every job ends."""
        for _ in range(10_000):
            if all(each.state.is_terminal for each in self._masters):
                break
            moved = [
                self._go_on(place, kind)
                for place in self._places()
                for kind in range(3)
                if place.index in self._task_managers
            ]
            self._take()
            self._check()
            if not any(moved) and not self._pass_time():
                states = [each.state.value for each in self._masters]
                raise StalledError(f"nothing can happen any more: {states}", self._draw.seed)
        else:
            raise StalledError("no end of it", self._draw.seed)
        for master in self._masters:
            self._marks[f"JobMaster: a job {master.state.value}"] += 1
            self._marks["JobMaster: a job finished in spite of failures"] += (
                master.state is JobState.FINISHED and master.restarts > 0
            )

    def _places(self) -> Iterator[_TaskManager]:
        yield from list(self._task_managers.values())


def run_control(draw: Draw, marks: Marks) -> None:
    """Run a trial with all checks. Raises: SimulationError."""
    ControlRun(draw, marks).run()
