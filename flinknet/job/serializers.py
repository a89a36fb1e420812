"""Serializers: values in the format of Flink's serializers, chosen by the type of the records.

| type in the program | serializer (Flink) | bytes |
|---|---|---|
| bool | Boolean | i8 |
| numpy.int32 | Int | i32 |
| int, numpy.int64 | Long | i64 |
| float, numpy.float64 | Double | f64 |
| str | String | length + 1 and UTF-16 units, as varints; 0 for None |
| bytes | BytePrimitiveArray | i32 length, the bytes |
| tuple[A, B] | Tuple2 | the fields, in order |
| list[A], tuple[A, ...] | List | i32 size, the elements |
| dict[A, B] | Map | i32 size, then key, bool (is the value null), value |
| named tuples, data classes | TupleN, if any | the fields, in order |
| anything else | Value | see `ValueSerializer` |

Nothing that is read is ever executed: the type of a value follows from the program.

Values of equal size can be read and written as one numpy array: numbers, byte arrays of one length,
and tuples of them, whose arrays are structured with fields f0, f1, …
"""

from __future__ import annotations

import dataclasses
import struct
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NewType, cast

import numpy as np

from .basic_serializers import (
    BOOLEAN,
    BYTE_ARRAY,
    DOUBLE,
    INT,
    LENGTH,
    LONG,
    STRING,
    Array,
    TypeSerializer,
    read_size,
)

_NESTED_MAX = 64
"""Maximum nesting depth of values."""


class TupleSerializer(TypeSerializer):
    """The fields, in order (Flink: TupleSerializer). `create` makes a value from a list of them."""

    def __init__(
        self,
        fields: Sequence[TypeSerializer],
        create: Callable[[list[Any]], Any] = tuple,
        name: str = "",
        names: Sequence[str] = (),
    ) -> None:
        self._fields = tuple(fields)
        self._create = create
        self._names = tuple(names)
        inner = ", ".join(each.name for each in fields)
        self.name = name or f"Tuple{len(self._fields)}<{inner}>"
        self._is_plain = create is tuple
        sizes = [each.fixed_bytes for each in fields]
        if self._is_plain and None not in sizes:
            self.fixed_bytes = sum(cast(list[int], sizes))

    def write(self, value: Any, out: bytearray) -> None:
        if self._names:
            value = [getattr(value, name) for name in self._names]
        elif not isinstance(value, tuple | np.void):
            raise TypeError(f"{type(value).__name__} is not a tuple")
        for field, each in zip(self._fields, value, strict=True):
            field.write(each, out)

    def read(self, data: bytes, position: int) -> tuple[Any, int]:
        values = []
        for field in self._fields:
            value, position = field.read(data, position)
            values.append(value)
        return self._create(values), position

    def wire_type(self, size_bytes: int) -> np.dtype[Any] | None:
        """Layout of tuples with at most one field of variable size."""
        if not self._is_plain:
            return None
        sizes = [each.fixed_bytes for each in self._fields]
        if sizes.count(None) > 1:
            return None
        rest = size_bytes - sum(each or 0 for each in sizes)
        types = [
            field.wire_type(rest if size is None else size)
            for field, size in zip(self._fields, sizes, strict=True)
        ]
        if None in types or (None not in sizes and rest):
            return None
        return np.dtype([(f"f{index}", each) for index, each in enumerate(types)])

    def array_bytes(self, values: Array) -> int | None:
        names = values.dtype.names
        if not self._is_plain or names is None or len(names) != len(self._fields):
            return None
        fields = zip(self._fields, names, strict=True)
        sizes = [each.array_bytes(values[name]) for each, name in fields]
        return None if None in sizes else sum(cast(list[int], sizes))

    def take(self, wire: Array) -> Array | None:
        columns = {f"f{at}": each.take(wire[f"f{at}"]) for at, each in enumerate(self._fields)}
        known = {name: each for name, each in columns.items() if each is not None}
        if len(known) < len(columns):
            return None
        found = np.empty(len(wire), [(name, each.dtype) for name, each in known.items()])
        for name, each in known.items():
            found[name] = each
        return found

    def put(self, values: Array, wire: Array) -> None:
        assert values.dtype.names is not None
        for index, (field, name) in enumerate(zip(self._fields, values.dtype.names, strict=True)):
            field.put(values[name], wire[f"f{index}"])


