"""Events as columns: blocks of a trace whose columns are read on demand, and the data buffers among
their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from flinknet.arrays import EventColumns, IntArray
from flinknet.core.probe import MessageKind

from .blocks import IS_DATA
from .reader import TraceReader
from .schema import TIME_NAMES


def lazy_block(reader: TraceReader, index: int, channels: Sequence[int] = ()) -> EventBlock:
    """A block whose columns are read on demand; with channels, only their rows."""
    held = reader.blocks()[index].channels
    is_own = np.isin(held["channel"], channels) if channels else np.ones(len(held), bool)
    stored = partial(reader.stored_columns, index)
    if is_own.all():
        return EventBlock({}, partial(reader.read_column, index), stored)
    rows = np.flatnonzero(np.repeat(is_own, held["count"]))
    return EventBlock({}, lambda name: reader.read_column(index, name).take(rows), stored)


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Ranges of rows with the same channel, kind and point, in the order of the rows; arrays of
    equal length."""

    starts: IntArray
    ends: IntArray
    channel: IntArray
    kind: IntArray
    point: IntArray

    def of(self, kind: int, point: int) -> Spans:
        return self.only((self.kind == kind) & (self.point == point))

    def only(self, keep: npt.NDArray[Any]) -> Spans:
        own = self.starts, self.ends, self.channel, self.kind, self.point
        return Spans(*(each[keep] for each in own))

    def rows(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        parts = [
            values[start:end]
            for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        ]
        return np.concatenate(parts) if parts else values[:0]


class EventBlock(dict[str, npt.NDArray[Any]]):
    """Columns of a block by name. Frequent selections are computed once. `read` returns a missing
    column, `stored` the names of the columns in the file.
    """

    def __init__(
        self,
        columns: EventColumns,
        read: Callable[[str], npt.NDArray[Any]] | None = None,
        stored: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._stored = stored
        super().__init__(columns)
        self._read = read
        self._data: dict[int, EventColumns] = {}
        self._spans: Spans | None = None

    def __missing__(self, name: str) -> npt.NDArray[Any]:
        if self._read is None:
            raise KeyError(name)
        values = self[name] = self._read(name)
        return values

    @property
    def has_times(self) -> bool:
        """Whether the elements of some buffer carried times."""
        return not set(TIME_NAMES).isdisjoint(self._stored())

    @property
    def spans(self) -> Spans:
        if self._spans is None:
            columns = self["channel"], self["kind"], self["point"]
            is_new = np.zeros(len(columns[0]), bool)
            for each in columns:
                is_new[1:] |= each[1:] != each[:-1]
            is_new[:1] = True
            starts = np.flatnonzero(is_new)
            ends = np.r_[starts[1:], len(is_new)][: len(starts)]
            self._spans = Spans(starts, ends, *(each[starts].astype(np.int64) for each in columns))
        return self._spans

    def data_at(self, point: int) -> EventColumns:
        """The rows of data buffers at a point; columns are taken on demand."""
        rows = self._data.get(point)
        if rows is None:
            rows = self._data[point] = _Picked(self, point)
        return rows


class _Picked(dict[str, npt.NDArray[Any]]):
    def __init__(self, block: EventBlock, point: int) -> None:
        super().__init__()
        self._block = block
        self._spans = block.spans.of(MessageKind.BUFFER_RESPONSE, point)
        self._rows = None
        if len(self._spans.starts):  # else the column need not be read
            is_buffer = IS_DATA[self._spans.rows(block["data_type"])]
            self._rows = None if is_buffer.all() else np.flatnonzero(is_buffer)

    def __missing__(self, name: str) -> npt.NDArray[Any]:
        values = self._spans.rows(self._block[name])
        if self._rows is not None:
            values = values.take(self._rows)
        self[name] = values
        return values


def is_data(block: EventColumns, point: int) -> npt.NDArray[np.bool_]:
    """Which rows are data buffers at a point; needs the columns point, kind and data_type."""
    rows: npt.NDArray[np.bool_] = (block["kind"] == MessageKind.BUFFER_RESPONSE) & (
        block["point"] == point
    )
    rows &= IS_DATA[block["data_type"]]
    return rows


def same_message(left: EventColumns, right: EventColumns) -> tuple[IntArray, IntArray]:
    """Rows of the same message, by channel and sequence number: their indices in both, in the same
    order."""
    left_keys, right_keys = (
        (rows["channel"].astype(np.int64) << 32) + rows["sequence_number"] for rows in (left, right)
    )
    _, in_left, in_right = np.intersect1d(left_keys, right_keys, return_indices=True)
    return in_left, in_right
