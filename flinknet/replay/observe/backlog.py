"""Backlog over time: how many buffers the producers still had queued when a data buffer left."""

from __future__ import annotations

from collections.abc import Iterator

from flinknet.core.probe import TracePoint
from flinknet.trace.event_block import EventBlock

from ..spark.units import Answer, Asked, WorkUnit
from .sums import Sums
from .windows import by_window

_COLUMNS = ("at_ns", "channel", "point", "kind", "data_type", "backlog_buffers")
_SCHEMA = (
    "run bigint, channel bigint, from_ns bigint, width_ns bigint,"
    " buffers bigint, backlog_buffers_sum bigint, backlog_buffers_max bigint"
)

MERGE_BACKLOG = Sums(
    ("run", "channel", "from_ns", "width_ns"),
    ("buffers", "backlog_buffers_sum"),
    ("backlog_buffers_max",),
)


def _sample(unit: WorkUnit, blocks: Iterator[EventBlock]) -> Iterator[Answer]:
    from .sums_kernel import sample_windows

    return by_window(
        unit,
        blocks,
        TracePoint.SENT,
        sample_windows,
        ("backlog_buffers",),
        ("buffers", "backlog_buffers_sum", "backlog_buffers_max"),
    )


BACKLOG = Asked(_sample, _COLUMNS, _SCHEMA)
"""The backlog that data messages carried in each window, from the measured part on.

The backlog is sampled whenever a data buffer leaves: a channel that stands still gives no sample.

Columns: run, channel, from_ns (of the window, counted from the start of the measured part),
width_ns, buffers (samples), backlog_buffers_sum (over the samples), backlog_buffers_max.
"""
