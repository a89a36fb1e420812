"""Throughput over time: what the consumers took in each time window; of a trace from between, what
passed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from .units import (
    Answer,
    Asked,
    EventBlock,
    WorkUnit,
    ask,
    group_rows,
    in_order,
    is_measured,
    sum_by_group,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WINDOWS_MAX = 60
"""Windows that a run's measured part is cut into at most; their width is a round number."""

_COLUMNS = ("at_ns", "channel", "point", "kind", "data_type", "payload_bytes", "records")
_SCHEMA = (
    "run bigint, channel bigint, from_ns bigint, width_ns bigint,"
    " buffers bigint, records bigint, payload_bytes bigint"
)
_KEYS = ("run", "channel", "from_ns", "width_ns")


def throughput_over_time(units: DataFrame) -> DataFrame:
    """What was consumed in each window of the measured part.

    Returns: run, channel, from_ns (of the window, counted from the start of the measured part),
    width_ns, buffers,
        records, payload_bytes.
    """
    return merge_throughput(ask(units, THROUGHPUT))


def merge_throughput(parts: DataFrame) -> DataFrame:
    """`throughput_over_time` from the answers to THROUGHPUT."""
    from pyspark.sql import functions as f

    sums = (f.sum(name).alias(name) for name in ("buffers", "records", "payload_bytes"))
    return in_order(parts.groupBy(*_KEYS).agg(*sums), *_KEYS)


def window_width_ns(duration_ns: int) -> int:
    """The smallest of 1, 2, 5, 10, 20 … ns that cuts a duration into at most WINDOWS_MAX
    windows."""
    width_ns = 1
    while True:
        for factor in (1, 2, 5):
            if duration_ns <= factor * width_ns * WINDOWS_MAX:
                return factor * width_ns
        width_ns *= 10


def _sum_up(unit: WorkUnit, blocks: Iterator[EventBlock]) -> Iterator[Answer]:
    width_ns = window_width_ns(unit.to_ns - unit.from_ns)
    for block in blocks:
        rows = block.data_at(unit.counted_at)
        keep = np.flatnonzero(is_measured(unit, rows["at_ns"]))
        window = (rows["at_ns"].take(keep) - unit.from_ns) // width_ns
        (channel, number), group = group_rows(rows["channel"].take(keep), window)
        groups = len(channel)
        yield {
            "run": np.full(groups, unit.run),
            "channel": channel,
            "from_ns": number * width_ns,
            "width_ns": np.full(groups, width_ns),
            "buffers": np.bincount(group, minlength=groups),
            "records": sum_by_group(group, np.maximum(rows["records"].take(keep), 0), groups),
            "payload_bytes": sum_by_group(group, rows["payload_bytes"].take(keep), groups),
        }


THROUGHPUT = Asked(_sum_up, _COLUMNS, _SCHEMA)
