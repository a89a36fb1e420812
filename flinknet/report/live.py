"""Progress of runs: a live view on a terminal, sparse lines anywhere else, and values in the text
format of Prometheus (base units, as Prometheus wants them: seconds, bytes, ratios from 0 to 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from rich.console import Console

from flinknet import results
from flinknet.results import figures
from flinknet.units import human_bytes, human_count, human_duration

from .console import LivePanel
from .page_parts import Sentence, View, columns_of, left_out, table_of

LINE_EVERY_NS = 5_000_000_000
CHANNELS_SHOWN = 12
TASKS_SHOWN = 8


Run = tuple[int, int, str]
"""Number of a run, of how many, and its setting."""


class RunsView(LivePanel):
    """Shows runs: on a terminal in a panel that follows each in place, elsewhere in a line every
    few seconds; a line when a run starts and when it ends. `publish` takes the state of a run, as a
    text for Prometheus, whenever it is reported."""

    def __init__(self, console: Console, publish: Callable[[str], None] | None = None) -> None:
        super().__init__(console, LINE_EVERY_NS)
        self._publish = publish
        self._run: Run = (0, 0, "")

    def start_run(self, number: int, total: int, name: str) -> None:
        self._run = number, total, name
        self.is_due(0, is_urgent=True)
        if not self.is_live:
            self.print(f"{run_title(*self._run)}: starting")

    def update(self, progress: results.Progress) -> None:
        """Show where the run stands; in a line when one is due, by the run's own time."""
        if self._publish is not None:
            self._publish(bench_metrics(*self._run, progress))
        title = run_title(*self._run)
        if self.is_live:
            self.draw(panel(title, progress))
        elif progress.phase != "finished" and self.is_due(progress.elapsed_ns):
            self.print(f"{title}: {progress_line(progress)}")

    def finish_run(self, result: results.RunResult, *, is_overload: bool = False) -> None:
        """Print what a run measured; not of an overload, which is what a demo is for."""
        line = "finished" if is_overload else result_line(result)
        self.print(f"{run_title(*self._run)}: {line}")


def run_title(number: int, total: int, name: str) -> str:
    return f"run {number}/{total}" + (f" {name}" if name else "")


def progress_line(progress: results.Progress) -> str:
    done = f" {progress.fraction:.0%}" if progress.fraction is not None else ""
    return f"{progress.phase}{done}, {_rates(progress)}"


def result_line(result: results.RunResult) -> str:
    rate, latency = result.measured.throughput_records_per_s, result.measured.latency_ns
    doubt = ""
    if result.validity is not results.Validity.VALID:
        causes = results.without_consequences(result.warnings)
        found = [each for each in causes if results.validity_by(each) is result.validity]
        why = min(found, key=lambda each: not results.is_disturbed([each]))
        what = "disturbed" if results.is_disturbed([why]) else result.validity.name.lower()
        doubt = f" ({what}: {why.line.rstrip('.')})"
    return (
        f"{human_count(rate)} records/s, p50 {human_duration(latency.p50)},"
        f" p99 {human_duration(latency.p99)}{doubt}"
    )


def panel(title: str, progress: results.Progress) -> View:
    """Progress, rates, latency, the backlog and credit of each channel, the times of each task."""
    # The channels with most backlog: there the pressure is.
    busiest = sorted(progress.channels, key=lambda each: -(each.backlog_buffers or 0))
    shown = sorted(busiest[:CHANNELS_SHOWN], key=lambda each: each.channel)
    name = partial(channel_name, has_edges=any(each.edge for each in progress.channels))
    notes = left_out(progress.channels, CHANNELS_SHOWN, "and {} more channels")
    pressed = sorted(progress.tasks, key=lambda each: -each.back_pressured)[:TASKS_SHOWN]
    tasks = [each for each in progress.tasks if each in pressed]
    return View(
        [Sentence("run", [f"{title.removeprefix('run ')}: {progress_line(progress)}"])],
        [
            table_of(shown, {"channel": name, **columns_of(_CHANNEL)}, notes=notes),
            *([table_of(tasks, {"task": "name", **columns_of(_TASK)})] if tasks else []),
        ],
    )


_CHANNEL: Sequence[figures.Figure[results.ChannelProgress]] = (
    figures.FIGURES["throughput_records_per_s"],
    figures.Figure("", "backlog", attrgetter("backlog_buffers"), "level"),
    figures.Figure("", "credit", attrgetter("credits_available"), "level"),
)
_TASK: Sequence[figures.Figure[results.TaskProgress]] = (
    figures.BUSY,
    figures.IDLE,
    figures.BACK_PRESSURED,
    figures.IN_POOL,
    figures.OUT_POOL,
)


def channel_name(
    channel: results.ChannelMeasured | results.ChannelProgress, *, has_edges: bool
) -> str:
    """Its two ends, its edge where there are several, and whether it is local."""
    edge = f"edge {channel.edge + 1}: " if has_edges else ""
    local = " local" if channel.is_local else ""
    return f"{edge}{channel.producer} → {channel.consumer}{local}"


def _rates(progress: results.Progress) -> str:
    scope = " over all channels" if len(progress.channels) > 1 else ""
    return (
        f"{human_count(progress.throughput_records_per_s)} records/s,"
        f" {human_bytes(progress.throughput_bytes_per_s)}/s,"
        f" p50 {human_duration(progress.latency_ns_p50)},"
        f" p99 {human_duration(progress.latency_ns_p99)}{scope}"
    )


Plain = Mapping[str, Any]
Samples = Iterable[tuple[Mapping[str, object], float | None]]

