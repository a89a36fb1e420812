"""The kernel's memory while it is laid out: words that are handed out and filled by address."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flinknet.arrays import IntArray

from .fast_kernel import words as k


class KernelMemory:
    """Words that are handed out once, and filled by address.

    Args:
        first: the first one that is handed out.
        reserved: so many are to come at least.
    """

    def __init__(self, first: int, reserved: int = 0) -> None:
        self._array = np.zeros(reserved + (1 << 16), np.int64)
        self._words = first

    def take(self, words: int) -> int:
        """Returns: the address of that many words, all 0."""
        address, self._words = self._words, self._words + words
        if self._words > len(self._array):  # grows where it is: it can be hundreds of megabytes
            self._array.resize(self._words + self._words // 4, refcheck=False)
        return address

    def list_of(self, values: Sequence[int] | IntArray) -> int:
        """Returns: the address of the values."""
        address = self.take(max(len(values), 1))
        self._array[address : address + len(values)] = values
        return address

    def table_of(self, columns: Sequence[IntArray]) -> int:
        """Returns: the address of the rows of a table, at least one word."""
        rows, words = len(columns[0]), len(columns)
        address = self.take(max(rows * words, 1))
        table = self._array[address : address + rows * words].reshape(rows, words)
        for place, values in enumerate(columns):
            table[:, place] = values
        return address

    def timetable(self, places: int) -> int:
        """Returns: the address of a timetable in which nothing is due."""
        leaves = power_of_two(max(places, 1))
        address = self.take(2 * leaves)
        self._array[address] = leaves
        self._array[address + 1 : address + 2 * leaves] = k.NEVER
        return address

    def record(self, address: int, fields: dict[int, int]) -> None:
        """Fill some words of a record."""
        array = self._array
        for field, value in fields.items():
            array[address + field] = value

    def word(self, address: int) -> int:
        """What stands at an address."""
        return int(self._array[address])

    def to_array(self) -> IntArray:
        """All of it."""
        return self._array[: self._words]


def power_of_two(count: int) -> int:
    """The first one that is not smaller."""
    return 1 << (count - 1).bit_length()
