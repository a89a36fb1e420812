"""Time that steps take in virtual time, and preemptions of processes by their machine."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from flinknet.arrays import IntArray

SPIN_NS = 200_000
"""Longest time between messages, in ns, for which a loop polls instead of sleeping (SPIN_NS of
`runtime.event_loop`)."""

FAR_NS = 500_000
"""Way from which loops sleep between messages: they poll while they wait for less on average
(SHORT_WAIT_NS of `runtime.event_loop`)."""

WAKE_NS = 130_000.0
"""By how much messages on a long way vary: medians of credit over emulated links of 10 and 20 ms
are 107 to 156 us above their tenth percentiles, wake-ups of loops and of the link's process."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """Time of the steps on a buffer's way in a recorded run; medians, in ns.

    Attributes:
        send_ns_per_message: fixed part of handing one message to the socket.
        send_ns_per_byte: part that grows with the payload.
        transit_ns: from SENT to RECEIVED of an uncontended message.
        receive_ns_per_message: from RECEIVED to CONSUMED of a buffer that finds an empty queue,
            without its records.
        emit_ns_per_record: time of the producer's task for one record if nothing holds it back.
        consume_ns_per_record: time for one record, by index of the consumer.
        back_ns: transit time of credit to the producer; None: that of buffers.
        wake_ns: mean time until a sleeping loop takes a message; from 0 to twice as long, evenly
            spread. Above 0, loops answer messages before their tasks step, as the runtime's do:
            credit for a backlog and that for its records are two AddCredits; at 0 one.
    """

    send_ns_per_message: float
    send_ns_per_byte: float
    transit_ns: float
    receive_ns_per_message: float
    emit_ns_per_record: float
    consume_ns_per_record: tuple[float, ...]
    back_ns: float | None = None
    wake_ns: float = 0.0

    def farther(self, way_ns: float, *, is_awake: bool) -> CostModel:
        """These costs if messages are on their way longer, or shorter, by a time. Loops that never
        slept (`is_awake`) do on a long way: cold, their steps take at least typical times.
        """
        if is_awake and way_ns >= FAR_NS:
            typical = TYPICAL_COSTS
            receive_ns = max(self.receive_ns_per_message, typical.receive_ns_per_message)
            return replace(
                self.farther(way_ns, is_awake=False),
                send_ns_per_message=max(self.send_ns_per_message, typical.send_ns_per_message),
                receive_ns_per_message=receive_ns,
                emit_ns_per_record=max(self.emit_ns_per_record, typical.emit_ns_per_record),
                wake_ns=WAKE_NS,
            )
        return replace(
            self,
            transit_ns=max(0.0, self.transit_ns + way_ns),
            back_ns=None if self.back_ns is None else max(0.0, self.back_ns + way_ns),
        )


TYPICAL_COSTS = CostModel(
    send_ns_per_message=12_000.0,
    send_ns_per_byte=0.15,
    transit_ns=50_000.0,
    receive_ns_per_message=12_000.0,
    emit_ns_per_record=100.0,
    consume_ns_per_record=(),
)
"""Costs measured with flinknet's own stack on one core; for scenarios without a recorded run."""


@dataclass(frozen=True, slots=True, eq=False)
class Preemptions:
    """Times in which a process had work but was not running, from the start of the window."""

    starts_ns: IntArray
    lengths_ns: IntArray

    def condensed(self, factor: float) -> Preemptions:
        """An even sample of 1 / `factor` of the preemptions, in a window shorter by `factor`."""
        count = len(self.starts_ns)
        kept = (np.arange(int(np.ceil(count / factor))) * factor).astype(np.int64)
        kept = kept[kept < count]
        return Preemptions((self.starts_ns[kept] / factor).astype(np.int64), self.lengths_ns[kept])

    def repeated(self, times: int, period_ns: int) -> Preemptions:
        """These preemptions, repeated `times` times with a period."""
        shifts_ns = np.repeat(np.arange(times) * period_ns, len(self.starts_ns))
        return replace(
            self,
            starts_ns=np.tile(self.starts_ns, times) + shifts_ns,
            lengths_ns=np.tile(self.lengths_ns, times),
        )
