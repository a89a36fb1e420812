"""Several replayed runs beside each other, as they were observed."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from flinknet.results import ReplayAnswer
from flinknet.units import MISSING, human_count, human_duration

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
            _number(observed.backlog_buffers.mean),
            _number(observed.backlog_buffers.max),
            human_count(observed.buffers * 1e9 / observed.duration_ns),
            *(_percent(each) for each in (error.throughput, error.p50, error.p99)),
        )
    return table


def _percent(ratio: float | None) -> str:
    return MISSING if ratio is None else f"{ratio:+.1%}"


def _number(value: float | None) -> str:
    if value is None:
        return MISSING
    return str(value) if isinstance(value, int) else f"{value:.2f}"
