"""Demos of one connection. head-of-line: a consumer that pauses, and its neighbour on the same
connection, without credit and with it. timeout: latency against messages. wan: throughput over
emulated links with longer and longer round trips, with little credit and with more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import combinations
from operator import itemgetter
from typing import Any

from flinknet.config import CREDIT, TCP, WorkloadConfig
from flinknet.options import SEGMENT_SIZE
from flinknet.results import FillSample, Progress, RunResult, Validity
from flinknet.results.figures import FIGURES, LINK_LIMIT, Figure, of_run
from flinknet.results.trades import ratio_of
from flinknet.units import (
    counted,
    format_duration_ns,
    human_bytes,
    human_count,
    human_duration,
    human_number,
    human_rate,
    human_share,
    parse_size_bytes,
)

from ..bench_words import MARKS
from ..charts import (
    Color,
    Curves,
    Grid,
    GridFigure,
    GridPoint,
    OverTime,
    Places,
    Series,
    Slider,
    Span,
    TimeSeries,
)
from ..page_parts import figure_table
from ..places import blocked_lines, places_of
from . import COLORS, UNEXPECTED, DemoRun, DemoShown, asked_rate

NEIGHBOUR, PAUSED = 0, 1
"""Channels of head-of-line, and their consumers."""

STARVED_RATIO, UNHARMED_RATIO = 0.1, 0.9
"""Share of its rate that the neighbour keeps: at most without credit, at least with it."""

TITLES = {TCP: "TCP only (Flink < 1.5)", CREDIT: "credit-based (since 1.5)"}
EXPLAINED = (
    "This is head-of-line blocking: on one TCP connection, data that its consumer does not accept"
    " holds up everything behind it, whoever that is for. Credit is the number of buffers that a"
    " receiver has promised to a sender on one channel; a sender with no credit left does not send."
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
_BLOCKED = (
    "The receiver does not read the socket, so B.3's data in it waits with B.4's.",
    "The sender's socket is full.",
    "A producer waits for a buffer: its channel holds max-buffers-per-channel of them, and gets no"
    " more, even if some are not full or the pool has others.",
)
_QUOTA = "taskmanager.network.memory.max-buffers-per-channel"
AXIS_HEADROOM = 1.5
"""Top of the axis of rates, as a multiple of the neighbour's rate alone."""

STALE_NS = 100_000_000
"""Largest distance from an instant, in ns, at which rates and credit are shown for it."""

REPEATED_MIN = 3
"""Equal rates at the end of a run that show that it was no longer measured."""

_Mode = Mapping[str, Any]
"""Figures of a flow control as JSON has them: the neighbour alone (`solo`) and next to a consumer
that pauses for the whole measured part; rates, credit and backlog of both channels over time."""

_MODES: Sequence[Figure[_Mode]] = (
    Figure("B.3 alone", "records/s", itemgetter("solo_records_per_s")),
    Figure("B.3 alone", "p99", itemgetter("solo_p99_ns"), "ns"),
    Figure("B.4 paused", "B.3 records/s", itemgetter("neighbour_records_per_s")),
    Figure("B.4 paused", "B.3 p99", itemgetter("neighbour_p99_ns"), "ns"),
    Figure("", "rate kept", itemgetter("neighbour_rate_ratio"), "share"),
)
_MODES_NOTE = (
    "Alone: a run without A.2 and B.4. Latency counts from when a record was due. With TCP only,"
    " the records of B.3 that still arrive passed before the buffers filled up."
)


