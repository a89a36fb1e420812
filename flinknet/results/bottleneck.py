"""What holds a job up: one task or one connection, why, and what would help."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

PRESSED_FROM = 0.1
"""A task that waits for its output for this share of its time is pressed; Flink's web page calls
less than that no back pressure."""

NEAR_FROM = 0.8
"""A task that is busy for this share of its time is a verdict although no task waits for it yet."""

UNPRESSED = "though no task waits for its output"


class Cause(StrEnum):
    """Why a job goes no faster, or its records come late."""

    SLOW_TASKS = "slow-tasks"
    """All subtasks of a vertex are at work all the time."""
    SLOW_SUBTASK = "slow-subtask"
    """One subtask takes longer for a record than its like."""
    SLOW_HOST = "slow-host"
    """The tasks of one TaskManager do."""
    SKEW = "skew"
    """Some subtasks get many more records than others."""
    ALIGNMENT = "alignment"
    """Checkpoint barriers keep channels blocked."""
    NETWORK = "network"
    """Buffers are long on their way between two TaskManagers."""
    FEW_BUFFERS = "few-buffers"
    """Tasks, hosts and network have time left, and a writer waits for a buffer."""
    BUFFER_TIMEOUT = "buffer-timeout"
    """Nothing waits for anything but the flusher."""
    NONE = "none"
    """Nothing waits."""


class Remedy(StrEnum):
    """What would help."""

    PARALLELISM = "parallelism"
    BALANCE = "balance of keys"
    HOST = "host"
    NETWORK = "network"
    BUFFERS = "buffers"
    TIMEOUT = "buffer timeout"
    CHECKPOINTS = "checkpoint settings"


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """What holds a job up.

    Attributes:
        tasks: by name; those that are slow, or that read what comes late.
        share: of the time: in which they were busy, or a writer or channel waited; None where
            nothing waits.
        edge: that they read.
        place: of a slow host or network, the TaskManager or connection.
        helps: what would help, the best first; empty if nothing has to.
    """

    cause: Cause
    tasks: tuple[str, ...]
    share: float | None
    text: str
    edge: str | None = None
    place: str | None = None
    helps: tuple[Remedy, ...] = ()
