# mypyc
"""TaskInputs: the inputs of a task: its gates, and the sources in its chain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.consumer import SingleInputGate, UnionInputGate
from flinknet.core.wire.events import OtherEvent
from flinknet.errors import TaskFailedError
from flinknet.graph.watermarks import TaskEvent

from .network_input import NetworkInput, Polled
from .sources import RecordSource
from .task_chain import TaskChain
from .times import sooner


class TaskInputs:
    """All inputs of a task.

    Attributes:
        network_input: reads the gates; None for a task without gates.
        sources: by operator id.
        has_unsent_events: whether events are waiting for producers that are not there yet.
    """

    def __init__(
        self, network_input: NetworkInput[Any] | None, sources: Mapping[str, RecordSource]
    ) -> None:
        self.network_input = network_input
        self.sources = dict(sources)
        self.has_unsent_events = False

    @property
    def gate(self) -> SingleInputGate | UnionInputGate | None:
        """The gate, or union of gates; None for a task without gates."""
        return None if self.network_input is None else self.network_input.gate

    @property
    def gates(self) -> tuple[SingleInputGate, ...]:
        """All gates, without unions."""
        gate = self.gate
        if gate is None:
            return ()
        return (gate,) if isinstance(gate, SingleInputGate) else gate.gates

    @property
    def is_recovered(self) -> bool:
        """Whether the recovered state of all channels has been read."""
        for gate in self.gates:  # noqa: SIM110 - in each turn; a generator takes longer
            if not gate.is_state_consumed:
                return False
        return True

    @property
    def can_read(self) -> bool:
        """Whether a gate has something to read."""
        network_input = self.network_input
        return network_input is not None and network_input.is_available

    @property
    def has_ended_data(self) -> bool:
        """Whether only events can still arrive."""
        network_input = self.network_input
        if network_input is not None and not network_input.has_ended_data:
            return False
        for source in self.sources.values():  # noqa: SIM110 - in each step; a generator takes longer
            if not source.is_ended:
                return False
        return True

    def take(self, chain: TaskChain, now_ns: int) -> bool:
        """Pass a buffer or event, and the records that are due at the sources, to the chain.
        Returns: whether there were any.
        """
        has_taken = False
        network_input = self.network_input
        if network_input is not None:
            polled = network_input.poll(now_ns)
            if polled is not None:
                has_taken = True
                channel, buffer, sequence_number = polled
                if buffer.data_type in IS_BUFFER:
                    chain.batches.extend(
                        network_input.take_buffer(channel, buffer, sequence_number, now_ns)
                    )
                else:
                    network_input.take_event(channel, buffer, sequence_number, now_ns)
        for operator_id, source in self.sources.items():
            generated = source.take(now_ns=now_ns)
            if generated is not None:
                has_taken = True
                chain.add_generated(operator_id, *generated)
        return has_taken

    def take_event(self, now_ns: int) -> None:
        """Take an event, if there is one: after the last record only events arrive."""
        network_input = self.network_input
        if network_input is not None and not network_input.gate.is_finished:
            polled = network_input.poll(now_ns)
            if polled is not None:
                self._take_event(network_input, polled, now_ns)

    def take_priority_events(self, now_ns: int) -> None:
        """Take all events that have overtaken data."""
        network_input = self.network_input
        if network_input is None:
            return
        gate = network_input.gate
        while gate.has_priority_events:
            polled = gate.poll(now_ns)
            if polled is not None:
                self._take_event(network_input, polled, now_ns)

    def next_ns(self, timer_ns: int | None, now_ns: int) -> int | None:
        """When there is something to take, or `timer_ns` if that is sooner; None to wait until
        something arrives.
        """
        if self.can_read:
            return now_ns
        for source in self.sources.values():
            timer_ns = sooner(timer_ns, source.next_ns(now_ns=now_ns))
        return timer_ns

    def give_back(self) -> None:
        """Recycle the buffer whose records have been processed."""
        if self.network_input is not None:
            self.network_input.give_back()

    def stop(self) -> None:
        """Stop all sources."""
        for source in self.sources.values():
            source.stop()

    def send_task_events(self, events: list[TaskEvent], task: str) -> None:
        """Send these events and earlier ones to all producers that are there.

        Args:
            events: emptied by this call.
            task: task name.

        Raises: TaskFailedError if the task has no producers.
        """
        gates = self.gates
        if events and not gates:
            raise TaskFailedError(
                f"{task}: cannot send the task event {events[0].class_name}: no task writes to it"
            )
        for event in events:
            for gate in gates:
                gate.send_task_event(OtherEvent(event.class_name, event.body))
        events.clear()
        still = [gate.send_pending_events() for gate in gates]
        self.has_unsent_events = any(still)

    def _take_event(self, network_input: NetworkInput[Any], polled: Polled, now_ns: int) -> None:
        channel, buffer, sequence_number = polled
        network_input.take_event(channel, buffer, sequence_number, now_ns)
