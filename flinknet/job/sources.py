"""Sources that make something: what the sources of a program, which are values, become in a task.

A source is asked for records that are due; each comes with the instant that it was due at.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from flinknet.graph.endpoints import (
    CollectionSource,
    FileSource,
    GeneratedSource,
    SequenceSource,
    Source,
)

from .elements import Instants, Values
from .io import FileTextInput, SocketTextInput, TextInput
from .load.arrivals import ScheduledArrivals
from .load.draws import KeyDraws
from .load.payload import BATCH_BYTES, MAX_RATE_BATCH_BYTES

BATCH_RECORDS = 1024
"""Records that are taken at once where their size is not known."""

Batch = tuple[Values, Instants]

NUMBER_BITS = 40
"""Of the number that generated payloads begin with; the subtask stands above them."""

FEW_RECORDS = 8
"""So many records are made one by one: an array of them would take longer."""

_NUMBER_BYTES = 8


class RecordSource(Protocol):
    """Records of one subtask of a source."""

    @property
    def text(self) -> TextInput | None:
        """Filled by the driver; None where nothing is."""

    @property
    def is_ended(self) -> bool:
        """Whether no more come."""

    def take(self, *, now_ns: int) -> tuple[Any, Any] | None:
        """Some that are due now, as the task's chain takes them, and their instants; None if there
        are none.
        """

    def next_ns(self, *, now_ns: int) -> int | None:
        """When there may be more; None for when somebody brings them, or never."""

    def stop(self) -> None:
        """Make no more."""


class GeneratedRecords:
    """(key, payload): keys are drawn, a payload of 8 bytes or more begins with the number of the
    record in its subtask, and that of the subtask above it.

    Args:
        end_ns: records due from then on are not made; None for no end.
        seed: of the keys and the arrivals.
        has_arrays: all records come in arrays, also a few.
    """

    text = None

    def __init__(
        self,
        source: GeneratedSource,
        subtask: int,
        parallelism: int,
        *,
        start_ns: int,
        end_ns: int | None,
        seed: int,
        has_arrays: bool = True,
    ) -> None:
        size = source.record_size_bytes
        self._few = 0 if has_arrays else FEW_RECORDS
        self.is_ended = False
        self._start_ns, self._end_ns = start_ns, end_ns
        self._type = np.dtype([("f0", "i8"), ("f1", f"V{size}")])
        batch_bytes = BATCH_BYTES if source.rate_per_s else MAX_RATE_BATCH_BYTES
        self._batch_records = max(1, batch_bytes // (size + 25))
        self._keys = KeyDraws(source.keys, source.key_skew, seed)
        self._made = 0
        self._first_number = subtask << NUMBER_BITS
        self._left: int | None = None
        if source.records is not None:
            self._left = source.records // parallelism + (subtask < source.records % parallelism)
            self.is_ended = self._left == 0
        self._arrivals: ScheduledArrivals | None = None
        self._next_ns: int | None = start_ns
        if source.rate_per_s:
            self._arrivals = ScheduledArrivals(
                source.arrivals, source.rate_per_s, start_ns=start_ns, records=self._left, seed=seed
            )
            self._next_ns = self._arrivals.next_ns()

    def take(self, *, now_ns: int) -> Batch | None:
        """Those that are due; at the highest rate as many as one turn should have."""
        if self.is_ended or now_ns < self._start_ns:
            return None
        if self._arrivals is None:
            return self._take_at_max_rate(now_ns)
        if self._next_ns is not None and now_ns < self._next_ns:
            return None
        until_ns = now_ns if self._end_ns is None else min(now_ns, self._end_ns - 1)
        instants = self._arrivals.take(until_ns, self._batch_records)
        self._next_ns = next_ns = self._arrivals.next_ns()
        if next_ns is None or (self._end_ns is not None and next_ns >= self._end_ns):
            self.is_ended = True
        return (self._make(len(instants)), instants.copy()) if len(instants) else None

    def next_ns(self, *, now_ns: int) -> int | None:
        """The next instant, or the start."""
        if self.is_ended:
            return None
        if self._arrivals is None:
            return max(now_ns, self._start_ns)
        return self._next_ns

    def stop(self) -> None:
        """Make no more."""
        self.is_ended = True

    def _take_at_max_rate(self, now_ns: int) -> Batch | None:
        count = self._batch_records
        if self._left is not None:
            count = min(count, self._left)
            self._left -= count
        if self._left == 0 or (self._end_ns is not None and now_ns >= self._end_ns):
            self.is_ended = True
            if self._left != 0:
                return None
        return (self._make(count), np.full(count, now_ns, np.int64)) if count else None

    def _make(self, count: int) -> Values:
        first, size = self._first_number + self._made, self._type["f1"].itemsize
        if count <= self._few:
            self._made += count
            if size < _NUMBER_BYTES:
                return [(key, bytes(size)) for key in self._keys.take(count).tolist()]
            rest = bytes(size - _NUMBER_BYTES)
            return [
                (key, number.to_bytes(_NUMBER_BYTES, "big") + rest)
                for number, key in enumerate(self._keys.take(count).tolist(), start=first)
            ]
        made = np.zeros(count, self._type)
        made["f0"] = self._keys.take(count)
        if size >= _NUMBER_BYTES:
            words = np.ndarray(count, ">i8", made, made["f0"].itemsize, made.strides)
            words[...] = np.arange(first, first + count)
        self._made += count
        return made


class SequenceRecords:
    """The subtask's part of a range of numbers (Flink: NumberSequenceSource)."""

    text = None

    def __init__(self, source: SequenceSource, subtask: int, parallelism: int) -> None:
        total = source.last - source.first + 1
        self._next = source.first + total * subtask // parallelism
        self._end = source.first + total * (subtask + 1) // parallelism
        self.is_ended = self._next >= self._end

    def take(self, *, now_ns: int) -> Batch | None:
        """The next numbers."""
        if self.is_ended:
            return None
        first, self._next = self._next, min(self._next + BATCH_RECORDS, self._end)
        self.is_ended = self._next == self._end
        return np.arange(first, self._next), np.full(self._next - first, now_ns, np.int64)

    def next_ns(self, *, now_ns: int) -> int | None:
        """At once, as long as there are any."""
        return None if self.is_ended else now_ns

    def stop(self) -> None:
        """Make no more."""
        self.is_ended = True


