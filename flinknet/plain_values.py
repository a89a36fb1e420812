"""Conversion of dataclass values to plain JSON data and back, strictly by their annotations.

The result is only data: no class is looked up by a peer's message, no code is run. An id, which is
a dataclass with `encode` to bytes and `decode` from bytes, is written as the hexadecimal text of
those bytes.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

from flinknet.errors import FlinknetError, RemoteProtocolError

_SCALARS = frozenset((type(None), bool, int, float, str))


def to_plain(value: Any) -> Any:
    """Convert a value to JSON-ready data: dataclasses by field, enums by name, bytes as hex."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bytes):
        return value.hex()
    if is_dataclass(value) and not isinstance(value, type):
        if _is_id(type(value)):
            encoded: str = value.encode().hex()  # type: ignore[attr-defined]
            return encoded
        return {name: to_plain(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, Mapping):
        return {
            key if isinstance(key, str) else str(to_plain(key)): to_plain(each)
            for key, each in value.items()
        }
    if isinstance(value, tuple | list):
        return [to_plain(each) for each in value]
    if isinstance(value, int | float | str):  # of a subclass
        return value
    raise TypeError(f"{type(value).__name__} has no plain form")


def from_plain(kind: Any, plain: Any) -> Any:
    """Convert data from `to_plain` back to a value of the type `kind`.

    Raises: RemoteProtocolError for any other data.
    """
    try:
        return _read(kind, plain)
    except (ValueError, OverflowError, RecursionError, FlinknetError) as error:
        raise RemoteProtocolError(f"a control message is wrong: {error}") from None


def encode_message(message: Any) -> bytes:
    """Encode a message as JSON: an object {"message": name of its class, "body": fields}."""
    body = {"message": type(message).__name__, "body": to_plain(message)}
    return json.dumps(body, separators=(",", ":")).encode()


def decode_message(kinds: Mapping[str, type], data: bytes) -> Any:
    """Decode a message from `encode_message`.

    Args:
        kinds: types of messages, by name.

    Raises: RemoteProtocolError for any other bytes.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"a control message is not JSON ({error})") from None
    if not isinstance(document, dict) or document.keys() != {"message", "body"}:
        raise RemoteProtocolError("a control message lacks the two fields message and body")
    name = document["message"]
    kind = kinds.get(name) if isinstance(name, str) else None
    if kind is None:
        raise RemoteProtocolError(f"control message {name!r:.60} is not known")
    return from_plain(kind, document["body"])


def _read(kind: Any, plain: Any) -> Any:
    if kind is Any:
        return plain
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _read_union(get_args(kind), plain)
    if origin is list:
        return list(_read_tuple((*get_args(kind), Ellipsis), plain))
    if origin is tuple:
        return _read_tuple(get_args(kind), plain)
    if origin in (dict, Mapping):
        key_kind, value_kind = get_args(kind)
        if not isinstance(plain, dict):
            raise ValueError(f"{plain!r:.60} is not an object")
        return {
            int(key) if key_kind is int else _read(key_kind, key): _read(value_kind, each)
            for key, each in plain.items()
        }
    if isinstance(kind, NewType):
        return _read(kind.__supertype__, plain)
    if is_dataclass(kind) and isinstance(kind, type) and not _is_id(kind):
        return _read_fields(kind, plain)
    return _read_scalar(kind, plain)


def _read_scalar(kind: Any, plain: Any) -> Any:
    if kind is float and isinstance(plain, int) and not isinstance(plain, bool):
        return float(plain)
    if kind in (str, int, float, bool):
        if type(plain) is not kind:
            raise ValueError(f"{plain!r:.60} is not of type {kind.__name__}")
        return plain
    if not isinstance(plain, str):
        raise ValueError(f"{plain!r:.60} is not of type {getattr(kind, '__name__', kind)}")
    if kind is bytes:
        return bytes.fromhex(plain)
    if isinstance(kind, type) and issubclass(kind, Enum):
        if plain not in kind.__members__:
            raise ValueError(f"{plain!r:.60} is not of type {kind.__name__}")
        return kind[plain]
    if isinstance(kind, type) and _is_id(kind):
        return kind.decode(bytes.fromhex(plain))  # type: ignore[attr-defined]
    raise TypeError(f"{kind} cannot be read from plain data")


def _read_union(kinds: tuple[Any, ...], plain: Any) -> Any:
    if type(plain) in _SCALARS and type(plain) in kinds:
        return plain
    for kind in kinds:
        if kind is not type(None):
            try:
                return _read(kind, plain)
            except (ValueError, FlinknetError) as error:
                last = error
    raise last


def _read_tuple(kinds: tuple[Any, ...], plain: Any) -> tuple[Any, ...]:
    if not isinstance(plain, list):
        raise ValueError(f"{plain!r:.60} is not a list")
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_read(kinds[0], each) for each in plain)
    if len(kinds) != len(plain):
        raise ValueError(f"a list has {len(plain)} elements, not {len(kinds)}")
    return tuple(_read(kind, each) for kind, each in zip(kinds, plain, strict=True))


@cache
def _is_id(kind: type) -> bool:
    return hasattr(kind, "encode") and hasattr(kind, "decode") and is_dataclass(kind)


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _read_fields(kind: type, plain: Any) -> Any:
    if not isinstance(plain, dict):
        raise ValueError(f"{plain!r:.60} is not of type {kind.__name__}")
    hints, names = _hints(kind), _names(kind)
    if set(names) != plain.keys():
        odd = sorted(set(names) ^ plain.keys())
        raise ValueError(f"{kind.__name__}: {', '.join(odd)!r:.60} missing or not known")
    return kind(**{name: _read(hints[name], plain[name]) for name in names})
