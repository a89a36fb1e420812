# mypyc
"""NetworkInput: what comes through the gates of a task, as records for its operators."""

from __future__ import annotations

from flinknet.core.consumer import (
    InputBuffer,
    InputChannel,
    SingleInputGate,
    SpillStore,
    UnionInputGate,
)
from flinknet.core.probe import Probe
from flinknet.core.wire.events import Event
from flinknet.tasks.reading import ReadingTask

from .channel_input import ChannelInput, RecordBatch
from .checkpoints import BranchingCheckpoints


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
