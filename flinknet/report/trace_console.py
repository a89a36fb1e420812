"""Contents of a trace, its faults, and its newest part while it is written, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from flinknet.results import LatencyBounds, WatchedEdge, WatchLook, state_of
from flinknet.units import (
    counted,
    human_bytes,
    human_count,
    human_duration,
    human_number,
    human_share,
)

from .console import LivePanel, console_for, print_line, print_part, print_view
from .observed_tables import regime_bars
from .page_parts import Lines, Part, Row, Sentence, Table, View, clauses_of, heads

_CHANNELS_SHOWN = 32

_ORIGINS = {
    "tap": "recorded by a tap between the processes: each message once, as it passed",
    "capture": "made of a packet capture: each message once, as it passed",
}

_TIMES = {
    "timestamp_1_ms": "timestamps",
    "watermark_ms": "watermarks",
    "marker_ms": "latency markers",
}

NOT_SEALED = "not sealed: changes of manifest.json, or files of another run, are not detected"

Plain = Mapping[str, Any]


def print_description(description: Plain, console: Console | None = None) -> None:
    """Print a run: its processes, channels, events by kind, and what determined it."""
    console = console or console_for(sys.stdout)
    _print_head(description, console)
    print_part(console, _files_table(description["files"]))
    manifest = description["manifest"]
    ends_ns = (description["last_ns"], (manifest or {}).get("measured_to_ns"))
    until_ns = max((each for each in ends_ns if each is not None), default=0)
    for file in description["files"]:
        if file["truncation"] is not None:
            lost_ns = until_ns - (file["last_ns"] or until_ns)
            console.print(
                f"[yellow]![/yellow] {escape(file['file'])} has no trailer:"
                f" {file['truncation']['whole_blocks']} whole blocks are readable,"
                f" {file['truncation']['lost_bytes']} bytes are lost"
                + (f", the last {human_duration(lost_ns)} of the run" if lost_ns > 0 else ""),
                soft_wrap=True,
            )
        if file["dropped_events"]:
            console.print(
                f"[yellow]![/yellow] {escape(file['file'])} lacks"
                f" {file['dropped_events']:,} events that could not be written"
            )
    edges = description["edges"]
    if len(edges) > 1 or any(edge["partitioner"] for edge in edges):
        print_part(console, _edges_table(edges))
    print_part(console, _channels_table(description["channels"], has_edges=len(edges) > 1))
    hidden = len(description["channels"]) - _CHANNELS_SHOWN
    if hidden > 0:
        console.print(f"… and {hidden:,} more channels (--json shows all)")
    print_part(console, _kinds_table(description["events_by_kind"]))
    if times := [_TIMES[each] for each in description["record_times"]]:
        print_line(console, f"records carry times: {', '.join(times)}")
    if description.get("metrics") is not None:
        print_line(console, _metrics_text(description["metrics"]))
    if manifest is not None:
        print_part(console, _settings_table(manifest))


def print_verification(path: str, verification: Plain, console: Console | None = None) -> None:
    """Print OK with the counts, or every finding in a sentence."""
    console = console or console_for(sys.stdout)
    sent, received = verification["messages_sent"], verification["messages_received"]
    messages = f"{counted(sent, 'message')} sent, {received:,} received"
    if verification["is_from_between"]:
        messages = (
            f"{counted(sent, 'message')} from producers, {received:,} from consumers, each recorded"
            " once, where it passed"
        )
    elif verification["messages_in_flight"]:
        messages += f"; {verification['messages_in_flight']:,} were under way at the end"
    if verification["is_being_written"]:
        messages += "; still being written, checked up to here"
    counts = (
        f"{counted(verification['files'], 'file')}, {counted(verification['blocks'], 'block')},"
        f" {counted(verification['events'], 'event')} on"
        f" {counted(verification['channels'], 'channel')}, {messages}"
    )
    findings: Sequence[Plain] = verification["findings"]
    mark = "[red]DAMAGED[/red]" if findings else "[green]OK[/green]"
    console.print(f"{mark} {escape(path)}: {counts}", soft_wrap=True)
    if verification.get("is_sealed") is False:
        console.print(f"  [yellow]{NOT_SEALED}[/yellow]", soft_wrap=True)
    for finding in findings:
        console.print(f"  {escape(_place(finding) + finding['text'])}", soft_wrap=True)


def _place(finding: Plain) -> str:
    places = [finding["file"]] if finding["file"] is not None else []
    if finding["channel"] is not None:
        places.append(f"channel {finding['channel']}")
    return f"{', '.join(places)}: " if places else ""


def _print_head(description: Plain, console: Console) -> None:
    console.print(f"[bold]{escape(description['path'])}[/bold]", soft_wrap=True)
    size = f"{description['events']:,} events in {description['size_bytes']:,} bytes"
    if description["bytes_per_event"] is not None:
        size += (
            f" ({description['bytes_per_event']:.1f} bytes an event,"
            f" compressed {description['compression_ratio']:.1f} times)"
        )
    console.print(size, soft_wrap=True)
    manifest = description["manifest"]
    if description.get("is_sealed") is False:
        console.print(f"[yellow]![/yellow] {NOT_SEALED}", soft_wrap=True)
    if manifest is not None and "origin" in manifest:
        console.print(_ORIGINS.get(manifest["origin"], manifest["origin"]), soft_wrap=True)
    if description["first_ns"] is not None:
        span_ns = description["last_ns"] - description["first_ns"]
        console.print(f"time span {_seconds(span_ns)}, from {description['first_ns']:,} ns")


def _files_table(files: Sequence[Plain]) -> Table:
    rows = [
        Row(
            [
                file["file"],
                file["process"],
                str(file["pid"]),
                f"{file['size_bytes']:,}",
                f"{file['blocks']:,}",
                f"{file['events']:,}",
                _span(file),
            ]
        )
        for file in files
    ]
    names = ("process", "pid", "bytes", "blocks", "events", "time span")
    return Table(heads("file", *names, texts=["process"]), rows)


def _edges_table(edges: Sequence[Plain]) -> Table:
    has_jobs = len({edge["job"] for edge in edges}) > 1
    rows = [
        Row(
            [
                str(edge["number"]),
                *([str(edge["job"])] if has_jobs else []),
                *(
                    edge[name] or "-"
                    for name in ("source", "target", "partitioner", "partition_type")
                ),
            ]
        )
        for edge in edges
    ]
    names = (*(["job"] if has_jobs else []), "from", "to", "partitioner", "type")
    return Table(heads("edge", *names, texts=names), rows)


def _channels_table(channels: Sequence[Plain], *, has_edges: bool) -> Table:
    rows = [
        Row(
            [
                "connection" if channel["index"] < 0 else str(channel["index"]),
                *([_or_dash(channel["edge"])] if has_edges else []),
                channel["connection"] or "-",
                _or_dash(channel["producer"]),
                _or_dash(channel["consumer"]),
                f"{channel['events']:,}",
                _span(channel),
            ]
        )
        for channel in channels[:_CHANNELS_SHOWN]
    ]
    left = [*(["edge"] if has_edges else []), "connection"]
    names = (*left, "producer", "consumer", "events", "time span")
    return Table(heads("channel", *names, texts=left), rows)


def _span(part: Plain) -> str:
    return "-" if part["first_ns"] is None else _seconds(part["last_ns"] - part["first_ns"])


def _kinds_table(events_by_kind: Mapping[str, Mapping[str, int]]) -> Table:
    points = list(events_by_kind)
    kinds = dict.fromkeys(kind for counts in events_by_kind.values() for kind in counts)
    rows = []
    for kind in kinds:
        counts = (events_by_kind[point].get(kind, 0) for point in points)
        rows.append(Row([kind, *(f"{count:,}" if count else "-" for count in counts)]))
    return Table(heads("events", *points), rows)


def _metrics_text(metrics: Plain) -> str:
    """Note on recorded metrics: their subjects and their file."""
    return (
        f"metrics: {metrics['lines']:,} lines in {metrics['file']}, {len(metrics['names'])}"
        f" metrics of {len(metrics['tasks'])} tasks over time, and the memory of each TaskManager"
    )


def _settings_table(manifest: Plain) -> Table:
    origins = manifest["scenario"].get("settings_from")
    cells = [
        [key, str(value), *([] if origins is None else [str(origins.get(key, "default"))])]
        for key, value in manifest["flink_keys"].items()
    ]
    for key, value in manifest["scenario"].get("workload", {}).items():
        text = "max" if key == "rate_per_s" and not value else _text_of(value)
        cells.append([f"workload.{key}", text])
    if "origin" not in manifest:
        cells.append(["seed", str(manifest["seed"])])
    cells.append(["started at", manifest["started_at"]])
    if manifest["measured_to_ns"] is not None and manifest["measured_from_ns"] is not None:
        span_ns = manifest["measured_to_ns"] - manifest["measured_from_ns"]
        cells.append(["measured part", _seconds(span_ns)])
    names = ("value", *(["from"] if origins is not None else []))
    rows = [Row([*row, *[""] * (len(names) + 1 - len(row))]) for row in cells]
    return Table(heads("setting", *names, texts=names), rows)


def _text_of(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text_of(each)}" for name, each in value.items())
    if isinstance(value, list):
        return "; ".join(map(_text_of, value)) or "-"
    return "-" if value is None else str(value)


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


def _seconds(span_ns: int) -> str:
    return f"{span_ns / 1e9:,.3f} s"


EDGES_SHOWN = 12


class WatchView(LivePanel):
    """A live panel where there is a terminal, else the panel once for each look.

    Args:
        has_details: show the time and the verdict of each edge, too.
    """

    def __init__(self, console: Console, path: str, *, has_details: bool = False) -> None:
        super().__init__(console)
        self._path = path
        self._has_details = has_details
        self._look: WatchLook | None = None
        self._waited_s = 0

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        if self.is_live and self._look is not None:
            self._print(self._look)

    def update(self, look: WatchLook) -> None:
        """Show a look."""
        self._look, self._waited_s = look, 0
        if self.is_live:
            self.draw(watch_view(look, self._path))
        else:
            self._print(look)

    def wait(self) -> None:
        """Count a second without a new look."""
        self._waited_s += 1
        self.draw(watch_view(self._look, self._path, self._waited_s))

    def _print(self, look: WatchLook) -> None:
        print_view(self.console, watch_view(look, self._path), has_details=self._has_details)


def watch_view(look: WatchLook | None, path: str, waited_s: int = 0) -> View:
    """Runs, edges and what limits them.

    Args:
        waited_s: since the last new event.
    """
    since = [f"no new event for {waited_s} s"] if waited_s else []
    if look is None:
        return View([Sentence("watching", [path, *since], "; ")])
    edges = look.edges[:EDGES_SHOWN]
    spans_ns = [each.to_ns - each.from_ns for each in edges]
    newest = [f"the last {human_duration(max(spans_ns))}"] if spans_ns else []
    waiting = [f"{name}: {text}" for name, text in look.waiting.items()]
    if not look.edges and not look.waiting:
        waiting = ["no trace file there or in a directory directly below it yet"]
    bars = regime_bars({_name(each): each.regimes for each in edges}, "time of channels")
    return View(
        [
            Sentence("watching", [path, f"{look.events:,} events read", *newest, *since], "; "),
            Sentence("verdict", _verdict(look), takes_rest=True),
            Sentence("waiting", waiting, "; "),
            Sentence("trust", _trust(edges, waiting), "; "),
            Sentence("next", _next(look, path), "; "),
        ],
        [_watched_table(look.edges)] if edges else [],
        [*bars, *_reasons(edges)],
    )


def _verdict(look: WatchLook) -> list[str]:
    """The limit of each job, with its state in a word; of a run without one, those of its edges."""
    is_one = len({each.run for each in look.edges}) == 1
    found = []
    for name, text in look.bottlenecks.items():
        own = [each for each in look.edges if each.run == name]
        limit = next(
            (each for each in own if each.is_bottleneck),
            max(own, key=lambda each: each.share, default=None),
        )
        state = f"{_state(limit)}: " if limit is not None else ""
        first, *others = clauses_of(text)
        found += [state + (first if is_one else f"{name}: {first}"), *others]
        found[-1] = found[-1].rstrip(";.") + ";"
    if not found:
        found = [f"{_state(each)}: {_name(each)}: {each.why};" for each in look.edges if each.why]
    return found


def _state(edge: WatchedEdge) -> str:
    return state_of(None if edge.verdict == "unknown" else edge.verdict)


def _trust(edges: Sequence[WatchedEdge], waiting: Sequence[str]) -> list[str]:
    if not edges:
        return []
    bounds = any(edge.latency.until != "consumed" for edge in edges)
    found = [
        *(["latency: at most, until a record passed the tap"] if bounds else []),
        *(["some runs cannot be read yet"] if waiting else []),
    ]
    return [f"fair: {found[0]}", *found[1:]] if found else ["good: both ends were recorded"]


def _next(look: WatchLook, path: str) -> list[str]:
    if not look.edges:
        return []
    return [f"when it has ended: flinknet trace replay {path}", "--details shows each edge"]


def _reasons(edges: Sequence[WatchedEdge]) -> list[Part]:
    return [Lines([f"  {_name(each)}: {each.why}" for each in edges])] if edges else []


def _watched_table(edges: Sequence[WatchedEdge]) -> Table:
    rows = [
        Row(
            [
                _name(edge),
                edge.verdict,
                human_count(edge.records_per_s),
                f"{human_bytes(edge.bytes_per_s)}/s",
                _bounds(edge.latency, edge.latency.p50_min_ns, edge.latency.p50_max_ns),
                _bounds(edge.latency, edge.latency.p99_min_ns, edge.latency.p99_max_ns),
                human_number(edge.backlog_buffers.mean),
                human_number(edge.backlog_buffers.max),
                human_share(edge.starved),
            ],
            is_strong=bool(edge.is_bottleneck),
        )
        for edge in edges[:EDGES_SHOWN]
    ]
    hidden = len(edges) - EDGES_SHOWN
    names = ("records/s", "bytes/s", "latency p50", "p99", "backlog", "max", "starved")
    return Table(
        heads("edge", "verdict", *names, texts=["verdict"]),
        rows,
        notes=[f"and {hidden} more edges"] if hidden > 0 else [],
    )


def _name(edge: WatchedEdge) -> str:
    return f"{edge.run}, {edge.edge_number} {edge.edge}" if edge.edge else edge.run


def _bounds(latency: LatencyBounds, least_ns: float | None, most_ns: float | None) -> str:
    if most_ns is None:
        return "unknown"
    return human_duration(most_ns) if least_ns == most_ns else f"at most {human_duration(most_ns)}"
