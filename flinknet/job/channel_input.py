"""ChannelInput: the bytes of one channel as batches of records for an operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flinknet.core.consumer import RecordRun

from .elements import NO_TIMESTAMP, Instants, StreamElementSerializer


@dataclass(slots=True)
class RecordBatch:
    """Records on their way to an operator; those before `position` have been processed. Values are
    a list or an array (see `elements.Values`).
    """

    operator_id: str
    input_number: int
    values: Any
    instants: Instants
    position: int = 0


class ChannelInput:
    """Reads the records of one channel (implements RecordReceiver).

    Attributes:
        edge: index of the edge.
        records: read so far.
    """

    def __init__(
        self, edge: int, operator_id: str, input_number: int, elements: StreamElementSerializer
    ) -> None:
        self.edge = edge
        self.records = 0
        self.received_records = 0
        self.first_record_ns = -1
        self.last_record_ns = -1
        self.batches: list[RecordBatch] = []
        self._target = operator_id, input_number
        self._elements = elements

    def receive(self, runs: Sequence[RecordRun], *, now_ns: int) -> int:
        """Make batches of the records of a buffer; their arrays may lie in it."""
        self.batches = [RecordBatch(*self._target, *each) for each in self._elements.read(runs)]
        self.received_records = sum(len(each.instants) for each in self.batches)
        self.records += self.received_records
        self.first_record_ns = _instant(self.batches[0].instants[0])
        self.last_record_ns = _instant(self.batches[-1].instants[-1])
        return now_ns

    def settle(self) -> None:
        """Counts are always up to date."""


def _instant(timestamp: int) -> int:
    """As traces have it."""
    return -1 if timestamp == NO_TIMESTAMP else int(timestamp)
