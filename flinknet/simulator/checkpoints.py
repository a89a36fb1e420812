"""The checkpoints of a cluster: its coordinator is heard, and answered, in no time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinknet.results import CheckpointSummary
from flinknet.tasks.checkpoint_coordinator import (
    AbortCheckpoint,
    Answer,
    CheckpointCoordinator,
    Command,
)
from flinknet.tasks.checkpoints import task_names

if TYPE_CHECKING:
    from .cluster import Cluster


class SimulatedCheckpoints:
    """Drives the coordinator of a cluster. Timestamps of barriers are milliseconds of virtual time.

    Args:
        interval_ns: between the beginnings of two checkpoints.
        start_ns: when the tasks start.
    """

    def __init__(self, cluster: Cluster, *, interval_ns: int, start_ns: int) -> None:
        self._cluster = cluster
        self._network = cluster.deployment.scenario.network
        self._coordinator = CheckpointCoordinator(
            task_names(cluster.deployment),
            interval_ns=interval_ns,
            timeout_ns=self._network.checkpoint_timeout_ns,
            start_ns=start_ns,
        )
        self._planned: int | None = None

    def advance(self) -> None:
        """Tell the tasks what the coordinator has to say, and come back when it has more."""
        cluster = self._cluster
        self._planned = None
        if cluster.is_finished or cluster.error is not None:
            return
        if all(source.is_finished for source in cluster.sources):
            self._coordinator.stop()
        for command in self._coordinator.advance(now_ns=cluster.now_ns):
            self._tell(command)
        self._plan()

    def receive(self, answer: Answer) -> None:
        """A task's answer reaches the coordinator; it may begin what it had put off."""
        was_pending = self._coordinator.pending_id is not None
        for command in self._coordinator.receive(answer, now_ns=self._cluster.now_ns):
            self._tell(command)
        if was_pending and self._coordinator.pending_id is None:
            self._plan()

    def summary(self) -> CheckpointSummary:
        """What became of the checkpoints so far."""
        return self._coordinator.summary()

    def _tell(self, command: Command) -> None:
        cluster = self._cluster
        for task in (*cluster.sources, *cluster.relays, *cluster.sinks):
            if isinstance(command, AbortCheckpoint):
                task.abort_checkpoint(command.checkpoint_id)
            else:
                task.trigger_checkpoint(
                    command.checkpoint_id, command.timestamp_ms, now_ns=cluster.now_ns
                )
        for task_manager in cluster.task_managers:
            task_manager.wake(cluster.now_ns)

    def _plan(self) -> None:
        """Come back when the coordinator next has something to say, and not when it once had."""
        scheduler = self._cluster.scheduler
        if self._planned is not None:
            scheduler.cancel(self._planned)
            self._planned = None
        due_ns = self._coordinator.next_deadline_ns()
        if due_ns is not None:
            self._planned = scheduler.at(due_ns, self.advance)
