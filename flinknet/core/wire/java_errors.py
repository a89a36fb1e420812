"""Java exceptions in an ErrorResponse: parsed by the stream's grammar, never deserialised.

A stream is `ac ed 00 05` and one object. The parser keeps what it needs to find the end (class
descriptions and handles); no class named by a peer is ever looked up or run. Exceptions are sent in
the smallest form that Flink accepts: class descriptions with Flink's serialVersionUIDs and one
field, the message; Java fills omitted fields with defaults.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from flinknet.errors import FrameCorruptedError, LocalProtocolError


def encode_modified_utf8(text: str) -> bytes:
    if text.isascii() and "\0" not in text:
        return text.encode("ascii")
    utf16 = text.encode("utf-16-be", "surrogatepass")
    units = (chr(high << 8 | low) for high, low in zip(utf16[::2], utf16[1::2], strict=True))
    return b"".join(
        b"\xc0\x80" if unit == "\0" else unit.encode("utf-8", "surrogatepass") for unit in units
    )


def decode_modified_utf8(data: bytes) -> str:
    """Raises: FrameCorruptedError for bytes that are not modified UTF-8."""
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


STREAM_BYTES_MAX: Final = 1 << 20
"""Streams with full stack traces take 1 to 5 KB."""

DEPTH_MAX: Final = 64
"""Limit for nested elements (mostly causes), and for superclasses of a class."""

_MAGIC_AND_VERSION = bytes.fromhex("aced0005")
_HANDLE_BASE = 0x7E0000
_NULL, _REFERENCE, _CLASS_DESC, _OBJECT, _STRING, _ARRAY, _CLASS = range(0x70, 0x77)
_END_BLOCK_DATA = 0x78
_LONG_STRING, _PROXY_CLASS_DESC, _ENUM = range(0x7C, 0x7F)
_HAS_WRITE_METHOD, _SERIALIZABLE, _EXTERNALIZABLE, _HAS_BLOCK_DATA = 1, 2, 4, 8
_PRIMITIVE_BYTES = {"B": 1, "C": 2, "D": 8, "F": 4, "I": 4, "J": 8, "S": 2, "Z": 1}
_THROWABLE = "java.lang.Throwable"


@dataclass(frozen=True, slots=True)
class JavaThrowable:
    """An exception; `message` is its field detailMessage."""

    class_name: str
    message: str | None = None
    cause: JavaThrowable | None = None
    stack_trace_elements: int = 0


@dataclass(slots=True)
class _ClassDesc:
    name: str
    flags: int = 0
    fields: list[tuple[str, str]] = field(default_factory=list)
    superclass: _ClassDesc | None = None
    depth: int = 0  # classes in its hierarchy; 0 until the hierarchy is complete


@dataclass(slots=True)
class _Object:
    class_desc: _ClassDesc | None
    fields: dict[tuple[str, str], object] = field(default_factory=dict)


@dataclass(slots=True)
class _Array:
    length: int


_END = object()
"""The mark at the end of optional data."""


class _Parser:
    """Parses one stream. Every loop consumes input, so its length bounds the work."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.depth = 0
        self.handles: list[object] = []

    def _take(self, length: int) -> bytes:
        if not 0 <= length <= len(self.data) - self.at:
            raise FrameCorruptedError("the Java serialization stream is truncated")
        taken = self.data[self.at : self.at + length]
        self.at += length
        return taken

    def _int(self, length: int) -> int:
        return int.from_bytes(self._take(length), "big")

    def _utf(self) -> str:
        return decode_modified_utf8(self._take(self._int(2)))

    def _element(self) -> object:
        """Parse any element; `_END` at the end of optional data."""
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise FrameCorruptedError("the Java serialization stream is nested too deeply")
        code = self._int(1)
        if code not in _ELEMENTS:
            raise FrameCorruptedError(f"unknown element {code:#04x} in a Java serialization stream")
        element = _ELEMENTS[code](self)
        self.depth -= 1
        return element

    def _reset(self) -> object:
        self.handles.clear()
        return self._element()

    def _reference(self) -> object:
        index = self._int(4) - _HANDLE_BASE
        if not 0 <= index < len(self.handles):
            raise FrameCorruptedError("a reference to nothing in a Java serialization stream")
        return self.handles[index]

    def _string(self, length_bytes: int) -> str:
        index = len(self.handles)
        self.handles.append(None)
        text = decode_modified_utf8(self._take(self._int(length_bytes)))
        self.handles[index] = text
        return text

    def _class_desc(self) -> _ClassDesc | None:
        element = self._element()
        if element is None or isinstance(element, _ClassDesc):
            return element
        raise FrameCorruptedError("a class description is missing in a Java serialization stream")

    def _plain_class_desc(self) -> _ClassDesc:
        class_desc = _ClassDesc(self._utf())
        self._take(8)
        self.handles.append(class_desc)
        class_desc.flags = self._int(1)
        for _ in range(self._int(2)):
            kind = chr(self._int(1))
            class_desc.fields.append((kind, self._utf()))
            if kind in "L[":
                self._element()
            elif kind not in _PRIMITIVE_BYTES:
                raise FrameCorruptedError(f"unknown field type {kind!r}")
        return self._finish_class_desc(class_desc)

    def _proxy_class_desc(self) -> _ClassDesc:
        class_desc = _ClassDesc("java.lang.reflect.Proxy", _SERIALIZABLE)
        self.handles.append(class_desc)
        for _ in range(self._int(4)):
            self._utf()
        return self._finish_class_desc(class_desc)

    def _finish_class_desc(self, class_desc: _ClassDesc) -> _ClassDesc:
        self._skip_to_end()
        superclass = self._class_desc()
        if superclass is not None and not superclass.depth:
            raise FrameCorruptedError("a class is above itself in a Java serialization stream")
        class_desc.depth = 1 if superclass is None else superclass.depth + 1
        if class_desc.depth > DEPTH_MAX:
            raise FrameCorruptedError("too many superclasses in a Java serialization stream")
        class_desc.superclass = superclass
        return class_desc

    def _skip_to_end(self) -> None:
        while self._element() is not _END:
            pass

    def _object(self) -> _Object:
        instance = _Object(self._class_desc())
        self.handles.append(instance)
        for class_desc in reversed(_hierarchy(instance.class_desc)):
            flags = class_desc.flags
            if flags & _SERIALIZABLE:
                for kind, name in class_desc.fields:
                    is_primitive = kind in _PRIMITIVE_BYTES
                    instance.fields[class_desc.name, name] = (
                        self._take(_PRIMITIVE_BYTES[kind]) if is_primitive else self._element()
                    )
            elif flags & _EXTERNALIZABLE and not flags & _HAS_BLOCK_DATA:
                raise FrameCorruptedError(f"the data of {class_desc.name} has no end mark")
            if flags & (_HAS_WRITE_METHOD if flags & _SERIALIZABLE else _EXTERNALIZABLE):
                self._skip_to_end()
        return instance

    def _array(self) -> _Array:
        class_desc = self._class_desc()
        array = _Array(0)
        self.handles.append(array)
        array.length = self._int(4)
        kind = class_desc.name[1:2] if class_desc is not None else ""
        if kind in _PRIMITIVE_BYTES:
            self._take(array.length * _PRIMITIVE_BYTES[kind])
        elif kind and kind in "L[":
            for _ in range(array.length):
                self._element()
        else:
            raise FrameCorruptedError("an array of nothing in a Java serialization stream")
        return array

    def _class(self) -> _ClassDesc | None:
        class_desc = self._class_desc()
        self.handles.append(class_desc)
        return class_desc

    def _enum(self) -> None:
        self._class_desc()
        self.handles.append(None)
        self._element()


