"""How many messages of which kind went over each channel, recorded where, and why buffers left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from flinknet.core.probe import MessageKind, TracePoint
from flinknet.trace.event_block import EventBlock

from ..spark.frames import Columns
from ..spark.units import Asked, WorkUnit, of_all_channels
from .sums import Sums

_KEYS = ("channel", "point", "kind", "data_type", "reason")

_COLUMNS = ("at_ns", *_KEYS, "payload_bytes", "value")


@dataclass(frozen=True, slots=True)
class MessagesRow:
    """Messages of the measured window and of the drain behind it, which carries its last records.

    Ordinals are those of the trace; `credit` is the sum of what AddCredit messages announced.
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


MERGE_MESSAGES = Sums(("run", *_KEYS), ("messages", "payload_bytes", "credit"))

_WRITER_WAITS = (TracePoint.WRITER_WAITS, TracePoint.WRITER_RESUMES)


def total_messages(rows: pa.Table) -> pa.Table:
    """MessagesRow of all channels of each run, from rows of some of them or from such totals."""
    return MERGE_MESSAGES(of_all_channels(rows))


def writer_waits(rows: pa.Table) -> pa.Table:
    """Run and channel of the rows that writers left which waited for a buffer."""
    is_own = np.isin(rows["point"].to_numpy(), _WRITER_WAITS)
    return rows.filter(pa.array(is_own)).select(["run", "channel"])


def _count(unit: WorkUnit, blocks: Iterator[EventBlock]) -> Iterator[Columns]:
    from .sums_kernel import REASONS, count_kinds, sum_within

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


MESSAGES = Asked(_count, _COLUMNS, MessagesRow)
