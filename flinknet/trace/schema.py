"""The columns of an event, defined only here.

They are in the order of `core.probe.Probe.record`. The recorder's row, the file's columns, the
Arrow schema and the Spark schema all derive from `COLUMNS`. Every column is an integer; -1 means
"not applicable".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name (unit last), its little-endian struct code, and its meaning."""

    name: str
    code: str  # b i8, B u8, i i32, q i64
    meaning: str

    @property
    def numpy_type(self) -> str:
        """The little-endian numpy type string of this column."""
        return {"B": "u1", "i": "<i4", "q": "<i8"}[self.code]


COLUMNS: tuple[Column, ...] = (
    Column("at_ns", "q", "instant, CLOCK_MONOTONIC of the host (virtual in a simulation)"),
    Column("channel", "i", "index of the channel in the manifest, -1 for the whole connection"),
    Column("point", "B", "core.probe.TracePoint"),
    Column("kind", "B", "core.probe.MessageKind, the message id of the wire"),
    Column("data_type", "B", "ordinal of the buffer's data type"),
    Column("reason", "B", "core.probe.FlushReason: why the buffer left"),
    Column("sequence_number", "i", "of the BufferResponse"),
    Column("payload_bytes", "i", "bytes of the payload"),
    Column("records", "i", "records that end in this buffer"),
    Column("first_record_ns", "q", "intended instant of the first of them"),
    Column("last_record_ns", "q", "intended instant of the last of them"),
    Column("backlog_buffers", "i", "backlog that the message carries"),
    Column("credit_before", "i", "credit before the message, see core.probe.Probe.record"),
    Column("credit_after", "i", "credit after the message"),
    Column("pool_available_buffers", "i", "buffers the local pool could still give"),
    Column("pool_size_buffers", "i", "current size of the local pool"),
    Column("value", "q", "what other messages carry: credit, buffer size, checkpoint id"),
)

COLUMN_NAMES: tuple[str, ...] = tuple(column.name for column in COLUMNS)

ROW_FORMAT = "<" + "".join(column.code for column in COLUMNS)
"""struct format of one event as the recorder packs it."""

ROW_DTYPE: list[tuple[str, str]] = [(column.name, column.numpy_type) for column in COLUMNS]
"""numpy structured type of the same bytes (packed, no padding)."""
