"""LedJob: a job in the hands of its JobManager, and the table of all of them (Flink: JobMaster as
an endpoint; JobManagerRunnerRegistry).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flinknet.core.wire.ids import ExecutionGraphID
from flinknet.job.checkpoint_coordinator import CheckpointCoordinator
from flinknet.job.producer_states import RequestPartitionState

from . import control_messages as say
from .cluster_process import TaskManagerProcess
from .job_master import JobMaster


class LedJob:
    """One job.

    Attributes:
        id: that of its graph, which all its attempts have.
        message: what TaskManagers are told that they get ready with.
        master: decides what happens to the job.
        start: the instants of the run; None: tasks that are deployed wait for them.
        is_deployed: tasks were deployed.
        checkpoints: who leads them; None: there are none.
        received: what TaskManagers said that is for the owner: statistics, channels that are open,
            reports.
    """

    def __init__(self, message: say.InitializeJob, master: JobMaster) -> None:
        self.id = message.job
        self.message = message
        self.master = master
        self.start: say.Start | None = None
        self.is_deployed = False
        self.checkpoints: CheckpointCoordinator | None = None
        self.received: list[tuple[TaskManagerProcess, Any]] = []

    def next_deadline_ns(self) -> int | None:
        """When something of it is due, None for never."""
        due = [self.master.next_deadline_ns()]
        if self.checkpoints is not None and self.master.is_running:
            due.append(self.checkpoints.next_deadline_ns())
        return min((each for each in due if each is not None), default=None)


class LedJobs:
    """All jobs that have not ended, in the order in which they came."""

    def __init__(self) -> None:
        self._known: dict[ExecutionGraphID, LedJob] = {}

    def __iter__(self) -> Iterator[LedJob]:
        return iter(list(self._known.values()))

    def __len__(self) -> int:
        return len(self._known)

    def add(self, job: LedJob) -> None:
        """A job begins."""
        self._known[job.id] = job

    def remove(self, job: LedJob) -> None:
        """A job is over and nothing of it is left."""
        self._known.pop(job.id, None)

    def concerned(self, message: Any) -> LedJob | None:
        """That which a TaskManager speaks of; None if it is over, or never was."""
        if isinstance(message, say.TaskStateChanged | say.OutputConsumable | RequestPartitionState):
            return self._known.get(message.attempt_id.execution_graph_id)
        return self._known.get(getattr(message, "job", None))  # type: ignore[arg-type]
