"""Target: one reader of bytes that come from elsewhere, as a fuzzer drives it."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
"""A zip file for each target: inputs that together reach all the code that was ever reached."""

_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Target:
    """One reader.

    Attributes:
        run: reads an input, and raises for every outcome that is not one of the reader's own: what
            was read must be right, what was refused must be refused with an error of flinknet's.
        seeds: inputs to begin with.
        max_bytes: of an input.
        json_from: where JSON begins in an input; None for inputs that are not JSON.
    """

    name: str
    run: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    max_bytes: int = 4096
    json_from: int | None = None


def _fails_from_four_bytes_on(data: bytes) -> None:
    assert len(data) < 4, "planted"


PLANTED = Target("planted", _fails_from_four_bytes_on, lambda: [b"ab"], max_bytes=8)
"""Fails on purpose: a harness that does not notice that would notice nothing."""


def is_one_in(number: int, data: bytes) -> bool:
    """Whether an input gets also the checks that take long and that few inputs matter to: by its
    length, which a fuzzer changes as it likes.
    """
    return len(data) % number == 0


def read_corpus(name: str) -> Iterator[tuple[str, bytes]]:
    """The inputs of a target's corpus with their names; none without a file."""
    path = CORPUS / f"{name}.zip"
    if path.is_file():
        with zipfile.ZipFile(path) as archive:
            for each in archive.namelist():
                yield each, archive.read(each)


def write_corpus(name: str, inputs: Iterable[bytes]) -> Path:
    """Write the corpus of a target: the same file for the same inputs."""
    CORPUS.mkdir(exist_ok=True)
    path = CORPUS / f"{name}.zip"
    named = {hashlib.sha1(each).hexdigest()[:16]: each for each in inputs}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in sorted(named):
            archive.writestr(zipfile.ZipInfo(each, _EPOCH), named[each], zipfile.ZIP_DEFLATED)
    return path
