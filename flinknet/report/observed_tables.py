"""Tables of observed figures: messages, channels, edges, runs, checkpoints, times that records
carry, and metrics of Flink itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter, itemgetter
from typing import Any

from flinknet import results
from flinknet.results.figures import (
    BACK_PRESSURED,
    BUSY,
    CHANNEL_FIGURES,
    FIGURES,
    IDLE,
    IN_POOL,
    OUT_POOL,
    Figure,
    named,
    reader,
)
from flinknet.results.trades import change_of
from flinknet.units import MISSING, counted, human_bytes, human_duration, human_share

from .charts import Bar, BarPart, Bars, Color, OverTime, TimeSeries
from .page_parts import (
    UNNAMED_SETTING,
    Column,
    Fact,
    Head,
    Part,
    Row,
    Section,
    Table,
    columns_of,
    heads,
    last_part,
    medians_of,
    table_of,
)
from .trade_words import notes_of, timeout_text

_CHANNEL: Sequence[Figure[results.ReplayedChannel]] = [
    *CHANNEL_FIGURES[1:],
    replace(FIGURES["credit_starved_ns"], read=lambda each: each.starved_ns),
    Figure("", "data", lambda each: each.messages.get("DATA_BUFFER", 0), "count", "",
           "Data buffers sent."),
    Figure("", "credit", lambda each: each.messages.get("ADD_CREDIT", 0), "count", "",
           "Messages that announced credit."),
]  # fmt: skip

ROWS_OPEN = 12
"""Rows of a table that is not folded away, at most."""

REGIMES = (
    BarPart("waiting_for_flush", "waiting for flush", "blue", "The oldest record lay in a buffer"
            " that was neither full nor flushed, or that waited for its producer's turn."),
    BarPart("waiting_for_credit", "waiting for credit", "orange",
            "Records were ready to leave, but the receiver had no free buffer."),
    BarPart("blocked_by_alignment", "blocked by alignment", "purple",
            "Records waited behind a checkpoint barrier whose alignment went on."),
    BarPart("in_socket", "in the socket", "green",
            "The oldest record was handed to the transport and not decoded yet."),
    BarPart("in_receiver_queue", "in the receiver's queue", "gold",
            "The oldest record was received, and its consumer was not done with it."),
    BarPart("idle", "idle", "grey", "No record was on its way."),
)  # fmt: skip
"""Parts of a channel's time."""


_TASK_COLORS: Mapping[Figure[Any], Color] = {BUSY: "orange", BACK_PRESSURED: "purple", IDLE: "grey"}
TASK_PARTS = [BarPart(x.field, x.name, color, x.meaning) for x, color in _TASK_COLORS.items()]
"""Parts of a task's time."""

_WHYS = named(["buffers_full", "buffers_by_timeout", "buffers_with_event"])
_FLUSH_COLORS: Mapping[str, Color] = {"full": "blue", "timeout": "orange", "event": "purple"}
FLUSHES = [
    BarPart(key, why.name, color, why.meaning)
    for (key, color), why in zip(_FLUSH_COLORS.items(), _WHYS, strict=True)
]
"""Why buffers left, by the field of their number."""


def share_bars(
    parts: Sequence[BarPart],
    shares: Mapping[str, Mapping[str, float | None] | None],
    title: str = "",
    meaning: str = "",
) -> list[Bars]:
    """A bar for each name whose shares of time are known; nothing without any."""
    known = [
        Bar(name, own)
        for name, each in shares.items()
        if (own := {key: share for key, share in (each or {}).items() if share is not None})
        and len(own) == len(each or {})
        and any(own.values())
    ]
    return [Bars(title, parts, known, meaning)] if known else []


def buffer_facts(measured: results.Measured, *, is_of_run: bool = True) -> list[Fact]:
    """The number of data buffers, and why they left. Between processes a buffer that the timeout
    ended looks like one that an event pushed out."""
    whys = _WHYS if is_of_run else _WHYS[:1]
    early = measured.flushes.timeout + measured.flushes.event
    why = "Data buffers that the flusher sent, or an event or the end pushed out."
    return [
        Fact("buffers", f"{measured.buffers:,}", "Data buffers sent."),
        *(Fact(each.title, f"{each.read(measured):,}", each.meaning) for each in whys),
        *([] if is_of_run else [Fact("buffers not full", f"{early:,}", why)]),
    ]


