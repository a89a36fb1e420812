"""A recorded run sent again, as a page: predicted next to measured, then each run on its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flinknet.units import human_change, human_count, human_duration

from .bench_console import Setting
from .bench_page import bench_page
from .from_trace_console import OF_MACHINE, is_doubtful
from .page_parts import Curves, Head, Lines, Page, Row, Section, Series, Table, View

_HEADS = (
    Head("setting"),
    *(Head("predicted records/s"), Head("measured"), Head("difference")),
    *(Head("predicted p50"), Head("measured"), Head("difference")),
    *(Head("predicted p99"), Head("measured"), Head("difference")),
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
    notes = dict.fromkeys(note for row in rows for note in row["notes"])
    names = [row["name"] for row in rows]
    charts = [
        Curves(
            f"Latency {name}",
            names,
            [
                Series("measured", [_latency(row["measured"], name) for row in rows]),
                Series("predicted", [_latency(row["predicted"], name) for row in rows], "orange"),
            ],
            unit="ns",
            is_log=True,
        )
        for name in ("p50", "p99")
    ]
    table = Table(_HEADS, [Row(_cells(row)) for row in rows], notes=list(notes))
    return View(
        "predicted and measured",
        "Predicted from the trace, and measured over sockets",
        [
            *([Lines(doubts, is_doubt=True)] if doubts else []),
            Section("settings", "Each setting", "", [*charts, table]),
        ],
        f"The records of {document['trace']}, sent again.",
    )


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
