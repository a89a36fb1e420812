"""The highest rate that keeps a limit: a view, rows for CSV, and a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flinknet.results.breaking_point import FoundRate, change_between
from flinknet.results.comparison import Verdict
from flinknet.units import (
    counted,
    human_change,
    human_duration,
    human_number,
    human_rate,
    human_share,
)

from .export import Row as CsvRow
from .page_parts import UNNAMED_SETTING, Row, Sentence, Table, View, heads

SCHEMA_VERSION = 1


def find_view(found: Sequence[FoundRate], duration_ns: int | None, metric: str) -> View:
    """What a search prints: the answer, and a table of the rates that were tried.

    Args:
        duration_ns: measured part of each run.
        metric: the limited figure.
    """
    first = found[0]
    runs = sum(len(each.search.runs) for each in found)
    length = f" of {human_duration(duration_ns)}" if duration_ns else ""
    reach = max(each.search.error for each in found)
    open_ends = [each for each in found if not (each.search.is_decided or each.search.is_hopeless)]
    trust = [f"within {reach:.1%}"]
    if open_ends:
        trust.insert(0, f"undecided after {counted(len(open_ends[0].search.runs), 'run')}")
    disturbed = sum(each.disturbed for each in found)
    if disturbed:
        trust.append(f"other processes disturbed {counted(disturbed, 'run')}")
    low_per_s = first.search.interval_per_s[0]
    best = max(found, key=lambda each: each.search.rate_per_s)
    next_step = (
        "a shorter --buffer-timeout, or a wider limit"
        if first.search.is_hopeless
        else f"flinknet bench --rate {low_per_s:.0f}/s, to see what is left below the limit"
    )
    changes = [_change(first, each) for each in found[1:]]
    verdicts = [_verdict(each, is_short=bool(changes)) for each in found]
    return View(
        [
            Sentence("measured", [f"{counted(runs, 'run')}{length} in search of {first.limit}",
                                  f"{human_rate(first.max_per_s)} at full speed"], "; "),
            Sentence("verdict", changes or verdicts, "; ", takes_rest=True),
            Sentence("effect", verdicts if changes else [], "; "),
            Sentence("trade-off", _trade(best, metric), "; "),
            Sentence("trust", trust, "; "),
            Sentence("next", [next_step]),
        ],
        [_table(found, metric)],
    )  # fmt: skip


def _verdict(found: FoundRate, *, is_short: bool) -> str:
    name, search = f"{found.name}: " if found.name else "", found.search
    if search.is_hopeless:
        lowest = min(rate for rate, _, _ in search.runs)
        return f"{name}no rate down to {human_rate(lowest)} keeps {found.limit}"
    low, high = search.interval_per_s
    if is_short:
        rates = human_rate(search.rate_per_s), human_rate(low), human_rate(high)
        return "{}{} ({} to {})".format(name, *rates)
    return (
        f"{name}{human_rate(search.rate_per_s)} is the highest rate that keeps {found.limit}"
        f" ({search.confidence:.0%}: {human_rate(low)} to {human_rate(high)})"
    )


def _change(base: FoundRate, found: FoundRate) -> str:
    """The change against the base, in the words of a comparison."""
    change = change_between(base.search, found.search)
    if change.verdict is Verdict.UNKNOWN:
        return f"{found.name}: {change.verdict}"
    return (
        f"{found.name}: {human_change(change.change)} ({human_change(change.low)} to"
        f" {human_change(change.high)}), {change.verdict}"
    )


def _trade(found: FoundRate, metric: str) -> list[str]:
    """The limited figure on both sides of the breaking point."""
    tried = [each for each in found.search.tried() if each.figure is not None]
    below = [each for each in tried if each.rate_per_s <= found.search.rate_per_s]
    above = [each for each in tried if each.rate_per_s > found.search.rate_per_s]
    return [
        f"{metric} is {_figure(each.figure, metric)} at {human_rate(each.rate_per_s)}"
        for each in (*below[-1:], *above[:1])
    ]


def _figure(value: float | None, metric: str) -> str:
    return human_number(value) if metric == "backlog" else human_duration(value)


def _table(found: Sequence[FoundRate], metric: str) -> Table:
    rows = []
    for each in found:
        confidence = each.search.confidence
        for tried in each.search.tried():
            decision = "kept" if tried.is_below >= confidence else "at the limit"
            decision = "broken" if tried.is_below <= 1 - confidence else decision
            cells = [
                human_rate(tried.rate_per_s),
                str(tried.runs),
                str(tried.kept),
                _figure(tried.figure, metric),
                human_share(tried.is_below),
                decision,
            ]
            rows.append(Row([each.name or UNNAMED_SETTING, *cells] if found[1:] else cells))
    names = ["rate", "runs", "kept", metric, "breaks above", "limit"]
    title = "rates that were tried; breaks above: probability that the limit breaks above this rate"
    return Table(heads(*(["setting"] if found[1:] else []), *names), rows, title)


def find_rows(found: Sequence[FoundRate]) -> list[CsvRow]:
    """A row for each tried rate."""
    return [
        {
            "setting": each.name,
            "rate_per_s": tried.rate_per_s,
            "runs": tried.runs,
            "kept": tried.kept,
            "figure": tried.figure,
            "is_below_probability": tried.is_below,
        }
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
            "rate_per_s": None if search.is_hopeless else search.rate_per_s,
            "low_per_s": low,
            "high_per_s": high,
            "confidence": search.confidence,
            "within": search.within,
            "is_decided": search.is_decided,
            "max_per_s": each.max_per_s,
            "disturbed_runs": each.disturbed,
            "rates": [
                {name: value for name, value in row.items() if name != "setting"}
                for row in find_rows([each])
            ],
        }
        if each is not found[0]:
            change = change_between(found[0].search, search)
            own["change"] = {
                "change": change.change,
                "low": change.low,
                "high": change.high,
                "verdict": str(change.verdict),
            }
        documents.append(own)
    return {
        "schema_version": SCHEMA_VERSION,
        "environment": dict(environment),
        "find": documents,
    }
