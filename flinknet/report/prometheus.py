"""Live values in Prometheus's text format: the names with units last, as Prometheus wants them in
base units (seconds, bytes, ratios from 0 to 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flinknet.results import Progress

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


def bench_metrics(run: int, runs: int, setting: str, progress: Progress) -> str:
    """A bench while it runs."""
    own = {"setting": setting} if setting else {}

    def gauge(name: str, text: str, value: float | None) -> str:
        return metric(f"flinknet_bench_{name}", "gauge", text, [(own, value)])

    def of_channels(name: str, text: str, values: Iterable[float | None]) -> str:
        names = ("edge", "edge_number", "producer", "consumer")
        labels = (own | {name: getattr(each, name) for name in names} for each in progress.channels)
        samples = zip(labels, values, strict=True)
        return metric(f"flinknet_bench_channel_{name}", "gauge", text, samples)

    def of_tasks(name: str, text: str, values: Iterable[float | None]) -> str:
        labels = ({**own, "task": each.name} for each in progress.tasks)
        samples = zip(labels, values, strict=True)
        return metric(f"flinknet_bench_task_{name}", "gauge", text, samples)

    latencies = (progress.latency_ns_p50, progress.latency_ns_p99)
    channels, tasks = progress.channels, progress.tasks
    return "".join(
        (
            gauge("run", "Number of the run of this call.", run),
            gauge("runs", "Runs of this call.", runs),
            metric(
                "flinknet_bench_phase_info",
                "gauge",
                "What the run is doing.",
                [({**own, "phase": progress.phase}, 1)],
            ),
            gauge("elapsed_seconds", "Since the run began.", progress.elapsed_ns / 1e9),
            gauge("records", "Records measured so far.", progress.records),
            gauge("records_per_second", "Records read lately.", progress.throughput_records_per_s),
            gauge("bytes_per_second", "Bytes read lately.", progress.throughput_bytes_per_s),
            metric(
                "flinknet_bench_latency_seconds",
                "gauge",
                "Latency of all records measured so far.",
                (
                    ({**own, "quantile": quantile}, _seconds(value))
                    for quantile, value in zip(_QUANTILES, latencies, strict=True)
                ),
            ),
            of_channels(
                "records_per_second",
                "Records read lately.",
                (each.throughput_records_per_s for each in channels),
            ),
            of_channels(
                "backlog_buffers",
                "Buffers that wait at the producer.",
                (each.backlog_buffers for each in channels),
            ),
            of_channels(
                "credits",
                "Buffers that the producer may send.",
                (each.credits_available for each in channels),
            ),
            of_tasks("busy_ratio", "Share of time at work.", (each.busy for each in tasks)),
            of_tasks("idle_ratio", "Share of time without input.", (each.idle for each in tasks)),
            of_tasks(
                "back_pressured_ratio",
                "Share of time without a buffer to write to.",
                (each.back_pressured for each in tasks),
            ),
        )
    )


def tap_metrics(look: Plain) -> str:
    """A tap while it runs."""

    def one(name: str, text: str, value: float | None, kind: str = "gauge") -> str:
        return metric(f"flinknet_tap_{name}", kind, text, [({}, value)])

    def of_channels(name: str, text: str, field: str) -> str:
        samples = (
            ({"channel": row["channel"], "name": row.get("name") or ""}, row[field])
            for row in look["channels"]
        )
        return metric(f"flinknet_tap_channel_{name}", "gauge", text, samples)

    return "".join(
        (
            one("elapsed_seconds", "Since the tap began.", look["elapsed_ns"] / 1e9),
            one("connections", "Connections open.", look["connections"]),
            one("connections_total", "Connections so far.", look["accepted"], "counter"),
            one("channels", "Channels open.", look["channels_open"]),
            one("bytes_per_second", "Bytes of payload in the last second.", look["bytes_per_s"]),
            one("records_per_second", "Records in the last second.", look["records_per_s"]),
            metric(
                "flinknet_tap_added_delay_seconds",
                "gauge",
                "What the tap added to each piece of data in the last second.",
                (
                    ({"quantile": quantile}, _seconds(look[f"delay_ns_{name}"]))
                    for quantile, name in _QUANTILES.items()
                ),
            ),
            one("trace_bytes", "Size of the trace.", look["trace_bytes"]),
            one("incidents_total", "What went wrong so far.", look["incidents"], "counter"),
            one("triggers_total", "Times the trigger fired.", look["triggers"], "counter"),
            of_channels("bytes_per_second", "Bytes in the last second.", "bytes_per_s"),
            of_channels("records_per_second", "Records in the last second.", "records_per_s"),
            of_channels("backlog_buffers", "Buffers that wait at the producer.", "backlog_buffers"),
            of_channels("credits", "Buffers that the producer may send.", "credits_available"),
            of_channels(
                "credit_starved_ratio",
                "Share of the last second with a backlog and no credit.",
                "starved_share",
            ),
            of_channels(
                "no_credit_ratio",
                "Share of the last second without credit.",
                "no_credit_share",
            ),
            of_channels(
                "blocked_ratio", "Share of the last second blocked by a barrier.", "blocked_share"
            ),
            of_channels("buffer_fill_ratio", "How full buffers were in the last second.", "fill"),
        )
    )


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
