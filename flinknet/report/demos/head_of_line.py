"""The page of head-of-line: the six places over time, without credit and with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flinknet.options import SEGMENT_SIZE
from flinknet.results import Buffering, FillSample
from flinknet.units import (
    MISSING,
    counted,
    human_duration,
    human_number,
    human_rate,
    human_share,
    parse_size_bytes,
)

from ..demo_console import (
    COMPARED,
    NEIGHBOUR,
    PAUSED,
    STARVED_RATIO,
    TITLES,
    HeadOfLine,
    RateSample,
    fullest,
    lesson,
    limited_doubts,
    setup,
)
from ..page_parts import (
    Head,
    OverTime,
    Page,
    Part,
    Places,
    PlacesChannel,
    Row,
    Span,
    Table,
    TimeSeries,
)
from ..places import PLACES, places_run
from .shown import UNEXPECTED, demo_page

CREDIT = (
    "Credit is the number of buffers that a receiver has promised to a sender on one channel; a"
    " sender with no credit left does not send."
)
HEAD_OF_LINE = (
    "This is head-of-line blocking: on one TCP connection, data that its consumer does not accept"
    " holds up everything behind it, whoever that is for."
)
PLACES_NOTES = (
    "Data moves from left to right; it backs up from right to left. In places 2 to 5 (striped) the"
    " data of the connection is one queue, in the order in which it was sent; the run does not"
    " record which bytes there are whose. The kernel sizes places 3 and 4 itself, so their limits"
    " differ.",
    "Why does the receiver not read on and set B.4's data aside? That takes memory without a bound."
    " Credit makes it unnecessary: nothing is sent that has no free buffer waiting for it.",
    "Bytes that the receiver's kernel has and has not acknowledged yet count in places 3 and 4, and"
    " the two hosts are not read at the same instant: for a moment places 3, 4 and 6 may add up to"
    " more than the credit of both channels allows.",
)
CAPTIONS = (
    *("written, waits for its turn", "handed over, not sent", "kernel, sending host"),
    *("kernel, receiving host", "read, waits for a buffer", "buffers of the consumers"),
)
QUOTA = "taskmanager.network.memory.max-buffers-per-channel"
CHANNELS = 2
AXIS_HEADROOM = 1.5
"""Top of the axis of rates, as a multiple of the neighbour's rate alone."""

USED_MIN = 0.5
"""Least share of a quota's bytes in the first place at which the quota counts as used up; it is
below 1 because flushed buffers are not full."""

TABLE_NOTES = (
    "Alone: a run without A.2 and B.4. Latency counts from when a record was due. What is kept with"
    " TCP only passed before the buffers were full.",
)


def head_of_line_page(modes: Sequence[HeadOfLine], *, pause_from_ns: int, pause_ns: int) -> Page:
    """The page: both flow controls under one slider, then the table."""
    pause = Span("B.4 is paused", pause_from_ns, pause_from_ns + pause_ns)
    curve = OverTime(
        "Throughput of the neighbour B.3",
        [
            TimeSeries(
                f"{TITLES[mode.flow_control]}: records/s",
                [each.at_ns for each in mode.rates],
                [each.neighbour_per_s for each in mode.rates],
                "orange" if mode.flow_control == "tcp" else "blue",
            )
            for mode in modes
        ],
        meaning="Records per second. Click to go to an instant. While it catches up after the"
        " pause, B.3 may go beyond the axis. The curve ends with the last record; records are due"
        f" until {pause.to_ns / 1e9:.2f} s.",
        top=AXIS_HEADROOM * max((mode.solo_records_per_s or 0.0 for mode in modes), default=0.0)
        or None,
        spans=[pause],
    )
    runs = [
        places_run(
            TITLES[mode.flow_control],
            _within_quota(mode.shared.buffering, mode.shared.config),
            {each.at_ns: _state_at(mode, each, pause) for each in mode.shared.buffering.samples},
            (NEIGHBOUR, PAUSED),
        )
        for mode in modes
        if mode.shared.buffering is not None
    ]
    names, meanings = zip(*PLACES, strict=True)
    parts: list[Part] = [
        Places(
            names,
            meanings,
            runs,
            curve,
            CAPTIONS,
            PLACES_NOTES,
            ends=("A.1, A.2", "B.3, B.4"),
            channels=[PlacesChannel("for B.3", "green"), PlacesChannel("for B.4", "purple")],
        ),
        _table(modes),
    ]
    holds = not lesson(modes).startswith(UNEXPECTED)
    return demo_page(
        "head-of-line",
        "Why there is credit",
        f"{setup(pause_ns)} {HEAD_OF_LINE} {CREDIT}",
        [lesson(modes), *fullest(modes)],
        limited_doubts(modes),
        parts,
        spares_lesson=holds,
    )


