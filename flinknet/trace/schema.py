"""The columns of an event, defined only here.

They are in the order of `core.probe.Probe.record`. The recorder's row, the file's columns, the
Arrow schema and the Spark schema all derive from `COLUMNS`. Every column is an integer; -1 means
"not applicable".

A capture of a real Flink adds `TIME_COLUMNS`: the times that the elements of a data buffer carry.
A block without any of them has no such columns, and is read as if all were `NO_TIME`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flinknet.core.wire.records import SAMPLES


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name (unit last), its little-endian struct code, and its meaning."""

    name: str
    code: str  # b i8, B u8, i i32, q i64
    meaning: str

    @property
    def numpy_type(self) -> str:
        return {"B": "u1", "i": "<i4", "q": "<i8"}[self.code]


COLUMNS: tuple[Column, ...] = (
    Column("at_ns", "q", "instant, CLOCK_MONOTONIC of the host (virtual in a simulation)"),
    Column("channel", "i", "index of the channel in the manifest, -1 for the whole connection"),
    Column("point", "B", "core.probe.TracePoint"),
    Column("kind", "B", "core.probe.MessageKind, the message id of the wire"),
    Column("data_type", "B", "ordinal of the buffer's data type"),
    Column("reason", "B", "core.probe.FlushReason: why a data buffer or event left; at SENT"),
    Column("sequence_number", "i", "of the BufferResponse"),
    Column("payload_bytes", "i", "bytes of the payload of a BufferResponse, else 0"),
    Column("records", "i", "records that end in this buffer, -1 if unknown"),
    Column("first_record_ns", "q", "intended instant of the first of them"),
    Column("last_record_ns", "q", "intended instant of the last of them"),
    Column("backlog_buffers", "i", "backlog that the message carries"),
    Column(
        "credit_before",
        "i",
        "before the message: the producer's credit for the channel (SENT of data, RECEIVED of"
        " AddCredit), the consumer's credit that is not announced yet (SENT of AddCredit), or its"
        " free buffers (RECEIVED of data)",
    ),
    Column("credit_after", "i", "the same number after the message"),
    Column("pool_available_buffers", "i", "buffers the local pool could still give"),
    Column("pool_size_buffers", "i", "current size of the local pool"),
    Column(
        "value",
        "q",
        "content of other messages: credit of AddCredit, initial credit of PartitionRequest, size"
        " of NewBufferSize, checkpoint id of a barrier",
    ),
)

COLUMN_NAMES: tuple[str, ...] = tuple(column.name for column in COLUMNS)

ROW_FORMAT = "<" + "".join(column.code for column in COLUMNS)
"""struct format of one event as the recorder packs it."""

ROW_DTYPE: list[tuple[str, str]] = [(column.name, column.numpy_type) for column in COLUMNS]
"""numpy structured type of the same bytes (packed, no padding)."""

TIME_COLUMNS: tuple[Column, ...] = (
    Column("watermark_ms", "q", "last watermark in this buffer, or WATERMARK_IDLE or _ACTIVE"),
    Column("marker_ms", "q", "when the last latency marker in this buffer was made, wall clock"),
    *(
        Column(
            f"timestamp_{number}_ms",
            "q",
            "timestamp of a record of the buffer's sample; from"
            " the second one on minus that of the first",
        )
        for number in range(1, SAMPLES + 1)
    ),
)
"""The columns of times, see `core.wire.records`; NO_TIME where there is none. A recorder takes
whole timestamps, the file has the differences."""

TIME_NAMES: Final = tuple(column.name for column in TIME_COLUMNS)

TIMESTAMPS: Final = TIME_NAMES[-SAMPLES:]
"""Names of the columns of the sample."""

TIMES_FORMAT: Final = "<i" + "".join(column.code for column in TIME_COLUMNS)
"""struct format of the times of an event, after the event's place in its block."""

TIMES_DTYPE: Final = [("row", "<i4"), *((each.name, each.numpy_type) for each in TIME_COLUMNS)]
"""numpy structured type of the same bytes."""
