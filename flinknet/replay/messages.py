"""How many messages of which kind went over each channel, seen where, and why buffers left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from flinknet.core.probe import MessageKind

from .units import Answer, Asked, EventBlock, WorkUnit, ask, group_rows, in_order, sum_by_group

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEYS = ("channel", "point", "kind", "data_type", "reason")
_SPANS = dict.fromkeys(_KEYS[1:], 1 << 8)
"""How many values a key other than the channel can have."""

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

    sums = (f.sum(name).alias(name) for name in ("messages", "payload_bytes", "credit"))
    return in_order(parts.groupBy("run", *_KEYS).agg(*sums), "run", *_KEYS)


def _count(unit: WorkUnit, blocks: Iterator[EventBlock]) -> Iterator[Answer]:
    for block in blocks:
        rows = block
        is_late = block["at_ns"] >= unit.from_ns
        if not is_late.all():
            rows = EventBlock({name: block[name][is_late] for name in _COLUMNS})
        (channel, small), group = group_rows(rows["channel"], _in_one(rows))
        groups = len(channel)
        keys = {"channel": channel}
        for name, span in _SPANS.items():
            keys[name] = small % span
            small = small // span
        is_credit = np.flatnonzero(rows["kind"] == MessageKind.ADD_CREDIT)
        credits = rows["value"].take(is_credit)
        yield {
            **keys,
            "run": np.full(groups, unit.run),
            "messages": np.bincount(group, minlength=groups),
            "payload_bytes": sum_by_group(group, rows["payload_bytes"], groups),
            "credit": sum_by_group(group.take(is_credit), credits, groups),
        }


def _in_one(rows: EventBlock) -> npt.NDArray[np.int32]:
    """The small keys of each row as one number."""
    number = np.zeros(len(rows["at_ns"]), np.int32)
    for name, span in reversed(_SPANS.items()):
        number *= span
        number += rows[name]
    return number


MESSAGES = Asked(_count, _COLUMNS, _SCHEMA)