CREDIT_PATHS_SHOWN = 8
"""Most pairs of TaskManagers with a line on their credit."""


def credit_lines(answer: results.EdgeAnswer) -> list[str]:
    """A line for each pair of TaskManagers whose credit round trips were recorded, the ones where
    data waits longest first; and one on the others where there are many."""
    found = sorted(answer.credit, key=lambda each: (-each.waits, -each.bytes_per_s))
    shown = found[:CREDIT_PATHS_SHOWN]
    lines = ["; ".join(filter(None, (each.text, each.remedy))) for each in shown]
    left = len(found) - len(lines)
    return lines + [f"{counted(left, 'more pair')} in the JSON"] * bool(left)


def slowest(
    channels: Sequence[results.ReplayedChannel], most: int
) -> list[results.ReplayedChannel]:
    """The channels with the highest p99, by their numbers."""
    found = sorted(channels, key=lambda each: -(each.latency_ns.p99 or 0.0))[:most]
    return sorted(found, key=lambda each: each.channel)


def channel_name(channel: results.ReplayedChannel) -> str:
    ends = (str(each) if each >= 0 else "?" for each in (channel.producer, channel.consumer))
    return f"{channel.channel}: {channel.name or ' → '.join(ends)}"


def channel_table(channels: Sequence[results.ReplayedChannel]) -> Table:
    return table_of(channels, {"channel": channel_name, **columns_of(_CHANNEL)})


def diagnosis_table(job: results.JobAnswer) -> Table:
    """A row for each verdict on an edge, and how long TaskManagers stood still."""
    rows = [
        {"edge": answer.edge or "", "verdict": answer.cause.value, "why": answer.text,
         "share": human_share(answer.share)}
        for each in job.answers
        for answer in each.diagnosis
    ]  # fmt: skip
    notes = notes_of(job.points) if job.is_exchange else job.notes
    pauses = [each.split(": ")[0] for each in notes if each.startswith(results.PAUSES_NOTED)]
    columns = {each: each for each in ("edge", "verdict", "share", "why")}
    texts = ("verdict", "why")
    return table_of(rows, columns, "What limits each edge", pauses, texts=texts)


def held_back(answers: Sequence[results.EdgeAnswer]) -> list[str]:
    """The channel that holds a watermark back most, in a sentence; empty without one."""
    times = [each.record_times for each in answers if each.record_times is not None]
    found = [each.held_back for each in times if each.held_back is not None]
    worst = max(found, key=lambda each: each.behind_ns, default=None)
    if worst is None:
        return []
    who, behind = worst.name or f"channel {worst.channel}", human_duration(worst.behind_ns)
    share = f", {human_share(worst.held_share)} of the time" if worst.held_share < 1 else ""
    return [f"held back by {who}: {behind} behind its siblings{share}"]


def times_section(
    answers: Sequence[results.EdgeAnswer], feeding: Sequence[int | None] = ()
) -> list[Section]:
    """The times that records carry: a row for each exchange, and of one their age over time;
    nothing without any. `feeding` has for each exchange of a job the place of the one before it."""
    own = {n: of for n, each in enumerate(answers) if (of := each.record_times) is not None}
    if not own:
        return []
    lines = [f"watermark {each}" for each in held_back(answers)]
    for number, times in own.items():
        name = answers[number].trace.edge or ""
        if times.records and not times.follows_clock:
            lines.append(f"timestamps{' of ' * bool(name)}{name} are not near the clock: no ages")
        before = feeding[number] if number < len(feeding) else None
        if before in own and own[before].follows_clock and times.follows_clock:
            lines.append(_between(answers[before].trace.edge, own[before], name, times))
    rows = []
    for number, times in own.items():
        lags_ns = [each.lag_ns for each in times.watermarks if each.lag_ns is not None]
        idle = sum(each.idle_share > 0 for each in times.watermarks)
        age, travel = times.age_ns, times.travel_ns
        figures_ns = [age.p50, age.p99, travel.p50, travel.p99, max(lags_ns, default=None)]
        idle_text = f"{idle:,}" if times.watermarks else MISSING
        name = answers[number].trace.edge or ""
        rows.append(Row([name, *map(human_duration, figures_ns), idle_text]))
    names = ("age p50", "p99", "markers p50", "p99", "watermark lag", "idle channels")
    parts: list[Part] = [Table(heads("edge", *names), rows, notes=lines)]
    times = next(iter(own.values()))
    if len(answers) == 1 and times.over_time:
        at_ns = [each.from_ns for each in times.over_time]
        series = [
            TimeSeries("age p50", at_ns, [each.p50 for each in times.over_time]),
            TimeSeries("age p99", at_ns, [each.p99 for each in times.over_time], "orange"),
        ]
        parts.append(OverTime("Age of records over time", series, "ns", y="age"))
    return [Section("times", "Times that records carry", "", parts)]