def head_of_line(runs: Sequence[DemoRun], workload: WorkloadConfig) -> DemoShown:
    """Make the output from two runs in each mode: the neighbour alone, and with a paused one."""
    pairs = zip((TCP, CREDIT), runs[::2], runs[1::2], strict=True)
    modes = {name: _mode(solo.result, shared) for name, solo, shared in pairs}
    paused = [each.result for each in runs[1::2]]
    pause_ns = workload.duration_ns or 0
    pause = Span("B.4 is paused", workload.warmup_ns, workload.warmup_ns + pause_ns)
    return DemoShown(
        "head-of-line",
        "Why there is credit",
        [
            "two producers and two consumers on one TCP connection, A.1 → B.3 (the neighbour) and"
            f" A.2 → B.4, which consumes nothing for {format_duration_ns(pause_ns, separator=' ')}",
            "without credit and with it",
        ],
        figure_table(
            "flow control",
            _MODES,
            [(TITLES[name], [each]) for name, each in modes.items()],
            notes=[_MODES_NOTE],
        ),
        [_kept(modes), *_fullest(paused)],
        [x if number % 2 else replace(x, messages=()) for number, x in enumerate(runs)],
        {"modes": modes},
        [_places(modes, paused, pause)],
        unaffected="the rates that are kept show the effect all the same",
        explained=EXPLAINED,
        channels=(("A.1", "B.3"), ("A.2", "B.4")),
    )


def _mode(solo: RunResult, shared: DemoRun) -> dict[str, Any]:
    alone, beside = (each.channels[NEIGHBOUR] for each in (solo, shared.result))
    rate, kept = alone.taken_records_per_s, beside.taken_records_per_s
    buffering = shared.result.buffering
    return {
        "neighbour_rate_ratio": kept / rate if rate and kept is not None else None,
        "neighbour_p99_ns": beside.latency_ns.p99,
        "neighbour_records_per_s": kept,
        "solo_records_per_s": rate,
        "solo_p99_ns": alone.latency_ns.p99,
        "rates": _rates(shared.samples),
        "buffering": asdict(buffering) if buffering is not None else None,
    }


def _rates(samples: Sequence[Progress]) -> list[dict[str, Any]]:
    """The rates of a run without its end, where the last ones stand without being measured."""
    found: list[dict[str, Any]] = []
    for each in samples:
        row: dict[str, Any] = {"at_ns": each.elapsed_ns}
        for name, channel in zip(("neighbour", "paused"), each.channels, strict=False):
            row[f"{name}_per_s"] = channel.throughput_records_per_s
            row[f"{name}_credit"] = channel.credits_available
            row[f"{name}_backlog"] = channel.backlog_buffers
        found.append(row)
    pairs = [(each["neighbour_per_s"], each["paused_per_s"]) for each in found]
    end = len(pairs)
    while end > 1 and pairs[end - 1] == pairs[end - 2]:
        end -= 1
    return found[:end] if len(found) - end >= REPEATED_MIN else found


def _kept(modes: Mapping[str, _Mode]) -> str:
    """The result of the runs in a sentence; or that they did not show the effect."""
    tcp, credit = (each["neighbour_rate_ratio"] for each in modes.values())
    if tcp is None or credit is None or tcp > STARVED_RATIO or credit < UNHARMED_RATIO:
        return (
            f"{UNEXPECTED}: the neighbour kept {human_share(tcp)} with TCP only and"
            f" {human_share(credit)} with credit; less than {human_share(STARVED_RATIO)} and"
            f" more than {human_share(UNHARMED_RATIO)} were expected. Try a quiet machine, a higher"
            " --rate or a longer --duration: the paused channel must run out of buffers early in"
            " its pause."
        )
    return (
        f"With TCP flow control only, one paused consumer stops the whole connection: its neighbour"
        f" keeps {human_share(tcp)} of its rate. With credit only its own channel stops: the"
        f" neighbour keeps {human_share(credit)}."
    )


