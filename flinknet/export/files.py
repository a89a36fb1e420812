"""Files that are whole or not there."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

COMPRESSED_SUFFIX = ".gz"


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write into, which takes its name when the block ends; compressed if its name ends
    with .gz.

    What is no regular file (a pipe, a terminal) is written to as it is.
    """
    is_special = path.exists() and not path.is_file()
    target = path if is_special else path.with_name(f".{path.name}.unfinished")
    try:
        with open(target, "wb") as file:
            if path.suffix == COMPRESSED_SUFFIX:
                with gzip.GzipFile("", "wb", fileobj=file, mtime=0, compresslevel=6) as compressed:
                    yield cast(IO[bytes], compressed)
            else:
                yield file
        if not is_special:
            os.replace(target, path)
    except BaseException:
        if not is_special:
            target.unlink(missing_ok=True)
        raise


@contextmanager
def whole_text_file(path: Path) -> Iterator[IO[str]]:
    """The same for text in UTF-8."""
    with whole_file(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        try:
            yield text
            text.flush()
        finally:
            text.detach()
