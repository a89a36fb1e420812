"""Throughput over time: what the consumers took in each time window; of a trace from between, what
passed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from flinknet.core.probe import MessageKind

from .sums import Sums
from .units import IS_BUFFER_BY_TYPE, Answer, Asked, EventBlock, WorkUnit, ask, merged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WINDOWS_MAX = 60
"""Windows that a run's measured part is cut into at most; their width is a round number."""

_COLUMNS = ("at_ns", "channel", "point", "kind", "data_type", "payload_bytes", "records")
_SCHEMA = (
    "run bigint, channel bigint, from_ns bigint, width_ns bigint,"
    " buffers bigint, records bigint, payload_bytes bigint"
)

MERGE_THROUGHPUT = Sums(
    ("run", "channel", "from_ns", "width_ns"), ("buffers", "records", "payload_bytes")
)


def throughput_over_time(units: DataFrame) -> DataFrame:
    """What was consumed in each window of the measured part, and of the drain behind it.

    Returns: run, channel, from_ns (of the window, counted from the start of the measured part),
    width_ns, buffers,
        records, payload_bytes.
    """
    return merged(ask(units, THROUGHPUT), MERGE_THROUGHPUT, THROUGHPUT.schema)


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
    from .sums_kernel import sum_windows

    width_ns = window_width_ns(unit.to_ns - unit.from_ns)
    for block in blocks:
        spans = block.spans.of(MessageKind.BUFFER_RESPONSE, unit.counted_at)
        if not len(spans.starts):
            continue
        span, window, buffers, records, payload_bytes = sum_windows(
            spans.starts,
            spans.ends,
            block["at_ns"],
            block["data_type"],
            IS_BUFFER_BY_TYPE,
            block["records"],
            block["payload_bytes"],
            (unit.from_ns, unit.until_ns, width_ns),
        ).T
        yield {
            "run": np.full(len(span), unit.run),
            "channel": spans.channel[span],
            "from_ns": window * width_ns,
            "width_ns": np.full(len(span), width_ns),
            "buffers": buffers,
            "records": records,
            "payload_bytes": payload_bytes,
        }


THROUGHPUT = Asked(_sum_up, _COLUMNS, _SCHEMA)
