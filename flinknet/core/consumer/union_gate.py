"""UnionInputGate: several gates read as one input (Flink: UnionInputGate).

A gate stands in the ready queue while it has something to read, those with a priority event before
the others; the gates take turns of one buffer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from flinknet.core.buffers import NetworkBuffer

from .input_gate import InputBuffer, InputChannel, Polled, SingleInputGate


class UnionInputGate:
    """Two gates or more, for a task that reads a union of streams.

    `channels` are those of all gates, in the order of the gates; a channel's `index_in_input` is
    its place among them. The gates are set up, requested and closed one by one, not from here.

    Raises: ValueError for less than two gates, or two with one index.
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
        self._priority_gates = 0  # first so many of the ready ones
        for gate in gates:
            gate.listener = self.queue_gate
            if gate.is_available:
                self.queue_gate(gate, gate.has_priority_events)

    def queue_gate(self, gate: SingleInputGate, has_priority: bool) -> None:
        """A gate has something to read; with a priority event it goes before those without."""
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
        """The next buffer or event of any gate; None if there is none now."""
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
        """As SingleInputGate's; nothing while other gates wait for their turn."""
        if len(self._ready) != 1:
            return []
        gate = self._ready[0]
        run = gate.poll_run(channel, buffer, sequence_number)
        if not gate.is_available:
            self._ready.clear()
        return run

    def end_recovered_state(self, channel: InputChannel) -> None:
        """The end of what was recovered was read from a channel."""
        self._gate_of[channel.index].end_recovered_state(channel)

    def end_channel(self, channel: InputChannel) -> None:
        """EndOfPartition of a channel was read."""
        gate = self._gate_of[channel.index]
        gate.end_channel(channel)
        if not gate.is_available and gate in self._ready:
            if self._ready.index(gate) < self._priority_gates:
                self._priority_gates -= 1
            self._ready.remove(gate)
