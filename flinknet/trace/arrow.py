"""Events as Arrow columns: names instead of the file's ordinals, null instead of -1 or of an
ordinal without a name.

Every event has the columns of `schema.COLUMNS` and three more: `process` and `connection` (names in
the manifest) and `direction` (to_consumer or to_producer).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import FlushReason, MessageKind, TracePoint

from .reader import EventColumns
from .schema import COLUMNS

NAMES: dict[str, tuple[str, ...]] = {
    "point": tuple(each.name for each in TracePoint),
    "kind": tuple(each.name for each in MessageKind),
    "data_type": tuple(each.name for each in DataType),
    "reason": tuple(each.name for each in FlushReason),
}
"""Columns of names, which are ordinals in the file."""

NEVER_NULL = frozenset({"at_ns", "payload_bytes", *NAMES})

DERIVED = ("process", "connection", "direction")

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
        for each in COLUMNS
    ]
    + [(name, pa.string()) for name in DERIVED]
)
"""All columns, in order."""


def event_array(
    name: str, rows: EventColumns, process: str, connections: Mapping[int, str]
) -> pa.Array:
    """One column of a batch of events.

    Args:
        name: name in the schema.
        rows: the file's columns needed for it.
        process: process that recorded the events.
        connections: connection name of each channel.
    """
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
    values = rows[name]
    if name in NEVER_NULL:
        return pa.array(values)
    is_absent = values == -1
    return pa.array(values, mask=is_absent if is_absent.any() else None)


def _named(
    where: npt.NDArray[np.int64], channel: npt.NDArray[Any], names: list[str], known: list[int]
) -> pa.Array:
    """The names at `where`, null for unknown channels."""
    if not known:
        return pa.nulls(len(channel), pa.string())
    where = np.minimum(where, len(known) - 1)
    is_known = np.asarray(known)[where] == channel
    return _decoded(where.astype(np.int32), names, mask=~is_known)


def _decoded(
    ordinals: npt.NDArray[np.int32], names: list[str], mask: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    indices = pa.array(ordinals, mask=mask)
    return pa.DictionaryArray.from_arrays(indices, pa.array(names)).cast(pa.string())
