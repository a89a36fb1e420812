"""States of a job, and why an attempt failed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class JobState(Enum):
    """State of the job (Flink: JobStatus)."""

    CREATED = "created"
    RUNNING = "running"
    RESTARTING = "restarting"
    FAILING = "failing"
    FAILED = "failed"
    CANCELLING = "cancelling"
    CANCELED = "canceled"
    FINISHED = "finished"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing follows."""
        return self in (JobState.FAILED, JobState.CANCELED, JobState.FINISHED)

    @property
    def is_ending(self) -> bool:
        """Whether it ends when none of its tasks is left."""
        return self in (JobState.CANCELLING, JobState.FAILING)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed; a consequence is what follows when another task has failed."""

    text: str
    is_consequence: bool = False
