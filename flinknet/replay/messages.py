"""How many messages of which kind went over each channel, seen where, and why buffers left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from flinknet.core.probe import MessageKind

from .units import Answer, EventColumns, WorkUnit, ask, group_rows, sum_by_group

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEYS = ("channel", "point", "kind", "data_type", "reason")
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
    from pyspark.sql import functions as f

    return (
        ask(units, _count, _COLUMNS, _SCHEMA)
        .groupBy("run", *_KEYS)
        .agg(*(f.sum(name).alias(name) for name in ("messages", "payload_bytes", "credit")))
        .orderBy("run", *_KEYS)
    )


def _count(unit: WorkUnit, blocks: Iterator[EventColumns]) -> Iterator[Answer]:
    for block in blocks:
        keep = block["at_ns"] >= unit.from_ns
        keys, group = group_rows(*(block[name][keep] for name in _KEYS))
        groups = len(keys[0])
        credit = np.where(block["kind"] == MessageKind.ADD_CREDIT, block["value"], 0)[keep]
        answer: Answer = dict(zip(_KEYS, keys, strict=True))
        answer["run"] = np.full(groups, unit.run)
        answer["messages"] = np.bincount(group, minlength=groups)
        answer["payload_bytes"] = sum_by_group(group, block["payload_bytes"][keep], groups)
        answer["credit"] = sum_by_group(group, credit, groups)
        yield answer
