"""Recordings that make up a run, and known losses."""

from __future__ import annotations

from dataclasses import dataclass

SAME_CLOCK, MESSAGES, WALL_CLOCKS, ASSUMED = "same clock", "messages", "wall clocks", "assumed"
BASES = (SAME_CLOCK, MESSAGES, WALL_CLOCKS, ASSUMED)
"""Relations of two clocks, the surest first: recorded on one host; by messages that both recorded;
by the wall clocks of the hosts; by the assumption that their data began at the same time."""


@dataclass(frozen=True, slots=True)
class ClockRelation:
    """Relation of the clock of a recording to that of the first one.

    Attributes:
        basis: one of BASES.
        offset_ns: time to add to its instants to get those of the first clock.
        error_ns: largest error of the offset; None if unknown.
    """

    basis: str
    offset_ns: int
    error_ns: int | None


@dataclass(frozen=True, slots=True)
class ReplayedRecording:
    """One of several recordings that make up a run.

    Attributes:
        label: name among them.
        channels: number of its channels.
        channels_counted: channels that are counted here, and not in another recording that has more
            of them.
        from_ns, to_ns: its first and last data buffer, from the start of the measured part of the
            run; None without data.
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
    """A known loss of a trace.

    Attributes:
        path: path of the recording.
        file: file of the recording; None for all.
        kind: such as dropped_events; damaged_blocks, damaged_file and left_out are losses that
            `--on-damage skip` allowed.
        count: size of the loss; None if unknown.
        text: description of the loss.
    """

    path: str
    file: str | None
    kind: str
    count: int | None
    text: str


@dataclass(frozen=True, slots=True)
class RecordingSet:
    """Recordings that make up one run.

    Attributes:
        path: directory of all recordings.
        channels: number of channels of the run.
        edges: number of its exchanges.
        duration_ns: from the first data buffer to the last one; None without data.
        losses: known losses.
    """

    path: str
    recordings: tuple[ReplayedRecording, ...]
    channels: int
    edges: int
    duration_ns: int | None
    losses: tuple[TraceLoss, ...]
