"""LedJob: a job of a JobManager, and the table of all of them (Flink: JobMaster as an endpoint;
JobManagerRunnerRegistry).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flinknet.core.wire.ids import ExecutionGraphID
from flinknet.job.checkpoint_coordinator import CheckpointCoordinator
from flinknet.job.producer_states import RequestPartitionState

from . import control_messages as messages
from .cluster_process import TaskManagerProcess
from .job_master import JobMaster


class LedJob:
    """One job of a JobManager.

    Attributes:
        id: id of its graph, shared by all its attempts.
        message: the message by which TaskManagers prepare for it.
        master: schedules the job.
        start: the instants of the run; None: deployed tasks wait for them.
        is_deployed: whether tasks have been deployed.
        checkpoints: coordinates its checkpoints; None: there are none.
        received: messages of TaskManagers for the owner: statistics, open channels, reports.
    """

    def __init__(self, message: messages.InitializeJob, master: JobMaster) -> None:
        self.id = message.job
        self.message = message
        self.master = master
        self.start: messages.Start | None = None
        self.is_deployed = False
        self.checkpoints: CheckpointCoordinator | None = None
        self.received: list[tuple[TaskManagerProcess, Any]] = []

    def next_deadline_ns(self) -> int | None:
        """When its master or its checkpoints are due, None for never."""
        due = [self.master.next_deadline_ns()]
        if self.checkpoints is not None and self.master.is_running:
            due.append(self.checkpoints.next_deadline_ns())
        return min((each for each in due if each is not None), default=None)


class LedJobs:
    """All jobs that have not ended, in order of submission."""

    def __init__(self) -> None:
        self._known: dict[ExecutionGraphID, LedJob] = {}

    def __iter__(self) -> Iterator[LedJob]:
        return iter(list(self._known.values()))

    def __len__(self) -> int:
        return len(self._known)

    def add(self, job: LedJob) -> None:
        """Add a job."""
        self._known[job.id] = job

    def remove(self, job: LedJob) -> None:
        """Remove a job of which nothing is left."""
        self._known.pop(job.id, None)

    def job_of(self, message: Any) -> LedJob | None:
        """The job that a message is about; None if it is over or unknown."""
        if isinstance(
            message, messages.TaskStateChanged | messages.OutputConsumable | RequestPartitionState
        ):
            return self._known.get(message.attempt_id.execution_graph_id)
        return self._known.get(getattr(message, "job", None))  # type: ignore[arg-type]
