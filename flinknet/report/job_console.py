"""The result of a job on a terminal and as a page: what limited it, its vertices and edges, and its
latency markers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from flinknet.plain_values import to_plain
from flinknet.results import (
    PriorAttempt,
    state_of,
)
from flinknet.results.figures import FIGURES, Figure
from flinknet.units import NS_PER_MS, counted, human_count, human_duration

from .bench import TASK_PARTS
from .charts import Bar, Bars
from .console import clauses_of
from .page_parts import (
    Fact,
    Facts,
    Head,
    Lines,
    Page,
    Pairs,
    Part,
    Row,
    Section,
    Sentence,
    Table,
    View,
    heads,
    heads_of,
)

AGREES_WITHIN = 0.1


AGREES_WITHIN_MS = 2.0
"""Two roundings to whole ms."""


WHY = (
    "A marker is stamped in whole ms when its source gets to send it, and passes functions and"
    " delays by; a record counts from when it was due until its operator is done with it."
)


FAILED_LINES_MAX = 16
"""Failed attempts that are listed."""


def job_view(result: Mapping[str, Any], next_step: str = "") -> View:
    """What is printed of a result as `result.json` has it.

    Args:
        next_step: a command that goes on from here.
    """
    reason, vertices = result["reason"], result["vertices"]
    doubts = [each["text"].rstrip(".") for each in result["warnings"]]
    doubts[:1] = [f"fair: {each}" for each in doubts[:1]]
    ran = [heading_of(result)]
    if vertices:
        rate = max((each["throughput_records_per_s"] or 0 for each in result["edges"]), default=0)
        ran += [f"{human_count(rate)} records/s"] if rate else []
    if result["checkpoints"] is not None:
        ran.append(checkpoints_line(result["checkpoints"]))
    verdict = [f"{reason};"] if reason and reason != f"it was {result['state']}" else []
    if result["limited_by"]:
        found = result.get("verdict")
        verdict += [f"{state_of(found['cause'])}:"] if found else []
        verdict += clauses_of(result["limited_by"])
    following = [*([next_step] if next_step else []), "--details shows edges and attempts"]
    return View(
        [
            Sentence("ran", ran, "; "),
            Sentence("verdict", verdict, takes_rest=True),
            Sentence("trust", doubts, "; "),
            Sentence("next", following if vertices else [], "; "),
        ],
        [*([vertex_table(vertices)] if vertices else []), *_marker_parts(result)],
        _job_details(result),
    )


def _job_details(result: Mapping[str, Any]) -> list[Part]:
    tasks = [task for vertex in result["vertices"] for task in vertex["tasks"]]
    prior = [PriorAttempt(**each) for task in tasks for each in task.get("prior_attempts", ())]
    lines = [
        *failed_lines([each for each in prior if each.failure]),
        *(
            f"  {name}: {counted(channels, 'channel')} on one connection"
            for name, channels in result["connections"].items()
        ),
    ]
    return [
        *([edge_table(result["edges"])] if result["edges"] else []),
        Lines(lines),
        Lines([each["text"] for each in result["warnings"]], is_doubt=True),
    ]


def _marker_parts(result: Mapping[str, Any]) -> list[Part]:
    markers = result["latency_markers"]
    return marker_parts(markers) if markers is not None else []


def heading_of(result: Mapping[str, Any]) -> str:
    """How a job ended, and when."""
    began = result["duration_ns"] > 0
    when = f"after {human_duration(result['duration_ns'])}" if began else "before it began"
    heading = f"{result['name']}: {result['state']} {when}"
    if result["restarts"]:
        heading += f", {counted(result['restarts'], 'restart')}"
    return heading


def some(name: str) -> Callable[[Mapping[str, Any]], float | None]:
    """Reads a field; 0 is as good as unknown."""
    return lambda row: row[name] or None


_WAITED = "Share of the time in which they waited for a free output buffer."


SHARES: Sequence[Figure[Any]] = (
    Figure("", "busy", itemgetter("busy"), "share", "busy",
           "Share of the time in which the tasks worked on records."),
    Figure("", "idle", itemgetter("idle"), "share", "idle",
           "Share of the time in which they waited for input."),
    Figure("", "pressed", itemgetter("back_pressured"), "share", "back_pressured", _WAITED),
)  # fmt: skip


RECORDS_IN: Figure[Any] = Figure("", "records in", some("records_in"))


RECORDS_OUT: Figure[Any] = Figure("", "records out", some("records_out"))


_VERTEX = (
    *(RECORDS_IN, RECORDS_OUT, *SHARES),
    Figure("", "p50", lambda row: (row["latency_ns"] or {}).get("p50"), "ns"),
    Figure("", "p99", lambda row: (row["latency_ns"] or {}).get("p99"), "ns"),
)


_EDGE: Sequence[Figure[Any]] = (
    Figure("", "channels", itemgetter("channels")),
    Figure("", "local", itemgetter("local_channels"), "count", "",
           "Channels between tasks of one TaskManager: no socket and no credit."),
    Figure("", "records", itemgetter("records")),
    Figure("", "records/s", itemgetter("throughput_records_per_s")),
    Figure("", "bytes/s", itemgetter("throughput_bytes_per_s"), "bytes"),
    Figure("", "buffers", some("buffers")),
    replace(FIGURES["backlog_mean_buffers"], name="backlog", group="",
            read=lambda row: row["backlog_buffers"]["mean"]),
    replace(FIGURES["backlog_max_buffers"], group="",
            read=lambda row: row["backlog_buffers"]["max"]),
    Figure("", "no credit", itemgetter("starved_ns"), "ns", "",
           "Time with a backlog and without credit, of all channels together."),
)  # fmt: skip


def cells_of(row: Any, figures: Sequence[Figure[Any]]) -> list[str]:
    """Figures of a row; blank where nothing is known."""
    return ["" if each.read(row) is None else each.text(row) for each in figures]


def vertex_table(vertices: Sequence[Mapping[str, Any]]) -> Table:
    """Records, times and latency of each vertex."""
    deployed_ns = [(each.get("times") or {}).get("deployed_ns") for each in vertices]
    is_staged = len({at_ns for at_ns in deployed_ns if at_ns is not None}) > 1
    rows = []
    for each, at_ns in zip(vertices, deployed_ns, strict=True):
        cells = [each["name"], str(each["parallelism"]), *cells_of(each, _VERTEX)]
        rows.append(Row([*cells, *([after_text(at_ns)] if is_staged else [])]))
    staged = heads("deployed") if is_staged else []
    return Table([*heads("vertex", "tasks"), *heads_of(_VERTEX), *staged], rows)


def after_text(at_ns: int | None) -> str:
    """How long after the first deployment."""
    return "" if at_ns is None else f"+{human_duration(at_ns)}" if at_ns else "at once"


def edge_table(edges: Sequence[Mapping[str, Any]]) -> Table:
    """Records and buffers of each edge."""
    rows = []
    for each in edges:
        name = f"{each['edge_number']} {each['source']} -{each['partitioner']}-> {each['target']}"
        rows.append(Row([name, *cells_of(each, _EDGE)]))
    return Table([Head("edge"), *heads_of(_EDGE)], rows)


def failed_lines(attempts: Sequence[PriorAttempt]) -> Iterator[str]:
    """The attempts that failed before the current ones; of many only the last."""
    hidden = len(attempts) - FAILED_LINES_MAX
    if hidden > 0:
        yield f"  {counted(hidden, 'earlier failed attempt')} in result.json"
    for each in attempts[-FAILED_LINES_MAX:]:
        where = f" on {each.task_manager}" if each.task_manager else ""
        yield f"  {each.task} attempt {each.attempt} failed{where}: {each.failure}"


def checkpoints_line(summary: Mapping[str, Any]) -> str:
    """How many there were, and how long they took."""
    text = f"{summary['completed']} of {counted(summary['triggered'], 'checkpoint')} completed"
    if summary["duration_ns"]["p50"] is not None:
        text += f", p50 {human_duration(summary['duration_ns']['p50'])}"
    elif summary["duration_ns"]["mean"] is not None:
        text += f", mean {human_duration(summary['duration_ns']['mean'])}"
    if summary["aborted"]:
        text += f", {summary['aborted']} aborted"
    return text


def marker_parts(measured: Mapping[str, Any]) -> list[Part]:
    """A table of the operators, and how far to trust it."""
    interval, history = human_duration(measured["interval_ns"]), measured["history"]
    heading = f"Latency markers every {interval}; each subtask keeps the last {history}"
    if not measured["operators"]:
        return [Lines([f"{heading}. None came to an operator."])]
    return [_table_of_markers(measured, heading), Lines([trust_of(measured)])]


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


def _table_of_markers(measured: Mapping[str, Any], title: str) -> Table:
    """A line for each operator and source; columns that nothing is known for are left out."""
    has_sources = any(each["source"] for each in measured["operators"])
    has_records = any(each["records_ns"] for each in measured["operators"])
    rows = []
    for each in measured["operators"]:
        latency, records = each["latency_ms"], each["records_ns"]
        cells = [each["operator"], *([each["source"]] if has_sources else [])]
        cells.append(human_count(each["markers"]))
        cells += [human_duration(latency[name] * NS_PER_MS) for name in ("p50", "p99", "max")]
        if has_records:
            cells += [human_duration(records[name]) if records else "" for name in ("p50", "p99")]
        rows.append(Row(cells))
    sources = ["markers from"] if has_sources else []
    numbers = ("markers", "p50", "p99", "max")
    records_too = ["records p50", "records p99"] if has_records else []
    columns = heads("operator", *sources, *numbers, *records_too, texts=["markers from"])
    return Table(columns, rows, title)


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
            Bar(each["name"], {part.key: each[part.key] for part in TASK_PARTS})
            for each in vertices
            if all(each[part.key] is not None for part in TASK_PARTS)
        ]
        charts = [Bars("Share of the time", TASK_PARTS, shares)] if shares else []
        lead = "Latency counts from the instant at which a record was due."
        yield Section("vertices", "Vertices", lead, [*charts, vertex_table(vertices)])
    if edges:
        shared = [
            f"{name}: {counted(channels, 'channel')} on one connection"
            for name, channels in result["connections"].items()
        ]
        yield Section("edges", "Edges", "", [replace(edge_table(edges), notes=shared)])
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
