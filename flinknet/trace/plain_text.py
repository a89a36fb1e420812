"""JSON texts of a run directory, which anyone may have edited."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from flinknet.storage import AnyPath

PIECE_BYTES = 1 << 20
"""Of a JSON file that are read at once, unless a value is longer."""

ObjectHook = Callable[[dict[str, Any]], Any]
"""Replaces an object by something else, whose text is ASCII."""

_SPACE = re.compile(r"[ \t\n\r]*")


def read_json(text: str | bytes, made_of: ObjectHook | None = None) -> Any:
    """Parse a JSON text, whose objects `made_of` may replace. Raises: ValueError for invalid JSON,
    or for text that cannot be printed: half a character, which JSON can escape and UTF-8 cannot
    encode; RecursionError.
    """
    document = json.loads(text, object_hook=made_of)
    if (b"\\u" if isinstance(text, bytes) else "\\u") in text:  # type: ignore[operator]
        _check_printable(document)
    return document


def read_json_file(path: AnyPath, made_of: ObjectHook | None = None) -> Any:
    """Parse a JSON file, as `read_json`. Of an object with lists of a million items, only the
    results are held, never the text. Raises: OSError, StorageError, too.
    """
    with suppress(OSError, ValueError), path.open("rb") as file:  # as a whole it says what is wrong
        return _object_in(_Pieces(file, made_of))
    return read_json(path.read_text(encoding="utf-8"), made_of)


def read_document(path: AnyPath) -> dict[str, Any]:
    """The object in a JSON file; empty if it cannot be read as one. Raises: StorageError."""
    try:
        found = read_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


class _Pieces:
    """A JSON text, held in memory one piece at a time."""

    def __init__(self, file: IO[bytes], made_of: ObjectHook | None) -> None:
        self._file = file
        self._characters = codecs.getincrementaldecoder("utf-8")()
        self._decoder = json.JSONDecoder(object_hook=made_of)
        self._text, self._at = "", 0
        self.has_escapes = False

    def next(self) -> str:
        """The next character but white space; empty at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            assert space is not None
            self._at = space.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read_on():
                return ""

    def take(self, wanted: str) -> str:
        """The next character, which is one of some. Raises: ValueError if it is another."""
        found = self.next()
        if not found or found not in wanted:
            raise ValueError(f"one of {wanted} is missing")
        self._at += 1
        return found

    def value(self) -> Any:
        """The value that comes next. Raises: ValueError if there is none."""
        self.next()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except ValueError:
                if not self._read_on():
                    raise
                continue
            if end < len(self._text) or not self._read_on():  # else a number may go on
                self._at = end
                return value

    def _read_on(self) -> bool:
        rest = self._text[self._at :]
        data = self._file.read(max(PIECE_BYTES, len(rest)))
        more = self._characters.decode(data, final=not data)
        self._text, self._at = rest + more, 0
        self.has_escapes = self.has_escapes or "\\u" in rest[-1:] + more
        return bool(data)


def _object_in(pieces: _Pieces) -> dict[str, Any]:
    """The object that a text is. Raises: ValueError if it is none."""
    document: dict[str, Any] = {}
    goes_on = pieces.take("{") and pieces.next() != "}"
    while goes_on:
        if pieces.next() != '"':
            raise ValueError("a name is missing")
        name = pieces.value()
        pieces.take(":")
        if pieces.next() == "[":
            items: list[Any] = []
            pieces.take("[")
            has_more = pieces.next() != "]"
            while has_more:
                items.append(pieces.value())
                has_more = pieces.next() != "]" and pieces.take(",") == ","
            pieces.take("]")
            document[name] = items
        else:
            document[name] = pieces.value()
        goes_on = pieces.next() != "}" and pieces.take(",") == ","
    pieces.take("}")
    if pieces.next():
        raise ValueError("the document goes on")
    if pieces.has_escapes:
        _check_printable(document)
    return document


def _check_printable(document: Any) -> None:
    """Raises: UnicodeEncodeError for half a character."""
    json.dumps(document, ensure_ascii=False, default=lambda _: None).encode()
