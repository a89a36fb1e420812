# mypyc
"""RecordOutput: distributes, serialises and writes the records of one edge.

Records may be collected and written by different threads, but never at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from flinknet.core.producer import (
    BROADCAST,
    BroadcastSelector,
    OutputFlusher,
    RecordWriter,
    SerializedElement,
    SerializedRecords,
)
from flinknet.core.producer.channel_selector import Indices, Split
from flinknet.core.wire.records import StreamElement, Watermark, WatermarkStatus, encode_record
from flinknet.errors import FlinknetError, TaskFailedError
from flinknet.graph.operators import as_list
from flinknet.units import ordinal

from .context import ProcessingContext, record_text, task_failed
from .elements import NO_TIMESTAMP, Instants, StreamElementSerializer, Values, WrongValueError
from .selectors import java_hashes
from .task_chain import TaskOutput

KeySelector = Callable[[Any], Any]

_Share = tuple[int, SerializedRecords, int]
"""Channel, records, number of records."""

_Batch = tuple[Values, Instants, Instants | None]
"""Records, their due instants, and their event times if those are written."""

KEPT_KEYS = 1 << 16
"""Keys whose channel is cached."""


class RecordOutput(TaskOutput):
    """Collects the output of a task's operators and writes it on request.

    Args:
        operator_name: operator that emits the records, for error messages.
        key_selector: for hash and custom partitioners.
        hashes_keys: whether the selector takes hashes of keys instead of keys.
        channels: indices of the channels in the job.
        has_event_time: whether records are written with event times instead of due instants.
        place: where the program defines the operator's function, for error messages.
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
        has_event_time: bool = False,
        place: str = "",
    ) -> None:
        super().__init__(edge, writer, flusher, channels)
        self.emit: Callable[[int, SerializedRecords], None] = writer.emit
        self._operator_name = operator_name
        self._place = place
        self._elements = elements
        self._context = context
        self._key_selector = key_selector
        self._hashes_keys = hashes_keys
        self._channel_of_key: dict[int, int] = {}
        self._sent = [0] * len(self.channels)
        self._has_event_time = has_event_time
        self._distributed = 0
        self._ready: list[_Share] = []
        self._batches: list[_Batch] = []
        self._values: list[Any] = []
        self._instants: list[int] = []
        self._timestamps: list[int] = []
        self._other_elements: list[tuple[int, SerializedElement]] = []

    @property
    def sent_records(self) -> dict[int, int]:
        return dict(zip(self.channels, self._sent, strict=True))

    def __call__(self, value: Any) -> None:
        context = self._context
        self._values.append(value)
        self._instants.append(context.instant_ns)
        if self._has_event_time:
            self._timestamps.append(context.timestamp_ms)
        context.pending_records += 1

    def collect_batch(self, values: Values) -> None:
        """Collect several records, in order. If an operator changed the number of records, their
        origin is unknown: all get the due instant of the oldest.
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
        timestamps: Instants | None = None
        if self._has_event_time:
            timestamps = context.timestamps
            if timestamps is None or len(timestamps) != count:
                timestamps = np.full(count, context.timestamp_ms, np.int64)
        self._batches.append((values, instants, timestamps))
        context.pending_records += count

    def emit_watermark(self, timestamp_ms: int) -> None:
        self._take_element(Watermark(timestamp_ms))

    def emit_watermark_status(self, is_idle: bool) -> None:
        """Collect a status change for every channel."""
        status = WatermarkStatus.IDLE if is_idle else WatermarkStatus.ACTIVE
        self._take_element(WatermarkStatus(status))

    def prepare(self) -> None:
        self._ready.extend(self._distribute())

    def write(self) -> None:
        ready, self._ready = self._ready, []
        for share in ready:
            self._emit(*share)
        for share in self._distribute():
            self._emit(*share)

    def discard(self) -> None:
        self._ready.clear()
        self._batches.clear()
        self._values.clear()
        self._instants.clear()
        self._timestamps.clear()
        self._other_elements.clear()

    def _close_list(self) -> None:
        if self._values:
            timestamps: Instants | None = None
            if self._has_event_time:
                timestamps = np.array(self._timestamps, np.int64)
                self._timestamps = []
            self._batches.append((self._values, np.array(self._instants, np.int64), timestamps))
            self._values, self._instants = [], []

    def _take_element(self, element: StreamElement) -> None:
        """Collect an element for every channel (Flink: broadcastEmit)."""
        self._close_list()
        serialized = SerializedElement(encode_record(element))
        self._other_elements.append((len(self._batches), serialized))
        self._context.pending_records += 1

    def _distribute(self) -> Iterator[_Share]:
        self._close_list()
        batches, self._batches = self._batches, []
        elements, self._other_elements = self._other_elements, []
        done = 0
        for place, element in elements:
            yield from self._shares(batches[done:place])
            done = place
            if isinstance(self.writer.selector, BroadcastSelector):
                yield BROADCAST, element, 0
            else:  # append to the open buffer of each channel
                for index in range(len(self.channels)):
                    yield index, element, 0
        yield from self._shares(batches[done:] if done else batches)

    def _shares(self, batches: list[_Batch]) -> Iterator[_Share]:
        for values, instants, timestamps in batches:
            count = len(values)
            for channel, picked in self._split(values, count):
                share = _picked(values, picked)
                try:
                    if timestamps is None:
                        records = self._elements.write(share, instants[picked])
                    else:
                        due_ns = np.where(instants == NO_TIMESTAMP, -1, instants)
                        records = self._elements.write(share, timestamps[picked], due_ns[picked])
                except WrongValueError as error:
                    number = self._distributed + int(np.arange(count)[picked][error.position]) + 1
                    raise TaskFailedError(
                        f"{self._operator_name}: its output's {ordinal(number)} record"
                        f"{self._place}: {error}"
                    ) from error
                yield channel, records, len(share)
            self._distributed += count

    def _emit(self, channel: int, records: SerializedRecords, count: int) -> None:
        if channel == BROADCAST:
            self._sent = [sent + count for sent in self._sent]
        else:
            self._sent[channel] += count
        self.emitted_records += count
        self.emit(channel, records)

    def _split(self, values: Values, count: int) -> Split:
        """Choose the channels of records; a single key's channel is cached."""
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
        """The keys, or hashes of keys, that the selector needs; None if it needs none."""
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
            position = min(len(keys), len(values) - 1)
            value = as_list(values)[position]
            text = f"{self._operator_name}: no key for its output's "
            text += record_text(self._distributed + position + 1, value)
            raise task_failed(text, error, value) from error
        return np.fromiter(keys, object, len(keys))


def _picked(values: Values, picked: Indices) -> Values:
    if isinstance(values, np.ndarray):
        return values[picked]
    if isinstance(picked, slice):
        return values[picked]
    return [values[index] for index in picked.tolist()]
