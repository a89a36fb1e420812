"""Serializers of single values: numbers, strings and bytes (see `serializers`)."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flinknet.errors import FrameCorruptedError

Array = NDArray[Any]

LENGTH = struct.Struct(">i")


class TypeSerializer:
    """Reads and writes the values of one type, by Flink's name (Flink: TypeSerializer)."""

    name = ""
    fixed_bytes: int | None = None
    """Size of every value; None if it varies."""

    def write(self, value: Any, out: bytearray) -> None:
        """Append a value. Raises: TypeError, ValueError or struct.error for one of another type."""
        raise NotImplementedError

    def read(self, data: bytes, position: int) -> tuple[Any, int]:
        """The value at a position, and the position after it. Raises: IndexError, struct.error or
        ValueError if there is no valid value.
        """
        raise NotImplementedError

    def wire_type(self, size_bytes: int) -> np.dtype[Any] | None:
        """Memory layout of values of this size; None if not all of them share one."""
        return None

    def array_bytes(self, values: Array) -> int | None:
        """Bytes per value of an array; None if its values are not of this type."""
        return None

    def take(self, wire: Array) -> Array | None:
        """Values from memory of `wire_type`; None if their layouts differ after all."""
        raise NotImplementedError

    def put(self, values: Array, wire: Array) -> None:
        """Copy values to memory of `wire_type`."""
        raise NotImplementedError


class NumberSerializer(TypeSerializer):
    """A number of fixed size, big-endian."""

    def __init__(self, name: str, code: str, native: str) -> None:
        self.name = name
        self._struct = struct.Struct(f">{code}")
        self.fixed_bytes = self._struct.size
        self._native = np.dtype(native)
        self._wire = self._native.newbyteorder(">")

    def write(self, value: Any, out: bytearray) -> None:
        out += self._struct.pack(value)

    def read(self, data: bytes, position: int) -> tuple[Any, int]:
        (value,) = self._struct.unpack_from(data, position)
        return value, position + self._struct.size

    def wire_type(self, size_bytes: int) -> np.dtype[Any] | None:
        return self._wire if size_bytes == self._struct.size else None

    def array_bytes(self, values: Array) -> int | None:
        return self._struct.size if values.dtype == self._native else None

    def take(self, wire: Array) -> Array | None:
        return wire.astype(self._native)

    def put(self, values: Array, wire: Array) -> None:
        wire[...] = values


class StringSerializer(TypeSerializer):
    """Strings, written as StringValue (Flink: StringSerializer)."""

    name = "String"

    def write(self, value: Any, out: bytearray) -> None:
        if isinstance(value, str) and len(value) < 0x7F and value.isascii():
            out.append(len(value) + 1)
            out += value.encode("ascii")
        elif value is None or isinstance(value, str):
            _write_units(value, out)
        else:
            raise TypeError(f"{type(value).__name__} is not a str")

    def read(self, data: bytes, position: int) -> tuple[Any, int]:
        first = data[position]
        if first == 0:
            return None, position + 1
        end = position + first
        raw = data[position + 1 : end]
        if first < 0x80 and len(raw) == first - 1 and raw.isascii():
            return raw.decode("ascii"), end
        length, position = _read_number(data, position)
        units = bytearray()
        for _ in range(length - 1):
            unit, position = _read_number(data, position)
            units += unit.to_bytes(2, "big")
        return units.decode("utf-16-be", "surrogatepass"), position


class ByteArraySerializer(TypeSerializer):
    """Bytes with their length in front (Flink: BytePrimitiveArraySerializer)."""

    name = "byte[]"

    def write(self, value: Any, out: bytearray) -> None:
        if not isinstance(value, bytes | bytearray | memoryview | np.void):
            raise TypeError(f"{type(value).__name__} is not bytes")
        raw = value.tobytes() if isinstance(value, np.void) else bytes(value)
        out += LENGTH.pack(len(raw))
        out += raw

    def read(self, data: bytes, position: int) -> tuple[Any, int]:
        length, position = read_size(data, position)
        return data[position : position + length], position + length

    def wire_type(self, size_bytes: int) -> np.dtype[Any] | None:
        if size_bytes <= LENGTH.size:
            return None
        return np.dtype([("length", ">i4"), ("bytes", f"V{size_bytes - LENGTH.size}")])

    def array_bytes(self, values: Array) -> int | None:
        is_plain = values.dtype.kind == "V" and values.dtype.names is None
        return LENGTH.size + values.dtype.itemsize if is_plain else None

    def take(self, wire: Array) -> Array | None:
        found = wire["bytes"]
        return found if (wire["length"] == found.dtype.itemsize).all() else None

    def put(self, values: Array, wire: Array) -> None:
        wire["length"] = values.dtype.itemsize
        wire["bytes"] = values


def read_size(data: bytes, position: int) -> tuple[int, int]:
    """Read an i32 count of the bytes or elements that follow; each takes at least one byte."""
    (size,) = LENGTH.unpack_from(data, position)
    position += LENGTH.size
    if not 0 <= size <= len(data) - position:
        raise FrameCorruptedError(f"a value says that {size} bytes or elements follow")
    return size, position


def _write_units(text: str | None, out: bytearray) -> None:
    """Write length + 1 (0 for None), then each UTF-16 unit, all as varints."""
    if text is None:
        out.append(0)
        return
    utf16 = text.encode("utf-16-be", "surrogatepass")
    units = [high << 8 | low for high, low in zip(utf16[::2], utf16[1::2], strict=True)]
    for number in (len(units) + 1, *units):
        while number >= 0x80:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        out.append(number)


def _read_number(data: bytes, position: int) -> tuple[int, int]:
    """Read a varint: seven bits a byte, the lowest first."""
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7
        if shift > 28:
            raise FrameCorruptedError("a number of more than five bytes")


BOOLEAN = NumberSerializer("Boolean", "?", "?")
INT = NumberSerializer("Integer", "i", "i4")
LONG = NumberSerializer("Long", "q", "i8")
DOUBLE = NumberSerializer("Double", "d", "f8")
STRING = StringSerializer()
BYTE_ARRAY = ByteArraySerializer()