class ListSerializer(TypeSerializer):
    """Number of elements, and the elements (Flink: ListSerializer)."""

    def __init__(
        self, element: TypeSerializer, create: Callable[[list[Any]], Any] | None = None
    ) -> None:
        self._element = element
        self._create = create
        self.name = f"List<{element.name}>"

    def write(self, value: Any, out: bytearray) -> None:
        if not isinstance(value, list | tuple):
            raise TypeError(f"{type(value).__name__} is not a list")
        out += LENGTH.pack(len(value))
        for each in value:
            self._element.write(each, out)

    def read(self, data: bytes, position: int) -> tuple[Any, int]:
        length, position = read_size(data, position)
        values = []
        for _ in range(length):
            value, position = self._element.read(data, position)
            values.append(value)
        return self._create(values) if self._create else values, position


class MapSerializer(TypeSerializer):
    """Keys, whether their value is null, and values (Flink: MapSerializer)."""

    def __init__(self, key: TypeSerializer, value: TypeSerializer) -> None:
        self._key, self._value = key, value
        self.name = f"Map<{key.name}, {value.name}>"

    def write(self, value: Any, out: bytearray) -> None:
        if not isinstance(value, dict):
            raise TypeError(f"{type(value).__name__} is not a dict")
        out += LENGTH.pack(len(value))
        for key, each in value.items():
            self._key.write(key, out)
            out.append(each is None)
            if each is not None:
                self._value.write(each, out)

    def read(self, data: bytes, position: int) -> tuple[Any, int]:
        length, position = read_size(data, position)
        found = {}
        for _ in range(length):
            key, position = self._key.read(data, position)
            is_null = data[position]
            value, position = (
                (None, position + 1) if is_null else self._value.read(data, position + 1)
            )
            found[key] = value
        return found, position


class ValueSerializer(TypeSerializer):
    """Python values with their type tags, where the program gives no type. Not Flink's format,
    which is Kryo's.

    | tag | value | bytes |
    |---|---|---|
    | N, T, F | None, True, False | |
    | i | int | i32 length, two's complement, big-endian |
    | d | float | f64 |
    | s | str | i32 length, UTF-8 |
    | b | bytes | i32 length, the bytes |
    | t, l, e, f | tuple, list, set, frozenset | i32 size, the elements |
    | m | dict | i32 size, then key and value |
    """

    name = "Value"

    _COLLECTIONS: ClassVar[Mapping[int, Callable[[list[Any]], Any]]] = {
        ord("t"): tuple,
        ord("l"): list,
        ord("e"): set,
        ord("f"): frozenset,
    }
    _TAGS: ClassVar[Mapping[type, bytes]] = {tuple: b"t", list: b"l", set: b"e", frozenset: b"f"}

    def write(self, value: Any, out: bytearray, depth: int = 0) -> None:
        if depth > _NESTED_MAX:
            raise ValueError(f"it is nested deeper than {_NESTED_MAX}")
        if isinstance(value, np.generic):
            value = value.item()
        kind = type(value)
        if value is None or kind is bool:
            out += {None: b"N", True: b"T", False: b"F"}[value]
        elif kind is int:
            raw = value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)
            out += b"i" + LENGTH.pack(len(raw)) + raw
        elif kind is float:
            out += b"d" + struct.pack(">d", value)
        elif kind is str:
            raw = value.encode("utf-8", "surrogatepass")
            out += b"s" + LENGTH.pack(len(raw)) + raw
        elif kind in (bytes, bytearray):
            out += b"b" + LENGTH.pack(len(value)) + value
        elif kind in self._TAGS:
            out += self._TAGS[kind] + LENGTH.pack(len(value))
            for each in value:
                self.write(each, out, depth + 1)
        elif kind is dict:
            out += b"m" + LENGTH.pack(len(value))
            for key, each in value.items():
                self.write(key, out, depth + 1)
                self.write(each, out, depth + 1)
        else:
            raise TypeError(
                f"values of type {kind.__name__} cannot be sent to another task; use numbers, str,"
                " bytes, tuples, lists, dicts, or annotate the function with a data class"
            )

    def read(self, data: bytes, position: int, depth: int = 0) -> tuple[Any, int]:
        if depth > _NESTED_MAX:
            raise ValueError(f"a value that is nested deeper than {_NESTED_MAX}")
        tag, position = data[position], position + 1
        if tag in b"NTF":
            return {ord("N"): None, ord("T"): True, ord("F"): False}[tag], position
        if tag == ord("d"):
            return struct.unpack_from(">d", data, position)[0], position + 8
        length, position = read_size(data, position)
        if tag in self._COLLECTIONS:
            values = []
            for _ in range(length):
                value, position = self.read(data, position, depth + 1)
                values.append(value)
            return self._COLLECTIONS[tag](values), position
        if tag == ord("m"):
            found = {}
            for _ in range(length):
                key, position = self.read(data, position, depth + 1)
                found[key], position = self.read(data, position, depth + 1)
            return found, position
        raw = data[position : position + length]
        position += length
        if tag == ord("i"):
            return int.from_bytes(raw, "big", signed=True), position
        if tag == ord("s"):
            return raw.decode("utf-8", "surrogatepass"), position
        if tag == ord("b"):
            return raw, position
        raise ValueError(f"no value begins with {tag}")


