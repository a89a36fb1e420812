"""A job as a page: what limited it, its vertices, its edges, and what to doubt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flinknet.plain_values import to_plain
from flinknet.results.figures import FIGURES
from flinknet.units import counted, human_count, human_duration

from .charts import Bar, BarPart, Bars
from .job_console import checkpoints_line, edge_table, heading_of, vertex_table
from .page_parts import Fact, Facts, Lines, Page, Pairs, Section, Table, View

_MEANINGS = {
    "busy": "Share of the time in which the tasks worked on records.",
    "idle": "Share of the time in which they waited for input.",
    "pressed": "Share of the time in which they waited for a free output buffer.",
    "local": "Channels between tasks of one TaskManager: no socket and no credit.",
    "backlog": FIGURES["backlog_mean_buffers"].meaning,
    "no credit": "Time with a backlog and without credit, of all channels together.",
}

_PARTS = (
    BarPart("busy", "busy", "orange", _MEANINGS["busy"]),
    BarPart("back_pressured", "back-pressured", "purple", _MEANINGS["pressed"]),
    BarPart("idle", "idle", "grey", _MEANINGS["idle"]),
)


def job_page(result: Mapping[str, Any]) -> Page:
    """The page of a result as `result.json` has it."""
    return Page("job run", [View(name="job", title=heading_of(result), parts=list(_parts(result)))])


def _parts(result: Mapping[str, Any]) -> Iterator[Lines | Facts | Section]:
    if result["limited_by"]:
        yield Lines([f"Bottleneck: {result['limited_by']}"], is_headed=True)
    if result["reason"] and result["reason"] != f"it was {result['state']}":
        yield Lines([result["reason"]], is_doubt=True)
    if warnings := [each["text"] for each in result["warnings"]]:
        yield Lines(warnings, is_doubt=True)
    vertices, edges = result["vertices"], result["edges"]
    yield Facts(list(_facts(result)))
    if vertices:
        shares = [
            Bar(each["name"], {part.key: each[part.key] for part in _PARTS})
            for each in vertices
            if all(each[part.key] is not None for part in _PARTS)
        ]
        charts = [Bars("Share of the time", _PARTS, shares)] if shares else []
        lead = "Latency counts from the instant at which a record was due."
        yield Section("vertices", "Vertices", lead, [*charts, _table(vertex_table(vertices))])
    if edges:
        shared = [
            f"{name}: {counted(channels, 'channel')} on one connection"
            for name, channels in result["connections"].items()
        ]
        yield Section("edges", "Edges", "", [_table(edge_table(edges), shared)])
    keys = {key: str(to_plain(value)) for key, value in result["config"].items()}
    if keys:
        yield Section("environment", "Environment", "", [Pairs("Flink's keys", keys)])


def _facts(result: Mapping[str, Any]) -> Iterator[Fact]:
    yield Fact("state", result["state"])
    yield Fact("duration", human_duration(result["duration_ns"]))
    yield Fact("restarts", str(result["restarts"]))
    known = [each["records_in"] for each in result["vertices"] if each["records_in"]]
    if known:
        yield Fact("records", human_count(max(known)), "That the busiest vertex has read.")
    if result["checkpoints"] is not None:
        yield Fact("checkpoints", checkpoints_line(result["checkpoints"]))


def _table(table: Table, notes: Sequence[str] = ()) -> Table:
    """A table of the terminal with meanings and notes."""
    explained = [replace(head, meaning=_MEANINGS.get(head.name, "")) for head in table.heads]
    return replace(table, heads=explained, notes=notes)
