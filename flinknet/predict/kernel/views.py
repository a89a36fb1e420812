"""Views of the kernel's memory: records whose fields are words, and lists of words or records.

A view is an array of words and the address of a first one in it. Python reads and writes it through
descriptors; compiled functions see a pointer and a number, and a field is one load or store at a
constant distance, as fast as an index. Address 0 stands for none: such a view is false.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Generic, Self, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np

from flinknet.arrays import IntArray

from . import NEVER


class _Word:
    """Descriptor of a field."""

    def __init__(self, meaning: str) -> None:
        self.meaning, self.name, self.place = meaning, "", -1

    def __set_name__(self, owner: type[View], name: str) -> None:
        self.name, self.place = name, len(owner.fields)
        owner.fields = {**owner.fields, name: self}

    def __get__(self, view: View | None, owner: type[View]) -> Any:
        if view is None:
            return self
        kind, value = owner.kinds()[self.name], int(view.words[view.at + self.place])
        return value if kind is int else _made(kind, view.words, value)

    def __set__(self, view: View, value: Any) -> None:
        view.words[view.at + self.place] = getattr(value, "at", value)


def word(meaning: str) -> Any:
    """A field of a record, described in a sentence; its annotation says whether it is a number, or
    the address of a record or a list."""
    return _Word(meaning)


class View:
    """A record in memory: its fields are the words from an address on.

    Attributes:
        words: the memory.
        at: address of the first word.
    """

    __slots__ = ("at", "words")
    fields: ClassVar[dict[str, _Word]] = {}

    def __init__(self, words: Any, at: int) -> None:
        self.words, self.at = words, at

    def __bool__(self) -> bool:
        return self.at != 0

    def __repr__(self) -> str:
        """The record with its words, to debug a run."""
        if not self:
            return f"no {type(self).__name__}"
        words = self.words[self.at : self.at + len(self.fields)]
        shown = (f"{name}={value}" for name, value in zip(self.fields, words, strict=True))
        return f"{type(self).__name__}@{self.at}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, View) and self.at == other.at

    def __lt__(self, other: View) -> bool:
        return self.at < other.at

    def __le__(self, other: View) -> bool:
        return self.at <= other.at

    def __hash__(self) -> int:
        return self.at

    @property
    def next(self) -> Self:
        """The record behind this one, in a list of records."""
        return type(self)(self.words, self.at + len(self.fields))

    @classmethod
    @cache
    def kinds(cls) -> dict[str, Any]:
        """The kind of each field: int, another record, or a list."""
        hints = get_type_hints(cls)
        return {name: hints[name] for name in cls.fields}

    @classmethod
    def width(cls) -> int:
        """Number of words."""
        return len(cls.fields)

    @classmethod
    def described(cls) -> str:
        """The fields with their places and meanings, a line each."""
        return "\n".join(
            f"{n:>3} {each.name}: {each.meaning}" for n, each in enumerate(cls.fields.values())
        )


Element = TypeVar("Element")
Record = TypeVar("Record", bound=View)


class List(Generic[Element]):
    """Words from an address on, one for each element: numbers, or addresses of records."""

    __slots__ = ("at", "element", "words")

    def __init__(self, words: Any, at: int, element: Any = int) -> None:
        self.words, self.at, self.element = words, at, element

    def __getitem__(self, place: int) -> Element:
        value = int(self.words[self.at + place])
        return cast(Element, value if self.element is int else self.element(self.words, value))

    def __setitem__(self, place: int, value: Element) -> None:
        self.words[self.at + place] = getattr(value, "at", value)


class Rows(List[Element]):
    """Records from an address on, one behind the other."""

    def __getitem__(self, place: int) -> Element:
        return cast(Element, self.element(self.words, self.at + place * self.element.width()))


def _made(hint: Any, words: Any, at: int) -> Any:
    element = get_args(hint)
    return get_origin(hint)(words, at, element[0]) if element else hint(words, at)


class KernelMemory:
    """Words that are handed out once, and filled by address.

    Args:
        reserved: least number of words to come.
    """

    def __init__(self, reserved: int = 0) -> None:
        self._array = np.zeros(reserved + (1 << 16), np.int64)
        self._words = 1

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
        self._array[address + 1 : address + 2 * leaves] = NEVER
        return address

    def fill(self, address: int, words: Mapping[int, int]) -> None:
        """Fill some words behind an address, by their distance."""
        for place, value in words.items():
            self._array[address + place] = value

    def put(self, kind: type[View], address: int, /, **values: int) -> None:
        """Fill some words of a record."""
        for name, value in values.items():
            self._array[address + kind.fields[name].place] = value

    def at(self, kind: type[Record], address: int) -> Record:
        """A record."""
        return kind(self._array, address)

    def to_array(self) -> IntArray:
        """All of it."""
        return self._array[: self._words]


def power_of_two(count: int) -> int:
    """The first power of two that is not smaller."""
    return 1 << (count - 1).bit_length()
