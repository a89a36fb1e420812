"""Record sources of a task, for the sources of a program.

A source returns the records that are due, each with its due instant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from flinknet.config import MAX_RATE_BATCH_BYTES
from flinknet.core.wire.ids import ExecutionAttemptID
from flinknet.errors import ConfigError
from flinknet.graph.endpoints import (
    CollectionSource,
    FileSource,
    GeneratedSource,
    SequenceSource,
    Source,
    SplitSource,
)

from .elements import Instants, Values
from .io import FileTextInput, SocketTextInput, TextInput
from .load.arrivals import KeyDraws, ScheduledArrivals
from .load.payload import BATCH_BYTES

BATCH_RECORDS = 1024
"""Records taken at once if their size is unknown."""

Batch = tuple[Values, Instants]

NUMBER_BITS = 40
"""Bits of the record number in generated payloads; the subtask number is above them."""

FEW_RECORDS = 8
"""Up to this many records are made one by one, faster than as an array."""

_NUMBER_BYTES = 8


@dataclass(frozen=True, slots=True)
class RequestNextInputSplit:
    """TaskManager: hand out a split to an attempt (Flink: requestNextInputSplit)."""

    attempt_id: ExecutionAttemptID
    operator_id: str


@dataclass(frozen=True, slots=True)
class NextInputSplit:
    """JobManager: a split for an attempt; none if none is left (Flink: SerializedInputSplit)."""

    attempt_id: ExecutionAttemptID
    operator_id: str
    splits: tuple[Any, ...]


class RecordSource(Protocol):
    """The records of one subtask of a source."""

    @property
    def text(self) -> TextInput | None:
        """The text to be fed by the driver; None if there is none."""

    @property
    def is_ended(self) -> bool:
        """Whether the source has ended."""

    def take(self, *, now_ns: int) -> tuple[Any, Any] | None:
        """Due records, as the task's chain takes them, and their due instants."""

    def next_ns(self, *, now_ns: int) -> int | None:
        """When the next records may be due; None if that depends on the driver, or never."""

    def stop(self) -> None:
        """Make no more records."""


class _Records:
    """The parts of a RecordSource that most sources have in common."""

    text: TextInput | None = None
    is_ended = False

    def next_ns(self, *, now_ns: int) -> int | None:
        return None if self.is_ended else now_ns

    def stop(self) -> None:
        self.is_ended = True


class GeneratedRecords(_Records):
    """Records (key, payload) with random keys. A payload of 8 bytes or more begins with the
    record's number in its subtask, below the number of the subtask. They always come in arrays if
    it `has_arrays`.
    """

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
        """The records that are due; at the highest rate, as many as fit one turn."""
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
        if self.is_ended:
            return None
        if self._arrivals is None:
            return max(now_ns, self._start_ns)
        return self._next_ns

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


class ListedRecords(_Records):
    """Given values (Flink: FromElementsFunction), or the subtask's share of a range of numbers
    (Flink: NumberSequenceSource), which come in arrays.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = values
        self._next = 0
        self.is_ended = not values

    def take(self, *, now_ns: int) -> Batch | None:
        """The next values."""
        if self.is_ended:
            return None
        found = self._values[self._next : self._next + BATCH_RECORDS]
        self._next += len(found)
        self.is_ended = self._next == len(self._values)
        instants = np.full(len(found), now_ns, np.int64)
        if isinstance(found, range):
            return np.arange(found.start, found.stop), instants
        return list(found), instants


class TextRecords:
    """Lines of a text that the driver feeds, each due when it is taken."""

    def __init__(self, text: TextInput) -> None:
        self.text: TextInput | None = text
        self._text = text
        self._is_stopped = False

    @property
    def is_ended(self) -> bool:
        return self._is_stopped or self._text.is_exhausted

    def take(self, *, now_ns: int) -> Batch | None:
        """The next lines. Raises: TaskFailedError if the text cannot be read."""
        if self._is_stopped or not self._text.has_lines:
            return None
        lines = self._text.take(BATCH_RECORDS)
        return lines, np.full(len(lines), now_ns, np.int64)

    def next_ns(self, *, now_ns: int) -> int | None:
        """Now, while lines are waiting; None otherwise."""
        return now_ns if self._text.has_lines and not self._is_stopped else None

    def stop(self) -> None:
        self._is_stopped = True


class RequestedSplits(_Records):
    """Splits that the master hands out; the next is requested when the chain is free again."""

    def __init__(self, request: Callable[[], None]) -> None:
        self._request = request
        self._splits: list[Any] = []
        self._is_waiting = False

    def receive(self, splits: Sequence[Any]) -> None:
        """Take the answer: a split, or none, which ends the source."""
        self._splits += splits
        self._is_waiting = False
        self.is_ended = self.is_ended or not splits

    def take(self, *, now_ns: int) -> Batch | None:
        splits, self._splits = self._splits, []
        if splits:
            return splits, np.full(len(splits), now_ns, np.int64)
        if not self._is_waiting and not self.is_ended:
            self._is_waiting = True
            self._request()
        return None

    def next_ns(self, *, now_ns: int) -> int | None:
        """Now, to take a split or to request one; None while an answer is awaited."""
        return None if self.is_ended or (self._is_waiting and not self._splits) else now_ns


def record_source(
    source: Source,
    subtask: int,
    parallelism: int,
    *,
    start_ns: int,
    end_ns: int | None,
    seed: int,
    has_arrays: bool = True,
    request_split: Callable[[], None] | None = None,
) -> RecordSource:
    """The record source of a subtask; the next operator may need arrays even of few records."""
    if isinstance(source, SplitSource):
        if request_split is None:
            raise ConfigError(f"{source.NAME}: there is no master that hands out splits")
        return RequestedSplits(request_split)
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
        total = source.last - source.first + 1
        first, end = (source.first + total * at // parallelism for at in (subtask, subtask + 1))
        return ListedRecords(range(first, end))
    if isinstance(source, CollectionSource):
        return ListedRecords(source.values)
    if isinstance(source, FileSource):
        return TextRecords(FileTextInput(source.path, subtask, parallelism))
    return TextRecords(SocketTextInput(source.host, source.port, source.delimiter))
