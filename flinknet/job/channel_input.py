"""ChannelInput: the bytes of one channel as batches of records for an operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from flinknet.core.consumer import RecordRun
from flinknet.core.wire.records import StreamElement
from flinknet.units import NS_PER_MS

from .elements import NO_TIMESTAMP, Instants, StreamElementSerializer
from .event_time import StatusWatermarkValve


@dataclass(slots=True)
class RecordBatch:
    """Records on their way to an operator; those before `position` are processed. Values are a list
    or an array (see `elements.Values`).

    Attributes:
        instants: when the records were due, NO_TIMESTAMP if unknown.
        timestamps: event time; None if the program assigns none.
    """

    operator_id: str
    input_number: int
    values: Any
    instants: Instants
    timestamps: Instants | None = None
    position: int = 0


@dataclass(slots=True)
class ElementBatch:
    """A stream element other than a record on its way to an operator, in order with the records."""

    operator_id: str
    input_number: int
    element: StreamElement
    valve: StatusWatermarkValve
    channel: int


@dataclass(eq=False)
class ChannelInput:
    """Reads the records of one channel.

    Attributes:
        channel: number of the channel within the input.
        valve: shared by all channels of the input.
        has_event_time: timestamps of the records are event time in ms, not due instants.
        due_epoch_ns: instant that is event time 0, if event time is when a record was due.
        measured_records: records read in the measured part.
        waiting_since_ns: when the first of them was due, if that was before the measured part, at
            whose start it waited in a buffer; else the start of the measured part.
        last_due_ns, last_read_ns: when the last record was due, and when it was read.
    """

    edge: int
    operator_id: str
    input_number: int
    elements: StreamElementSerializer
    channel: int
    valve: StatusWatermarkValve
    _: KW_ONLY
    has_event_time: bool = False
    due_epoch_ns: int | None = None
    measured_from_ns: int = 0
    records: int = 0
    measured_records: int = 0
    waiting_since_ns: int = 0
    last_due_ns: int = 0
    last_read_ns: int = 0
    received_records: int = 0
    first_record_ns: int = -1
    last_record_ns: int = -1
    batches: list[RecordBatch | ElementBatch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.waiting_since_ns = self.measured_from_ns

    def receive(self, runs: Sequence[RecordRun], *, now_ns: int) -> int:
        """Split a buffer's elements into batches; their arrays may share its memory."""
        self.received_records, self.first_record_ns, self.last_record_ns = 0, -1, -1
        self.batches = []
        target = self.operator_id, self.input_number
        for each in self.elements.read(runs):
            if not isinstance(each, tuple):
                self.batches.append(ElementBatch(*target, each, self.valve, self.channel))
                continue
            values, instants = each
            timestamps: Instants | None = None
            if self.has_event_time:
                timestamps, instants = instants, self._due(instants)
            self.batches.append(RecordBatch(*target, values, instants, timestamps))
            if not self.received_records:
                self.first_record_ns = _instant(instants[0])
            self.last_record_ns = _instant(instants[-1])
            self.received_records += len(instants)
        if self.received_records:
            self.records += self.received_records
            self.last_due_ns = max(self.last_due_ns, self.last_record_ns)
            self.last_read_ns = now_ns
            if now_ns >= self.measured_from_ns:
                self.measured_records += self.received_records
                if 0 <= self.first_record_ns < self.waiting_since_ns:
                    self.waiting_since_ns = self.first_record_ns
        return now_ns

    def _due(self, timestamps: Instants) -> Instants:
        unknown = np.full(len(timestamps), NO_TIMESTAMP, np.int64)
        if self.due_epoch_ns is None:
            return unknown
        due_ns = self.due_epoch_ns + timestamps * NS_PER_MS
        return np.where(timestamps == NO_TIMESTAMP, unknown, due_ns)

    def settle(self) -> None:
        """Do nothing: counts are always up to date."""


def _instant(timestamp: int) -> int:
    return -1 if timestamp == NO_TIMESTAMP else int(timestamp)
