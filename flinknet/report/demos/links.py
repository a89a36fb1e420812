"""Demos of one connection. head-of-line: a consumer that pauses, and its neighbour on the same
connection, without credit and with it. timeout: latency against messages. wan: throughput over
emulated links with longer and longer round trips, with little credit and with more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import combinations
from typing import Any

from flinknet import units
from flinknet.config import CREDIT, TCP, WorkloadConfig
from flinknet.options import EXCLUSIVE_BUFFERS
from flinknet.results import FillSample, Progress, RunResult, Validity
from flinknet.results.figures import FIGURES, LINK_LIMIT, Figure, of_run
from flinknet.results.trades import ratio_of

from .. import charts
from ..bench_words import MARKS
from ..places import blocked_lines, places_of
from . import COLORS, NOT_SHOWN, SHOWN_EFFECT, DemoRun, DemoShown, asked_rate, texts

HEAD_OF_LINE, TIMEOUT, WAN = "head-of-line", "timeout", "wan"

NEIGHBOUR, PAUSED = 0, 1
"""Channels of head-of-line, and their consumers."""

STARVED_RATIO, UNHARMED_RATIO = 0.1, 0.9
"""Share of its rate that the neighbour keeps: at most without credit, at least with it."""

TITLES = {TCP: "TCP only (Flink < 1.5)", CREDIT: "credit-based (since 1.5)"}
AXIS_HEADROOM = 1.5
"""Top of the axis of rates, as a multiple of the neighbour's rate alone."""

STALE_NS = 100_000_000
"""Largest distance from an instant, in ns, at which rates and credit are shown for it."""

_Mode = Mapping[str, Any]
"""Figures of a flow control as JSON has them: the neighbour alone (`solo`) and next to a consumer
that pauses for the whole measured part; rates, credit and backlog of both channels over time."""


def head_of_line(runs: Sequence[DemoRun], workload: WorkloadConfig) -> DemoShown:
    """Make the output from two runs in each mode: the neighbour alone, and with a paused one."""
    pairs = zip((TCP, CREDIT), runs[::2], runs[1::2], strict=True)
    modes = {name: _mode(solo.result, shared) for name, solo, shared in pairs}
    paused = [each.result for each in runs[1::2]]
    pause_ns = workload.duration_ns or 0
    pause = charts.Span("B.4 is paused", workload.warmup_ns, workload.warmup_ns + pause_ns)
    starved, unharmed = (each["neighbour_rate_ratio"] for each in modes.values())
    is_shown = starved is not None and starved <= STARVED_RATIO
    is_shown = is_shown and unharmed is not None and unharmed >= UNHARMED_RATIO
    broken = [each.name for each in runs[::2] if each.result.validity is Validity.INVALID]
    facts: dict[str, Any] = {
        **{**modes, "starved": STARVED_RATIO, "unharmed": UNHARMED_RATIO},
        **{"pause": units.format_duration_ns(pause_ns, separator=" "), "end": pause.to_ns / 1e9},
        "broken": " and ".join(broken),
    }
    # how much lay between the tasks at most; and without credit, for whom the data at the front was
    more: list[str] = []
    samples = [each.buffering.samples for each in paused if each.buffering is not None]
    if len(samples) == len(paused) and all(samples):
        fullest = [max(each, key=lambda one: one.levels.total_bytes) for each in samples]
        known = {each.channel: each.input_channel_bytes for each in fullest[0].channels}
        front = [known.get(each, 0) for each in (NEIGHBOUR, PAUSED)]
        facts |= {"most": [each.levels.total_bytes for each in fullest], "front": front}
        more = ["most", "front"] if front[1] > front[0] else ["most"]
    return DemoShown(
        HEAD_OF_LINE,
        [x if number % 2 else replace(x, messages=()) for number, x in enumerate(runs)],
        [(TITLES[name], [each]) for name, each in modes.items()],
        {"modes": modes},
        facts,
        "baseline" if broken else SHOWN_EFFECT if is_shown else NOT_SHOWN,
        more,
        charts=[_places(modes, paused, pause)],
        channels=(("A.1", "B.3"), ("A.2", "B.4")),
    )


def _mode(solo: RunResult, shared: DemoRun) -> dict[str, Any]:
    alone, beside = (each.channels[NEIGHBOUR] for each in (solo, shared.result))
    rate, kept = alone.taken_records_per_s, beside.taken_records_per_s
    buffering = shared.result.buffering
    is_baseline = solo.validity is not Validity.INVALID
    return {
        "neighbour_rate_ratio": ratio_of(kept, rate) if is_baseline else None,
        "neighbour_p99_ns": beside.latency_ns.p99,
        "neighbour_records_per_s": kept,
        "solo_records_per_s": rate,
        "solo_p99_ns": alone.latency_ns.p99,
        "rates": _rates(shared.samples),
        "buffering": asdict(buffering) if buffering is not None else None,
    }


