"""A recorded run sent again, as a page: predicted next to measured, then each run on its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flinknet.results import RunWarning
from flinknet.units import human_change, human_count, human_duration, parse_duration_ns

from .bench_console import Setting
from .bench_page import bench_page, labels_of
from .charts import Curves, Series
from .from_trace_console import OF_MACHINE, change_lines, is_doubtful, machine_lines
from .page_parts import Head, Lines, Page, Row, Section, Table, View
from .warning_lines import warning_lines

WIDTH = 1000
"""Columns of a line on the page, which breaks it where there is no room."""

_TIMEOUT = "buffer-timeout="

_HEADS = (
    Head("setting"),
    *(
        Head(f"{what} {kind}", meaning)
        for what in ("records/s", "p50", "p99")
        for kind, meaning in (
            ("predicted", "From the trace."),
            ("measured", "Over sockets, now."),
            ("error", "The prediction against what was measured."),
        )
    ),
)


def from_trace_page(
    document: Mapping[str, Any], settings: Sequence[Setting], environment: Mapping[str, Any]
) -> Page:
    """The page of `bench again`.

    Args:
        document: as it stands in prediction.json.
        settings: the runs that were measured, one for each row of the document.
    """
    measured = bench_page(settings, environment).views
    return Page("bench again", [_against_measured(document), *measured])


def _against_measured(document: Mapping[str, Any]) -> View:
    rows = document["runs"]
    recording = document["recording"]
    doubts = [f"The recording: {each}" for each in (*recording["notes"], *recording["warnings"])]
    if not document["is_complete"]:
        doubts.insert(0, f"Ended early: {len(rows)} of {document['settings_asked']} settings.")
    if any(map(is_doubtful, rows)):
        doubts.append(f"{OF_MACHINE[2:].capitalize()}.")
    runs = [(row["name"], [RunWarning(**each) for each in row["warnings"]]) for row in rows]
    known = warning_lines(runs, WIDTH, numbers=range(1, len(rows) + 1))
    doubts += [line.plain for line in known]
    notes = dict.fromkeys(note for row in rows for note in row["notes"])
    drawn = _in_order(rows)
    labels = labels_of([row["name"] for row in drawn])
    charts = [
        Curves(
            f"Latency {name}",
            labels,
            [
                Series("measured", [_latency(row["measured"], name) for row in drawn]),
                Series("predicted", [_latency(row["predicted"], name) for row in drawn], "orange"),
            ],
            unit="ns",
            is_log=True,
        )
        for name in ("p50", "p99")
    ]
    machine = machine_lines(document)
    changes, is_unsure = change_lines(document), any(map(is_doubtful, rows))
    table = Table(_HEADS, [Row(_cells(row)) for row in rows], notes=list(notes))
    return View(
        name="predicted and measured",
        title="Predicted from the trace, and measured over sockets",
        lead=f"The records of {document['trace']}, sent again.",
        parts=[
            *([Lines(machine, is_headed=True)] if machine else []),
            *([Lines(changes, is_doubt=is_unsure, is_headed=True)] if changes else []),
            *([Lines(doubts, is_doubt=True)] if doubts else []),
            Section("settings", "Each setting", "", [*charts, table]),
        ],
    )


def _in_order(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Buffer timeouts from the shortest on, the recorded one among them; other settings as they
    were given.
    """

    def timeout_ns(row: Mapping[str, Any]) -> float:
        value = row["name"].removeprefix(_TIMEOUT).partition(" ")[0]
        ns = parse_duration_ns(value, "a timeout", allow_never=True)
        return ns if ns >= 0 else float("inf")

    is_of_timeouts = all(row["name"].startswith(_TIMEOUT) for row in rows)
    return sorted(rows, key=timeout_ns) if is_of_timeouts else rows


def _cells(row: Mapping[str, Any]) -> list[str]:
    predicted, measured, error = row["predicted"], row["measured"], row["error"]
    cells = [
        f"! {row['name']}" if is_doubtful(row) else row["name"],
        human_count(predicted["throughput_records_per_s"]),
        human_count(measured["throughput_records_per_s"]),
        human_change(error["throughput"]),
    ]
    for name in ("p50", "p99"):
        cells += [
            human_duration(_latency(predicted, name)),
            human_duration(_latency(measured, name)),
            human_change(error[name]),
        ]
    return cells


def _latency(figures: Mapping[str, Any], name: str) -> float | None:
    latency: float | None = figures["latency_ns"][name]
    return latency
