"""Java's modified UTF-8: UTF-16 units encoded one by one, U+0000 as `c0 80` (DataOutput.writeUTF).

Strings on the wire have a u16 byte count in front. A character beyond U+FFFF is two units of three
bytes each. Unpaired surrogates are legal in Java strings and are kept.
"""

from __future__ import annotations

from flinknet.errors import FrameCorruptedError


def encode_modified_utf8(text: str) -> bytes:
    """Encode `text`, without a length."""
    if text.isascii() and "\0" not in text:
        return text.encode("ascii")
    utf16 = text.encode("utf-16-be", "surrogatepass")
    units = (chr(high << 8 | low) for high, low in zip(utf16[::2], utf16[1::2], strict=True))
    return b"".join(
        b"\xc0\x80" if unit == "\0" else unit.encode("utf-8", "surrogatepass") for unit in units
    )


def decode_modified_utf8(data: bytes) -> str:
    """Decode `data`.

    Raises: FrameCorruptedError for bytes that are not modified UTF-8.
    """
    try:
        if data.isascii():
            return data.decode("ascii")
        if max(data) >= 0xF0:
            raise FrameCorruptedError("text is not modified UTF-8: a sequence of four bytes")
        # c0 never occurs in valid UTF-8 and starts only U+0000 here.
        units = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    except UnicodeDecodeError as error:
        raise FrameCorruptedError(f"text is not modified UTF-8: {error.reason}") from error
