"""Predictions of whole jobs against the same jobs run at other buffer timeouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from bench.flink.exchange import Outcome
from bench.flink.predictions import interval
from bench.measure import print_table
from flinknet.trace.job_names import VERTEX_DIGITS

FIGURES = ("p50_ns", "p99_ns", "throughput_records_per_s", "buffers_per_s")
BEYOND = 0.3
"""Errors larger than this are listed one by one."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What a job did at one buffer timeout; None where it is not known.

    Args:
        p50_ns, p99_ns: of a record's time from its emission to its sink.
        from_intended_p50_ns, from_intended_p99_ns: from when it was due.
        buffers_per_s: data messages between TaskManagers, of all exchanges.
        latest_ns: how late a source was at most.
    """

    p50_ns: float | None
    p99_ns: float | None
    throughput_records_per_s: float | None
    buffers_per_s: float | None
    from_intended_p50_ns: float | None = None
    from_intended_p99_ns: float | None = None
    latest_ns: int | None = None


@dataclass(frozen=True, slots=True)
class MeasuredJob:
    """A job that was recorded at one timeout and run at others.

    Args:
        text: what it is, in a line.
        vertices: name of each vertex by its id.
        run: directory of the recording.
        truths: by buffer timeout in ms; that of the recording from the recorded run.
    """

    number: int
    release: str
    text: str
    settings: Mapping[str, Any]
    vertices: Mapping[str, str]
    run: str
    recorded_ms: int
    truths: Mapping[int, Truth]

    @property
    def timeouts_ms(self) -> list[int]:
        """In ascending order."""
        return sorted(self.truths)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> MeasuredJob:
        """What `asdict` and JSON made of one."""
        truths = {int(ms): Truth(**truth) for ms, truth in document["truths"].items()}
        return cls(**{**document, "truths": truths})


def truth_of(outcome: Outcome, channels: int) -> Truth:
    """What a run did; with Flink's counters, if they were asked for.

    Args:
        channels: between TaskManagers.
    """
    return Truth(
        p50_ns=outcome.uncorrected.p50,
        p99_ns=outcome.uncorrected.p99,
        throughput_records_per_s=outcome.throughput_records_per_s,
        buffers_per_s=remote_buffers_per_s(outcome, channels),
        from_intended_p50_ns=outcome.latency.p50,
        from_intended_p99_ns=outcome.latency.p99,
        latest_ns=outcome.latest_ns,
    )


def remote_buffers_per_s(outcome: Outcome, channels: int) -> float | None:
    """Messages with records that TaskManagers took from each other; the load is the same from the
    first record to the last. Of what Flink counts, each checkpoint sent a barrier on each channel.
    """
    if not outcome.metrics or not outcome.emitted_for_ns:
        return None
    taken = sum(each.get("numBuffersInRemote", 0) for each in outcome.metrics.values())
    return (taken - outcome.checkpoints * channels) / outcome.emitted_for_ns * 1e9


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a job, predicted and measured; None where it is not known."""

    predicted: float | None
    low: float | None
    high: float | None
    measured: float | None

    @property
    def error(self) -> float | None:
        """Relative to what was measured."""
        if self.predicted is None or not self.measured:
            return None
        return self.predicted / self.measured - 1

    @property
    def is_covered(self) -> bool | None:
        """Whether the interval holds what was measured."""
        if self.low is None or self.high is None or self.measured is None:
            return None
        return self.low <= self.measured <= self.high

    @property
    def half_width(self) -> float | None:
        """Of the interval, relative to its middle."""
        if self.low is None or self.high is None or not self.low + self.high:
            return None
        return (self.high - self.low) / (self.high + self.low)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What `flinknet trace replay` answers about a run; empty if it could not be replayed.

    Args:
        edges: one answer each, in no particular order; those of which nothing passed between
            TaskManagers have none.
        job: about all of them together, where there are several, or local channels.
    """

    edges: Sequence[Mapping[str, Any]] = ()
    job: Mapping[str, Any] | None = None

    @property
    def exchanges(self) -> int:
        """How many of the job are predicted."""
        return len(self.edges) if self.job is None else len(self.job["edges"])

    def points(self, place: int, timeout_ms: int) -> list[Mapping[str, Any]]:
        """What is predicted at a timeout, the one at this place among those asked for: for the job,
        else for each edge.
        """
        if self.job is None:
            return [each["trade_offs"][place] for each in self.edges]
        timeout_ns = -1 if timeout_ms < 0 else timeout_ms * 1_000_000
        own = [each for each in self.job["points"] if {*each["timeouts_ns"]} == {timeout_ns}]
        return [
            {**each, "why_no_latency": each["why_unknown"] or each["why_no_latency"]}
            for each in own[:1]
        ]


Bounded = tuple[float | None, float | None, float | None]
"""A predicted value with the ends of its interval."""


def job_prediction(edges: Sequence[Mapping[str, Any]]) -> dict[str, Bounded]:
    """The prediction for a whole job at one setting: the job's own, alone, or those for its edges
    in their order. Then latencies add up (for p99 that is too much), buffers of all edges count,
    and records arrive as on the last one.
    """
    found: dict[str, Bounded] = {}
    for name in ("p50", "p99"):
        bounds = [interval(each, name) for each in edges]
        found[f"{name}_ns"] = (
            _sum([each["latency_ns"][name] for each in edges]),
            _sum([low for low, _ in bounds]),
            _sum([high for _, high in bounds]),
        )
    found["throughput_records_per_s"] = (edges[-1]["throughput_records_per_s"], None, None)
    found["buffers_per_s"] = (_sum([each["buffers_per_s"] for each in edges]), None, None)
    return found


def _sum(values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return sum(known) if len(known) == len(values) else None


def in_order(answers: Sequence[Mapping[str, Any]], job: MeasuredJob) -> list[Mapping[str, Any]]:
    """What replay answers about the edges of a job, those behind the sources first."""
    names = position(job)
    return sorted(answers, key=lambda each: names.index(producer(each, job)))


def position(job: MeasuredJob) -> list[str]:
    """The vertices from the sources to the sinks."""
    relays = sorted(each for each in job.vertices.values() if each.startswith("stage-"))
    return ["source", *relays, "sink"]


def producer(answer: Mapping[str, Any], job: MeasuredJob) -> str:
    """The vertex an edge comes from, which its name holds, or the first digits of its id."""
    name = str(answer["trace"]["edge"] or "").partition(" → ")[0]
    for key, vertex in job.vertices.items():
        if vertex in name.lower() or key[:VERTEX_DIGITS] in name:
            return vertex
    return "source"


@dataclass(frozen=True, slots=True)
class Cell:
    """A job at one buffer timeout."""

    job: MeasuredJob
    timeout_ms: int
    figures: Mapping[str, Figure]
    why_unknown: str | None = None

    @property
    def is_recorded(self) -> bool:
        """Whether it is the setting of the recording."""
        return self.timeout_ms == self.job.recorded_ms


def cells_of(job: MeasuredJob, replayed: Replayed) -> list[Cell]:
    """All timeouts of a job, which are those that replay was asked for, in order."""
    ordered = replace(replayed, edges=in_order(replayed.edges, job))
    exchanges = len(position(job)) - 1
    missing = exchanges - replayed.exchanges if replayed.edges else 0
    cells = []
    for place, timeout_ms in enumerate(job.timeouts_ms):
        points = ordered.points(place, timeout_ms)
        truth = job.truths[timeout_ms]
        is_whole = points and not missing
        predicted = job_prediction(points) if is_whole else dict.fromkeys(FIGURES, (None,) * 3)
        figures = {
            name: Figure(*predicted[name], measured=getattr(truth, name)) for name in FIGURES
        }
        if timeout_ms == job.recorded_ms and replayed.edges:
            counted = recorded_buffers(replayed.edges)
            figures["buffers_per_s"] = Figure(*predicted["buffers_per_s"], counted)
        why = next((each["why_no_latency"] for each in points if each["why_no_latency"]), None)
        if missing and why is None:
            why = f"{missing} of {exchanges} exchanges stay within TaskManagers, unseen by the tap"
        cells.append(Cell(job, timeout_ms, figures, why))
    return cells


def recorded_buffers(edges: Sequence[Mapping[str, Any]]) -> float | None:
    """Data messages a second that the tap counted, of all edges."""
    return _sum(
        [
            each["observed"]["buffers"] / duration_ns * 1e9
            if (duration_ns := each["observed"]["duration_ns"])
            else None
            for each in edges
        ]
    )


def summary(cells: Sequence[Cell]) -> dict[str, Any]:
    """Medians of the absolute errors, intervals that hold and their widths, and what is unknown."""
    errors = {}
    for name in FIGURES:
        known = [abs(error) for each in cells if (error := each.figures[name].error) is not None]
        errors[name] = {
            "median_error": median(known) if known else None,
            "largest_error": max(known, default=None),
            "cells": len(known),
            "unknown": sum(each.figures[name].predicted is None for each in cells),
        }
    latencies = [each.figures[name] for each in cells for name in ("p50_ns", "p99_ns")]
    covered = [each.is_covered for each in latencies if each.is_covered is not None]
    widths = [each.half_width for each in latencies if each.half_width is not None]
    return {
        "figures": errors,
        "intervals": len(covered),
        "intervals_that_hold": sum(covered),
        "median_half_width": median(widths) if widths else None,
    }


def cells_json(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """All figures of all cells."""
    return [
        {
            "job": each.job.number,
            "timeout_ms": each.timeout_ms,
            "is_recorded": each.is_recorded,
            "why_unknown": each.why_unknown,
        }
        | {
            name: {
                "predicted": figure.predicted,
                "low": figure.low,
                "high": figure.high,
                "measured": figure.measured,
                "error": figure.error,
                "is_covered": figure.is_covered,
            }
            for name, figure in each.figures.items()
        }
        for each in cells
    ]


def print_cells(cells: Sequence[Cell]) -> None:
    """One table for each job, then the medians, then what is far off."""
    for job in dict.fromkeys(each.job.number for each in cells):
        own = [each for each in cells if each.job.number == job]
        first = own[0].job
        print(f"\njob {job}, Flink {first.release}: {first.text}")
        print_table(_HEADER, [_row(each) for each in own])
    others = [each for each in cells if not each.is_recorded]
    print("\nmedians of the absolute errors")
    rows = [_summary_row("other timeouts", others)]
    rows += [
        _summary_row(f"{ms} ms" + (" (recorded)" if own[0].is_recorded else ""), own)
        for ms in sorted({each.timeout_ms for each in cells})
        if (own := [each for each in cells if each.timeout_ms == ms])
    ]
    print_table(
        ("", "p50", "p99", "records/s", "buffers/s", "unknown", "90% intervals hold", "± median"),
        rows,
    )
    unknown = [each for each in cells if each.figures["p50_ns"].predicted is None]
    if unknown:
        print("\nunknown")
    for each in unknown:
        why = each.why_unknown or "no answer, or none with the reason"
        print(f"  job {each.job.number}, {each.timeout_ms} ms: {why}; {each.job.text}")
    far = [
        (each, name)
        for each in cells
        for name in FIGURES
        if (error := each.figures[name].error) is not None and abs(error) > BEYOND
    ]
    if far:
        print(f"\nerrors beyond {BEYOND:.0%}: {len(far)}")
    for each, name in far:
        print(
            f"  job {each.job.number}, {each.timeout_ms} ms, {_NAMES[name]}:"
            f" {each.figures[name].error:+.0%}; {each.job.text}"
        )


_NAMES = {
    "p50_ns": "p50",
    "p99_ns": "p99",
    "throughput_records_per_s": "records/s",
    "buffers_per_s": "buffers/s",
}
_HEADER = (
    "timeout",
    *("p50 ms", "measured", "error", ""),
    *("p99 ms", "measured", "error", ""),
    *("records/s", "measured", "error"),
    *("buffers/s", "measured", "error"),
)


def _row(cell: Cell) -> list[str]:
    row = [f"{cell.timeout_ms} ms" + (" (recorded)" if cell.is_recorded else "")]
    for name in FIGURES:
        figure = cell.figures[name]
        is_latency = name in ("p50_ns", "p99_ns")
        scale = 1e6 if is_latency else 1
        bounds = (
            f" [{_number(figure.low, scale)}, {_number(figure.high, scale)}]"
            if figure.low is not None
            else ""
        )
        predicted = "unknown" if figure.predicted is None else _number(figure.predicted, scale)
        row += [predicted + bounds, _number(figure.measured, scale), _percent(figure.error)]
        if is_latency:
            row.append({True: "holds", False: "MISSES", None: ""}[figure.is_covered])
    return row


def _summary_row(name: str, cells: Sequence[Cell]) -> list[str]:
    found = summary(cells)
    errors = [found["figures"][each]["median_error"] for each in FIGURES]
    unknown = sum(found["figures"][each]["unknown"] for each in FIGURES)
    width = found["median_half_width"]
    return [
        name,
        *("-" if each is None else f"{each:.1%}" for each in errors),
        f"{unknown} of {len(FIGURES) * len(cells)}",
        f"{found['intervals_that_hold']} of {found['intervals']}",
        "-" if width is None else f"{width:.0%}",
    ]


def _number(value: float | None, scale: float) -> str:
    if value is None:
        return "-"
    scaled = value / scale
    return f"{scaled:.0f}" if scaled >= 1_000 else f"{scaled:.3g}"


def _percent(error: float | None) -> str:
    return "-" if error is None else f"{error:+.0%}"
