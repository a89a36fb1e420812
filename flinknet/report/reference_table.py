"""Numbers to compare a run with, next to it: published ones of Flink, and the project's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flinknet.options import BUFFER_TIMEOUT
from flinknet.results import RunResult
from flinknet.results.references import REFERENCES, Reference
from flinknet.units import (
    format_duration_ns,
    format_size_bytes,
    human_count,
    human_duration,
    human_rate,
    parse_duration_ns,
)

from .page_parts import Head, Row, Table

TITLE = "for comparison: published measurements"

NOTE = (
    "Other machines, versions and numbers of channels: compare orders of magnitude, and the"
    " direction in which a setting changes them."
)

_AT_MOST = "max"
"""The rate of a load that goes as fast as it can, in results."""

_HEADS = ("system", "rate", "timeout", "channels", "record", "records/s", "p50", "p99")


def references_of(results: Iterable[RunResult]) -> list[Reference]:
    """References with the load (at the highest rate or not) and the buffer timeout of some run;
    with that load and any timeout, if none has both."""
    runs = {
        (
            result.workload["rate_per_s"] == _AT_MOST,
            parse_duration_ns(result.config[BUFFER_TIMEOUT], BUFFER_TIMEOUT, allow_never=True),
        )
        for result in results
    }
    alike = [each for each in REFERENCES if (each.is_max_rate, each.buffer_timeout_ns) in runs]
    kinds = {is_max_rate for is_max_rate, _ in runs}
    return alike or [each for each in REFERENCES if each.is_max_rate in kinds]


def reference_part(results: Iterable[RunResult]) -> Table:
    """The references as a table."""
    found = references_of(results)
    rows = [Row(cells) for cells in _rows(found)]
    return Table(
        [Head(each) for each in _HEADS], rows, TITLE, notes=[*_sources(found).values(), NOTE]
    )


def _rows(references: Sequence[Reference]) -> list[list[str]]:
    numbers = {source: number for number, source in enumerate(_sources(references), 1)}
    return [
        [
            f"{each.system} ({numbers[each.source, each.benchmark]})",
            "max" if each.rate_per_s is None else human_rate(each.rate_per_s),
            format_duration_ns(each.buffer_timeout_ns),
            f"{each.channels} TLS" if each.is_tls else str(each.channels),
            format_size_bytes(each.record_bytes),
            human_count(each.throughput_records_per_s),
            human_duration(each.latency_ns_p50),
            human_duration(each.latency_ns_p99),
        ]
        for each in references
    ]


def _sources(references: Sequence[Reference]) -> dict[tuple[str, str], str]:
    """A numbered line for each source."""
    places = dict.fromkeys((each.source, each.benchmark, each.machine) for each in references)
    return {
        (source, benchmark): f"({number}) {benchmark}, on {machine}: {source}"
        for number, (source, benchmark, machine) in enumerate(places, 1)
    }