def _within_quota(buffering: Buffering, config: Mapping[str, Any]) -> Buffering:
    """The levels, with the bound of the first place lowered to the quotas of the channels, which
    are below the size of the pools.
    """
    if QUOTA not in config:
        return buffering
    fullest = max((each.levels.subpartition_bytes for each in buffering.samples), default=0)
    bound = min(max(CHANNELS * _quota_bytes(config), fullest), buffering.bounds.subpartition_bytes)
    return replace(buffering, bounds=replace(buffering.bounds, subpartition_bytes=bound))


def _table(modes: Sequence[HeadOfLine]) -> Table:
    rows = [
        Row(
            [
                TITLES[mode.flow_control],
                human_rate(mode.solo_records_per_s),
                human_duration(mode.solo_p99_ns),
                human_rate(mode.neighbour_records_per_s),
                human_duration(mode.neighbour_p99_ns),
                human_share(mode.neighbour_rate_ratio),
            ]
        )
        for mode in modes
    ]
    return Table([Head(each) for each in ("flow control", *COMPARED)], rows, notes=TABLE_NOTES)


def _state_at(mode: HeadOfLine, sample: FillSample, pause: Span) -> list[str]:
    """Sentences about the state at an instant."""
    if sample.at_ns < pause.from_ns:
        phase = "Before the pause."
    elif sample.at_ns < pause.to_ns:
        phase = f"B.4 has been paused for {human_duration(sample.at_ns - pause.from_ns)}."
    else:
        phase = f"B.4 consumes again; no record is due after {pause.to_ns / 1e9:.2f} s."
    known = [each for each in mode.rates if each.at_ns <= sample.at_ns]
    rates = known[-1] if known else None
    lines = [phase]
    if rates is not None:
        since_ns = known[-2].at_ns if len(known) > 1 else 0
        lines[0] += (
            f" Between {since_ns / 1e9:.2f} and {rates.at_ns / 1e9:.2f} s: B.3"
            f" {human_rate(rates.neighbour_per_s)}, B.4 {human_rate(rates.paused_per_s)}."
        )
        if rates.paused_credit is not None:
            lines.append(
                f"Credit of A.2: {rates.paused_credit}, with {_buffers(rates.paused_backlog)}"
                f" queued; of A.1: {human_number(rates.neighbour_credit)}, with"
                f" {_buffers(rates.neighbour_backlog)} queued."
            )
    blocked = []
    if not sample.is_reading:
        blocked.append(
            "the receiver does not read the socket, so B.3's data in it waits with B.4's"
        )
    if not sample.is_writable:
        blocked.append("the sender's socket is full")
    if not sample.is_writing:
        blocked.append(_waiting(mode, rates, sample))
    if blocked:
        text = "; ".join(blocked)
        lines.append(f"{text[0].upper()}{text[1:]}.")
    return lines


def _buffers(number: int | None) -> str:
    return MISSING if number is None else counted(number, "buffer")


def _waiting(mode: HeadOfLine, rates: RateSample | None, sample: FillSample) -> str:
    """A clause about producers that wait for a buffer: those whose consumer gets almost nothing."""
    least = STARVED_RATIO * (mode.solo_records_per_s or 0.0)
    names = []
    if rates is not None:
        flows = (("A.1", rates.neighbour_per_s), ("A.2", rates.paused_per_s))
        names = [name for name, per_s in flows if per_s <= least]
    who = {0: "a producer waits", 1: f"{''.join(names)} waits"}.get(len(names), "A.1 and A.2 wait")
    quota_bytes = _quota_bytes(mode.shared.config)
    fullest = max((each.subpartition_bytes for each in sample.channels), default=quota_bytes)
    if fullest < USED_MIN * quota_bytes:
        return f"{who} for a buffer"
    return (
        f"{who} for a buffer: the quota of a channel (max-buffers-per-channel) is used up, even if"
        " the pool has more; it counts buffers, also those that are not full"
    )


def _quota_bytes(config: Mapping[str, Any]) -> int:
    """The quota of a channel, in bytes; 0 if unknown."""
    if QUOTA not in config:
        return 0
    return int(config[QUOTA]) * parse_size_bytes(config[SEGMENT_SIZE], SEGMENT_SIZE)
