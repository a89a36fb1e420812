"""Throughput and backlog over time: what data buffers add up to in each window.

Throughput is what the consumers took; of a trace from between, what passed. The backlog is how many
buffers the producers still had queued when a data buffer left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from flinknet.arrays import IntArray
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.trace.event_block import IS_BUFFER_BY_TYPE, EventBlock

from ..spark.frames import Columns
from ..spark.units import Asked, WorkUnit
from .sums import Sums

_DATA_COLUMNS = ("at_ns", "channel", "point", "kind", "data_type")
_KEYS = ("run", "channel", "from_ns", "width_ns")


@dataclass(frozen=True, slots=True)
class ThroughputWindow:
    """Data in one window of time; `from_ns` counts from the start of the measured part.

    `uncounted_bytes` of payload_bytes are in buffers whose records could not be counted.
    """

    run: int
    from_ns: int
    width_ns: int
    buffers: int
    records: int
    payload_bytes: int
    uncounted_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ThroughputRow:
    """The same of one channel: what was consumed, in the measured part and in the drain."""

    run: int
    channel: int
    from_ns: int
    width_ns: int
    buffers: int
    records: int
    payload_bytes: int
    uncounted_bytes: int = 0


@dataclass(frozen=True, slots=True)
class BacklogWindow:
    """The backlog that data messages carried in a window; `buffers` are its samples."""

    run: int
    from_ns: int
    width_ns: int
    buffers: int
    backlog_buffers_sum: int
    backlog_buffers_max: int


@dataclass(frozen=True, slots=True)
class BacklogRow:
    """The same of one channel. A channel that stands still gives no sample."""

    run: int
    channel: int
    from_ns: int
    width_ns: int
    buffers: int
    backlog_buffers_sum: int
    backlog_buffers_max: int


PASSED = "buffers", "records", "payload_bytes", "uncounted_bytes"

MERGE_THROUGHPUT = Sums(_KEYS, PASSED)
MERGE_BACKLOG = Sums(_KEYS, ("buffers", "backlog_buffers_sum"), ("backlog_buffers_max",))

WINDOWS_MAX = 60
"""Windows that a run's measured part is cut into at most; their width is a round number."""


def window_width_ns(duration_ns: int) -> int:
    """The smallest of 1, 2, 5, 10, 20 … ns that cuts a duration into at most WINDOWS_MAX
    windows."""
    width_ns = 1
    while True:
        for factor in (1, 2, 5):
            if duration_ns <= factor * width_ns * WINDOWS_MAX:
                return factor * width_ns
        width_ns *= 10


def by_window(
    unit: WorkUnit,
    blocks: Iterator[EventBlock],
    point: int,
    kernel: Callable[..., IntArray],
    columns: Sequence[str],
    names: Sequence[str],
) -> Iterator[Columns]:
    """What data buffers at a point add up to, by channel and window.

    Args:
        kernel: of `sums_kernel`, which gives rows of span, window, and a figure for each name.
        columns: that it takes in addition to those of every such kernel.
        names: of the figures in the answer.
    """
    width_ns = window_width_ns(unit.to_ns - unit.from_ns)
    for block in blocks:
        spans = block.spans.of(MessageKind.BUFFER_RESPONSE, point)
        if not len(spans.starts):
            continue
        span, window, *figures = kernel(
            spans.starts,
            spans.ends,
            block["at_ns"],
            block["data_type"],
            IS_BUFFER_BY_TYPE,
            *(block[name] for name in columns),
            (unit.from_ns, unit.until_ns, width_ns),
        ).T
        yield {
            "run": np.full(len(span), unit.run),
            "channel": spans.channel[span],
            "from_ns": window * width_ns,
            "width_ns": np.full(len(span), width_ns),
            **dict(zip(names, figures, strict=True)),
        }


def _sum_up(unit: WorkUnit, blocks: Iterator[EventBlock]) -> Iterator[Columns]:
    from .sums_kernel import sum_windows

    return by_window(
        unit,
        blocks,
        unit.counted_at,
        sum_windows,
        ("records", "payload_bytes"),
        PASSED,
    )


def _sample(unit: WorkUnit, blocks: Iterator[EventBlock]) -> Iterator[Columns]:
    from .sums_kernel import sample_windows

    return by_window(
        unit,
        blocks,
        TracePoint.SENT,
        sample_windows,
        ("backlog_buffers",),
        ("buffers", "backlog_buffers_sum", "backlog_buffers_max"),
    )


THROUGHPUT = Asked(_sum_up, (*_DATA_COLUMNS, "payload_bytes", "records"), ThroughputRow)
BACKLOG = Asked(_sample, (*_DATA_COLUMNS, "backlog_buffers"), BacklogRow)
