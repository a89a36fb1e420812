"""Views of the kernel's memory: records whose fields are words, and lists of words or records.

A view is an array of words and the address of a first one in it. Python reads and writes it through
descriptors; compiled functions see a pointer and a number, and a field is one load or store at a
constant distance, as fast as an index. A word holds an integer, the bits of a float, or an address;
address 0 stands for none, and such a view is false.
"""

from __future__ import annotations

from collections.abc import Sequence
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
        return _value_of(owner.kinds()[self.name], view.words, view.at + self.place)

    def __set__(self, view: View, value: Any) -> None:
        view.words[view.at + self.place] = _word_of(value)


def word(meaning: str) -> Any:
    """A field of a record, described in a sentence; its annotation says whether it is an integer, a
    float, or the address of a record or a list."""
    return _Word(meaning)


class View:
    """A record in memory: its fields are the words from an address on (`at`)."""

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
        """The kind of each field: int, float, another record, or a list."""
        hints = get_type_hints(cls)
        return {name: hints[name] for name in cls.fields}

    @classmethod
    def width(cls) -> int:
        """Number of words."""
        return len(cls.fields)


Element = TypeVar("Element")
Record = TypeVar("Record", bound=View)


class List(Generic[Element]):
    """Words from an address on, one for each element: numbers, or addresses of records."""

    __slots__ = ("at", "element", "words")

    def __init__(self, words: Any, at: int, element: Any = int) -> None:
        self.words, self.at, self.element = words, at, element

    def __getitem__(self, place: int) -> Element:
        return cast(Element, _value_of(self.element, self.words, self.at + place))

    def __setitem__(self, place: int, value: Element) -> None:
        self.words[self.at + place] = _word_of(value)

    def array(self, count: int) -> Any:
        """The first numbers, as a part of the memory."""
        words = self.words[self.at : self.at + count]
        return words.view(np.float64) if self.element is float else words


class Rows(List[Element]):
    """Records from an address on, one behind the other."""

    def __getitem__(self, place: int) -> Element:
        return cast(Element, self.element(self.words, self.at + place * self.element.width()))


def _value_of(kind: Any, words: Any, at: int) -> Any:
    """A word as a value of its kind."""
    if kind is float:
        return float(words[at : at + 1].view(np.float64)[0])
    value, element = int(words[at]), get_args(kind)
    if kind is int:
        return value
    return get_origin(kind)(words, value, element[0]) if element else kind(words, value)


def _word_of(value: Any) -> int:
    return float_bits(value) if isinstance(value, float) else getattr(value, "at", value)


def float_bits(value: float) -> int:
    """A float as a word."""
    return int(np.float64(value).view(np.int64))


class KernelMemory:
    """Words that are handed out once, and filled by address; so many at least are to come."""

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

    def rows(self, kind: type[View], count: int) -> list[int]:
        """Returns: the addresses of records, one behind the other."""
        width = kind.width()
        first = self.take(count * width)
        return list(range(first, first + count * width, width))

    def timetable(self, places: int, instants_ns: Sequence[int] = ()) -> int:
        """Returns: the address of a timetable in which nothing is due, or at some instants."""
        nodes = power_of_two(max(places, 1))
        address = self.take(2 * nodes)
        table = self._array[address : address + 2 * nodes]
        table[0], table[1:] = nodes, NEVER
        table[nodes : nodes + len(instants_ns)] = instants_ns
        while instants_ns and nodes > 1:
            table[nodes // 2 : nodes] = table[nodes : 2 * nodes].reshape(-1, 2).min(axis=1)
            nodes //= 2
        return address

    def put(self, kind: type[View], address: int, /, **values: int) -> None:
        """Fill some words of a record; a float as its bits."""
        words, fields = self._array, kind.fields
        for name, value in values.items():
            words[address + fields[name].place] = value

    def at(self, kind: type[Record], address: int) -> Record:
        return kind(self._array, address)

    def to_array(self) -> IntArray:
        return self._array[: self._words]


def power_of_two(count: int) -> int:
    """The first power of two that is not smaller."""
    return 1 << (count - 1).bit_length()
