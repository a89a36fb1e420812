"""The page of head-of-line: the six places over time, without credit and with it."""

from __future__ import annotations

from collections.abc import Sequence

from flinknet.results import FillSample
from flinknet.units import human_duration, human_number, human_rate, human_share

from ..bench_page import PLACES, places_run
from ..demo_console import (
    RATE_HEADROOM,
    TITLES,
    HeadOfLine,
    RateSample,
    doubts,
    fullest,
    lesson,
    setup,
)
from ..page_parts import Head, OverTime, Page, Part, Places, Row, Span, Table, TimeSeries
from .shown import demo_page

CREDIT = (
    "Credit is the number of buffers that a receiver has promised to a sender on one channel;"
    " without credit the sender does not send."
)


def head_of_line_page(modes: Sequence[HeadOfLine], *, pause_from_ns: int, pause_ns: int) -> Page:
    """Both flow controls under one slider, then the table."""
    pause = Span("B.4 is paused", pause_from_ns, pause_from_ns + pause_ns)
    curve = OverTime(
        "What the neighbour B.3 takes",
        [
            TimeSeries(
                f"{mode.flow_control}: records/s",
                [each.at_ns for each in mode.rates],
                [each.neighbour_per_s for each in mode.rates],
                "orange" if mode.flow_control == "tcp" else "blue",
            )
            for mode in modes
        ],
        meaning="Records per second. Click to go to an instant. What it takes to catch up after the"
        " pause may go beyond the axis.",
        top=RATE_HEADROOM * max((mode.solo_records_per_s or 0.0 for mode in modes), default=0.0)
        or None,
        spans=[pause],
    )
    runs = [
        places_run(
            TITLES[mode.flow_control],
            mode.shared.buffering,
            {each.at_ns: _said(mode, each, pause) for each in mode.shared.buffering.samples},
        )
        for mode in modes
        if mode.shared.buffering is not None
    ]
    names, meanings = zip(*PLACES, strict=True)
    parts: list[Part] = [Places(names, meanings, runs, curve), _table(modes)]
    return demo_page(
        "head-of-line",
        "Why there is credit",
        f"{setup(pause_ns)} {CREDIT}",
        [lesson(modes), *fullest(modes)],
        doubts(modes),
        parts,
    )


def _table(modes: Sequence[HeadOfLine]) -> Table:
    heads = ("flow control", "B.3 alone", "p99", "next to B.4", "p99", "rate kept")
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
    return Table([Head(each) for each in heads], rows)


def _said(mode: HeadOfLine, sample: FillSample, pause: Span) -> list[str]:
    """What goes on at an instant."""
    if sample.at_ns < pause.from_ns:
        phase = "Before the pause."
    elif sample.at_ns < pause.to_ns:
        phase = f"B.4 has been paused for {human_duration(sample.at_ns - pause.from_ns)}."
    else:
        phase = "B.4 takes records again."
    rates = _rates_at(mode.rates, sample.at_ns)
    lines = [phase]
    if rates is not None:
        lines[0] += (
            f" B.3 takes {human_rate(rates.neighbour_per_s)}, B.4 {human_rate(rates.paused_per_s)}."
        )
        if rates.paused_credit is not None:
            lines.append(
                f"Credit of A.2: {rates.paused_credit}, with {human_number(rates.paused_backlog)}"
                f" buffers queued; of A.1: {human_number(rates.neighbour_credit)}, with"
                f" {human_number(rates.neighbour_backlog)} queued."
            )
    blocked = []
    if not sample.is_reading:
        blocked.append("nobody reads the socket, whichever consumer its data is for")
    if not sample.is_writable:
        blocked.append("the sender's socket is full")
    if not sample.is_writing:
        blocked.append("a producer waits for a buffer")
    if blocked:
        text = "; ".join(blocked)
        lines.append(f"{text[0].upper()}{text[1:]}.")
    return lines


def _rates_at(rates: Sequence[RateSample], at_ns: int) -> RateSample | None:
    before = [each for each in rates if each.at_ns <= at_ns]
    return before[-1] if before else None
