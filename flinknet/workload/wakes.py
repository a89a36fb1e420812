"""What messages take by their distance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flinknet.config import NetworkConfig

POLLED_GAP_NS = 200_000
"""A TaskManager whose messages come closer than this does not sleep between them but polls
(runtime.event_loop.SPIN_NS); after that it sleeps, in the middle of traffic, too."""

POLLED_TRANSIT_NS = 35_000
"""From SENT to RECEIVED over loopback where both ends poll, and until their loops come round: runs
at timeout 0 took 13 us for the way (13.2 to 13.8 us in half of the messages), and from due to
consumed 20 (20,000 records/s) to 40 us (200,000/s) longer than their steps."""

SHALLOW_WAKE_NS = 30_000
"""What the quickest of wakes seen (AWAKE in replay.wakes) took longer than that: a poller is spared
so much, and over a network that takes longer itself no more."""

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Wakes:
    """What messages take by the time since the one before: the longer a TaskManager with consumers
    slept, the longer it takes to wake, and they to find their data.

    Attributes:
        gaps_ns: times between two messages to a TaskManager, ascending.
        transit_ns: from SENT to RECEIVED of the second one, as typical of each gap.
        awake_receive_ns: of `CostModel.receive_ns_per_message`, what is left without a gap.
        records_per_s: to a TaskManager, as recorded.
        record_bytes: mean bytes of a record in a buffer.
        flushers: producers that send to a TaskManager; the beat of one flushes all its channels.
        receivers: TaskManagers with consumers.
        may_poll: whether each TaskManager has a core of its own; only then they poll.
    """

    gaps_ns: tuple[float, ...]
    transit_ns: tuple[float, ...]
    awake_receive_ns: float
    records_per_s: float
    record_bytes: float
    flushers: float
    receivers: int = 1
    may_poll: bool = True

    def transit_after(self, gaps_ns: npt.NDArray[np.int64 | np.float64]) -> FloatArray:
        """The typical way of messages, each by its gap."""
        return np.interp(gaps_ns, self.gaps_ns, self.transit_ns)

    def gap_ns(self, network: NetworkConfig, rate_factor: float = 1.0) -> float:
        """Typical time between messages to a TaskManager under a setting."""
        records_per_s = self.records_per_s * rate_factor
        timeout_ns = network.buffer_timeout_ns
        if timeout_ns == 0:
            return 1e9 / records_per_s
        full_per_s = records_per_s * self.record_bytes / network.segment_size_bytes
        flushed_per_s = self.flushers * 1e9 / timeout_ns if timeout_ns > 0 else 0.0
        return 1e9 / min(full_per_s + flushed_per_s, records_per_s)

    def is_polled(self, gap_ns: float) -> bool:
        """Whether a TaskManager with such a gap between messages does not sleep."""
        return self.may_poll and gap_ns < POLLED_GAP_NS
