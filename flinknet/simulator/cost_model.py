"""What steps take in virtual time, and when a machine keeps its processes from taking them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from flinknet.arrays import IntArray


@dataclass(frozen=True, slots=True)
class CostModel:
    """What the steps on a buffer's way took in the recorded run; medians, in ns.

    Attributes:
        send_ns_per_message: fixed share of handing one message to the socket.
        send_ns_per_byte: share that grows with the payload.
        transit_ns: from SENT to RECEIVED of an uncontended message.
        receive_ns_per_message: from RECEIVED to CONSUMED of a buffer that met an empty queue,
            without its records.
        emit_ns_per_record: time the producer's task needs for one record when nothing holds it
            back.
        consume_ns_per_record: time each consumer's task needs for one record, by index of the
            consumer; a slow consumer stands out here.
        back_ns: the way of credit back to the producer; None: as long as that of buffers.
    """

    send_ns_per_message: float
    send_ns_per_byte: float
    transit_ns: float
    receive_ns_per_message: float
    emit_ns_per_record: float
    consume_ns_per_record: tuple[float, ...]
    back_ns: float | None = None


TYPICAL_COSTS = CostModel(
    send_ns_per_message=12_000.0,
    send_ns_per_byte=0.15,
    transit_ns=50_000.0,
    receive_ns_per_message=12_000.0,
    emit_ns_per_record=100.0,
    consume_ns_per_record=(),
)
"""What flinknet's own stack was measured to need on one core; for runs without a record."""


SUCCESSIVE_VALUES = 64
"""Of what a process took more or less one after the other, so many stay together in a sample: it is
slow or fast for a while."""


def sampled(count: int, factor: float, together: int) -> IntArray:
    """Indices of one in so many of a number of things, evenly from first to last, so many of them
    together; in their order.
    """
    groups = -(-count // together)
    starts = (np.arange(int(np.ceil(groups / factor))) * factor).astype(np.int64) * together
    found: IntArray = (starts[:, np.newaxis] + np.arange(together)).ravel()
    return found[found < count]


def _successive(values: IntArray, factor: float) -> IntArray:
    return values[sampled(len(values), factor, SUCCESSIVE_VALUES)]


@dataclass(frozen=True, slots=True, eq=False)
class Preemptions:
    """When a process had work and was kept from it by its machine, ascending; instants count from
    the start of the window. `wakeups_ns` are the times it took to get going when it was idle, one
    after the other.
    """

    starts_ns: IntArray
    lengths_ns: IntArray
    wakeups_ns: IntArray

    def since(self, from_ns: int) -> Preemptions:
        """The same with instants that count from one of them."""
        return replace(self, starts_ns=self.starts_ns - from_ns)

    def condensed(self, factor: float) -> Preemptions:
        """A sample of all of it in a time so many times shorter: every so many-th preemption, and
        samples of the rest.
        """
        kept = sampled(len(self.starts_ns), factor, 1)
        return Preemptions(
            (self.starts_ns[kept] / factor).astype(np.int64),
            self.lengths_ns[kept],
            _successive(self.wakeups_ns, factor),
        )

    def repeated(self, times: int, period_ns: int) -> Preemptions:
        """The same over and over."""
        shifts_ns = np.repeat(np.arange(times) * period_ns, len(self.starts_ns))
        return replace(
            self,
            starts_ns=np.tile(self.starts_ns, times) + shifts_ns,
            lengths_ns=np.tile(self.lengths_ns, times),
        )