_ELEMENTS: dict[int, Callable[[_Parser], object]] = {
    _NULL: lambda parser: None,
    _REFERENCE: _Parser._reference,
    _CLASS_DESC: _Parser._plain_class_desc,
    _OBJECT: _Parser._object,
    _STRING: lambda parser: parser._string(2),
    _ARRAY: _Parser._array,
    _CLASS: _Parser._class,
    0x77: lambda parser: parser._take(parser._int(1)),  # block data
    _END_BLOCK_DATA: lambda parser: _END,
    0x79: _Parser._reset,
    0x7A: lambda parser: parser._take(parser._int(4)),  # long block data
    _LONG_STRING: lambda parser: parser._string(8),
    _PROXY_CLASS_DESC: _Parser._proxy_class_desc,
    _ENUM: _Parser._enum,
}


def _hierarchy(class_desc: _ClassDesc | None) -> list[_ClassDesc]:
    """The class and its superclasses, bottom up."""
    hierarchy = []
    while class_desc is not None:
        hierarchy.append(class_desc)
        class_desc = class_desc.superclass
    return hierarchy


def parse_throwable(data: bytes) -> tuple[JavaThrowable, int]:
    """Parse the exception at the start of `data`.

    Returns: the exception, and the length of its stream in bytes; the rest is ignored.

    Raises: FrameCorruptedError if it is truncated, invalid, no Throwable, too large or too deep.
    """
    parser = _Parser(data[:STREAM_BYTES_MAX])
    if parser._take(4) != _MAGIC_AND_VERSION:
        raise FrameCorruptedError("not a Java serialization stream")
    cause = parser._element()
    if not isinstance(cause, _Object):
        raise FrameCorruptedError("the Java serialization stream holds no object")
    chain: list[_Object] = []  # an exception without a cause refers to itself
    while isinstance(cause, _Object) and not any(cause is met for met in chain):
        chain.append(cause)
        if len(chain) > DEPTH_MAX:
            raise FrameCorruptedError("too many causes in a Java serialization stream")
        cause = cause.fields.get((_THROWABLE, "cause"))
    throwable = None
    for instance in reversed(chain):
        hierarchy = _hierarchy(instance.class_desc)
        if not any(class_desc.name == _THROWABLE for class_desc in hierarchy):
            raise FrameCorruptedError("the Java object is not a Throwable")
        message = instance.fields.get((_THROWABLE, "detailMessage"))
        stack_trace = instance.fields.get((_THROWABLE, "stackTrace"))
        throwable = JavaThrowable(
            hierarchy[0].name,
            message if isinstance(message, str) else None,
            throwable,
            stack_trace.length if isinstance(stack_trace, _Array) else 0,
        )
    assert throwable is not None
    return throwable, parser.at


