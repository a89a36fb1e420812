# mypyc
"""RunInput: reads a gate as runs of serialised records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flinknet.core.buffers import NetworkBuffer
from flinknet.core.consumer import (
    InputBuffer,
    InputChannel,
    SingleInputGate,
    SpillStore,
    UnionInputGate,
)
from flinknet.core.probe import Probe, note_consumed
from flinknet.core.wire.events import Event

from ..barriers import InputCheckpoints
from ..network_input import NetworkInput, Polled
from .outputs import Measure
from .sink import LatencySink

_ReadRun = tuple[int, int, int, int, int, Sequence[tuple[int, int, int]]]
"""Start instant, channel, data type, first sequence number and size of the buffers; then for each
buffer the number of records that end in it, and the instants of the first and the last."""

PAUSED_NS = -1
"""Delay of a consumer that reads nothing."""


class RunInput(NetworkInput[LatencySink]):
    """Passes runs of records to the sinks that check and time them.

    A delay per record makes the task busy until an instant; it keeps the buffer until then, as a
    task thread would, while the event loop serves other tasks.

    Args:
        sinks: one per channel of the gate, in its order.
        measure: the chain of a task that ends here; None for one that forwards the runs.
        delay_ns_per_record: time per record in a task that ends here. PAUSED_NS: until `unpause`
            read nothing but the end of recovery, without which the producers would send nothing.
        takes_runs: whether to take all waiting buffers that are adjacent in memory at once, while
            there is no delay.

    Attributes:
        catches_up: a remote buffer that is known to have waited when the one before was taken or
            done begins at that instant, however late the loop.
    """

    def __init__(
        self,
        gate: SingleInputGate | UnionInputGate,
        sinks: tuple[LatencySink, ...],
        probe: Probe,
        checkpoints: InputCheckpoints,
        *,
        measure: Measure | None = None,
        delay_ns_per_record: int = 0,
        takes_runs: bool = False,
        spills: SpillStore | None = None,
    ) -> None:
        super().__init__(gate, sinks, probe, checkpoints, spills=spills)
        self._measure = measure
        self._may_take_runs = takes_runs
        self._is_recovering = True  # until data comes or every channel has recovered
        self._unnoted: _ReadRun | None = None
        self.catches_up = False
        self._free_ns: int | None = None  # when the next buffer waited and the task was free
        self._follow_delay(delay_ns_per_record)

    @property
    def is_available(self) -> bool:
        return self.gate.is_available and (self._is_recovering or not self.is_paused)

    def set_delay(self, delay_ns_per_record: int) -> None:
        """Set the time per record from now on; PAUSED_NS to read nothing."""
        self._follow_delay(delay_ns_per_record)
        for sink in self.receivers:
            sink.set_delay(max(delay_ns_per_record, 0))

    def unpause(self) -> None:
        self.is_paused = False

    def poll(self, now_ns: int) -> Polled | None:
        is_stopped = self.is_paused and not self._is_recovering
        return None if is_stopped else self.gate.poll(now_ns)

    def take_buffer(
        self, channel: InputChannel, buffer: InputBuffer, sequence_number: int, now_ns: int
    ) -> Sequence[Any]:
        """The runs of a buffer, or the instant at which the task is done with them."""
        self._is_recovering = False
        if self._takes_runs:
            run = self.gate.poll_run(channel, buffer, sequence_number)
            if run:
                self._take_run(channel, run, sequence_number, now_ns)
                return ()
        begin_ns = now_ns if self._free_ns is None else self._free_ns
        done_ns, runs = self._take_records(channel, buffer, sequence_number, begin_ns)
        is_behind = self.catches_up and done_ns > begin_ns and self.gate.is_available
        self._free_ns = max(done_ns, now_ns) if is_behind else None
        if self._measure is None:
            return runs
        return (done_ns,) if done_ns > now_ns else ()

    def take_event(
        self, channel: InputChannel, buffer: InputBuffer, sequence_number: int, now_ns: int
    ) -> Event:
        event = super().take_event(channel, buffer, sequence_number, now_ns)
        self._free_ns = None
        if self._is_recovering and self.checkpoints.is_recovered:
            self._is_recovering = False
        return event

    def note_taken(self, now_ns: int) -> None:
        """Write the trace rows of a processed run of buffers, with equal shares of its time."""
        if self._unnoted is None:
            return
        begun_ns, channel, data_type, sequence_number, size, carried = self._unnoted
        self._unnoted = None
        record, took_ns = self._record, (now_ns - begun_ns) // len(carried)
        for records, first_ns, last_ns in carried:
            note_consumed(
                record,
                begun_ns,
                channel,
                data_type=data_type,
                sequence_number=sequence_number,
                payload_bytes=size,
                records=records,
                first_record_ns=first_ns,
                last_record_ns=last_ns,
            )
            begun_ns += took_ns
            sequence_number += 1

    def cancel(self) -> None:
        if self._unnoted is not None:
            self.note_taken(self._unnoted[0])
        super().cancel()

    def _follow_delay(self, delay_ns_per_record: int) -> None:
        self.is_paused = delay_ns_per_record == PAUSED_NS
        self._free_ns = None
        self._takes_runs = self._may_take_runs and delay_ns_per_record <= 0
        if self._measure is not None:
            self._measure.record_ns = max(delay_ns_per_record, 1)

    def _take_run(
        self, channel: InputChannel, run: Sequence[NetworkBuffer], sequence_number: int, now_ns: int
    ) -> None:
        """Read data buffers that are adjacent in memory as one stretch of bytes, and recycle them.

        For latencies all begin at `now_ns`. Their trace rows are written once the time they took
        together is known.
        """
        assert not channel.is_local
        index, size, data_type = channel.index_in_input, run[0].size_bytes, run[0].data_type
        payload = run[0].segment.with_neighbours(len(run))
        self._read_bytes[index] += len(payload)
        reader, sink = self._readers[index], self.receivers[index]
        try:
            records = reader.read(payload)
            sink.receive(records, now_ns=now_ns)
            carried = sink.carried(reader.count_ends(records, payload, size))
        finally:
            channel.buffers.recycle_run(run)
        self._unnoted = (now_ns, channel.index, data_type, sequence_number, size, carried)