def _between(
    first: str | None, before: results.RecordTimes, name: str, times: results.RecordTimes
) -> str:
    """The mean is exact: it is that of each record, where the task between keeps timestamps."""
    took_ns = change_of(times.age_ns.mean, before.age_ns.mean)
    typical_ns = change_of(times.age_ns.p50, before.age_ns.p50)
    return (
        f"from {first} to {name}: {human_duration(took_ns)} on average,"
        f" {human_duration(typical_ns)} at p50, by one clock; records whose task gives them new"
        " timestamps do not show it"
    )


def messages_table(messages: Sequence[results.MessageCount]) -> Table:
    columns: dict[str, Column] = {"kind": "kind", "messages": "messages"}
    columns["payload"] = lambda each: human_bytes(each.payload_bytes or None)
    return table_of(messages, columns, "Messages by kind")


_OF_RUN = named(
    [
        *("throughput_records_per_s", "latency_p50_ns", "latency_p99_ns"),
        *("backlog_mean_buffers", "backlog_max_buffers", "buffers_per_s"),
    ]
)


_ERRORS = [
    Figure("", f"error {each}", reader(f"model_error.{each}"), "change")
    for each in ("throughput", "p50", "p99")
]


def runs_table(answers: Sequence[results.EdgeAnswer]) -> Table:
    """A row for each run: observed figures, and the model's error."""
    columns: dict[str, Column] = {
        "run": lambda each: last_part(each.trace.path),
        "timeout": lambda each: timeout_text(each.trace.config),
        **medians_of(_OF_RUN, lambda each: [each.observed]),
        **columns_of(_ERRORS),
    }
    return table_of(answers, columns)


def edges_table(answers: Sequence[results.EdgeAnswer]) -> Table:
    """A row for each edge of a job: what went over it, and what its channels waited for."""

    def starved(answer: results.EdgeAnswer) -> str:
        of_channels_ns = answer.observed.duration_ns * answer.trace.channels
        return _part_of(answer.observed.credits.starved_ns, of_channels_ns)

    columns: Mapping[str, Column] = {
        "edge": lambda each: f"{each.trace.edge_number} {each.trace.edge or ''}",
        "channels": "trace.channels",
        "records/s": "observed.throughput_records_per_s",
        "buffers/s": "observed.buffers_per_s",
        "full": lambda x: _part_of(x.observed.flushes.full, x.observed.buffers),
        "backlog": "observed.backlog_buffers.mean",
        "max": "observed.backlog_buffers.max",
        "starved": starved,
        "verdict": _verdict,
    }
    strong = attrgetter("is_bottleneck")
    return table_of(answers, columns, texts=["verdict"], is_strong=strong)


def _verdict(answer: results.EdgeAnswer) -> str:
    if not answer.diagnosis:
        return ""
    cause, share = answer.diagnosis[0].cause.value, answer.diagnosis[0].share
    return f"{cause}, {share:.0%}" if share else cause


def _part_of(part: float | None, whole: float) -> str:
    return f"{part / whole:.0%}" if whole and part is not None else MISSING


_REPLAYED_CHECKPOINTS = (
    "barriers sent, all arrived: checkpoints of which a barrier was sent on this edge, and of which"
    " one arrived on each of its recorded channels; aborted: the job's that began in the part used,"
    " while a verdict counts those that ended in it"
)