class CollectionRecords:
    """Values that are given (Flink: FromElementsFunction)."""

    text = None

    def __init__(self, source: CollectionSource) -> None:
        self._values = source.values
        self._next = 0
        self.is_ended = not source.values

    def take(self, *, now_ns: int) -> Batch | None:
        """The next values."""
        if self.is_ended:
            return None
        values = list(self._values[self._next : self._next + BATCH_RECORDS])
        self._next += len(values)
        self.is_ended = self._next == len(self._values)
        return values, np.full(len(values), now_ns, np.int64)

    def next_ns(self, *, now_ns: int) -> int | None:
        """At once, as long as there are any."""
        return None if self.is_ended else now_ns

    def stop(self) -> None:
        """Make no more."""
        self.is_ended = True


class TextRecords:
    """The lines of a text that the driver brings (Flink: SocketTextStreamFunction,
    TextLineInputFormat). A line is due when it is taken.
    """

    def __init__(self, text: TextInput) -> None:
        self.text: TextInput | None = text
        self._text = text
        self._is_stopped = False

    @property
    def is_ended(self) -> bool:
        """Whether there are no more lines."""
        return self._is_stopped or self._text.is_exhausted

    def take(self, *, now_ns: int) -> Batch | None:
        """The next lines. Raises: TaskFailedError when the text cannot be read."""
        if self._is_stopped or not self._text.has_lines:
            return None
        lines = self._text.take(BATCH_RECORDS)
        return lines, np.full(len(lines), now_ns, np.int64)

    def next_ns(self, *, now_ns: int) -> int | None:
        """At once, as long as there are lines."""
        return now_ns if self._text.has_lines and not self._is_stopped else None

    def stop(self) -> None:
        """Take no more."""
        self._is_stopped = True


def record_source(
    source: Source,
    subtask: int,
    parallelism: int,
    *,
    start_ns: int,
    end_ns: int | None,
    seed: int,
    has_arrays: bool = True,
) -> RecordSource:
    """What a source of a program does in a subtask.

    Args:
        has_arrays: what follows needs arrays, also of a few records.
    """
    if isinstance(source, GeneratedSource):
        return GeneratedRecords(
            source,
            subtask,
            parallelism,
            start_ns=start_ns,
            end_ns=end_ns,
            seed=seed,
            has_arrays=has_arrays,
        )
    if isinstance(source, SequenceSource):
        return SequenceRecords(source, subtask, parallelism)
    if isinstance(source, CollectionSource):
        return CollectionRecords(source)
    if isinstance(source, FileSource):
        return TextRecords(FileTextInput(source.path, subtask, parallelism))
    return TextRecords(SocketTextInput(source.host, source.port, source.delimiter))
