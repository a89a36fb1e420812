"""Checksums of a run directory other than those of events: of its manifest and of the listed files.

A manifest contains its own checksum, the seal. After a run it also contains one for each file that
answers depend on. Blocks of a trace file have their own (see `format`), so the checksum here covers
only its two ends: that takes no time, and detects the file of another run. Checksums are SHA-256,
because the CRC-32 of bytes that end with their own CRC-32 is always the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from flinknet.errors import TraceFormatError
from flinknet.storage import AnyPath
from flinknet.whole_files import closing_file

from .format import (
    BLOCK_HEADER_BYTES,
    FILE_PREFIX_BYTES,
    FOOTER_BYTES,
    BlockType,
    decode_block_header,
    decode_file_header,
    decode_footer,
    file_header_bytes,
)
from .ranged_files import open_ranged

WHAT_TO_DO = 'copy it back; if you edited it, set "seal" in manifest.json to null'


def checksum_of_document(
    document: dict[str, Any], plain_of: Callable[[Any], Any] | None = None
) -> str:
    """Checksum of JSON-ready plain data, independent of white space and key order.

    Args:
        plain_of: converts values that are not plain data.
    """
    digest = hashlib.sha256()
    for piece in _pieces(document, plain_of):
        digest.update(piece.encode())
    return digest.hexdigest()


def _pieces(document: dict[str, Any], plain_of: Callable[[Any], Any] | None) -> Iterator[str]:
    """The text of a document in pieces. Lists come item by item, since they may be long."""

    as_in_a_file = json.JSONEncoder(default=plain_of)
    sorted_text = json.JSONEncoder(separators=(",", ":"), sort_keys=True)

    def text(value: Any) -> str:
        if _is_flat(value):
            return sorted_text.encode(value)
        # Keys are strings from here on, as they are in a file.
        return sorted_text.encode(json.loads(as_in_a_file.encode(value)))

    for number, name in enumerate(sorted(document)):
        yield f"{',' if number else '{'}{json.dumps(name)}:"
        value = document[name]
        if not isinstance(value, list | tuple) or not value:
            yield text(value)
            continue
        for place, item in enumerate(value):
            yield f"{',' if place else '['}{text(item)}"
        yield "]"
    yield "}" if document else "{}"


def _is_flat(value: Any) -> bool:
    """Whether a value is the same once it was in a file: numbers and texts, also by name. So are
    most values of a manifest; its checksum takes a quarter less time for it.
    """
    if isinstance(value, dict):
        return all(type(name) is str and _is_plain(part) for name, part in value.items())
    return _is_plain(value)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int)


def checksum_of_file(path: AnyPath) -> str:
    """Checksum of all bytes of a file. Raises: OSError, StorageError."""
    with closing_file(path.open("rb")) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_ends(path: AnyPath) -> tuple[dict[str, Any], str | None]:
    """The description in the header of a trace file, and the checksum of its two ends; None for a
    file without its trailer.

    Raises: TraceFormatError for an invalid header; OSError, StorageError.
    """
    with closing(open_ranged(path)) as file:
        prefix = file.read(0, FILE_PREFIX_BYTES)
        length = file_header_bytes(prefix.ljust(FILE_PREFIX_BYTES, b"\0"))
        header = file.read(0, length)
        if len(header) < length:
            raise TraceFormatError("it ends within its header")
        description = decode_file_header(header)
        footer_at = file.size_bytes - FOOTER_BYTES
        if footer_at < length:
            return description, None
        footer = file.read(footer_at, FOOTER_BYTES)
        offset = decode_footer(footer)
        if offset is None or offset > footer_at - BLOCK_HEADER_BYTES:
            return description, None
        trailer = file.read(offset, BLOCK_HEADER_BYTES)
    block = decode_block_header(trailer)
    if block is None or block.type is not BlockType.TRAILER:
        return description, None
    return description, hashlib.sha256(header + trailer + footer).hexdigest()