def checkpoint_table(
    settings: Iterable[tuple[str, Sequence[results.CheckpointSummary]]],
    *,
    is_replayed: bool = False,
) -> Table:
    """One row for each setting that had checkpoints; several runs show as their median. Columns of
    figures that none of them has are left out. A replay counts barriers on an edge.
    """
    rows = [(setting or UNNAMED_SETTING, runs) for setting, runs in settings if runs]
    shown = [
        column
        for column in [*(_OF_EDGE if is_replayed else _OF_JOB), *_COLUMNS]
        if column.group not in _OFTEN_UNKNOWN
        or any(column.read(each) is not None for _, runs in rows for each in runs)
    ]
    notes = [_REPLAYED_CHECKPOINTS] if is_replayed else []
    columns: dict[str, Column] = {"checkpoints": itemgetter(0), **medians_of(shown, itemgetter(1))}
    return table_of(rows, columns, notes=notes)


def _durations(group: str, field: str) -> list[Figure[results.CheckpointSummary]]:
    return [Figure(group, x, reader(f"{field}.{x}"), "ns") for x in ("p50", "p99", "max")]


_OFTEN_UNKNOWN = ("barrier travel", "start delay", "overtaken")
"""Groups of figures that a trace does not always have."""

_OF_JOB: Sequence[Figure[results.CheckpointSummary]] = (
    *(Figure("", name, attrgetter(name)) for name in ("triggered", "completed")),
)
_OF_EDGE = (
    replace(_OF_JOB[0], group="barriers", name="sent"),
    replace(_OF_JOB[1], group="barriers", name="all arrived"),
)
_COLUMNS: Sequence[Figure[results.CheckpointSummary]] = (
    *(Figure("", name, attrgetter(name)) for name in ("aborted", "unaligned")),
    *_durations("alignment", "alignment_ns"),
    *_durations("barrier travel", "travel_ns"),
    *_durations("start delay", "start_delay_ns"),
    Figure("overtaken", "mean", attrgetter("overtaken_bytes_mean"), "bytes"),
    Figure("overtaken", "max", attrgetter("overtaken_bytes_max"), "bytes"),
)


def flink_section(vertices: Iterable[results.VertexMetrics], notes: Sequence[str] = ()) -> Section:
    """Flink's own metrics: a row for each vertex, with means over its tasks and the worst of them
    where they differ, and for each of its tasks."""
    rows = []
    for vertex in vertices:
        cells = [vertex.name, str(vertex.parallelism)]
        cells += [_share_cell(vertex, each.field) for each in _FLINK[:3]]
        cells += [each.text(vertex) for each in _FLINK[3:5]]
        cells += [human_share(_highest(vertex.tasks, each.field)) for each in _FLINK[5:]]
        rows.append(Row(cells, is_strong=True))
        rows += [Row([x.name, "", *(each.text(x) for each in _FLINK)]) for x in vertex.tasks]
    table = Table(
        [*heads("vertex", "tasks"), *(Head(each.name, each.meaning) for each in _FLINK)],
        rows,
        "Mean over tasks (highest task); pools: the highest task",
        notes,
        fold="open" if len(rows) <= ROWS_OPEN else "closed",
    )
    return Section("flink", "Flink's own metrics", "", [table])


def flink_notes(flink: results.FlinkMetrics) -> list[str]:
    """Local traffic, which no trace shows, and the CPU of TaskManagers."""
    share, known = flink.share.local_bytes_share, flink.task_managers
    notes = [] if share is None else [f"local: {share:.0%} of the bytes that consumers read"]
    cores = [f"{each.name} {each.cpu_cores:.2f}" for each in known if each.cpu_cores is not None]
    return notes + [f"CPU, in cores: {', '.join(cores)}"] * bool(cores)


_FLINK = (
    *(BUSY, IDLE, BACK_PRESSURED),
    Figure("", "in/s", attrgetter("records_in_per_s"), meaning="Records that it read per second."),
    Figure(
        "", "out/s", attrgetter("records_out_per_s"), meaning="Records that it wrote per second."
    ),
    *(IN_POOL, OUT_POOL),
)


def _share_cell(vertex: results.VertexMetrics, name: str) -> str:
    mean, highest = getattr(vertex, name), _highest(vertex.tasks, name)
    if mean is None or highest is None or f"{mean:.0%}" == f"{highest:.0%}":
        return human_share(mean)
    return f"{mean:.0%} ({highest:.0%})"


def _highest(tasks: Iterable[results.TaskMetrics], name: str) -> float | None:
    return max((each for task in tasks if (each := getattr(task, name)) is not None), default=None)
