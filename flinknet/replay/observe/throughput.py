"""Throughput over time: what the consumers took in each time window; of a trace from between, what
passed."""

from __future__ import annotations

from collections.abc import Iterator

from flinknet.trace.event_block import EventBlock

from ..spark.units import Answer, Asked, WorkUnit
from .sums import Sums
from .windows import by_window

_COLUMNS = ("at_ns", "channel", "point", "kind", "data_type", "payload_bytes", "records")
_SCHEMA = (
    "run bigint, channel bigint, from_ns bigint, width_ns bigint,"
    " buffers bigint, records bigint, payload_bytes bigint"
)

MERGE_THROUGHPUT = Sums(
    ("run", "channel", "from_ns", "width_ns"), ("buffers", "records", "payload_bytes")
)


def _sum_up(unit: WorkUnit, blocks: Iterator[EventBlock]) -> Iterator[Answer]:
    from .sums_kernel import sum_windows

    return by_window(
        unit,
        blocks,
        unit.counted_at,
        sum_windows,
        ("records", "payload_bytes"),
        ("buffers", "records", "payload_bytes"),
    )


THROUGHPUT = Asked(_sum_up, _COLUMNS, _SCHEMA)
"""What was consumed in each window of the measured part, and of the drain behind it.

Columns: run, channel, from_ns (of the window, counted from the start of the measured part),
width_ns, buffers, records, payload_bytes.
"""