def _fullest(paused: Sequence[RunResult]) -> list[str]:
    """How much lay between the tasks at most, without credit and with it; and without it, for whom
    the data at the front was."""
    samples = [each.buffering.samples for each in paused if each.buffering is not None]
    if len(samples) < len(paused) or not all(samples):
        return []
    tcp, credit = (max(each, key=lambda one: one.levels.total_bytes) for each in samples)
    lines = [
        f"At most {human_bytes(tcp.levels.total_bytes)} lay between the tasks with TCP only, and"
        f" {human_bytes(credit.levels.total_bytes)} with credit."
    ]
    front = {each.channel: each.input_channel_bytes for each in tcp.channels}
    if front.get(PAUSED, 0) > front.get(NEIGHBOUR, 0):
        lines.append(
            f"With TCP only, {human_bytes(front[PAUSED])} at the front (place 6) were then for B.4,"
            f" and {human_bytes(front.get(NEIGHBOUR))} for B.3: its data waits behind."
        )
    return lines


def _places(modes: Mapping[str, _Mode], paused: Sequence[RunResult], pause: Span) -> Places:
    """The places under one slider; the first and the last one apart for each consumer. The bound of
    a channel in the first place is its quota, which is below the size of the pool."""
    rates = {TITLES[name]: mode["rates"] for name, mode in modes.items()}
    alone = max((each["solo_records_per_s"] or 0.0 for each in modes.values()), default=0.0)
    curve = OverTime(
        "Throughput of the neighbour B.3",
        [
            TimeSeries(title, [x["at_ns"] for x in own], [x["neighbour_per_s"] for x in own], color)
            for (title, own), color in zip(rates.items(), COLORS, strict=False)
        ],
        meaning="Records per second. Click to go to an instant. While it catches up after the"
        " pause, B.3 may go beyond the axis. The curve ends with the last record; records are due"
        f" until {pause.to_ns / 1e9:.2f} s.",
        top=AXIS_HEADROOM * alone or None,
        spans=[pause],
        y=FIGURES["throughput_records_per_s"].name,
    )
    results = dict(zip(rates, paused, strict=True))
    places = places_of(
        results,
        curve,
        {NEIGHBOUR: "for B.3", PAUSED: "for B.4"},
        ends=(("A.1", "A.2"), ("B.3", "B.4")),
        lines=lambda title, sample: _state_at(rates[title], sample, pause),
        notes=PLACES_NOTES,
    )
    found = []
    for run in places.runs:
        room, config = run.bounds[0], results[run.name].config
        if _QUOTA in config:
            quota = int(config[_QUOTA]) * parse_size_bytes(config[SEGMENT_SIZE], SEGMENT_SIZE)
            fullest = max((max(each.levels[:2]) for each in run.steps), default=0)
            room = min(max(quota, fullest), room)
        found.append(replace(run, bounds=[room, room, *run.bounds[2:]]))
    return replace(places, runs=found)


def _state_at(rates: Sequence[Mapping[str, Any]], sample: FillSample, pause: Span) -> list[str]:
    """Sentences about the state at an instant."""
    if sample.at_ns < pause.from_ns:
        phase = "Before the pause."
    elif sample.at_ns < pause.to_ns:
        phase = f"B.4 has been paused for {human_duration(sample.at_ns - pause.from_ns)}."
    else:
        phase = f"B.4 consumes again; no record is due after {pause.to_ns / 1e9:.2f} s."
    lines = [phase]
    off_ns = [abs(each["at_ns"] - sample.at_ns) for each in rates]
    if off_ns and min(off_ns) <= STALE_NS:
        place = off_ns.index(min(off_ns))
        now, since_ns = rates[place], rates[place - 1]["at_ns"] if place else 0
        lines[0] += (
            f" Between {since_ns / 1e9:.2f} and {now['at_ns'] / 1e9:.2f} s: B.3"
            f" {human_rate(now['neighbour_per_s'])}, B.4 {human_rate(now['paused_per_s'])}."
        )
        if now["paused_credit"] is not None:
            lines.append(
                f"Credit of A.2: {now['paused_credit']}, with"
                f" {counted(now['paused_backlog'] or 0, 'buffer')} queued; of A.1:"
                f" {human_number(now['neighbour_credit'])}, with"
                f" {counted(now['neighbour_backlog'] or 0, 'buffer')} queued."
            )
    return lines + blocked_lines(sample, _BLOCKED)