_EXCEPTION = (("java.lang.Exception", 0xD0FD1F3E1A3B1CC4),)
_RUNTIME_EXCEPTION = (("java.lang.RuntimeException", 0x9E5F06470A3483E5), *_EXCEPTION)
_IO_EXCEPTION = (("java.io.IOException", 0x6C8073646525F0AB), *_EXCEPTION)
_NETWORK = "org.apache.flink.runtime.io.network."

ILLEGAL_STATE_EXCEPTION: Final = "java.lang.IllegalStateException"
ILLEGAL_ARGUMENT_EXCEPTION: Final = "java.lang.IllegalArgumentException"
PARTITION_NOT_FOUND_EXCEPTION: Final = _NETWORK + "partition.PartitionNotFoundException"
PRODUCER_FAILED_EXCEPTION: Final = _NETWORK + "partition.ProducerFailedException"
REMOTE_TRANSPORT_EXCEPTION: Final = _NETWORK + "netty.exception.RemoteTransportException"

SENDABLE_CLASSES: Final[dict[str, tuple[tuple[str, int], ...]]] = {
    hierarchy[0][0]: hierarchy
    for hierarchy in (
        _IO_EXCEPTION,
        _RUNTIME_EXCEPTION,
        ((ILLEGAL_STATE_EXCEPTION, 0xE65755E69A46F248), *_RUNTIME_EXCEPTION),
        ((ILLEGAL_ARGUMENT_EXCEPTION, 0xB58973D37D668FBC), *_RUNTIME_EXCEPTION),
        (
            (PARTITION_NOT_FOUND_EXCEPTION, 0),
            (_NETWORK + "partition.PartitionException", 0),
            *_IO_EXCEPTION,
        ),
        (
            (REMOTE_TRANSPORT_EXCEPTION, 0x3CB23426D6B704E1),
            (_NETWORK + "netty.exception.TransportException", 0x327C22ABDF50864A),
            *_IO_EXCEPTION,
        ),
        (
            (PRODUCER_FAILED_EXCEPTION, 0xEA69C7ABA289B705),
            ("org.apache.flink.runtime.execution.CancelTaskException", 1),
            *_RUNTIME_EXCEPTION,
        ),
    )
}
"""Classes that we can send, up to Throwable, with serialVersionUIDs, equal in 1.20 to 2.3."""

_THROWABLE_DESC = (
    struct.pack(">BH", _CLASS_DESC, len(_THROWABLE))
    + _THROWABLE.encode()
    + bytes.fromhex("d5c635273977b8cb 03 0001 4c 000d")
    + b"detailMessage"
    + bytes.fromhex("74 0012")
    + b"Ljava/lang/String;"
    + bytes((_END_BLOCK_DATA, _NULL))
)


def encode_throwable(class_name: str, message: str | None) -> bytes:
    """The smallest stream that Flink can read for an exception of one of `SENDABLE_CLASSES`.
    Raises: LocalProtocolError for any other class, for which a Flink peer would close the
    connection.
    """
    if class_name not in SENDABLE_CLASSES:
        raise LocalProtocolError(f"the serialVersionUID of {class_name} is not known")
    parts = [_MAGIC_AND_VERSION, bytes((_OBJECT,))]
    for name, serial_version_uid in SENDABLE_CLASSES[class_name]:
        parts.append(struct.pack(">BH", _CLASS_DESC, len(name)) + name.encode())
        parts.append(struct.pack(">QBHB", serial_version_uid, _SERIALIZABLE, 0, _END_BLOCK_DATA))
    parts.append(_THROWABLE_DESC)
    if message is None:
        parts.append(bytes((_NULL,)))
    else:
        encoded = encode_modified_utf8(message)
        is_long = len(encoded) > 0xFFFF
        start = (">BQ", _LONG_STRING) if is_long else (">BH", _STRING)
        parts += (struct.pack(*start, len(encoded)), encoded)
    return b"".join((*parts, bytes((_END_BLOCK_DATA,))))