def _rates(samples: Sequence[Progress]) -> list[dict[str, Any]]:
    """The rates of a run, with credit and backlog; None for a rate that was not measured again."""
    found: list[dict[str, Any]] = []
    last_ns = {"neighbour": -1, "paused": -1}
    for each in samples:
        row: dict[str, Any] = {"at_ns": each.elapsed_ns}
        for name, channel in zip(last_ns, each.channels, strict=False):
            at_ns = each.elapsed_ns - channel.rate_age_ns
            is_new, last_ns[name] = at_ns > last_ns[name], at_ns
            row[f"{name}_per_s"] = channel.throughput_records_per_s if is_new else None
            row[f"{name}_credit"] = channel.credits_available
            row[f"{name}_backlog"] = channel.backlog_buffers
        found.append(row)
    return found


def _places(
    modes: Mapping[str, _Mode], paused: Sequence[RunResult], pause: charts.Span
) -> charts.Places:
    """The places under one slider; the first and the last one apart for each consumer."""
    rates = {TITLES[name]: mode["rates"] for name, mode in modes.items()}
    alone = max((each["solo_records_per_s"] or 0.0 for each in modes.values()), default=0.0)
    series = []
    for (title, own), color in zip(rates.items(), COLORS, strict=False):
        known = [x for x in own if x["neighbour_per_s"] is not None]
        at_ns, per_s = ([x[name] for x in known] for name in ("at_ns", "neighbour_per_s"))
        series.append(charts.TimeSeries(title, at_ns, per_s, color))
    curve = charts.OverTime(
        "Throughput of the neighbour B.3",
        series,
        meaning=texts(HEAD_OF_LINE, "curve", {"end": pause.to_ns / 1e9})[0],
        top=AXIS_HEADROOM * alone or None,
        spans=[pause],
        y=FIGURES["throughput_records_per_s"].name,
    )
    return places_of(
        dict(zip(rates, paused, strict=True)),
        curve,
        {NEIGHBOUR: "for B.3", PAUSED: "for B.4"},
        ends=(("A.1", "A.2"), ("B.3", "B.4")),
        lines=lambda title, sample: _state_at(rates[title], sample, pause),
        notes=texts(HEAD_OF_LINE, "places"),
    )


def _state_at(
    rates: Sequence[Mapping[str, Any]], sample: FillSample, pause: charts.Span
) -> list[str]:
    if sample.at_ns < pause.from_ns:
        phase = "Before the pause."
    elif sample.at_ns < pause.to_ns:
        since = units.human_duration(sample.at_ns - pause.from_ns)
        phase = f"B.4 has been paused for {since}."
    else:
        phase = f"B.4 consumes again; no record is due after {pause.to_ns / 1e9:.2f} s."
    lines = [phase]
    off_ns = [abs(each["at_ns"] - sample.at_ns) for each in rates]
    if off_ns and min(off_ns) <= STALE_NS:
        place = off_ns.index(min(off_ns))
        now = rates[place]
        facts: dict[str, Any] = {"now": now}
        if now["neighbour_per_s"] is not None:
            known = [x["at_ns"] for x in rates[:place] if x["neighbour_per_s"] is not None]
            facts |= {"since": max(known, default=0) / 1e9, "until": now["at_ns"] / 1e9}
            lines = [" ".join([phase, *texts(HEAD_OF_LINE, "between", facts)])]
        if now["paused_credit"] is not None:
            for name, field in (("before", "neighbour_backlog"), ("behind", "paused_backlog")):
                facts[name] = units.counted(now[field] or 0, "buffer")
            facts["credit"] = units.human_number(now["neighbour_credit"])
            lines += texts(HEAD_OF_LINE, "credits", facts)
    return lines + blocked_lines(sample, texts(HEAD_OF_LINE, "blocked"))


INVALID = "invalid"
"""Mark of a point that no rule is drawn from."""

_VALIDITY_MARKS = {Validity.INVALID: INVALID, Validity.DOUBTFUL: "doubtful"}

HIGHER = 1.25
"""Factor by which a p50 must exceed that of a longer timeout to be blamed on the machine."""

