"""How many messages of which kind went over each channel, seen where, and why buffers left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from flinknet.core.probe import MessageKind

from .units import Answer, Asked, EventBlock, WorkUnit, ask, in_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEYS = ("channel", "point", "kind", "data_type", "reason")
_SUMS = ("messages", "payload_bytes", "credit")
_REASONS = 1 << 8
"""More than there are; a data type and a reason make one number."""

_COLUMNS = ("at_ns", *_KEYS, "payload_bytes", "value")
_SCHEMA = (
    "run bigint, channel bigint, point bigint, kind bigint, data_type bigint, reason bigint,"
    " messages bigint, payload_bytes bigint, credit bigint"
)


def messages_by_kind(units: DataFrame) -> DataFrame:
    """Messages of the measured window and of the drain behind it, which carries its last records.

    Returns: run, channel, point, kind, data_type, reason (ordinals as in the trace), messages,
    payload_bytes, and
        credit: the sum of what AddCredit messages announced.
    """
    return merge_messages(ask(units, MESSAGES))


def merge_messages(parts: DataFrame) -> DataFrame:
    """`messages_by_kind` from the answers to MESSAGES."""
    from pyspark.sql import functions as f

    sums = (f.sum(name).alias(name) for name in _SUMS)
    return in_order(parts.groupBy("run", *_KEYS).agg(*sums), "run", *_KEYS)


def _count(unit: WorkUnit, blocks: Iterator[EventBlock]) -> Iterator[Answer]:
    """Rows of a block are sorted by channel, kind and point: of each stretch of equal ones only
    data type and reason are left to be counted (11 ns an event instead of 37).
    """
    for block in blocks:
        rows: Mapping[str, npt.NDArray[Any]] = block
        is_late = block["at_ns"] >= unit.from_ns
        if not is_late.all():
            rows = {name: block[name][is_late] for name in _COLUMNS}
        found: dict[str, list[int]] = {name: [] for name in (*_KEYS, *_SUMS)}
        for low, high in _stretches(rows):
            kinds = rows["data_type"][low:high].astype(np.int64) * _REASONS
            kinds += rows["reason"][low:high]
            messages = np.bincount(kinds)
            payload_bytes = np.bincount(kinds, weights=rows["payload_bytes"][low:high])
            kind = int(rows["kind"][low])
            credit = int(rows["value"][low:high].sum()) if kind == MessageKind.ADD_CREDIT else 0
            for number in np.flatnonzero(messages).tolist():
                row = (
                    *(int(rows[name][low]) for name in ("channel", "point")),
                    *(kind, *divmod(number, _REASONS)),
                    *(int(messages[number]), int(payload_bytes[number]), credit),
                )
                for values, value in zip(found.values(), row, strict=True):
                    values.append(value)
        yield {"run": [unit.run] * len(found["channel"]), **found}


def _stretches(rows: Mapping[str, npt.NDArray[Any]]) -> Iterator[tuple[int, int]]:
    """Ranges of rows of one channel, kind and point."""
    count = len(rows["channel"])
    if not count:
        return
    is_other = np.zeros(count - 1, bool)
    for name in ("channel", "kind", "point"):
        is_other |= rows[name][1:] != rows[name][:-1]
    yield from pairwise([0, *(np.flatnonzero(is_other) + 1).tolist(), count])


MESSAGES = Asked(_count, _COLUMNS, _SCHEMA)
