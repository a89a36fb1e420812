"""Backlog over time: how many buffers the producers still had queued when a data buffer left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from flinknet.core.probe import TracePoint

from .throughput import window_width_ns
from .units import (
    Answer,
    Asked,
    EventBlock,
    WorkUnit,
    ask,
    group_rows,
    in_order,
    sum_by_group,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COLUMNS = ("at_ns", "channel", "point", "kind", "data_type", "backlog_buffers")
_SCHEMA = (
    "run bigint, channel bigint, from_ns bigint, width_ns bigint,"
    " buffers bigint, backlog_buffers_sum bigint, backlog_buffers_max bigint"
)
_KEYS = ("run", "channel", "from_ns", "width_ns")


def backlog_over_time(units: DataFrame) -> DataFrame:
    """The backlog that data messages carried in each window, from the measured part on.

    The backlog is sampled whenever a data buffer leaves: a channel that stands still gives no
    sample.

    Returns: run, channel, from_ns (of the window, counted from the start of the measured part),
    width_ns, buffers
        (samples), backlog_buffers_sum (over the samples), backlog_buffers_max.
    """
    return merge_backlog(ask(units, BACKLOG))


def merge_backlog(parts: DataFrame) -> DataFrame:
    """`backlog_over_time` from the answers to BACKLOG."""
    from pyspark.sql import functions as f

    merged = parts.groupBy(*_KEYS).agg(
        f.sum("buffers").alias("buffers"),
        f.sum("backlog_buffers_sum").alias("backlog_buffers_sum"),
        f.max("backlog_buffers_max").alias("backlog_buffers_max"),
    )
    return in_order(merged, *_KEYS)


def _sample(unit: WorkUnit, blocks: Iterator[EventBlock]) -> Iterator[Answer]:
    width_ns = window_width_ns(unit.to_ns - unit.from_ns)
    for block in blocks:
        rows = block.data_at(TracePoint.SENT)
        is_counted = (rows["at_ns"] >= unit.from_ns) & (rows["backlog_buffers"] >= 0)
        keep = np.flatnonzero(is_counted)
        backlog = rows["backlog_buffers"].take(keep).astype(np.int64)
        window = (rows["at_ns"].take(keep) - unit.from_ns) // width_ns
        (channel, number), group = group_rows(rows["channel"].take(keep), window)
        groups = len(channel)
        largest = np.zeros(groups, dtype=np.int64)
        np.maximum.at(largest, group, backlog)
        yield {
            "run": np.full(groups, unit.run),
            "channel": channel,
            "from_ns": number * width_ns,
            "width_ns": np.full(groups, width_ns),
            "buffers": np.bincount(group, minlength=groups),
            "backlog_buffers_sum": sum_by_group(group, backlog, groups),
            "backlog_buffers_max": largest,
        }


BACKLOG = Asked(_sample, _COLUMNS, _SCHEMA)
