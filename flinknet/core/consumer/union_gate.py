"""UnionInputGate: several gates read as one input (Flink: UnionInputGate).

A gate is in the ready queue while it has something to read, gates with a priority event first.
Gates take turns of one buffer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from flinknet.core.buffers import NetworkBuffer

from .input_gate import InputBuffer, InputChannel, Polled, SingleInputGate


class UnionInputGate:
    """Two or more gates, for a task that reads a union of streams.

    `channels` are the channels of all gates, in order; `index_in_input` is a channel's position
    among them. The gates are set up, requested and closed one by one, not from here.

    Raises: ValueError for fewer than two gates, or for duplicate indexes.
    """

    def __init__(self, gates: Sequence[SingleInputGate]) -> None:
        if len(gates) < 2:
            raise ValueError("a union takes at least two input gates")
        if len({gate.index for gate in gates}) != len(gates):
            raise ValueError("two input gates of a union have the same index")
        self.gates = tuple(gates)
        self.channels: Sequence[InputChannel] = tuple(
            channel for gate in gates for channel in gate.channels
        )
        for index, channel in enumerate(self.channels):
            channel.index_in_input = index
        self._gate_of = {channel.index: gate for gate in gates for channel in gate.channels}
        self._ready: deque[SingleInputGate] = deque()
        self._priority_gates = 0  # at the front of the ready queue
        for gate in gates:
            gate.listener = self.queue_gate
            if gate.is_available:
                self.queue_gate(gate, gate.has_priority_events)

    def queue_gate(self, gate: SingleInputGate, has_priority: bool) -> None:
        """Enqueue a gate with something to read; with a priority event before those without."""
        ready = self._ready
        if gate in ready:
            position = ready.index(gate)
            if not has_priority or position < self._priority_gates:
                return
            del ready[position]
        if has_priority:
            ready.insert(self._priority_gates, gate)
            self._priority_gates += 1
        else:
            ready.append(gate)

    @property
    def is_available(self) -> bool:
        """Whether `poll` may return something."""
        return bool(self._ready)

    @property
    def has_priority_events(self) -> bool:
        """Whether a gate with a priority event is next."""
        return self._priority_gates > 0

    @property
    def is_finished(self) -> bool:
        """Whether every gate is finished."""
        return all(gate.is_finished for gate in self.gates)

    def poll(self, now_ns: int = 0) -> Polled | None:
        """The next buffer or event of any gate; None if there is none."""
        ready = self._ready
        while ready:
            gate = ready.popleft()
            if self._priority_gates:
                self._priority_gates -= 1
            polled = gate.poll(now_ns)
            if gate.is_available:
                self.queue_gate(gate, gate.has_priority_events)
            if polled is not None:
                return polled
        return None

    def poll_run(
        self, channel: InputChannel, buffer: InputBuffer, sequence_number: int
    ) -> list[NetworkBuffer]:
        """See SingleInputGate; empty while other gates wait for their turn."""
        if len(self._ready) != 1:
            return []
        gate = self._ready[0]
        run = gate.poll_run(channel, buffer, sequence_number)
        if not gate.is_available:
            self._ready.clear()
        return run

    def end_recovered_state(self, channel: InputChannel) -> None:
        """End the recovered state of a channel."""
        self._gate_of[channel.index].end_recovered_state(channel)

    def end_channel(self, channel: InputChannel) -> None:
        """End a channel, after its EndOfPartition."""
        gate = self._gate_of[channel.index]
        gate.end_channel(channel)
        if not gate.is_available and gate in self._ready:
            if self._ready.index(gate) < self._priority_gates:
                self._priority_gates -= 1
            self._ready.remove(gate)
