"""Stream elements in buffers: records with their timestamps, and the elements between them
(Flink: StreamElementSerializer).

If the program assigns timestamps, they are event time in ms, as in Flink. Otherwise they are
instants of the run's clock in ns: when a record was due at its source. Flink would store none; they
are what latency counts from.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flinknet.core.consumer import RecordRun
from flinknet.core.producer import SerializedRecords
from flinknet.core.wire.records import (
    LENGTH_PREFIX_BYTES,
    TAG_REC_WITH_TIMESTAMP,
    TAG_REC_WITHOUT_TIMESTAMP,
    StreamElement,
    decode_element,
)
from flinknet.errors import FrameCorruptedError
from flinknet.graph.user_functions import shown

from .basic_serializers import TypeSerializer

NO_TIMESTAMP = -(2**63)
"""As in Flink's TimestampAssigner. A record at this instant is written without a timestamp."""

Values = Sequence[Any] | NDArray[Any]
"""Records of one type, as a list or an array (see `serializers`)."""

Instants = NDArray[np.int64]
"""The timestamp of each record, NO_TIMESTAMP where it has none."""

Found = tuple[Values, Instants] | StreamElement
"""Consecutive records, or another stream element."""

_HEADER = struct.Struct(">ibq")
_SHORT_HEADER = struct.Struct(">ib")
_LENGTH = struct.Struct(">i")
_TIMESTAMP = struct.Struct(">q")
_WITH, _WITHOUT = TAG_REC_WITH_TIMESTAMP, TAG_REC_WITHOUT_TIMESTAMP

SHORT_RUN_RECORDS = 4
"""Longest run of records of equal length that is read one by one, not as an array."""

_WRONG_VALUE = (struct.error, TypeError, ValueError, AttributeError, IndexError, OverflowError)
_BROKEN = (struct.error, ValueError, IndexError, OverflowError, TypeError)


class WrongValueError(ValueError):
    """A value, at this position among those to be written, does not have the type of its edge."""

    def __init__(self, text: str, position: int) -> None:
        super().__init__(text)
        self.position = position


