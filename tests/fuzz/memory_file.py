"""An input as a file in memory: system calls take a quarter of the time of a short reader."""

from __future__ import annotations

import io
from types import ModuleType
from typing import Any

from tests.fuzz.target import is_one_in

ON_DISK_ONE_IN = 64
"""The files are read alike; a disk adds system calls and what is written beside them."""


def is_on_disk(data: bytes) -> bool:
    """Whether an input is written to a disk all the same."""
    return is_one_in(ON_DISK_ONE_IN, data)


class replaced:
    """Replace an attribute for a while; `unittest.mock.patch` takes far longer."""

    __slots__ = ("_before", "_name", "_place", "_value")

    def __init__(self, place: ModuleType, name: str, value: Any) -> None:
        self._place, self._name, self._value = place, name, value

    def __enter__(self) -> None:
        self._before = getattr(self._place, self._name)
        setattr(self._place, self._name, self._value)

    def __exit__(self, *_: object) -> None:
        setattr(self._place, self._name, self._before)


class MemoryPath:
    """The path of a file with these bytes, and of the directory that has nothing else, with the
    methods of Path that readers use. What is written below it is not kept.
    """

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self._data = data

    def __truediv__(self, name: str) -> MemoryPath:
        return self

    def is_file(self) -> bool:
        """It is."""
        return True

    def stat(self) -> MemoryPath:
        """For its size."""
        return self

    @property
    def st_size(self) -> int:
        """Under the name of os.stat_result."""
        return len(self._data)

    def open(self, mode: str = "r", encoding: str = "utf-8", errors: str = "strict") -> Any:
        """Open it to be read."""
        binary = io.BytesIO(self._data)
        return binary if mode == "rb" else io.TextIOWrapper(binary, encoding, errors)

    def read_bytes(self) -> bytes:
        """The whole file."""
        return self._data

    def read_text(self, encoding: str) -> str:
        """The whole file as text, with every kind of line end as a newline."""
        return self._data.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")

    def write_text(self, text: str, encoding: str) -> None:
        """It is not kept."""


class MemoryFile:
    """An input that is read in ranges, in place of a LocalFile."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size_bytes = len(data)

    def read(self, offset: int, length: int) -> bytes:
        """Read bytes from an offset on."""
        return self._data[offset : offset + length]

    def prepare(self, offset: int, length: int) -> None:
        """Nothing to prepare."""

    def next_data(self, offset: int) -> int:
        """It has no holes."""
        return min(offset, self.size_bytes)

    def close(self) -> None:
        """It can be read again."""
