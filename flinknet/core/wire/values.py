"""Values of records as Flink's basic serializers write them: long, byte[], String.

A decoder takes exactly one value and raises FrameCorruptedError for anything else.
"""

from __future__ import annotations

import struct

from flinknet.errors import FrameCorruptedError

_LONG = struct.Struct(">q")
_LENGTH = struct.Struct(">i")


def encode_long(value: int) -> bytes:
    """i64 (Flink: LongSerializer)."""
    return _LONG.pack(value)


def decode_long(value: bytes) -> int:
    if len(value) != _LONG.size:
        raise FrameCorruptedError(f"a long of {len(value)} bytes")
    number: int = _LONG.unpack(value)[0]
    return number


def encode_byte_array(value: bytes) -> bytes:
    """i32 length and the bytes (Flink: BytePrimitiveArraySerializer)."""
    return _LENGTH.pack(len(value)) + value


def decode_byte_array(value: bytes) -> bytes:
    if len(value) < _LENGTH.size or _LENGTH.unpack_from(value)[0] != len(value) - _LENGTH.size:
        raise FrameCorruptedError(f"{len(value)} bytes are not one byte[] with its length")
    return value[_LENGTH.size :]


def encode_string(text: str | None) -> bytes:
    """length + 1 (0 for null), then each UTF-16 unit, all in variable length (Flink: StringValue).

    Seven bits a byte, low bits first; the high bit says that more follow.
    """
    if text is None:
        return b"\0"
    utf16 = text.encode("utf-16-be", "surrogatepass")
    units = [high << 8 | low for high, low in zip(utf16[::2], utf16[1::2], strict=True)]
    encoded = bytearray()
    for number in (len(units) + 1, *units):
        while number >= 0x80:
            encoded.append(number & 0x7F | 0x80)
            number >>= 7
        encoded.append(number)
    return bytes(encoded)


def decode_string(value: bytes) -> str | None:
    numbers = _variable_length_numbers(value)
    if not numbers or numbers[0] != max(1, len(numbers)) - (value == b"\0"):
        raise FrameCorruptedError(f"{len(value)} bytes are not one String with its length")
    if numbers[0] == 0:
        return None
    if max(numbers[1:], default=0) > 0xFFFF:
        raise FrameCorruptedError("a character of more than 16 bits")
    utf16 = b"".join(unit.to_bytes(2, "big") for unit in numbers[1:])
    return utf16.decode("utf-16-be", "surrogatepass")


def _variable_length_numbers(value: bytes) -> list[int]:
    numbers = []
    number = shift = 0
    for byte in value:
        if shift > 28:
            raise FrameCorruptedError("a number of more than five bytes")
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(number)
            number = shift = 0
    if shift:
        raise FrameCorruptedError("a number is cut")
    return numbers
