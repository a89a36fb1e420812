"""Contents of a trace, its faults, and its newest part while it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from flinknet.results import LatencyBounds, WatchedEdge, WatchLook, state_of
from flinknet.units import counted, human_duration, human_share

from .console import LivePanel, print_view
from .observed_tables import REGIMES, share_bars
from .page_parts import Column, Lines, Part, Sentence, Table, View, clauses_of, left_out, table_of
from .trade_words import option_texts

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


def info_view(description: Plain, hidden: int = 0) -> View:
    """The view of a run: its processes, channels, events by kind, and what determined it, but for
    some settings at their defaults."""
    manifest, edges = description["manifest"], description["edges"]
    has_edges = len(edges) > 1
    until_ns = max(description["last_ns"] or 0, (manifest or {}).get("measured_to_ns") or 0)
    lines, doubts = _about(description)
    for file in description["files"]:
        if (cut := file["truncation"]) is not None:
            lost_ns = until_ns - (file["last_ns"] or until_ns)
            end = f", the last {human_duration(lost_ns)} of the run" if lost_ns > 0 else ""
            doubts.append(
                f"{file['file']} has no trailer: {cut['whole_blocks']} whole blocks are readable,"
                f" {cut['lost_bytes']} bytes are lost{end}"
            )
        if lost := file["dropped_events"]:
            doubts.append(f"{file['file']} lacks {lost:,} events that could not be written")
    found = []
    if times := [_TIMES[each] for each in description["record_times"]]:
        found.append(f"records carry times: {', '.join(times)}")
    if metrics := description.get("metrics"):
        found.append(
            f"metrics: {metrics['lines']:,} lines in {metrics['file']}, {len(metrics['names'])}"
            f" metrics of {len(metrics['tasks'])} tasks over time, and the memory of each"
            " TaskManager"
        )
    of_files: Mapping[str, Column] = {
        **{"file": "file", "process": "process"},
        "pid": lambda file: str(file["pid"]),
        **{"bytes": lambda file: file["size_bytes"], "blocks": "blocks", "events": "events"},
        "time span": _span,
    }
    of_edges: Mapping[str, Column] = {
        "edge": "number",
        **({"job": "job"} if len({edge["job"] for edge in edges}) > 1 else {}),
        **{"from": "source", "to": "target", "partitioner": "partitioner"},
        "type": "partition_type",
    }
    by_point: Mapping[str, Mapping[str, int]] = description["events_by_kind"]
    kinds = dict.fromkeys(kind for counts in by_point.values() for kind in counts)
    events = [
        {"events": kind} | {point: counts.get(kind) for point, counts in by_point.items()}
        for kind in kinds
    ]
    shows_edges = has_edges or any(each["partitioner"] for each in edges)
    notes = [f"and {hidden} settings at their defaults; --all shows them"] if hidden else []
    parts: list[Part] = [
        Lines(lines, is_headed=True),
        Lines(doubts, is_doubt=True),
        table_of(description["files"], of_files, texts=["process"]),
        *([table_of(edges, of_edges, texts=of_edges)] if shows_edges else []),
        _channels_table(description["channels"], has_edges=has_edges),
        table_of(events, {each: each for each in ("events", *by_point)}),
        Lines(found),
        *([_settings_table(manifest, notes)] if manifest else []),
    ]
    return View(parts=parts)


def _about(description: Plain) -> tuple[list[str], list[str]]:
    size = f"{description['events']:,} events in {description['size_bytes']:,} bytes"
    if description["bytes_per_event"] is not None:
        size += (
            f" ({description['bytes_per_event']:.1f} bytes an event,"
            f" compressed {description['compression_ratio']:.1f} times)"
        )
    lines, manifest = [description["path"], size], description["manifest"]
    if manifest is not None and "origin" in manifest:
        lines.append(_ORIGINS.get(manifest["origin"], manifest["origin"]))
    if description["first_ns"] is not None:
        lines.append(f"time span {_span(description)}, from {description['first_ns']:,} ns")
    doubts = [NOT_SEALED] if description.get("is_sealed") is False else []
    doubts += [f"{each} is missing: copy it back" for each in description.get("missing_files", ())]
    return lines, doubts


def verification_view(path: str, verification: Plain) -> View:
    """OK with the counts in a line, or every finding in a sentence."""
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
    counts = [counted(verification[f"{each}s"], each) for each in ("file", "block", "event")]
    counts[-1] += f" on {counted(verification['channels'], 'channel')}"
    findings = [f"{_place(each)}{each['text']}" for each in verification["findings"]]
    doubts = [NOT_SEALED] if verification.get("is_sealed") is False else []
    line = f"{'DAMAGED' if findings else 'OK'} {path}: {', '.join([*counts, messages])}"
    return View(parts=[Lines([line], is_headed=True), Lines([*doubts, *findings], is_doubt=True)])


def _place(finding: Plain) -> str:
    file, channel = finding["file"], finding["channel"]
    places = [*([file] if file else []), *([] if channel is None else [f"channel {channel}"])]
    return f"{', '.join(places)}: " if places else ""


def _channels_table(channels: Sequence[Plain], *, has_edges: bool) -> Table:
    edge = {"edge": "edge"} if has_edges else {}
    columns: Mapping[str, Column] = {
        "channel": lambda row: "connection" if row["index"] < 0 else row["index"],
        **edge,
        **{"connection": "connection", "producer": "producer", "consumer": "consumer"},
        **{"events": "events", "time span": _span},
    }
    notes = left_out(channels, _CHANNELS_SHOWN, "… and {} more channels (--json shows all)")
    texts = [*edge, "connection"]
    return table_of(channels[:_CHANNELS_SHOWN], columns, notes=notes, texts=texts)


def _settings_table(manifest: Plain, notes: Sequence[str]) -> Table:
    origins, scenario = manifest["scenario"].get("settings_from"), manifest["scenario"]
    rows = [
        {"key": key, "value": str(value), "from": str((origins or {}).get(key, "default"))}
        for key, value in manifest["flink_keys"].items()
    ]
    workload = option_texts(scenario.get("workload", {}))
    others = {f"workload.{name}": text for name, text in workload.items()}
    others |= {"seed": str(manifest["seed"])} if "origin" not in manifest else {}
    others["started at"] = manifest["started_at"]
    from_ns, to_ns = manifest["measured_from_ns"], manifest["measured_to_ns"]
    if from_ns is not None and to_ns is not None:
        others["measured part"] = _seconds(to_ns - from_ns)
    rows += [{"key": key, "value": text, "from": ""} for key, text in others.items()]
    names = ["value", *(["from"] if origins is not None else [])]
    return table_of(
        rows, {"setting": "key", **{each: each for each in names}}, notes=notes, texts=names
    )


def _span(part: Plain) -> str | None:
    return None if part["first_ns"] is None else _seconds(part["last_ns"] - part["first_ns"])


def _seconds(span_ns: int) -> str:
    return f"{span_ns / 1e9:,.3f} s"


EDGES_SHOWN = 12

BEHIND_SHARE = 0.1
"""Share of a part for which more is known of rates alone, above which that is said."""


class WatchView(LivePanel):
    """A live panel where there is a terminal, else the panel once for each look, with the time and
    the verdict of each edge on request."""

    def __init__(self, console: Console, path: str, *, has_details: bool = False) -> None:
        super().__init__(console)
        self._path = path
        self._has_details = has_details
        self._look: WatchLook | None = None

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        if self.is_live and self._look is not None:
            self._print(self._look)

    def update(self, look: WatchLook) -> None:
        self._look = look
        if self.is_live:
            self.draw(watch_view(look, self._path))
        else:
            self._print(look)

    def wait(self, seconds: int) -> None:
        """Show for how long there has been no new event."""
        if self._look is not None:
            self.draw(watch_view(self._look, self._path, seconds))

    def _print(self, look: WatchLook) -> None:
        print_view(self.console, watch_view(look, self._path), has_details=self._has_details)


def watch_view(look: WatchLook, path: str, waited_s: int = 0) -> View:
    """Runs, edges and what limits them, some seconds after the last new event."""
    since = [f"no new event for {waited_s} s"] if waited_s else []
    events = f"{look.events:,} events read"
    edges = look.edges[:EDGES_SHOWN]
    replay = f"{'' if look.has_ended else 'when it has ended: '}flinknet trace replay {path}"
    newest = _part(max(edges, key=lambda each: each.to_ns - each.from_ns)) if edges else []
    waiting = [f"{name}: {text}" for name, text in look.waiting.items()]
    if not look.edges and not look.waiting:
        waiting = ["no trace file there or in a directory directly below it yet"]
    bars = share_bars(REGIMES, {_name(each): each.regimes for each in edges}, "time of channels")
    return View(
        [
            Sentence("ended" if look.has_ended else "watching", [path, *newest, *since, events]),
            Sentence("verdict", _verdict(look), " ", takes_rest=True),
            Sentence("waiting", waiting),
            Sentence("trust", _trust(edges, waiting)),
            Sentence("next", [replay, "--details shows each edge"] if edges else []),
        ],
        [_watched_table(look.edges)] if edges else [],
        [*bars, *([Lines([f"  {_name(each)}: {each.why}" for each in edges])] if edges else [])],
    )


def _part(edge: WatchedEdge) -> list[str]:
    span_ns = edge.to_ns - edge.from_ns
    if edge.behind_ns <= BEHIND_SHARE * span_ns:
        return [f"the last {human_duration(span_ns)}"]
    whole, known = human_duration(span_ns + edge.behind_ns), human_duration(span_ns)
    return [f"the last {whole}", f"all but records/s is known of its first {known} so far"]


def _verdict(look: WatchLook) -> list[str]:
    is_one = len({each.run for each in look.edges}) == 1
    found = []
    for name, text in look.bottlenecks.items():
        own = [each for each in look.edges if each.run == name]
        limit = max(own, key=lambda each: (bool(each.is_bottleneck), each.share), default=None)
        state = f"{_state(limit)}: " if limit is not None else ""
        first, *others = clauses_of(text.rstrip(";.") + ";")
        found += [state + (first if is_one else f"{name}: {first}"), *others]
    if not found:
        found = [f"{_state(each)}: {_name(each)}: {each.why};" for each in look.edges if each.why]
    return found


def _state(edge: WatchedEdge) -> str:
    return state_of(None if edge.verdict == "unknown" else edge.verdict)


def _trust(edges: Sequence[WatchedEdge], waiting: Sequence[str]) -> list[str]:
    bounds = any(edge.latency.until != "consumed" for edge in edges)
    found = ["latency: at most (<=), until a record passed the tap"] * bounds
    found += ["some runs cannot be read yet"] * bool(waiting)
    first, *more = found or ["both ends were recorded"]
    return [f"{'fair' if found else 'good'}: {first}", *more] if edges else []


def _watched_table(edges: Sequence[WatchedEdge]) -> Table:
    columns: Mapping[str, Column] = {
        **{"edge": _name, "verdict": "verdict"},
        **{"records/s": "records_per_s", "bytes/s": "bytes_per_s"},
        "p50": lambda x: _bounds(x.latency, x.latency.p50_min_ns, x.latency.p50_max_ns),
        "p99": lambda x: _bounds(x.latency, x.latency.p99_min_ns, x.latency.p99_max_ns),
        **{"backlog": "backlog_buffers.mean", "max": "backlog_buffers.max"},
        "starved": lambda edge: human_share(edge.starved),
    }
    notes = []
    if local := sum(each.local_channels for each in edges[:EDGES_SHOWN]):
        of_local = f"those of {counted(local, 'local channel')}, by Flink's counters"
        notes.append(f"records/s: with {of_local}; all else: without them")
    if uncounted := sum(each.uncounted_channels for each in edges[:EDGES_SHOWN]):
        notes.append(f"without what passes on {counted(uncounted, 'local channel')}")
    return table_of(
        edges[:EDGES_SHOWN],
        columns,
        notes=[*notes, *left_out(edges, EDGES_SHOWN, "and {} more edges")],
        texts=["verdict"],
        is_strong=lambda edge: edge.is_bottleneck,
    )


def _name(edge: WatchedEdge) -> str:
    return f"{edge.run}, {edge.edge_number} {edge.edge}" if edge.edge else edge.run


def _bounds(latency: LatencyBounds, least_ns: float | None, most_ns: float | None) -> str:
    if most_ns is None:
        return "unknown"
    return human_duration(most_ns) if least_ns == most_ns else f"<={human_duration(most_ns)}"