class StreamElementSerializer:
    """Reads and writes the records of an edge, into arrays wherever possible if it `has_arrays`."""

    def __init__(self, serializer: TypeSerializer, *, has_arrays: bool = False) -> None:
        self.serializer = serializer
        self._short_run = 0 if has_arrays else SHORT_RUN_RECORDS
        self._element_types: dict[tuple[int, bool], np.dtype[Any] | None] = {}

    def write(
        self, values: Values, timestamps: Instants, due_ns: Instants | None = None
    ) -> SerializedRecords:
        """Serialise records back to back, each with its length in front. The trace gets the due
        instants, -1 if unknown, or the timestamps. Raises: WrongValueError for the first value of
        another type.
        """
        instants = timestamps if due_ns is None else due_ns
        if isinstance(values, np.ndarray):
            written = self._write_array(values, timestamps, instants)
            if written is not None:
                return written
            values = values.tolist()
        out = bytearray()
        ends: list[int] = []
        write = self.serializer.write
        for value, timestamp in zip(values, timestamps.tolist(), strict=True):
            start = len(out)
            if timestamp == NO_TIMESTAMP:
                out += _SHORT_HEADER.pack(0, _WITHOUT)
            else:
                out += _HEADER.pack(0, _WITH, timestamp)
            try:
                write(value, out)
            except _WRONG_VALUE as error:
                raise WrongValueError(
                    f"{shown(value)} cannot be written as {self.serializer.name}: {error}",
                    len(ends),
                ) from error
            end = len(out)
            _LENGTH.pack_into(out, start, end - start - LENGTH_PREFIX_BYTES)
            ends.append(end)
        data = memoryview(out)
        if ends and ends == list(range(ends[0], ends[0] * len(ends) + 1, ends[0])):
            return SerializedRecords(data, instants, record_bytes=ends[0])
        return SerializedRecords(data, instants, ends=ends)

    def read(self, runs: Sequence[RecordRun]) -> list[Found]:
        """The elements of a buffer, in order: long runs of records as arrays where possible, the
        rest as lists. Raises: FrameCorruptedError if the bytes are not valid elements.
        """
        found: list[Found] = []
        values: list[Any] = []
        stamps: list[int] = []
        for run in runs:
            array = self._read_array(*run) if run[2] > self._short_run else None
            if array is None:
                values, stamps = self._read_one_by_one(*run, values, stamps, found)
                continue
            if values:
                found.append((values, np.array(stamps, np.int64)))
                values, stamps = [], []
            found.append(array)
        if values:
            found.append((values, np.array(stamps, np.int64)))
        return found

    def _read_one_by_one(
        self,
        memory: memoryview | bytearray,
        offset: int,
        count: int,
        record_bytes: int,
        values: list[Any],
        stamps: list[int],
        found: list[Found],
    ) -> tuple[list[Any], list[int]]:
        """Append records to `values` and `stamps`. Another element ends them and goes to `found`.
        Returns: the records not yet in `found`, and their timestamps.
        """
        data = bytes(memory[offset : offset + count * record_bytes])
        read = self.serializer.read
        end = 0
        for _ in range(count):
            position, end = end + LENGTH_PREFIX_BYTES, end + record_bytes
            try:
                tag = data[position]
                position += 1
                if tag == _WITH:
                    stamps.append(_TIMESTAMP.unpack_from(data, position)[0])
                    position += 8
                elif tag == _WITHOUT:
                    stamps.append(NO_TIMESTAMP)
                else:
                    element = decode_element(data[position - 1 : end])
                    if values:
                        found.append((values, np.array(stamps, np.int64)))
                        values, stamps = [], []
                    found.append(element)
                    continue
                value, position = read(data, position)
            except _BROKEN as error:
                raise FrameCorruptedError(
                    f"a record of {record_bytes} bytes is not a {self.serializer.name}: {error}"
                ) from error
            if position != end:
                raise FrameCorruptedError(
                    f"a record has {record_bytes} bytes, but the serializer of"
                    f" {self.serializer.name} reads {record_bytes + position - end}"
                )
            values.append(value)
        return values, stamps

    def _write_array(
        self, values: NDArray[Any], timestamps: Instants, instants: Instants
    ) -> SerializedRecords | None:
        value_bytes = self.serializer.array_bytes(values)
        has_timestamps = bool((timestamps != NO_TIMESTAMP).all())
        if value_bytes is None or not (has_timestamps or (timestamps == NO_TIMESTAMP).all()):
            return None
        header = _HEADER if has_timestamps else _SHORT_HEADER
        record_bytes = header.size + value_bytes
        element = self._element_type(record_bytes, has_timestamps)
        if element is None:
            return None
        wire = np.empty(len(values), element)
        wire["length"] = record_bytes - LENGTH_PREFIX_BYTES
        wire["tag"] = _WITH if has_timestamps else _WITHOUT
        if has_timestamps:
            wire["timestamp"] = timestamps
        self.serializer.put(values, wire["value"])
        return SerializedRecords(wire.view(np.uint8).data, instants, record_bytes=record_bytes)

    def _read_array(
        self, memory: memoryview | bytearray, offset: int, count: int, record_bytes: int
    ) -> tuple[Values, Instants] | None:
        has_timestamps = memory[offset + LENGTH_PREFIX_BYTES] == _WITH
        element = self._element_type(record_bytes, has_timestamps)
        if element is None:
            return None
        wire = np.ndarray(count, element, memory, offset)
        if not (wire["tag"] == (_WITH if has_timestamps else _WITHOUT)).all():
            return None
        values = self.serializer.take(wire["value"])
        if values is None:
            return None
        if has_timestamps:
            return values, wire["timestamp"].astype(np.int64)
        return values, np.full(count, NO_TIMESTAMP, np.int64)

    def _element_type(self, record_bytes: int, has_timestamp: bool) -> np.dtype[Any] | None:
        """Memory layout of records of this length; None if not all of them share one."""
        key = record_bytes, has_timestamp
        if key not in self._element_types:
            if len(self._element_types) > 64:
                self._element_types.clear()
            fields: list[tuple[str, Any]] = [("length", ">i4"), ("tag", "i1")]
            if has_timestamp:
                fields.append(("timestamp", ">i8"))
            header = _HEADER if has_timestamp else _SHORT_HEADER
            value = self.serializer.wire_type(record_bytes - header.size)
            self._element_types[key] = (
                None if value is None else np.dtype([*fields, ("value", value)])
            )
        return self._element_types[key]
