"""Files that are written whole or not at all."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, cast

from flinknet.storage import AnyPath
from flinknet.whole_files import whole_file

COMPRESSED_SUFFIX = ".gz"


@contextmanager
def whole_packed_file(path: AnyPath) -> Iterator[IO[bytes]]:
    """A `whole_file`, compressed if its name ends with .gz."""
    with whole_file(path) as file:
        if path.suffix == COMPRESSED_SUFFIX:
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0, compresslevel=6) as compressed:
                yield cast(IO[bytes], compressed)
        else:
            yield file


@contextmanager
def whole_text_file(path: AnyPath) -> Iterator[IO[str]]:
    """A `whole_packed_file` for text in UTF-8."""
    with whole_packed_file(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        try:
            yield text
            text.flush()
        finally:
            text.detach()