HIGHER = 1.25
"""Factor by which a p50 must exceed that of a longer timeout to be blamed on the machine."""

_FLUSHED = (
    "At 0 each record is flushed at once, but records that arrive while the sender waits for a CPU"
    " or for the socket still share a buffer."
)
_LATENCIES = [replace(FIGURES[f"latency_{each}_ns"], group="") for each in ("p50", "p99")]
_TIMEOUT: Mapping[Figure[Any], tuple[str, Color]] = {
    _LATENCIES[0]: ("Latency", "blue"),
    _LATENCIES[1]: ("Latency", "orange"),
    FIGURES["buffers_per_s"]: ("Buffers per second", "purple"),
}
"""Figures of the timeout demo, each with the title of its chart and its colour there."""

_FILL: Figure[Any] = Figure(
    "", "records per buffer", lambda x: x.records / x.buffers if x.buffers else None
)


def timeout(runs: Sequence[DemoRun], workload: WorkloadConfig) -> DemoShown:
    """Make the output from one run for each timeout, the shortest first."""
    measured = {each.name: each.result.measured for each in runs}
    unsure = {each.name for each in runs if each.result.validity is not Validity.VALID}
    (first, shortest), *_, (longest, last) = measured.items()
    values = {name: {x.field: x.read(of) for x in _TIMEOUT} for name, of in measured.items()}
    points = [
        GridPoint([place], [*own.values()], [None] * len(own), "doubtful" if name in unsure else "")
        for place, (name, own) in enumerate(values.items())
    ]
    notes = [_FLUSHED]
    if last.flushes.full:
        notes.append(
            f"At {longest}, {last.flushes.full} of {counted(last.buffers, 'buffer')} left because"
            " their segment was full, so more leave than one each timeout, and records wait less"
            " than half of it."
        )
    short, long = shortest.latency_ns.p50, last.latency_ns.p50
    most, least = shortest.buffers_per_s, last.buffers_per_s
    if short is None or long is None or short >= long or most <= least:
        lesson = [
            f"{UNEXPECTED}: a shorter timeout should give a lower latency and more buffers. Try a"
            " quiet machine or a lower --rate."
        ]
    else:
        end = " (doubtful)" if unsure & {first, longest} else ""
        lesson = [
            f"A buffer timeout of {first} instead of {longest}: p50 falls from"
            f" {human_duration(long)} to {human_duration(short)}, and the network carries"
            f" {most / least:.0f} times as many buffers.{end}"
        ]
    known = [(name, of.latency_ns.p50) for name, of in measured.items()]
    for (name, ns), (longer, longer_ns) in combinations(known, 2):
        if ns and longer_ns is not None and ns > HIGHER * longer_ns and len(lesson) == 1:
            lesson.append(
                f"{UNEXPECTED}: at {name} p50 is {human_duration(ns)}, higher than the"
                f" {human_duration(longer_ns)} at {longer}. Try a quiet machine."
            )
    figures = [GridFigure.of(each, *drawn) for each, drawn in _TIMEOUT.items()]
    at = len(points) - 1
    return DemoShown(
        "timeout",
        "Latency against messages",
        [
            f"{asked_rate(workload)} from one producer to one consumer",
            "a buffer leaves when it is full, or at the latest after the buffer timeout",
        ],
        figure_table(
            "buffer timeout",
            [*_TIMEOUT, _FILL],
            [(MARKS[each.result.validity] + each.name, [each.result.measured]) for each in runs],
            notes=notes,
        ),
        lesson,
        runs,
        {"runs": {name: {x.removeprefix("latency_"): y for x, y in own.items()}
                  for name, own in values.items()}},
        [Grid([Slider("buffer timeout", [*measured], at)], figures, points, 0, at, "longest")],
        codes=(),
    )  # fmt: skip


