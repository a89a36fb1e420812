"""LatencyStats: latencies of the latency markers at a task's operators."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from flinknet.core.wire.records import LatencyMarker

SINGLE, OPERATOR, SUBTASK = "single", "operator", "subtask"
"""Values of metrics.latency.granularity."""


@dataclass(frozen=True, slots=True)
class MarkedLatency:
    """Latest latencies of a source's markers at an operator of a task.

    Attributes:
        source_id: operator that emitted the markers; empty with granularity single.
        source_subtask: -1 unless the granularity is subtask.
        markers: number of markers so far.
        latencies_ms: latencies of the latest markers, oldest first.
    """

    source_id: str
    source_subtask: int
    operator_id: str
    markers: int
    latencies_ms: tuple[int, ...]


class LatencyStats:
    """Latencies of all operators of a task (Flink: one LatencyStats per operator).

    May be read while a worker has the operators: each access is one step of the interpreter.

    Args:
        history: latencies kept per histogram (Flink: DescriptiveStatisticsHistogram).
    """

    def __init__(self, granularity: str, history: int) -> None:
        self._granularity = granularity
        self._history = history
        self._kept: dict[tuple[str, int, str], deque[int]] = {}
        self._markers: dict[tuple[str, int, str], int] = {}

    def report(self, operator_id: str, marker: LatencyMarker, *, now_ms: int) -> None:
        """Add the latency of a marker at an operator."""
        has_source = self._granularity != SINGLE
        key = (
            marker.operator_id.hex() if has_source else "",
            marker.subtask_index if self._granularity == SUBTASK else -1,
            operator_id,
        )
        self._markers[key] = self._markers.get(key, 0) + 1
        if key not in self._kept:
            self._kept[key] = deque(maxlen=self._history)
        self._kept[key].append(now_ms - marker.marked_time_ms)

    def __iter__(self) -> Iterator[MarkedLatency]:
        for key, kept in list(self._kept.items()):  # a worker may add keys meanwhile
            yield MarkedLatency(*key, self._markers[key], tuple(kept))
