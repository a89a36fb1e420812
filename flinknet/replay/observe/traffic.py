"""Messages by kind, and throughput and backlog over time.

Throughput is the data that consumers took or, recorded between processes, the data that passed. The
backlog is the number of buffers that the producers still had queued when a data buffer left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from flinknet.arrays import IntArray
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.trace.event_block import IS_BUFFER_BY_TYPE, EventBlock

from ..spark.frames import Columns
from .question import Question
from .units import Unit

WINDOWS_MAX = 60
"""Most windows of the measured part of a run; their width is a round number."""

_WINDOW_KEYS = ("run", "channel", "from_ns", "width_ns")
_SUMS = ("buffers", "records", "payload_bytes", "uncounted_bytes")
_WRITER_WAITS = (TracePoint.WRITER_WAITS, TracePoint.WRITER_RESUMES)


@dataclass(frozen=True, slots=True)
class MessagesRow:
    """Messages of the measured window and of the drain after it, which carries its last records.

    Ordinals are those of the trace; `credit` is the sum of the credit that AddCredit messages
    announced.
    """

    run: int
    channel: int
    point: int
    kind: int
    data_type: int
    reason: int
    messages: int
    payload_bytes: int
    credit: int


@dataclass(frozen=True, slots=True)
class ThroughputWindow:
    """Data that a channel carried in one window of the measured part or of the drain.

    Attributes:
        from_ns: start of the window, from the start of the measured part.
        uncounted_bytes: share of payload_bytes in buffers whose records could not be counted.
    """

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
    """Backlog that the data messages of a channel announced in a window; `buffers` are the samples.

    A channel that sends nothing gives no sample.
    """

    run: int
    channel: int
    from_ns: int
    width_ns: int
    buffers: int
    backlog_buffers_sum: int
    backlog_buffers_max: int


def writer_waits(rows: pa.Table) -> pa.Table:
    """The MessagesRows that writers left when they waited for a buffer."""
    return rows.filter(pa.array(np.isin(rows["point"].to_numpy(), _WRITER_WAITS)))


def window_width_ns(duration_ns: int) -> int:
    """The smallest of 1, 2, 5, 10, 20 … ns that cuts a duration into at most WINDOWS_MAX
    windows."""
    width_ns = 1
    while True:
        for factor in (1, 2, 5):
            if duration_ns <= factor * width_ns * WINDOWS_MAX:
                return factor * width_ns
        width_ns *= 10


def _count(unit: Unit, blocks: Iterator[EventBlock]) -> Iterator[Columns]:
    from .kernels import REASONS, count_kinds, sum_within

    window_ns = (unit.from_ns, unit.until_ns)
    for block in blocks:
        spans = block.spans
        at_ns, payload_bytes = block["at_ns"], block["payload_bytes"]
        span, number, messages, sizes = count_kinds(
            spans.starts,
            spans.ends,
            at_ns,
            block["data_type"],
            block["reason"],
            payload_bytes,
            window_ns,
        ).T
        credit = np.zeros(len(spans.starts), np.int64)
        is_credit = spans.kind == MessageKind.ADD_CREDIT
        announced = spans.only(is_credit)
        credit[is_credit] = sum_within(
            announced.starts, announced.ends, at_ns, block["value"], window_ns
        )
        data_type, reason = np.divmod(number, REASONS)
        yield {
            "run": np.full(len(span), unit.run),
            "channel": spans.channel[span],
            "point": spans.point[span],
            "kind": spans.kind[span],
            "data_type": data_type,
            "reason": reason,
            "messages": messages,
            "payload_bytes": sizes,
            "credit": credit[span],
        }


def _by_window(
    unit: Unit,
    blocks: Iterator[EventBlock],
    point: int,
    kernel: Callable[..., IntArray],
    columns: Sequence[str],
    names: Sequence[str],
) -> Iterator[Columns]:
    """Add up data buffers at a point, by channel and window.

    Args:
        kernel: function of `kernels` that gives rows of span, window, and a figure for each name.
        columns: further columns of the trace that it takes.
        names: figures in the answer.
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


def _sum_up(unit: Unit, blocks: Iterator[EventBlock]) -> Iterator[Columns]:
    from .kernels import sum_windows

    columns = ("records", "payload_bytes")
    return _by_window(unit, blocks, unit.counted_at, sum_windows, columns, _SUMS)


def _sample(unit: Unit, blocks: Iterator[EventBlock]) -> Iterator[Columns]:
    from .kernels import sample_windows

    names = ("buffers", "backlog_buffers_sum", "backlog_buffers_max")
    columns = ("backlog_buffers",)
    return _by_window(unit, blocks, TracePoint.SENT, sample_windows, columns, names)


MESSAGES = Question(
    "messages",
    MessagesRow,
    keys=("run", "channel", "point", "kind", "data_type", "reason"),
    sums=("messages", "payload_bytes", "credit"),
    ask=_count,
)
THROUGHPUT = Question("throughput", ThroughputWindow, keys=_WINDOW_KEYS, sums=_SUMS, ask=_sum_up)
BACKLOG = Question(
    "backlog",
    BacklogWindow,
    keys=_WINDOW_KEYS,
    sums=("buffers", "backlog_buffers_sum"),
    maxima=("backlog_buffers_max",),
    ask=_sample,
)
