"""Events as Arrow columns: names instead of the file's ordinals, null instead of -1 or of an
ordinal without a name.

Every event has the columns of `schema.COLUMNS` and those of `DERIVED`, of `schema.TIME_COLUMNS`
those of the times that its elements carried, all as they were on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flinknet.arrays import EventColumns
from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import FlushReason, MessageKind, TracePoint
from flinknet.core.wire.records import NO_TIME, WATERMARK_ACTIVE, WATERMARK_IDLE

from .schema import COLUMNS, TIME_COLUMNS, TIME_NAMES, TIMESTAMPS

NAMES: dict[str, tuple[str, ...]] = {
    "point": tuple(each.name for each in TracePoint),
    "kind": tuple(each.name for each in MessageKind),
    "data_type": tuple(each.name for each in DataType),
    "reason": tuple(each.name for each in FlushReason),
}
"""Columns of names, which are ordinals in the file."""

NEVER_NULL = frozenset({"at_ns", "payload_bytes", *NAMES})

DERIVED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "process": ("that recorded the event", ()),
    "connection": ("from the producer's process to the consumer's", ("channel",)),
    "direction": ("to_consumer or to_producer", ("kind",)),
    "watermark_status": ("IDLE or ACTIVE, if it changed in this buffer", ("watermark_ms",)),
}
"""Columns that are not in traces: their meaning, and the stored columns that they are made from."""

STORED_FOR: Mapping[str, tuple[str, ...]] = {
    **{name: stored for name, (_, stored) in DERIVED.items()},
    **{name: (TIMESTAMPS[0], name) for name in TIMESTAMPS[1:]},
}
"""Columns that are made from other stored columns than themselves alone."""

TO_CONSUMER, TO_PRODUCER = "to_consumer", "to_producer"

_KINDS_TO_CONSUMER = (
    MessageKind.BUFFER_RESPONSE,
    MessageKind.ERROR_RESPONSE,
    MessageKind.BACKLOG_ANNOUNCEMENT,
)

EVENT_SCHEMA = pa.schema(
    [
        (
            each.name,
            pa.string() if each.name in NAMES else pa.int64() if each.code == "q" else pa.int32(),
        )
        for each in (*COLUMNS, *TIME_COLUMNS)
    ]
    + [(name, pa.string()) for name in DERIVED]
)
"""All columns, in order."""


def event_array(
    name: str, rows: EventColumns, process: str, connections: Mapping[int, str]
) -> pa.Array:
    """One column of a batch of events, from the columns of the file that it needs."""
    if name == "process":
        return pa.repeat(pa.scalar(process), len(next(iter(rows.values()))))
    if name == "connection":
        known = sorted(connections)
        names = [connections[channel] for channel in known]
        where = np.searchsorted(known, rows["channel"]) if known else np.zeros(0, np.int64)
        return _named(where, rows["channel"], names, known)
    if name == "direction":
        to_producer = ~np.isin(rows["kind"], _KINDS_TO_CONSUMER)
        return _decoded(to_producer.astype(np.int32), [TO_CONSUMER, TO_PRODUCER])
    if name in NAMES:
        is_unknown = rows[name] >= len(NAMES[name])
        mask = is_unknown if is_unknown.any() else None
        return _decoded(rows[name].astype(np.int32), list(NAMES[name]), mask)
    if name == "watermark_status":
        status = rows["watermark_ms"] - WATERMARK_IDLE
        return _decoded(status, ["IDLE", "ACTIVE"], (status < 0) | (status > 1))
    values = rows[name]
    if name in TIME_NAMES:
        is_absent = values <= (WATERMARK_ACTIVE if name == "watermark_ms" else NO_TIME)
        if name in TIMESTAMPS[1:]:
            values = values + rows[TIMESTAMPS[0]]
        return pa.array(values, mask=is_absent)
    if name in NEVER_NULL:
        return pa.array(values)
    is_absent = values == -1
    return pa.array(values, mask=is_absent if is_absent.any() else None)


def _named(
    where: npt.NDArray[np.int64], channel: npt.NDArray[Any], names: list[str], known: list[int]
) -> pa.Array:
    if not known:
        return pa.nulls(len(channel), pa.string())
    where = np.minimum(where, len(known) - 1)
    is_known = np.asarray(known)[where] == channel
    return _decoded(where.astype(np.int32), names, mask=~is_known)


def _decoded(
    ordinals: npt.NDArray[np.int32], names: list[str], mask: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    indices = pa.array(ordinals, pa.int32(), mask=mask)
    return pa.DictionaryArray.from_arrays(indices, pa.array(names)).cast(pa.string())
