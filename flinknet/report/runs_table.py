"""Several replayed runs, or the edges of one job, beside each other, as they were observed."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from flinknet.results import ReplayAnswer
from flinknet.units import MISSING, human_change, human_count, human_duration, human_number

from .settings_in_words import timeout_text


def runs_table(answers: Sequence[ReplayAnswer]) -> Table:
    """A row for each run."""
    table = Table(box=None)
    table.add_column("run")
    table.add_column("timeout", justify="right")
    for name in ("records/s", "p50", "p99", "backlog", "max", "buffers/s"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("throughput", "p50", "p99"):
        table.add_column(f"error {name}", justify="right", no_wrap=True)
    for answer in answers:
        observed, error = answer.observed, answer.model_error
        table.add_row(
            answer.trace.path.rstrip("/").rsplit("/", 1)[-1],
            timeout_text(answer.trace.config),
            human_count(observed.throughput_records_per_s),
            human_duration(observed.latency_ns.p50),
            human_duration(observed.latency_ns.p99),
            human_number(observed.backlog_buffers.mean),
            human_number(observed.backlog_buffers.max),
            human_count(observed.buffers * 1e9 / observed.duration_ns),
            *(human_change(each) for each in (error.throughput, error.p50, error.p99)),
        )
    return table


def edges_table(answers: Sequence[ReplayAnswer]) -> Table:
    """A row for each edge of a job: what went over it, and what its channels waited for."""
    table = Table(title="as recorded", title_justify="left", title_style="bold", box=None)
    table.add_column("edge", overflow="fold")
    for name in ("channels", "records/s", "buffers/s", "full", "backlog", "max", "starved"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for answer in answers:
        observed = answer.observed
        seconds_of_channels = observed.duration_ns * answer.trace.channels
        table.add_row(
            escape(f"{answer.trace.edge_number} {answer.trace.edge or ''}"),
            f"{answer.trace.channels:,}",
            human_count(observed.throughput_records_per_s),
            human_count(observed.buffers * 1e9 / observed.duration_ns),
            _share(observed.flushes.full, observed.buffers),
            human_number(observed.backlog_buffers.mean),
            human_number(observed.backlog_buffers.max),
            _share(observed.credits.starved_ns, seconds_of_channels),
            _verdict(answer),
            style="bold" if answer.is_bottleneck else "",
        )
    return table


def _verdict(answer: ReplayAnswer) -> str:
    """What limits an edge, with the share of its channels' time behind that."""
    if not answer.diagnosis:
        return ""
    verdict = answer.diagnosis[0]
    return f"{verdict.kind}, {verdict.share:.0%}" if verdict.share else verdict.kind


def _share(part: float | None, whole: float) -> str:
    return f"{part / whole:.0%}" if whole and part is not None else MISSING
