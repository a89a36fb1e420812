"""RequestedRate: whether the requested rate was reached, judged by the queue: records taken in the
measured part against records that fell due in it.

Throughput cannot show this: it counts until the last record arrives, and the last flush may come
one buffer timeout after the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flinknet.config import ON_OFF, Scenario, on_off_ns
from flinknet.job.load.payload import OVERHEAD_BYTES
from flinknet.results import RunWarning
from flinknet.units import human_count

from .reports import ConsumerChannelReport

REACHED_SHARE = 0.98
"""A queue that grows by less than the remaining share of the records does not count."""

_SIGMAS = 3.0
"""How many standard deviations random arrivals may deviate from their mean."""


@dataclass(frozen=True, slots=True)
class RequestedRate:
    """The requested rate, over all channels to the last tasks, and the rate that was reached.

    Attributes:
        queued_records: growth of the queue during the measured part, without the records that may
            wait for their buffer to be sent.
    """

    offered_per_s: float
    taken_per_s: float
    queued_records: float
    due_records: float

    @property
    def is_reached(self) -> bool:
        """Whether the queue did not grow."""
        return self.queued_records <= (1 - REACHED_SHARE) * self.due_records

    def warning(self, advice: str) -> RunWarning | None:
        """The warning if the rate was not reached, with advice."""
        if self.is_reached:
            return None
        return RunWarning(
            "rate-not-reached",
            f"the requested rate was not reached: {human_count(self.taken_per_s)} of"
            f" {human_count(self.offered_per_s)} records/s; the queue grew by"
            f" {human_count(round(self.queued_records))} records in the measured part, so latency"
            f" is mostly time in that queue. {advice}",
            f"rate not reached: {human_count(self.taken_per_s)} of"
            f" {human_count(self.offered_per_s)} records/s; latency is queueing",
        )


def requested_rate(
    scenario: Scenario, last: Sequence[ConsumerChannelReport], *, within_ns: int, throughput: float
) -> RequestedRate | None:
    """Compare the requested rate with the rate reached; None at maximum rate.

    Args:
        last: the channels to the last tasks.
        within_ns: length of the measured part, by the clock.
        throughput: in records/s; used if taken records were not counted by the clock.
    """
    workload = scenario.workload
    if workload.is_max_rate or not last:
        return None
    offered_per_s = workload.rate_per_s * workload.producers * workload.copies
    counted = [each.taken_records_per_s for each in last]
    taken_per_s = sum(each for each in counted if each is not None)
    within_s = within_ns / 1e9
    waiting = _waiting_records(scenario, offered_per_s / len(last)) * len(last)
    if None in counted:
        taken_per_s, waiting = throughput, 0.0
    due = offered_per_s * within_s
    if workload.arrivals.startswith(ON_OFF):  # where in its period the measured part begins
        waiting += offered_per_s * on_off_ns(workload.arrivals)[1] / 1e9
    elif workload.arrivals != "constant":
        waiting += _SIGMAS * math.sqrt(due)
    return RequestedRate(
        offered_per_s, taken_per_s, (offered_per_s - taken_per_s) * within_s - waiting, due
    )


def _waiting_records(scenario: Scenario, rate_per_s: float) -> float:
    """The most records of a channel that can wait for a flush or a full buffer, over all stages."""
    network, workload = scenario.network, scenario.workload
    record_bytes = workload.record_size.mean_bytes + OVERHEAD_BYTES
    in_buffer = network.segment_size_bytes / record_bytes
    if network.buffer_timeout_ns >= 0:
        in_buffer = min(in_buffer, rate_per_s * network.buffer_timeout_ns / 1e9)
    return in_buffer * (1 + workload.relays)
