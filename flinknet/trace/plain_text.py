"""JSON texts of a run directory, which whoever sent the run may have edited."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from flinknet.storage import AnyPath


def read_json(text: str | bytes, made_of: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """The document in a JSON text.

    Args:
        made_of: makes something else of its objects; what it makes is plain ASCII.

    Raises: ValueError for what is not JSON, or has text that nobody can print: half a character,
        which JSON can escape and UTF-8 does not have; RecursionError.
    """
    document = json.loads(text, object_hook=made_of)
    if (b"\\u" if isinstance(text, bytes) else "\\u") in text:  # type: ignore[operator]
        json.dumps(document, ensure_ascii=False, default=lambda _: None).encode()
    return document


def read_document(path: AnyPath) -> dict[str, Any]:
    """The object in a JSON file; an empty one for what cannot be read as that.

    Raises: StorageError.
    """
    try:
        found = read_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
