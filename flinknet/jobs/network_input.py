"""NetworkInput: what comes through the gates of a task, as records for its operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flinknet.core.consumer import (
    InputBuffer,
    InputChannel,
    RecordRun,
    SingleInputGate,
    SpillStore,
    UnionInputGate,
)
from flinknet.core.probe import Probe
from flinknet.core.wire.events import Event
from flinknet.tasks.reading import ReadingTask

from .checkpoints import BranchingCheckpoints
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


class NetworkInput(ReadingTask[ChannelInput, BranchingCheckpoints]):
    """The reading half of a task (Flink: StreamTaskNetworkInput).

    Attributes:
        held: a data buffer was taken and not given back: its records are in work.
    """

    def __init__(
        self,
        index: int,
        gate: SingleInputGate | UnionInputGate,
        channels: tuple[ChannelInput, ...],
        probe: Probe,
        checkpoints: BranchingCheckpoints,
        *,
        spills: SpillStore | None,
        start_ns: int,
    ) -> None:
        super().__init__(
            index, gate, channels, probe, checkpoints, spills=spills, start_ns=start_ns
        )

    @property
    def is_holding(self) -> bool:
        """Whether a buffer is held."""
        return self._held is not None

    @property
    def has_ended_data(self) -> bool:
        """Whether the records of every channel have been read."""
        return self._checkpoints.ended_data_channels == len(self.gate.channels)

    def take_buffer(
        self, channel: InputChannel, buffer: InputBuffer, sequence_number: int, *, now_ns: int
    ) -> list[RecordBatch]:
        """The records of a data buffer, which is held until `give_back`."""
        self._held = buffer
        _, runs = self._take_records(channel, buffer, sequence_number, now_ns)
        return self.sinks[channel.index_in_input].batches if runs else []

    def take_event(
        self, channel: InputChannel, buffer: InputBuffer, sequence_number: int, *, now_ns: int
    ) -> Event:
        """Read an event, and let the checkpoints act on it."""
        return self._take_event(channel, buffer, sequence_number, now_ns)

    def give_back(self) -> None:
        """Recycle the buffer that is held."""
        if self._held is not None:
            self._held.recycle()
            self._held = None


def _instant(timestamp: int) -> int:
    """As traces have it."""
    return -1 if timestamp == NO_TIMESTAMP else int(timestamp)
