"""Latency markers of a job next to the measured age of its records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flinknet.units import NS_PER_MS, human_count, human_duration

from .console import print_line

AGREES_WITHIN = 0.1
AGREES_WITHIN_MS = 2.0
"""Two roundings to whole ms."""

WHY = (
    "A marker is stamped in whole ms when its source gets to send it, and passes functions and"
    " delays by; a record counts from when it was due until its operator is done with it."
)


def print_latency_markers(console: Console, measured: Mapping[str, Any]) -> None:
    """A table of the operators, and how far to trust it."""
    interval, history = human_duration(measured["interval_ns"]), measured["history"]
    heading = f"Latency markers every {interval}; each subtask keeps the last {history}"
    if not measured["operators"]:
        print_line(console, f"{heading}. None came to an operator.")
        return
    print_line(console, f"{heading}:")
    console.print(_table(measured))
    print_line(console, trust_of(measured))


def trust_of(measured: Mapping[str, Any]) -> str:
    """Lines on how well the markers show the age of records, where that was measured."""
    sources = {each["source"] for each in measured["operators"]}
    found = []
    for each in measured["operators"]:
        records = each["records_ns"]
        name = next((n for n in ("p99", "p50") if records and records[n] is not None), None)
        if name is None:
            continue
        compared = _compared(each["latency_ms"][name], records[name] / NS_PER_MS)
        source = f", from {each['source']}" if len(sources) > 1 and each["source"] else ""
        found.append(f"at {each['operator']}{source} their {name} is {compared}")
    if not found:
        return (
            f"To see how far to trust them, measure the true latency with measure_latency(). {WHY}"
        )
    return f"How far to trust them: {'; '.join(found)}. {WHY}"


def _compared(marker_ms: float, record_ms: float) -> str:
    if abs(marker_ms - record_ms) <= max(AGREES_WITHIN_MS, AGREES_WITHIN * record_ms):
        return "near that of the records"
    if marker_ms < record_ms:
        return f"{marker_ms / record_ms:.1%} of that of the records"
    return f"{marker_ms / record_ms:.1f} times that of the records"


def _table(measured: Mapping[str, Any]) -> Table:
    """A line for each operator and source; columns that nothing is known for are left out."""
    has_sources = any(each["source"] for each in measured["operators"])
    has_records = any(each["records_ns"] for each in measured["operators"])
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("operator", overflow="fold")
    if has_sources:
        table.add_column("markers from", overflow="fold")
    numbers = ["markers", "p50", "p99", "max"]
    numbers += ["records p50", "records p99"] if has_records else []
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    for each in measured["operators"]:
        latency, records = each["latency_ms"], each["records_ns"]
        cells = [escape(each["operator"])]
        if has_sources:
            cells.append(escape(each["source"]))
        cells.append(human_count(each["markers"]))
        cells += [human_duration(latency[name] * NS_PER_MS) for name in ("p50", "p99", "max")]
        if has_records:
            cells += [human_duration(records[name]) if records else "" for name in ("p50", "p99")]
        table.add_row(*cells)
    return table
