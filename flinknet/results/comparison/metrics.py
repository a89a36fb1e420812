"""What is compared of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..run import Measured


@dataclass(frozen=True, slots=True)
class Metric:
    """How a metric is read, from what was measured and the CPU cores used, and whether more of it
    is better (1), worse (-1) or neither (0).

    Attributes:
        unit: records/s, bytes, ns, buffers, buffers/s or cores.
        label: what tables call it.
        records_min: without so many records in a run it is unknown.
        resolution: what a value may be off by, relative to it; 0: it is exact.
    """

    read: Callable[[Measured, float | None], float | None]
    direction: int
    unit: str
    label: str = ""
    records_min: int = 0
    resolution: float = 0.0


HISTOGRAM_RESOLUTION = 1 / 256
"""A percentile is the middle of a bucket of the histogram, which is off by so much at most."""


def _percentile(name: str, label: str, records_min: int) -> Metric:
    return Metric(
        lambda measured, _: getattr(measured.latency_ns, name),
        -1,
        "ns",
        label,
        records_min,
        HISTOGRAM_RESOLUTION,
    )


METRICS: Mapping[str, Metric] = {
    "throughput": Metric(lambda m, _: m.throughput_records_per_s, 1, "records/s"),
    "throughput_bytes": Metric(lambda m, _: m.throughput_bytes_per_s, 1, "bytes", "bytes/s"),
    "mean": Metric(lambda m, _: m.latency_ns.mean, -1, "ns"),
    "p50": _percentile("p50", "", 10),
    "p99": _percentile("p99", "", 500),
    "p99_9": _percentile("p99_9", "p99.9", 5000),
    "backlog": Metric(lambda m, _: m.backlog_buffers.mean, -1, "buffers"),
    "buffers": Metric(lambda m, _: m.buffers / m.duration_ns * 1e9, 0, "buffers/s", "buffers/s"),
    "cpu": Metric(lambda _, cpu_cores: cpu_cores, -1, "cores", "CPU cores"),
}
"""Latencies are those from intended instants; CPU is that of the TaskManagers without polling."""


def label_of(metric: str) -> str:
    """What tables and sentences call a metric."""
    return METRICS[metric].label or metric


def metric_named(name: str) -> str | None:
    """The metric of this name or label; None if there is none."""
    labels = {label_of(metric).lower(): metric for metric in METRICS}
    return name if name in METRICS else labels.get(name.lower())