ROUND_TRIPS_NS = tuple(ms * 1_000_000 for ms in (0, 1, 10, 50))

EXCLUSIVE_BUFFERS = (2, 64)
"""Exclusive buffers of the channel: Flink's default, and enough for most of these links."""

FEWER, MORE = 0.5, 1.5
"""Share of the rate without delay at or below which the longest round trip has shown the effect,
and factor by which more credit must raise the rate over it."""

ALLOWED_COLORS: Sequence[Color] = ("grey", "green")
"""Colours of the rates that the credit allows, for each amount of credit."""

_RATE = of_run(FIGURES["throughput_records_per_s"])

_WAN: Sequence[Figure[RunResult]] = (
    _RATE,
    replace(LINK_LIMIT, name="credit allows"),  # these links have no limit of bandwidth
    Figure("", "of that", lambda run: ratio_of(_RATE.read(run), LINK_LIMIT.read(run)), "share", "",
           "Measured rate as a share of what the credit allows."),
    *map(of_run, _LATENCIES),
)  # fmt: skip


def name_of(round_trip_ns: int, buffers: int) -> str:
    """The name of a run, by its round trip and the buffers of its gate."""
    return f"{format_duration_ns(round_trip_ns)}, {buffers} buffers"


def wan(runs: Sequence[DemoRun], workload: WorkloadConfig) -> DemoShown:
    """Make the output from one run for each round trip and amount of credit; those with the least
    credit come first, and of these that with the shortest round trip."""
    count = len(ROUND_TRIPS_NS)
    rates = [_RATE.read(each.result) or 0.0 for each in runs]
    labels = [format_duration_ns(each) for each in ROUND_TRIPS_NS]
    credits = [runs[at].name.partition(", ")[2] for at in range(0, len(runs), count)]
    series: list[Series] = []
    for place, name in enumerate(credits):
        own = runs[place * count :][:count]
        measured, allowed = ([x.read(each.result) for each in own] for x in (_RATE, LINK_LIMIT))
        series.append(Series(name, measured, COLORS[place]))
        series.append(Series(f"{name}, credit allows", allowed, ALLOWED_COLORS[place]))
    near, far, more = rates[0], rates[count - 1], rates[-1]
    longest = labels[-1]
    if not far or far > FEWER * near or more < MORE * far:
        lesson = [
            f"{UNEXPECTED}: a round trip of {longest} should hold up {credits[0]}, and more of them"
            " should help. Try a quiet machine."
        ]
    else:
        lesson = [
            f"Over a round trip of {longest}, {credits[0]} of"
            f" {human_bytes(runs[0].segment_size_bytes)} carry"
            f" {human_count(far)} records/s, {human_share(far / near)} of the rate without delay;"
            f" {credits[-1]} carry {more / far:.1f} times as many.",
            "A buffer's credit is back a round trip after the buffer was sent, so a rate needs as"
            " many buffers as it fills in a round trip. The measured rate is lower if floating"
            " buffers are lent late (only for an announced backlog), or if the tasks are slower.",
        ]
    columns = {"throughput_records_per_s": _RATE, "link_records_per_s": LINK_LIMIT}
    meaning = "Measured, and as the credit allows."
    return DemoShown(
        "wan",
        "Credit over a long network",
        [
            "one producer writes as fast as it can to one consumer over an emulated link",
            f"round trips of {', '.join(labels)}, with {' and '.join(credits)} of credit",
        ],
        figure_table("round trip, buffers", _WAN, [(each.name, [each.result]) for each in runs]),
        lesson,
        runs,
        {"runs": {x.name: {k: f.read(x.result) for k, f in columns.items()} for x in runs}},
        pictures=[
            Curves("Records per second", labels, series, is_log=True, meaning=meaning,
                   by="round trip", y=_RATE.name)
        ],
    )  # fmt: skip
