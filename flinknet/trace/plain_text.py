"""JSON texts of a run directory, which anyone may have edited."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from flinknet.storage import AnyPath

ObjectHook = Callable[[dict[str, Any]], Any]
"""Replaces an object by something else, whose text is ASCII."""


def read_json(text: str | bytes, made_of: ObjectHook | None = None) -> Any:
    """Parse a JSON text, whose objects `made_of` may replace. Raises: ValueError for invalid JSON,
    or for text that cannot be printed: half a character, which JSON can escape and UTF-8 cannot
    encode; RecursionError.
    """
    document = json.loads(text, object_hook=made_of)
    if (b"\\u" if isinstance(text, bytes) else "\\u") in text:  # type: ignore[operator]
        json.dumps(document, ensure_ascii=False, default=lambda _: None).encode()
    return document


def read_json_file(path: AnyPath, made_of: ObjectHook | None = None) -> Any:
    """Parse a JSON file, as `read_json`. Raises: OSError, StorageError, too."""
    return read_json(path.read_text(encoding="utf-8"), made_of)


def read_document(path: AnyPath) -> dict[str, Any]:
    """The object in a JSON file; empty if it cannot be read as one. Raises: StorageError."""
    try:
        found = read_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
