"""What the recordings are that a run was put together from, and what is known to be missing."""

from __future__ import annotations

from dataclasses import dataclass

SAME_CLOCK, MESSAGES, WALL_CLOCKS, ASSUMED = "same clock", "messages", "wall clocks", "assumed"
BASES = (SAME_CLOCK, MESSAGES, WALL_CLOCKS, ASSUMED)
"""How two clocks are related, the surest first: recorded on one host; by messages that both
recorded; by the hosts' wall clocks; as if their data had begun at the same time."""


@dataclass(frozen=True, slots=True)
class ClockRelation:
    """How the clock of a recording is related to that of the first one.

    Attributes:
        basis: one of BASES.
        offset_ns: what its instants lack to be those of the first clock.
        error_ns: how far off that may be; None where nobody knows.
    """

    basis: str
    offset_ns: int
    error_ns: int | None


@dataclass(frozen=True, slots=True)
class ReplayedRecording:
    """One of several recordings that are one run.

    Attributes:
        label: what it is called among them.
        channels: that it has; `channels_counted` of them are counted here, the others in another
            recording that has more of them.
        from_ns, to_ns: its first and last data buffer, from the start of the run's measured part;
            None if it has none.
    """

    path: str
    label: str
    started_at: str
    channels: int
    channels_counted: int
    from_ns: int | None
    to_ns: int | None
    clock: ClockRelation


@dataclass(frozen=True, slots=True)
class TraceLoss:
    """Something that a trace is known to lack.

    Attributes:
        path: of the recording. `file`: of it; None for all.
        kind: such as dropped_events; damaged_blocks, damaged_file and left_out for what
            `--on-damage skip` passed over.
        count: how much; None if nobody knows.
        text: the same in words.
    """

    path: str
    file: str | None
    kind: str
    count: int | None
    text: str


@dataclass(frozen=True, slots=True)
class RecordingSet:
    """Recordings that are one run.

    Attributes:
        path: of the directory that holds them all.
        channels: of the run. `edges`: exchanges that they belong to.
        duration_ns: from the first data buffer to the last one; None without data.
        losses: what they are known to lack.
    """

    path: str
    recordings: tuple[ReplayedRecording, ...]
    channels: int
    edges: int
    duration_ns: int | None
    losses: tuple[TraceLoss, ...]