_QUANTILES = {"0.5": "p50", "0.99": "p99"}


def metric(name: str, kind: str, text: str, samples: Samples) -> str:
    """One metric (a gauge or a counter) with its samples: labels and value of each; unknown values
    are left out."""
    lines = [f"{name}{_labels(of)} {value:.17g}\n" for of, value in samples if value is not None]
    return "".join([f"# HELP {name} {text}\n# TYPE {name} {kind}\n", *lines]) if lines else ""


MetricTable = Sequence[tuple[str, str, str]]
"""Names of metrics, meanings, and the fields that they are read from."""

_BACKLOG = ("backlog_buffers", "Buffers that wait at the producer.", "backlog_buffers")
_CREDIT = ("credits", "Buffers that the producer may send.", "credits_available")
_RECORDS, _BYTES = figures.named(["throughput_records_per_s", "throughput_bytes_per_s"])

_BENCH: MetricTable = (
    ("elapsed_seconds", "Since the run began.", "elapsed_ns"),
    ("records", "Records measured so far.", "records"),
    ("records_per_second", _RECORDS.meaning, _RECORDS.field),
    ("bytes_per_second", _BYTES.meaning, _BYTES.field),
)
_BENCH_CHANNEL: MetricTable = (
    ("records_per_second", _RECORDS.meaning, _RECORDS.field),
    _BACKLOG,
    _CREDIT,
)
_BENCH_TASK: MetricTable = [
    (f"{each.field}_ratio", each.meaning, each.field)
    for each in (figures.BUSY, figures.IDLE, figures.BACK_PRESSURED)
]
_TAP: MetricTable = (
    ("elapsed_seconds", "Since the tap began.", "elapsed_ns"),
    ("connections", "Connections open.", "connections"),
    ("connections_total", "Connections so far.", "accepted"),
    ("channels", "Channels open.", "channels_open"),
    ("bytes_per_second", "Bytes of payload in the last second.", "bytes_per_s"),
    ("records_per_second", "Records in the last second.", "records_per_s"),
    ("trace_bytes", "Size of the trace.", "trace_bytes"),
    ("incidents_total", "What went wrong so far.", "incidents"),
    ("triggers_total", "Times the trigger fired.", "triggers"),
)
_STARVED = "Share of the last second with a backlog and no credit."
_TAP_CHANNEL: MetricTable = (
    ("bytes_per_second", "Bytes in the last second.", "bytes_per_s"),
    ("records_per_second", "Records in the last second.", "records_per_s"),
    _BACKLOG,
    _CREDIT,
    ("credit_starved_ratio", _STARVED, "starved_share"),
    ("no_credit_ratio", "Share of the last second without credit.", "no_credit_share"),
    ("blocked_ratio", "Share of the last second blocked by a barrier.", "blocked_share"),
    ("buffer_fill_ratio", "How full buffers were in the last second.", "fill"),
)


def bench_metrics(run: int, runs: int, setting: str, progress: results.Progress) -> str:
    own = {"setting": setting} if setting else {}
    names = ("edge", "edge_number", "producer", "consumer")
    channels = [(own | {x: getattr(each, x) for x in names}, each) for each in progress.channels]
    tasks = [({**own, "task": each.name}, each) for each in progress.tasks]
    phase = {**own, "phase": progress.phase}
    latencies = zip(_QUANTILES, (progress.latency_ns_p50, progress.latency_ns_p99), strict=True)
    return "".join(
        (
            metric("flinknet_bench_run", "gauge", "Number of the run of this call.", [(own, run)]),
            metric("flinknet_bench_runs", "gauge", "Runs of this call.", [(own, runs)]),
            metric("flinknet_bench_phase_info", "gauge", "What the run is doing.", [(phase, 1)]),
            *_metrics("bench", _BENCH, [(own, progress)]),
            metric(
                "flinknet_bench_latency_seconds",
                "gauge",
                "Latency of all records measured so far.",
                (({**own, "quantile": name}, _seconds(value)) for name, value in latencies),
            ),
            *_metrics("bench_channel", _BENCH_CHANNEL, channels),
            *_metrics("bench_task", _BENCH_TASK, tasks),
        )
    )


def tap_metrics(look: Plain) -> str:
    channels = [
        ({"channel": row["channel"], "name": row.get("name") or ""}, row)
        for row in look["channels"]
    ]
    delays = [({"quantile": x}, _seconds(look.get(f"delay_ns_{p}"))) for x, p in _QUANTILES.items()]
    name, text = "flinknet_tap_added_delay_seconds", "Delay added to each piece of data lately."
    return "".join(
        (
            *_metrics("tap", _TAP, [({}, look)]),
            metric(name, "gauge", text, delays),
            *_metrics("tap_channel", _TAP_CHANNEL, channels),
        )
    )


def _metrics(
    room: str, table: MetricTable, rows: Sequence[tuple[Mapping[str, object], Any]]
) -> Iterator[str]:
    for name, text, field in table:
        samples = [
            (labels, each[field] if isinstance(each, Mapping) else getattr(each, field))
            for labels, each in rows
        ]
        if name.endswith("_seconds"):
            samples = [(labels, _seconds(value)) for labels, value in samples]
        kind = "counter" if name.endswith("_total") else "gauge"
        yield metric(f"flinknet_{room}_{name}", kind, text, samples)


def _seconds(duration_ns: float | None) -> float | None:
    return None if duration_ns is None else duration_ns / 1e9


def _labels(labels: Mapping[str, object]) -> str:
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
    texts = [f'{name}="{str(value).translate(escapes)}"' for name, value in labels.items()]
    return f"{{{','.join(texts)}}}" if texts else ""
