"""The verdict on a job: one task, host or connection, why, and what would help; and thresholds that
several rules go by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

PRESSED_FROM = 0.1
"""Share of the time from which waiting counts: of a task for its output, of a channel behind a
barrier, of a TaskManager that stands still. Flink's web page calls less than that no back
pressure."""

IDLE_BELOW = 0.4
"""Busy share below which a task is not the cause of its producers' waiting."""

HELD_FROM = 0.5
"""Share of the time from which a task or channel waits mostly."""

LOADED_FROM = 0.85
"""Busy share from which a task is saturated if its producers wait for it."""

SATURATED_FROM = 0.95
"""Busy share from which a task is saturated, whether or not its producers wait yet: small records
queue in half-empty buffers, and the last of the buffers is filled much later."""

SLOW_HOST_FROM = 1.5
"""Ratio of times per record, against siblings on other TaskManagers, from which the tasks of a
TaskManager are slow."""

STALLED_FROM = 0.02
"""Share of late buffers, or of silence towards each of its tasks, from which a TaskManager may have
stood still at times, if no other one shows as much."""

NAMES_MAX = 4
"""Names that are listed before the rest are counted."""

CHECK_HOST = "check its CPU, its garbage collection and what runs next to it"
NOTHING = "nothing holds the job up"
STOPS, STOOD_STILL = "stops at times", "stood still"
"""The words of a verdict on a TaskManager that stands still, after its name."""


class Cause(StrEnum):
    """Reason why a job goes no faster, or its records come late."""

    SLOW_TASKS = "slow-tasks"  # all subtasks of a vertex work all the time
    SLOW_SUBTASK = "slow-subtask"  # one subtask takes longer for a record than its siblings
    SLOW_HOST = "slow-host"  # the tasks of one TaskManager do, or it stands still at times
    SKEW = "skew"  # some subtasks get many more records than others
    ALIGNMENT = "alignment"  # checkpoint barriers keep channels blocked
    NETWORK = "network"  # buffers are long on their way between two TaskManagers
    FEW_BUFFERS = "few-buffers"
    """Tasks, hosts and network have time left, and a writer waits for a buffer."""
    BLOCKING = "blocking"  # an exchange is read only when all of it is written
    BUFFER_TIMEOUT = "buffer-timeout"  # records wait for nothing but the flusher
    NONE = "none"  # nothing waits
    UNKNOWN = "unknown"  # something may wait: who works was not recorded


_SLOW = {*(Cause.SLOW_TASKS, Cause.SLOW_SUBTASK, Cause.SLOW_HOST, Cause.SKEW, Cause.NETWORK)}


def state_of(cause: str | None) -> str:
    """The verdict in a word: slow tasks, hosts or networks; records that are held although all
    have time left; healthy; or unknown."""
    if cause is None or cause == Cause.UNKNOWN:
        return "unknown"
    if cause in _SLOW:
        return "slow"
    return "held" if cause in (Cause.ALIGNMENT, Cause.FEW_BUFFERS) else "healthy"


class Remedy(StrEnum):
    """Change that would help."""

    PARALLELISM = "parallelism"
    BALANCE = "balance of keys"
    HOST = "host"
    NETWORK = "network"
    BUFFERS = "buffers"
    TIMEOUT = "buffer timeout"
    CHECKPOINTS = "checkpoint settings"


@dataclass(frozen=True, slots=True)
class Symptom:
    """A consequence of what holds a job up, and its reason where one is known."""

    text: str
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """The verdict on a job. The vertex of the tasks, and their numbers in it from 0, are None and
    empty where they belong to several vertices; the share is None where nothing waits, and
    `headroom` where saturation is far off or nobody saw how busy the tasks are. `remedy` and
    `helps` are empty if nothing is needed."""

    cause: Cause
    tasks: tuple[str, ...] = ()  # names of the tasks that are slow, or that read what comes late
    vertex: str | None = None
    subtasks: tuple[int, ...] = ()
    share: float | None = None  # of the time in which they were busy, or a writer or channel waited
    evidence: tuple[str, ...]  # clauses on who is slow and why, the weightiest first
    remedy: tuple[str, ...] = ()  # clauses on what helps
    symptoms: tuple[Symptom, ...] = ()  # consequences elsewhere in the job
    edge: str | None = None
    place: str | None = None  # TaskManager or connection, of a slow host or network
    helps: tuple[Remedy, ...] = ()  # the same as values, the best first
    headroom: float | None = None  # rate that would saturate the busiest task of a healthy job
    text: str = field(init=False)  # all clauses in sentences, without the last full stop

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", " ".join(self.clauses).removesuffix("."))

    @property
    def is_healthy(self) -> bool:
        """Whether nothing is known to hold records up but the flusher, or a blocking exchange."""
        return self.cause in (Cause.NONE, Cause.UNKNOWN, Cause.BUFFER_TIMEOUT, Cause.BLOCKING)

    @property
    def why_unpredictable(self) -> str | None:
        """Why predictions say nothing while this holds the job up; None if they do. Latency then
        follows from pauses, and nobody knows when the next one comes; what waits for a busy task
        or a slow network is in the model."""
        said = tuple(f"{self.place} {each}" for each in (STOPS, STOOD_STILL))
        if not self.evidence[0].startswith(said):
            return None
        return f"latency depends on when {self.place} stands still, whatever the settings"

    @property
    def clauses(self) -> list[str]:
        """Clauses of the verdict, of falling weight, to be joined with spaces."""
        *first, last = (*self.evidence, *self.remedy)
        found = [*(f"{each};" for each in first), f"{last}."]
        for each in self.symptoms:
            found += [f"{each.text}:", f"{each.reason}."] if each.reason else [f"{each.text}."]
        return found


def named(names: Sequence[str]) -> str:
    """Some names as a list in words; of more than NAMES_MAX, the first ones and a count."""
    shown = list(names[:NAMES_MAX])
    if len(names) > NAMES_MAX:
        shown.append(f"{len(names) - NAMES_MAX} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
