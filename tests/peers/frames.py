"""What misbehaving peers send that is no message: frames that lie, and what is none at all."""

from __future__ import annotations

import struct

MAGIC = b"\xba\xdc\x0f\xfe"


def frame(message_id: int, body: bytes = b"", *, length: int | None = None) -> bytes:
    """A frame; its length is the true one unless another is given."""
    length = 9 + len(body) if length is None else length
    return struct.pack(">i4sB", length, MAGIC, message_id) + body


HTTP = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(32)
SSH = b"SSH-2.0-OpenSSH_9.2\r\n"

OF_NO_PROTOCOL = {
    "an HTTP request": HTTP,
    "a TLS ClientHello": TLS_HELLO,
    "an SSH banner": SSH,
    "64 zero bytes": bytes(64),
    "a wrong magic number": struct.pack(">i4sB", 9, b"\xba\xdc\x0f\xff", 5),
}
"""What is at its first nine bytes no frame."""

LYING_LENGTHS = {
    "a frame whose length field says -1": -1,
    "a frame whose length field says 0": 0,
    "a frame whose length field says 8": 8,
    "a frame whose length field says -2^31": -(2**31),
}
"""Of a frame whose header alone has 9 bytes."""