VALUE = ValueSerializer()

_PLAIN: Mapping[Any, TypeSerializer] = {
    bool: BOOLEAN,
    np.bool_: BOOLEAN,
    np.int32: INT,
    int: LONG,
    np.int64: LONG,
    float: DOUBLE,
    np.float64: DOUBLE,
    str: STRING,
    bytes: BYTE_ARRAY,
    bytearray: BYTE_ARRAY,
}


def serializer_of(value_type: Any, outer: frozenset[Any] = frozenset()) -> TypeSerializer:
    """The serializer of a type in a program; the generic one if the type is not specific enough.

    Args:
        outer: classes that the type lies within, as those may contain themselves.
    """
    while isinstance(value_type, NewType):
        value_type = value_type.__supertype__
    try:
        if value_type in _PLAIN:
            return _PLAIN[value_type]
    except TypeError:
        return VALUE
    origin, arguments = typing.get_origin(value_type), typing.get_args(value_type)
    if origin is tuple and arguments:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return ListSerializer(serializer_of(arguments[0], outer), tuple)
        return TupleSerializer([serializer_of(each, outer) for each in arguments])
    if origin is list:
        return ListSerializer(serializer_of(arguments[0], outer))
    if origin is dict:
        key, value = (serializer_of(each, outer) for each in arguments)
        return MapSerializer(key, value)
    if isinstance(value_type, type) and value_type not in outer:
        return _of_class(value_type, outer | {value_type}) or VALUE
    return VALUE


def _of_class(value_type: type[Any], outer: frozenset[Any]) -> TypeSerializer | None:
    if dataclasses.is_dataclass(value_type):
        names = [each.name for each in dataclasses.fields(value_type) if each.init]
    elif issubclass(value_type, tuple) and hasattr(value_type, "_fields"):
        names = list(value_type._fields)
    else:
        return None
    try:
        hints = typing.get_type_hints(value_type)
    except (NameError, TypeError):
        hints = {}
    fields = [serializer_of(hints.get(name, object), outer) for name in names]

    def create(values: list[Any]) -> Any:
        return value_type(**dict(zip(names, values, strict=True)))

    inner = ", ".join(each.name for each in fields)
    return TupleSerializer(fields, create, f"{value_type.__name__}<{inner}>", names)
