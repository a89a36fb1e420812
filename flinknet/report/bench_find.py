"""The highest rate that keeps a limit: a view, rows for CSV, and a document."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from flinknet.results.breaking_point import FoundRate, Search, TriedRate, change_between
from flinknet.results.comparison import Verdict
from flinknet.units import (
    counted,
    human_change,
    human_duration,
    human_number,
    human_rate,
    human_share,
    without_zeros,
)

from .export import Row as CsvRow
from .page_parts import UNNAMED_SETTING, Row, Sentence, Table, View, heads


def find_view(found: Sequence[FoundRate], duration_ns: int | None, metric: str) -> View:
    """The view of a search by a limited figure (`metric`): the answer, and a table of the rates
    that were tried."""
    first = found[0]
    best = max(found, key=lambda each: (_is_seen(each.search), each.total_per_s))
    searches, left_out = [each.search for each in found], sum(each.repeats for each in found)
    runs = sum(len(each.runs) for each in searches) + left_out
    length = f" of {human_duration(duration_ns)}" if duration_ns else ""
    open_ends = [each for each in searches if not (each.is_decided or each.is_hopeless)]
    reaches = [each.error for each in searches if each.is_decided]
    trust = [f"undecided after {counted(len(each.runs), 'run')}" for each in open_ends[:1]]
    trust += [f"within {max(reaches):.1%}"] if reaches else []
    below = [each for each in searches if each.is_below]
    floors = [each.floor_per_s for each in below if each.floor_per_s == each.lowest_per_s]
    if floors:
        trust.append(f"runs below {human_rate(max(floors))} need a longer --duration")
    disturbed = sum(each.disturbed for each in found)
    if disturbed:
        ignored = f", {left_out} of them left out" if left_out else ""
        trust.append(f"other processes disturbed {counted(disturbed, 'run')}{ignored}")
    is_poor = open_ends or any(each.is_unseen for each in searches)
    rare = [
        f"{f'{each.name}: ' * bool(found[1:])}only {near.kept} of {near.runs} runs at"
        f" {_rate(each, near.rate_per_s)} kept the limit"
        for each in found
        for near in _around(each)[:1]
        if each.search.is_decided and not each.search.is_unseen and 2 * near.kept < near.runs
    ]
    trust += rare
    grade = "poor" if is_poor else "fair" if disturbed or rare else "good"
    trust[:1] = [f"{grade}: {trust[0]}"] if trust else []
    name = f"{best.name}: " if best.name and found[1:] else ""
    same = f"{name}the same options with --rate {_rounded_rate(best.search.interval_per_s[0])}"
    next_step = f"{same} (the search is undecided)"
    if best.search.is_below:
        next_step = "a shorter --buffer-timeout, or a wider limit"
    elif best.search.is_unseen:
        next_step = "a quieter machine, or a wider limit"
    elif best.search.is_decided:
        next_step = f"{same}, to see what is left below the limit"
    changes = [_change(first, each) for each in found[1:]]
    verdicts = [_verdict(each, is_short=bool(changes)) for each in found]
    return View(
        [
            Sentence("measured", [f"{counted(runs, 'run')}{length} in search of {first.limit}",
                                  f"{_rate(first, first.max_per_s)} at full speed"]),
            Sentence("verdict", changes or verdicts, takes_rest=True),
            Sentence("effect", [x for x in verdicts if x not in changes] if changes else []),
            Sentence("trade-off", _trade(best, metric)),
            Sentence("trust", trust),
            Sentence("next", [next_step]),
        ],
        [_table(found, metric)],
    )  # fmt: skip


def _is_seen(search: Search) -> bool:
    """Whether its answer is no rate that nobody has seen keep the limit."""
    return not (search.is_below or search.is_unseen)


def _rounded_rate(per_s: float) -> str:
    """A rate rounded down to two digits, as --rate takes it: "200k/s"."""
    step = 10.0 ** (math.floor(math.log10(per_s)) - 1)
    return without_zeros(human_rate(math.floor(per_s / step) * step)).replace(" ", "")


def _rate(found: FoundRate, per_s: float) -> str:
    return human_rate(per_s) + (" each" if found.producers > 1 else "")


def _verdict(found: FoundRate, *, is_short: bool) -> str:
    name, search = f"{found.name}: " if found.name else "", found.search
    if search.is_hopeless:
        lowest = _rate(found, min(rate for rate, _, _ in search.runs))
        return f"{name}no rate that was tried, down to {lowest}, keeps {found.limit}"
    rate, (low, high) = _rate(found, search.rate_per_s), search.interval_per_s
    interval = f"{human_rate(low)} to {human_rate(high)}"
    near, seen = _around(found)[0], search.seen
    if search.is_unseen:
        return (
            f"{name}no rate that was tried surely keeps {found.limit}: {near.kept} of"
            f" {counted(near.runs, 'run')} at {_rate(found, near.rate_per_s)} did"
        )
    if is_short:
        return f"{name}{rate} ({interval})"
    if not search.is_decided:
        return (
            f"{name}the highest rate that keeps {found.limit} is not known yet, probably"
            f" {human_rate(low)} to {_rate(found, high)}"
        )
    if seen is not None and 2 * near.kept < near.runs:
        return (
            f"{name}{found.limit} breaks between {human_rate(low)} and {_rate(found, high)}"
            f" ({search.confidence:.0%}); {seen.kept} of {counted(seen.runs, 'run')} at"
            f" {_rate(found, seen.rate_per_s)} kept it"
        )
    kept = [is_kept for tried_per_s, is_kept, _ in search.runs if tried_per_s <= high]
    return (
        f"{name}{rate} is the highest rate that keeps {found.limit} ({search.confidence:.0%}:"
        f" {interval}; {sum(kept)} of {counted(len(kept), 'run')} up to there kept it)"
    )


def _change(base: FoundRate, found: FoundRate) -> str:
    factor = found.producers / base.producers
    change = change_between(base.search, found.search, factor)
    if change.verdict is Verdict.UNKNOWN:
        return _verdict(base if _is_seen(found.search) else found, is_short=False)
    total = "" if factor == 1 else " in all"
    return (
        f"{found.name}: {human_change(change.change)}{total} ({human_change(change.low)} to"
        f" {human_change(change.high)}), {change.verdict}"
    )


def _around(found: FoundRate) -> list[TriedRate]:
    """The tried rates next to the breaking point; one that is printed like it counts as below."""
    tried, best_per_s = found.search.tried(), found.search.rate_per_s
    same = human_rate(best_per_s)
    below = [x for x in tried if x.rate_per_s <= best_per_s or human_rate(x.rate_per_s) == same]
    return [*below[-1:], *tried[len(below) :][:1]]


def _trade(found: FoundRate, metric: str) -> list[str]:
    return [
        ("no run reached its rate" if each.figure is None
         else f"{metric} is {_figure(each.figure, metric)}")
        + f" at {_rate(found, each.rate_per_s)}"
        f" ({each.kept} of {counted(each.runs, 'run')} kept the limit)"
        for each in _around(found)
    ]  # fmt: skip


def _figure(value: float | None, metric: str) -> str:
    return human_number(value) if metric == "backlog" else human_duration(value)


def _table(found: Sequence[FoundRate], metric: str) -> Table:
    rows = []
    for each in found:
        for tried in each.search.tried():
            standing = tried.standing(each.search.confidence)
            if tried.not_reached:
                standing += f", rate not reached in {counted(tried.not_reached, 'run')}"
            cells = [
                human_rate(tried.rate_per_s),
                str(tried.runs),
                str(tried.kept),
                _figure(tried.figure, metric),
                human_share(tried.is_below_probability),
                standing,
            ]
            rows.append(Row([each.name or UNNAMED_SETTING, *cells] if found[1:] else cells))
    names = ["rate", "runs", "kept", metric, "probability", "limit"]
    title = "rates that were tried; probability: how likely it is that a rate keeps the limit"
    if any(each.producers > 1 for each in found):
        title = title.replace("rates", "rates of each producer", 1)
    return Table(heads(*(["setting"] if found[1:] else []), *names), rows, title)


def find_rows(found: Sequence[FoundRate]) -> list[CsvRow]:
    return [
        {"setting": each.name, "producers": each.producers, **asdict(tried)}
        for each in found
        for tried in each.search.tried()
    ]


def find_document(environment: Mapping[str, Any], found: Sequence[FoundRate]) -> dict[str, Any]:
    """The document that `--find` writes with `--json`; figures of latency are in ns."""
    documents = []
    for each in found:
        search, (low, high) = each.search, each.search.interval_per_s
        own: dict[str, Any] = {
            "setting": each.name,
            "limit": each.limit,
            "producers": each.producers,
            "rate_per_s": None if search.is_hopeless else search.rate_per_s,
            "low_per_s": low,
            "high_per_s": high,
            "confidence": search.confidence,
            "within": search.within,
            "is_decided": search.is_decided,
            "is_unseen": search.is_unseen,
            "max_per_s": each.max_per_s,
            "disturbed_runs": each.disturbed,
            "rates": [asdict(tried) for tried in search.tried()],
        }
        if each is not found[0]:
            factor = each.producers / found[0].producers
            change = change_between(found[0].search, search, factor)
            own["change"] = asdict(change) | {"verdict": str(change.verdict)}
        documents.append(own)
    return {"schema_version": 1, "environment": dict(environment), "find": documents}
