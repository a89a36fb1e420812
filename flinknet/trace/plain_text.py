"""JSON texts of a run directory, which whoever sent the run may have edited."""

from __future__ import annotations

import json
from typing import Any

from flinknet.storage import AnyPath


def read_json(text: str | bytes) -> Any:
    """The document in a JSON text.

    Raises: ValueError for what is not JSON, or has text that nobody can print: half a character,
        which JSON can escape and UTF-8 does not have; RecursionError.
    """
    document = json.loads(text)
    if (b"\\u" if isinstance(text, bytes) else "\\u") in text:  # type: ignore[operator]
        json.dumps(document, ensure_ascii=False).encode()
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
