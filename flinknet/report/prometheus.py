"""Live values in Prometheus's text format: the names with units last, as Prometheus wants them in
base units (seconds, bytes, ratios from 0 to 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from flinknet.results import Progress
from flinknet.results.figures import named

from .live import ForwardingView, LineView

Plain = Mapping[str, Any]
Samples = Iterable[tuple[Mapping[str, object], float | None]]

_QUANTILES = {"0.5": "p50", "0.99": "p99"}


def metric(name: str, kind: str, text: str, samples: Samples) -> str:
    """One metric with its samples; unknown values are left out.

    Args:
        kind: gauge or counter.
        samples: labels and value of each.
    """
    lines = [
        f"{name}{_labels(labels)} {value:.17g}" for labels, value in samples if value is not None
    ]
    if not lines:
        return ""
    return "\n".join([f"# HELP {name} {text}", f"# TYPE {name} {kind}", *lines]) + "\n"


Table = Sequence[tuple[str, str, str]]
"""Names of metrics, meanings, and the fields that they are read from."""

_BACKLOG = ("backlog_buffers", "Buffers that wait at the producer.", "backlog_buffers")
_CREDIT = ("credits", "Buffers that the producer may send.", "credits_available")
_RECORDS, _BYTES = named(["throughput_records_per_s", "throughput_bytes_per_s"])

_BENCH: Table = (
    ("elapsed_seconds", "Since the run began.", "elapsed_ns"),
    ("records", "Records measured so far.", "records"),
    ("records_per_second", _RECORDS.meaning, _RECORDS.field),
    ("bytes_per_second", _BYTES.meaning, _BYTES.field),
)
_BENCH_CHANNEL: Table = (
    ("records_per_second", _RECORDS.meaning, _RECORDS.field),
    _BACKLOG,
    _CREDIT,
)
_BENCH_TASK: Table = (
    ("busy_ratio", "Share of time at work.", "busy"),
    ("idle_ratio", "Share of time without input.", "idle"),
    ("back_pressured_ratio", "Share of time without a buffer to write to.", "back_pressured"),
)
_TAP: Table = (
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
_TAP_CHANNEL: Table = (
    ("bytes_per_second", "Bytes in the last second.", "bytes_per_s"),
    ("records_per_second", "Records in the last second.", "records_per_s"),
    _BACKLOG,
    _CREDIT,
    ("credit_starved_ratio", _STARVED, "starved_share"),
    ("no_credit_ratio", "Share of the last second without credit.", "no_credit_share"),
    ("blocked_ratio", "Share of the last second blocked by a barrier.", "blocked_share"),
    ("buffer_fill_ratio", "How full buffers were in the last second.", "fill"),
)


def bench_metrics(run: int, runs: int, setting: str, progress: Progress) -> str:
    """A bench while it runs."""
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
    """A tap while it runs."""
    channels = [
        ({"channel": row["channel"], "name": row.get("name") or ""}, row)
        for row in look["channels"]
    ]
    delays = (
        ({"quantile": quantile}, _seconds(look.get(f"delay_ns_{name}")))
        for quantile, name in _QUANTILES.items()
    )
    name, text = "flinknet_tap_added_delay_seconds", "Delay added to each piece of data lately."
    return "".join(
        (
            *_metrics("tap", _TAP, [({}, look)]),
            metric(name, "gauge", text, delays),
            *_metrics("tap_channel", _TAP_CHANNEL, channels),
        )
    )


def _metrics(
    room: str, table: Table, rows: Sequence[tuple[Mapping[str, object], Any]]
) -> Iterator[str]:
    """A metric for each row of a table, with a sample for each object that has its field."""
    for name, text, field in table:
        samples = [
            (labels, each[field] if isinstance(each, Mapping) else getattr(each, field))
            for labels, each in rows
        ]
        if name.endswith("_seconds"):
            samples = [(labels, _seconds(value)) for labels, value in samples]
        kind = "counter" if name.endswith("_total") else "gauge"
        yield metric(f"flinknet_{room}_{name}", kind, text, samples)


class MetricsView(ForwardingView):
    """Publishes the state of a run, but nothing after its end; passes it on to another view.

    Args:
        publish: takes the text, and serves it.
    """

    def __init__(self, view: LineView, publish: Callable[[str], None]) -> None:
        super().__init__(view)
        self._publish = publish
        self._run = 0, 0, ""

    def start_run(self, number: int, total: int, name: str) -> None:
        """Begin a run."""
        self._run = number, total, name
        super().start_run(number, total, name)

    def update(self, progress: Progress) -> None:
        """Publish where the run stands."""
        self._publish(bench_metrics(*self._run, progress))
        super().update(progress)


def _seconds(duration_ns: float | None) -> float | None:
    return None if duration_ns is None else duration_ns / 1e9


def _labels(labels: Mapping[str, object]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: object) -> str:
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
