# mypyc
"""RecordOutput: the records that leave a task along one edge, dealt out, serialised and written.

Who collects records may be another thread than who writes them: never both at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from flinknet.core.producer import (
    BROADCAST,
    OutputFlusher,
    RecordWriter,
    SerializedRecords,
)
from flinknet.core.producer.channel_selector import Indices, Split
from flinknet.errors import FlinknetError, TaskFailedError
from flinknet.graph.operators import as_list

from .context import ProcessingContext
from .elements import Instants, StreamElementSerializer, Values, WrongValueError
from .keys import java_hashes
from .task_output import TaskOutput

KeySelector = Callable[[Any], Any]

_Share = tuple[int, SerializedRecords, int]
"""Records for a channel, and how many they are."""

KEPT_KEYS = 1 << 16
"""Hashes of keys whose channel is remembered."""


class RecordOutput(TaskOutput):
    """Collects what the operators of a task put out and, when the task says so, writes it.

    Attributes:
        emit: takes the records of a channel: the writer's.

    Args:
        operator_name: of the operator that puts records out here, for errors.
        edge: index of the edge.
        elements: how records are written.
        key_selector: for hash and custom partitioners.
        hashes_keys: whether the selector takes hashes of keys or keys.
        channels: indices of the channels in the job.
    """

    def __init__(
        self,
        operator_name: str,
        edge: int,
        writer: RecordWriter,
        elements: StreamElementSerializer,
        flusher: OutputFlusher,
        context: ProcessingContext,
        channels: Sequence[int],
        *,
        key_selector: KeySelector | None = None,
        hashes_keys: bool = False,
    ) -> None:
        super().__init__(edge, writer, flusher, channels)
        self.emit: Callable[[int, SerializedRecords], None] = writer.emit
        self._operator_name = operator_name
        self._elements = elements
        self._context = context
        self._key_selector = key_selector
        self._hashes_keys = hashes_keys
        self._channel_of_key: dict[int, int] = {}
        self._sent = [0] * len(self.channels)
        self._dealt_out = 0
        self._ready: list[_Share] = []
        self._batches: list[tuple[Values, Instants]] = []
        self._values: list[Any] = []
        self._instants: list[int] = []

    @property
    def sent_records(self) -> dict[int, int]:
        """Records written so far, by index of the channel in the run."""
        return dict(zip(self.channels, self._sent, strict=True))

    def __call__(self, value: Any) -> None:
        """Take a record."""
        context = self._context
        self._values.append(value)
        self._instants.append(context.instant_ns)
        context.pending_records += 1

    def collect_batch(self, values: Values) -> None:
        """Take several records, in order. Where an operator made more or fewer of them than it was
        given, which was made of which is not known: they all are as old as the oldest.
        """
        count = len(values)
        if not count:
            return
        context = self._context
        self._close_list()
        if context.instants is not None and len(context.instants) == count:
            instants = context.instants
        else:
            instants = np.full(count, context.instant_ns, np.int64)
        self._batches.append((values, instants))
        context.pending_records += count

    def prepare(self) -> None:
        """Deal out and serialise what was collected: here functions of the program choose keys and
        channels.

        Raises: TaskFailedError when a record cannot be dealt out or serialised.
        """
        self._ready.extend(self._dealt())

    def write(self) -> None:
        """Hand all that was collected to the writer; what finds no buffer waits there.

        Raises: TaskFailedError when a record cannot be dealt out or serialised.
        """
        ready, self._ready = self._ready, []
        for share in ready:
            self._emit(*share)
        for share in self._dealt():
            self._emit(*share)

    def discard(self) -> None:
        """Drop what was collected."""
        self._ready.clear()
        self._batches.clear()
        self._values.clear()
        self._instants.clear()

    def _close_list(self) -> None:
        if self._values:
            self._batches.append((self._values, np.array(self._instants, np.int64)))
            self._values, self._instants = [], []

    def _dealt(self) -> Iterator[_Share]:
        """What was collected, share by share."""
        self._close_list()
        batches, self._batches = self._batches, []
        for values, instants in batches:
            count = len(values)
            for channel, picked in self._split(values, count):
                share = _picked(values, picked)
                try:
                    records = self._elements.write(share, instants[picked])
                except WrongValueError as error:
                    number = self._dealt_out + int(np.arange(count)[picked][error.position]) + 1
                    raise TaskFailedError(
                        f"{self._operator_name}: record {number} that it put out: {error}"
                    ) from error
                yield channel, records, len(share)
            self._dealt_out += count

    def _emit(self, channel: int, records: SerializedRecords, count: int) -> None:
        if channel == BROADCAST:
            self._sent = [sent + count for sent in self._sent]
        else:
            self._sent[channel] += count
        self.emitted_records += count
        self.emit(channel, records)

    def _split(self, values: Values, count: int) -> Split:
        """Which records go to which channel; that of a single key is remembered."""
        keys = self._keys(values)
        if count > 1 or not self._hashes_keys:
            return self.writer.selector.split(count, keys)
        key = int(keys[0])
        channel = self._channel_of_key.get(key)
        if channel is None:
            ((channel, _),) = self.writer.selector.split(1, keys)
            if len(self._channel_of_key) < KEPT_KEYS:
                self._channel_of_key[key] = channel
        return [(channel, slice(0, 1))]

    def _keys(self, values: Values) -> Any:
        """What the selector wants of each record; None if it wants nothing."""
        select = self._key_selector
        if select is None:
            return None
        keys: list[Any] = []
        try:
            for value in as_list(values):
                keys.append(select(value))
            if self._hashes_keys:
                return java_hashes(keys)
        except FlinknetError:
            raise
        except Exception as error:
            number = self._dealt_out + min(len(keys), len(values) - 1) + 1
            raise TaskFailedError(
                f"{self._operator_name}: record {number} that it put out has no key:"
                f" {type(error).__name__}: {error}"
            ) from error
        return np.fromiter(keys, object, len(keys))


def _picked(values: Values, picked: Indices) -> Values:
    if isinstance(values, np.ndarray):
        return values[picked]
    if isinstance(picked, slice):
        return values[picked]
    return [values[index] for index in picked.tolist()]
