"""JobMaster: schedules one job. It deploys tasks by pipelined region, follows their states, and
restarts them when one fails (Flink: JobMaster with DefaultScheduler).

Sans-IO: it receives messages of TaskManagers and the time, and returns messages to send.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from flinknet.core.wire.ids import ExecutionAttemptID
from flinknet.errors import LocalProtocolError
from flinknet.graph.execution_graph import ExecutionGraph, ExecutionState, ExecutionVertex
from flinknet.graph.failover import (
    InputSplits,
    SchedulingTopology,
    releasable_partitions,
    restart,
    subtasks_to_restart,
)
from flinknet.graph.physical_plan import PhysicalPlan
from flinknet.job.scheduling import PartitionState, RequestPartitionState
from flinknet.units import format_duration_ns

from . import control_messages as messages
from .job_state import InputDependencies, JobState, RestartStrategy
from .placement import Deployment, FixedPlan, Placement, SharedCluster

_S = ExecutionState

NEVER_NS = 1 << 62
START_WAIT_NS = 60_000_000_000
"""How long TaskManagers may take to start."""


class JobMaster:
    """One job.

    Args:
        task_managers: how many will register; nothing is deployed before all have, or the wait for
            slots has timed out.
        fixed: a fixed plan; None: tasks are placed in available slots.
        is_joining: the cluster runs already, so the loss of a TaskManager that runs none of the
            job's tasks does not affect it.

    Raises: ConfigError if a slot has fewer resources than its subtasks need.

    Attributes:
        reason: why it failed, restarts or was canceled; empty otherwise.
        restarts: number of restarts of any part of it.
        to_send, to_end, deployments: consumed by the driver: messages with the index of their
            TaskManager, TaskManagers whose tasks do not end, with the reason, and rounds of tasks.
        canceling_since_ns: cancelled attempts that still run; `cancellation_timeout_ns`: how long.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        task_managers: int,
        cluster: SharedCluster,
        *,
        now_ns: int,
        fixed: FixedPlan | None = None,
        is_joining: bool = False,
    ) -> None:
        config = graph.job.config
        self.graph = graph
        self.state = JobState.CREATED
        self.reason = ""
        self.restarts = 0
        self.to_send: list[tuple[int, Any]] = []
        self.to_end: list[tuple[int, str]] = []
        self.deployments: list[Deployment] = []
        self._config = config
        self._topology = SchedulingTopology(graph)
        self._placement = placement = Placement(graph, cluster, fixed)
        self._pool = placement.pool
        self._inputs = InputDependencies(
            graph, self._topology, placement.stage_of, placement.depth_of
        )
        self._expected = task_managers
        self._is_joining = is_joining
        self._waits_for_slots_since_ns: int | None = now_ns
        self._restart_at_ns: int | None = None
        self._to_restart: dict[ExecutionVertex, None] = {}
        self.canceling_since_ns: dict[ExecutionAttemptID, int] = {}
        self.cancellation_timeout_ns = config.cancellation_timeout_ns
        self._is_consequence = False
        self._restart_strategy = RestartStrategy(config)
        self.splits = InputSplits(graph)

    @property
    def is_running(self) -> bool:
        """Whether every task runs or has finished, and at least one runs."""
        states = {each.state for each in self.graph.subtasks()}
        return _S.RUNNING in states and states <= {_S.RUNNING, _S.FINISHED}

    @property
    def finished(self) -> list[str]:
        return [str(each.id) for each in self.graph.subtasks() if each.state is _S.FINISHED]

    @property
    def plan(self) -> PhysicalPlan:
        """The placement of all tasks, which all have slots."""
        return self._placement.plan(self._expected)

    def slots_in_use(self, task_manager: int) -> int:
        return 0 if self.state.is_terminal else self._pool.slots_in_use(task_manager)

    def register(self, task_manager: int, *, now_ns: int) -> None:
        self._pool.add(task_manager)
        self._begin_if_complete(now_ns)

    def slots_changed(self, *, now_ns: int) -> None:
        """Try again after another job has freed slots."""
        if self._waits_for_slots_since_ns is not None and not self._is_starting:
            self._schedule(now_ns)

    def release_slots(self) -> None:
        self._pool.release()

    def lose(self, task_manager: int, reason: str, *, now_ns: int) -> None:
        """Remove a lost TaskManager with its slots, its tasks, and their partitions."""
        if self.state is JobState.CREATED:
            if not self._is_joining:  # it was waited for
                self.fail(reason, now_ns=now_ns)
            else:
                self._expected -= 1
                if task_manager not in self._pool.task_managers:
                    self._begin_if_complete(now_ns)
        if task_manager in self._pool.task_managers:
            self._pool.remove(task_manager)
            for subtask in self.graph.lose(task_manager):
                self._fail_attempt(subtask, reason, now_ns)

    def update_state(self, message: messages.TaskStateChanged, *, now_ns: int) -> bool:
        """Apply a state change that a TaskManager reports, unless the attempt is over or the
        transition cannot happen. Returns: whether it was applied.
        """
        attempt_id, state = message.attempt_id, message.state
        vertex_id = attempt_id.execution_vertex_id
        vertex = self.graph.vertices.get(vertex_id.job_vertex_id)
        if vertex is None or not vertex_id.subtask_index < vertex.parallelism:
            return False
        subtask = vertex.task_vertices[vertex_id.subtask_index]
        if subtask.current.attempt_id != attempt_id or subtask.state.is_terminal:
            return False
        if state is _S.FAILED:
            error = message.error or "it gives no reason"
            self._fail_attempt(subtask, error, now_ns, is_consequence=message.is_consequence)
            return True
        if state is _S.CANCELED and subtask.state is not _S.CANCELING:
            # its producer ended before this attempt received the command to cancel
            error = "it was canceled, for its producer is over"
            self._fail_attempt(subtask, error, now_ns, is_consequence=True)
            return True
        try:
            subtask.current.switch_to(state, now_ns=now_ns)
        except LocalProtocolError:  # it went on before it received the command to cancel
            if not (subtask.state is _S.CANCELING and state.is_terminal):
                return False
            subtask.current.switch_to(_S.CANCELED, now_ns=now_ns)
        if subtask.state.is_terminal:
            self._ended(subtask, now_ns)
        return True

    def schedule_consumers(
        self, attempt_id: ExecutionAttemptID, output: int, *, now_ns: int
    ) -> None:
        """Start tasks that wait for the first output of this partition of the attempt."""
        subtask = self.graph.subtask(attempt_id.execution_vertex_id)
        if subtask.current.attempt_id == attempt_id:
            self._inputs.note_output(subtask, output, now_ns=now_ns)
            self._schedule(now_ns)

    def partition_state(self, question: RequestPartitionState) -> PartitionState:
        """Answer a consumer whose producer does not have the requested partition."""
        asked = question.attempt_id, question.partition_id
        try:
            return PartitionState(*asked, self.graph.producer_state(question.partition_id))
        except LocalProtocolError as error:
            return PartitionState(*asked, None, str(error))

    def cancel(self, reason: str, *, now_ns: int, within_ns: int = NEVER_NS) -> None:
        """Cancel the job; tasks may take `within_ns` at most, if their timeout is longer."""
        self.cancellation_timeout_ns = min(self.cancellation_timeout_ns, within_ns)
        if not self.state.is_terminal and not self.state.is_ending:
            self._end(JobState.CANCELLING, reason, now_ns)

    def fail(self, reason: str, *, now_ns: int) -> None:
        """Fail the job for a reason that a restart would not change."""
        if not self.state.is_terminal and self.state is not JobState.CANCELLING:
            self._end(JobState.FAILING, reason, now_ns)

    def next_deadline_ns(self) -> int | None:
        """When to call `handle_deadline`, None for never."""
        due = [each + self.cancellation_timeout_ns for each in self.canceling_since_ns.values()]
        if self._waits_for_slots_since_ns is not None:
            due.append(self._waits_for_slots_since_ns + self._slots_wait_ns)
        if self._restart_at_ns is not None and self._may_restart:
            due.append(self._restart_at_ns)
        return min(due, default=None)

    def handle_deadline(self, *, now_ns: int) -> None:
        """Do what is due; early calls do no harm."""
        if self.state.is_terminal:
            return
        timeout_ns = self.cancellation_timeout_ns
        for attempt_id, began_ns in list(self.canceling_since_ns.items()):
            if now_ns - began_ns >= timeout_ns:
                del self.canceling_since_ns[attempt_id]
                subtask = self.graph.subtask(attempt_id.execution_vertex_id)
                reason = f"{subtask.name} did not end within {format_duration_ns(timeout_ns)}"
                assert subtask.current.task_manager is not None
                self.to_end.append((subtask.current.task_manager, reason))
        since_ns = self._waits_for_slots_since_ns
        if since_ns is not None and now_ns - since_ns >= self._slots_wait_ns:
            if self._pool.allocate():
                self._schedule(now_ns)
            else:
                waited = format_duration_ns(self._slots_wait_ns)
                self._waits_for_slots_since_ns = None
                self.fail(f"{self._pool.shortage}; waited for {waited}", now_ns=now_ns)
        self._restart_if_due(now_ns)

    def shortage(self) -> str:
        """The slots needed and offered, in words, and how long the job waits for them, if so."""
        is_waiting = self._waits_for_slots_since_ns is not None and not self._is_starting
        if not is_waiting or self._pool.offered >= self._pool.needed:
            return ""
        waits = format_duration_ns(self._slots_wait_ns)
        return f"{self._pool.shortage}; waits {waits} for them (slot.request.timeout)"

    def _begin_if_complete(self, now_ns: int) -> None:
        """Schedule once all expected TaskManagers are ready; the wait for slots begins now."""
        if len(self._pool.task_managers) >= self._expected:
            if self._waits_for_slots_since_ns is not None:
                self._waits_for_slots_since_ns = now_ns
            self._schedule(now_ns)

    @property
    def _is_starting(self) -> bool:
        has_all = len(self._pool.task_managers) >= self._expected
        return self.state is JobState.CREATED and not has_all

    @property
    def _slots_wait_ns(self) -> int:
        """slot.request.timeout, counted from when all TaskManagers should have started."""
        timeout_ns = self._config.slot_request_timeout_ns
        return max(timeout_ns, START_WAIT_NS) if self._is_starting else timeout_ns

    def _schedule(self, now_ns: int) -> None:
        """Deploy every region that can start, if there are slots; else wait for slots."""
        if self.state.is_terminal or self.state.is_ending:
            return
        if not self._pool.allocate():
            if self._waits_for_slots_since_ns is None:
                self._waits_for_slots_since_ns = now_ns
            return
        self._waits_for_slots_since_ns = None
        self.state = JobState.RUNNING
        found = self._inputs.take_readable()  # by tasks that started with some of their inputs
        index_of = {id(edge.edge): edge.index for edge in self.plan.edges} if found else {}
        for subtask, readable in found:
            edges = tuple(index_of[id(each)] for each in readable)
            current = subtask.current
            self._send(current.task_manager, messages.UpdatePartitions(current.attempt_id, edges))
        if chosen := self._inputs.to_deploy():
            self._deploy(chosen, now_ns)

    def _deploy(self, subtasks: Sequence[ExecutionVertex], now_ns: int) -> None:
        plan, tasks = self.plan, []
        for task in self._placement.tasks(plan, subtasks):
            subtask = self.graph.subtask(task.attempt_id.execution_vertex_id)
            edges = {gate.edge: plan.edges[gate.edge].edge for gate in task.inputs}
            unread = self._inputs.begin(subtask, edges)  # inputs that are not readable yet
            inputs = (replace(each, is_consumable=each.edge not in unread) for each in task.inputs)
            tasks.append(replace(task, inputs=tuple(inputs)) if unread else task)
        self.deployments.append(Deployment(plan, tuple(tasks)))
        for task in tasks:
            current = self.graph.subtask(task.attempt_id.execution_vertex_id).current
            current.switch_to(_S.SCHEDULED, now_ns=now_ns)
            current.switch_to(_S.DEPLOYING, now_ns=now_ns)
            current.task_manager = task.task_manager

    def _fail_attempt(
        self, subtask: ExecutionVertex, error: str, now_ns: int, *, is_consequence: bool = False
    ) -> None:
        was_canceling = subtask.state is _S.CANCELING
        subtask.current.switch_to(_S.FAILED)
        subtask.current.failure = error
        text = f"{subtask.name} failed in attempt {subtask.current.attempt_number}: {error}"
        if self._is_consequence and not is_consequence and was_canceling:
            self.reason, self._is_consequence = text, False  # this is the original failure
        self._ended(subtask, now_ns)
        if was_canceling or self.state.is_ending:
            return
        self.reason, self._is_consequence = text, is_consequence
        if not self._restart_strategy.may_restart(self.restarts):
            self._end(JobState.FAILING, self.reason, now_ns)
            return
        self.restarts += 1
        self.state = JobState.RESTARTING
        self._restart_at_ns = self._restart_strategy.restart_at_ns(now_ns=now_ns)
        self._to_restart[subtask] = None
        self._cancel_for_restart(now_ns)
        self._restart_if_due(now_ns)

    def _cancel_for_restart(self, now_ns: int) -> None:
        """Cancel all tasks that must restart together with the failed ones."""
        involved: Iterable[ExecutionVertex] = self.graph.subtasks()
        if self._config.failover_strategy != "full":
            found = (subtasks_to_restart(self._topology, each) for each in list(self._to_restart))
            involved = chain.from_iterable(found)
        self._to_restart.update(dict.fromkeys(involved))
        self._cancel_tasks(self._to_restart, now_ns)

    def _cancel_tasks(self, subtasks: Iterable[ExecutionVertex], now_ns: int) -> None:
        for current in [each.current for each in subtasks]:
            is_idle = current.state in (_S.CREATED, _S.SCHEDULED, _S.CANCELING)
            if not is_idle and not current.state.is_terminal:
                current.switch_to(_S.CANCELING)
                self.canceling_since_ns[current.attempt_id] = now_ns
                self._send(current.task_manager, messages.CancelTask(current.attempt_id))

    def _ended(self, subtask: ExecutionVertex, now_ns: int) -> None:
        """React to the end of an attempt, whatever its final state."""
        self._inputs.end(subtask)
        self.canceling_since_ns.pop(subtask.current.attempt_id, None)
        if subtask.state is _S.FINISHED:
            self._release()
        if self.state.is_ending:
            self._end_if_all_ended()
        elif self._restart_at_ns is not None:
            self._restart_if_due(now_ns)
        elif all(each.state is _S.FINISHED for each in self.graph.subtasks()):
            self.state = JobState.FINISHED
        elif subtask.state is _S.FINISHED:
            self._schedule(now_ns)

    def _release(self) -> None:
        """Release partitions whose readers have all finished."""
        if not self._config.releases_partitions:
            return
        by_place: dict[int | None, list[ExecutionAttemptID]] = {}
        for partition in releasable_partitions(self._topology, self._topology.finished):
            partition.is_released = True
            current = partition.producer.current
            by_place.setdefault(current.task_manager, []).append(current.attempt_id)
        for place, attempts in by_place.items():
            self._send(place, messages.ReleasePartitions(tuple(attempts)))

    def _send(self, task_manager: int | None, message: Any) -> None:
        if task_manager is not None and task_manager in self._pool.task_managers:
            self.to_send.append((task_manager, message))

    def _end(self, state: JobState, reason: str, now_ns: int) -> None:
        self.state, self.reason = state, reason
        self._waits_for_slots_since_ns = self._restart_at_ns = None
        self._cancel_tasks(self.graph.subtasks(), now_ns)
        self._end_if_all_ended()

    def _end_if_all_ended(self) -> None:
        quiet = (_S.CREATED, _S.SCHEDULED)
        if all(each.state.is_terminal or each.state in quiet for each in self.graph.subtasks()):
            is_canceled = self.state is JobState.CANCELLING
            self.state = JobState.CANCELED if is_canceled else JobState.FAILED

    def _restart_if_due(self, now_ns: int) -> None:
        due_ns = self._restart_at_ns
        if due_ns is None or now_ns < due_ns:
            return
        self._cancel_for_restart(now_ns)  # further tasks may have failed meanwhile
        if not self._may_restart:
            return
        restart(self._to_restart)
        self.splits.give_back(self._to_restart)
        self._to_restart.clear()
        self._restart_at_ns = None
        self._schedule(now_ns)

    @property
    def _may_restart(self) -> bool:
        return all(each.state.is_terminal or each.state is _S.CREATED for each in self._to_restart)