_LATENCIES = [replace(FIGURES[f"latency_{each}_ns"], group="") for each in ("p50", "p99")]
_TIMEOUT: Mapping[Figure[Any], tuple[str, charts.Color]] = {
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
    marks = {each.name: _VALIDITY_MARKS.get(each.result.validity, "") for each in runs}
    usable = [name for name in measured if marks[name] != INVALID]
    first, longest = usable[0] if usable else runs[0].name, usable[-1] if usable else runs[-1].name
    shortest, last = measured[first], measured[longest]
    values = {name: {x.field: x.read(of) for x in _TIMEOUT} for name, of in measured.items()}
    points = [
        charts.GridPoint([n], [*own.values()], [None] * len(own), marks[name])
        for n, (name, own) in enumerate(values.items())
    ]
    short, long = shortest.latency_ns.p50, last.latency_ns.p50
    most, least = shortest.buffers_per_s, last.buffers_per_s
    is_shown = short is not None and long is not None and short < long and most > least
    ends = [each for each in (runs[0].name, runs[-1].name) if marks[each] == INVALID]
    facts = {
        **{"rate": asked_rate(workload), "first": first, "longest": longest},
        **{"shortest": shortest, "last": last, "times": most / least if least else 0.0},
        **{"buffers": units.counted(last.buffers, "buffer")},
        "end": " (doubtful)" if marks[first] or marks[longest] else "",
        "ends": " and ".join(ends),
    }
    known = [(name, measured[name].latency_ns.p50) for name in usable]
    slower = [
        {"name": name, "p50": p50, "other": other, "longer": longer}
        for (name, p50), (longer, other) in combinations(known, 2)
        if p50 and other is not None and p50 > HIGHER * other
    ]
    figures = [charts.GridFigure.of(each, *drawn) for each, drawn in _TIMEOUT.items()]
    at = [*measured].index(longest)
    slider = charts.Slider("buffer timeout", [*measured], at)
    in_json = {
        name: {field.removeprefix("latency_"): value for field, value in own.items()}
        for name, own in values.items()
    }
    return DemoShown(
        TIMEOUT,
        runs,
        [(MARKS[each.result.validity] + each.name, [each.result.measured]) for each in runs],
        {"runs": in_json},
        facts | (slower[0] if slower else {}),
        SHOWN_EFFECT if is_shown else NOT_SHOWN,
        [*(["invalid"] if ends else []), *(["slower"] if slower else [])],
        ["full"] if last.flushes.full else [],
        [*_TIMEOUT, _FILL],
        [charts.Grid([slider], figures, points, 0, at, "reference")],
        codes=(),
    )


FEWER, MORE = 0.5, 1.5
"""Share of the rate without delay at or below which the longest round trip has shown the effect,
and factor by which more credit must raise the rate over it."""

_RATE = of_run(FIGURES["throughput_records_per_s"])

_WAN: Sequence[Figure[RunResult]] = (
    _RATE,
    replace(LINK_LIMIT, name="credit allows"),  # these links have no limit of bandwidth
    Figure("", "reached", lambda run: ratio_of(_RATE.read(run), LINK_LIMIT.read(run)), "share", "",
           "Measured rate as a share of what the credit allows."),
    *map(of_run, _LATENCIES),
)  # fmt: skip


def wan(runs: Sequence[DemoRun], workload: WorkloadConfig) -> DemoShown:
    """Make the output from one run for each round trip and amount of credit; those with the least
    credit come first, and of these that with the shortest round trip."""
    names = [each.name.split(", ") for each in runs]
    labels = [*dict.fromkeys(round_trip for round_trip, _ in names)]
    least, most = dict.fromkeys(buffers for _, buffers in names)
    count, rates = len(labels), [_RATE.read(each.result) or 0.0 for each in runs]
    series: list[charts.Series] = []
    for place, name in enumerate((least, most)):
        own = runs[place * count :][:count]
        measured, allowed = ([x.read(each.result) for each in own] for x in (_RATE, LINK_LIMIT))
        allows = charts.Series(f"{name}, credit allows", allowed, COLORS[place], is_bound=True)
        series += [charts.Series(name, measured, COLORS[place]), allows]
    near, far, more = rates[0], rates[count - 1], rates[-1]
    exclusive = int(runs[-1].result.config.get(EXCLUSIVE_BUFFERS, 0))
    is_shown = bool(far) and far <= FEWER * near and more >= MORE * far
    facts = {
        **{"round_trips": ", ".join(labels), "longest": labels[-1], "least": least, "most": most},
        **{"size": runs[0].segment_size_bytes, "far": far, "share": ratio_of(far, near)},
        **{"times": ratio_of(more, far), "memory": exclusive * runs[-1].segment_size_bytes},
    }
    columns = {"throughput_records_per_s": _RATE, "link_records_per_s": LINK_LIMIT}
    title, meaning = "Records per second", "Measured, and as the credit allows."
    curves = charts.Curves(
        title, labels, series, is_log=True, meaning=meaning, by="round trip", y=_RATE.name
    )
    return DemoShown(
        WAN,
        runs,
        [(each.name, [each.result]) for each in runs],
        {"runs": {x.name: {k: f.read(x.result) for k, f in columns.items()} for x in runs}},
        facts,
        SHOWN_EFFECT if is_shown else NOT_SHOWN,
        columns=_WAN,
        pictures=[curves],
    )
