"""The states of a job, and the failure of an attempt."""

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
        """Whether it is a final state."""
        return self in (JobState.FAILED, JobState.CANCELED, JobState.FINISHED)

    @property
    def is_ending(self) -> bool:
        """Whether the job ends as soon as all its tasks have ended."""
        return self in (JobState.CANCELLING, JobState.FAILING)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed; a consequence follows the failure of another task."""

    text: str
    is_consequence: bool = False
