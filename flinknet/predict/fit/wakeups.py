"""Transit and receiving times of messages by the idle time of their consumer before them.

Consumers that wait for milliseconds sleep, and so do their cores; at short buffer timeouts, or high
rates, messages find them awake. A trace holds messages after short and after long gaps, but none as
short as some settings bring. So a message without any gap is assumed to be on its way as long as
the quickest messages of the recorded run, and to be received as quickly as an awake stack does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from flinknet.arrays import EventColumns, FloatArray, IntArray
from flinknet.config import NetworkConfig
from flinknet.simulator.cost_model import SPIN_NS, CostModel
from flinknet.trace import ChannelInfo, RunManifest
from flinknet.units import human_duration

from . import SAMPLES_MIN
from .window_rows import of_each

POLLED_TRANSIT_NS = 35_000
"""Transit time over loopback if both ends poll, with the turns of their loops, in ns: runs at
timeout 0 took 13 us from SENT to RECEIVED, and from due to consumed 20 (20,000 records/s) to 40 us
(200,000/s) longer than their steps."""

SHALLOW_WAKE_NS = 30_000
"""Time that a poller saves compared with the quickest recorded wakeups (AWAKE), in ns."""

TIMER_SLACK_NS = 50_000
"""Time by which Linux may end any sleep late, in ns."""


@dataclass(frozen=True, slots=True)
class Wakeups:
    """Times of messages by the gap before them: after a longer sleep a TaskManager takes longer to
    wake, and its consumers to find their data."""

    gaps_ns: tuple[float, ...]  # times between two messages to a TaskManager, ascending
    transit_ns: tuple[float, ...]  # the typical time from SENT to RECEIVED after each
    awake_receive_ns: float  # `CostModel.receive_ns_per_message` without a gap
    records_per_s: float  # records to a TaskManager, as recorded
    record_bytes: float  # mean bytes of a record in a buffer
    flushers: float  # producers that send to a TaskManager; a beat flushes all channels of one
    may_poll: bool = True  # each TaskManager has a core, without which none polls
    is_inferred: bool = False  # by round trips; already contained in the delays by idle time

    def transit_after(self, gaps_ns: npt.NDArray[np.int64 | np.float64]) -> FloatArray:
        """The typical transit time of messages after these gaps."""
        return np.interp(gaps_ns, self.gaps_ns, self.transit_ns)

    def late_ns(self, recorded_ns: int, slept_ns: int, sleep_ns: int) -> int:
        """Lateness after a sleep of `sleep_ns`, from the recorded one after `slept_ns`: the slack
        of timers, and beyond it a time that grows with the sleep."""
        own_ns, before_ns = self.transit_after(np.array([sleep_ns, slept_ns])).tolist()
        slack_ns = min(recorded_ns, TIMER_SLACK_NS)
        share = own_ns / before_ns if before_ns else 1.0
        return slack_ns + round((recorded_ns - slack_ns) * share)

    def gap_ns(self, network: NetworkConfig, rate_factor: float = 1.0) -> float:
        """Typical time between messages to a TaskManager under a setting."""
        records_per_s = self.records_per_s * rate_factor
        timeout_ns = network.buffer_timeout_ns
        if timeout_ns == 0:
            return 1e9 / records_per_s
        full_per_s = records_per_s * self.record_bytes / network.segment_size_bytes
        flushed_per_s = self.flushers * 1e9 / timeout_ns if timeout_ns > 0 else 0.0
        return 1e9 / min(full_per_s + flushed_per_s, records_per_s)

    @property
    def in_words(self) -> str:
        """A sentence on how transit times depend on the gap."""
        (quick_ns, *_, slow_ns), gaps_ns = self.transit_ns, self.gaps_ns
        return (
            f"a message takes about {quick_ns / 1e3:.0f} us right behind another, and"
            f" {slow_ns / 1e3:.0f} us after a pause of {human_duration(gaps_ns[-1])}, estimated"
            " from round trips"
        )

    def times(self, factor: float, steepness: float = 1.0) -> Wakeups:
        """Multiply transit times by a factor, and the time that short gaps save by `steepness`."""
        longest_ns = self.transit_ns[-1]
        return replace(
            self,
            transit_ns=tuple(
                factor * max(longest_ns - steepness * (longest_ns - each), 0.0)
                for each in self.transit_ns
            ),
        )

    def is_polled(self, gap_ns: float) -> bool:
        """Whether a TaskManager with this gap between messages polls instead of sleeping."""
        return self.may_poll and gap_ns < SPIN_NS

    def moved(self, costs: CostModel, from_gap_ns: float, to_gap_ns: float) -> CostModel:
        """Convert costs of messages after one gap to those after another."""
        if self.is_inferred:
            return costs
        before_ns, after_ns = self.transit_after(np.array([from_gap_ns, to_gap_ns])).tolist()
        transit_ns = max(costs.transit_ns + after_ns - before_ns, 0.0)
        if self.is_polled(to_gap_ns) and not self.is_polled(from_gap_ns):
            polled_ns = max(self.transit_ns[0] - SHALLOW_WAKE_NS, POLLED_TRANSIT_NS)
            transit_ns = min(transit_ns, polled_ns)
        asleep_ns = max(costs.receive_ns_per_message - self.awake_receive_ns, 0.0)
        longer = min(to_gap_ns / from_gap_ns, 1.0) - 1
        return replace(
            costs,
            transit_ns=transit_ns,
            receive_ns_per_message=costs.receive_ns_per_message + longer * asleep_ns,
        )


def places(manifest: RunManifest) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The TaskManager of each producer and each consumer, if some of them shared a process."""
    if not any(each.is_local for each in manifest.channels):
        return (), ()
    processes = [process.name for process in manifest.processes]
    producers = {each.producer: each.producer_process for each in manifest.channels}
    consumers = {each.consumer: each.consumer_process for each in manifest.channels}
    return (
        tuple(processes.index(producers[each]) for each in sorted(producers)),
        tuple(processes.index(consumers[each]) for each in sorted(consumers)),
    )


def receivers(channels: Sequence[ChannelInfo]) -> dict[int, int]:
    """Channel to number of the process of its consumer."""
    names = sorted({each.consumer_process for each in channels})
    return {each.index: names.index(each.consumer_process) for each in channels}


def may_poll(manifest: RunManifest) -> bool:
    """Whether there was a core for each TaskManager, without which none polls."""
    cores = manifest.host.get("cores")
    return isinstance(cores, int | float) and cores >= len(manifest.processes) > 0


AWAKE = 0.01
"""Assumed share of messages whose consumer was awake, where gaps do not show it. Recorded at 10 ms
and 2,000 records/s, this predicts a p50 of 198 us at timeout 0, 5% predict 244, and 201 were
measured."""

GROUPS = 5
"""Number of groups of messages by their gaps; each gives one typical transit time."""

GAPS_APART = 3.0
"""Least ratio of the longest to the shortest typical gap at which round trips show waking."""

BEYOND_NOISE = 4.0
"""Least difference of their medians, in standard errors."""

UNKNOWN = -1

TOO_FEW = (
    f"fewer than {SAMPLES_MIN} messages: the time that sleeping consumers take to wake is unknown,"
    " and settings that bring messages more often are predicted too slow"
)


def gaps_of(sent: EventColumns, channels: Sequence[ChannelInfo]) -> IntArray:
    """Gap before each buffer to its TaskManager, in ns; UNKNOWN for the first. Buffers of one
    instant wake it once, and have the same gap."""
    receiver = of_each(sent, receivers(channels))
    order = np.lexsort((sent["at_ns"], receiver))
    in_order = np.stack([receiver, sent["at_ns"]])[:, order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = np.diff(in_order).any(axis=0)
    before = np.diff(in_order[:, is_new], prepend=UNKNOWN)
    gaps_ns = np.empty(len(order), np.int64)
    gaps_ns[order] = np.where(before[0] == 0, before[1], UNKNOWN)[np.cumsum(is_new) - 1]
    return gaps_ns


def fit_wakeups(
    gaps_ns: IntArray,
    ways_ns: IntArray,
    sent: EventColumns,
    channels: Sequence[ChannelInfo],
    awake_receive_ns: float,
    *,
    may_poll: bool = True,
    is_inferred: bool = False,
) -> Wakeups | None:
    """Fit transit times (`ways_ns`) of messages by the gaps before them; None for too few. Inferred
    ones follow from round trips, which vary for other reasons, too: then the result is None unless
    they clearly grow with the gap, and the time without a gap lies on the line through the shortest
    and the longest."""
    is_known = gaps_ns != UNKNOWN
    if is_known.sum() < SAMPLES_MIN:
        return None
    groups = _rising(np.flatnonzero(is_known), gaps_ns, ways_ns)
    typical_gaps_ns = [0.0, *(float(np.median(gaps_ns[own])) for own in groups)]
    typical_ns = [float(np.median(ways_ns[own])) for own in groups]
    awake_ns = min(float(np.quantile(ways_ns, AWAKE)), typical_ns[0])
    if is_inferred:
        if not _grow_with_gaps([ways_ns[own] for own in groups], typical_gaps_ns[1:]):
            return None
        slope = (typical_ns[-1] - typical_ns[0]) / (typical_gaps_ns[-1] - typical_gaps_ns[1])
        awake_ns = max(awake_ns, typical_ns[0] - slope * typical_gaps_ns[1])
        awake_receive_ns *= min(awake_ns / max(float(np.median(ways_ns)), 1.0), 1.0)
    typical_ns.insert(0, awake_ns)
    records = max(int(np.maximum(sent["records"], 0).sum()), 1)
    used = set(np.unique(sent["channel"]).tolist())
    ends = {(each.producer, each.consumer_process) for each in channels if each.index in used}
    receivers = len({process for _, process in ends})
    duration_ns = max(int(np.ptp(sent["at_ns"])), 1)
    return Wakeups(
        tuple(typical_gaps_ns),
        tuple(typical_ns),
        awake_receive_ns,
        records_per_s=records * 1e9 / duration_ns / receivers,
        record_bytes=float(sent["payload_bytes"].sum()) / records,
        flushers=len(ends) / receivers,
        may_poll=may_poll,
        is_inferred=is_inferred,
    )


def _grow_with_gaps(ways_ns: Sequence[IntArray], gaps_ns: Sequence[float]) -> bool:
    """Whether the last group's ways are longer than the first one's, beyond the standard errors of
    their medians."""
    if len(ways_ns) < 2 or gaps_ns[-1] < GAPS_APART * max(gaps_ns[0], 1.0):
        return False
    ends_ns = ways_ns[0], ways_ns[-1]
    errors_ns = [
        0.93 * float(np.subtract(*np.quantile(own, [0.75, 0.25]))) / float(np.sqrt(len(own)))
        for own in ends_ns
    ]
    rise_ns = float(np.median(ends_ns[1]) - np.median(ends_ns[0]))
    return rise_ns > BEYOND_NOISE * float(np.hypot(errors_ns[0], errors_ns[1]))


def _rising(known: IntArray, gaps_ns: IntArray, ways_ns: IntArray) -> list[IntArray]:
    groups: list[IntArray] = []
    count = min(GROUPS, len(known) // SAMPLES_MIN)
    for part in np.array_split(known[np.argsort(gaps_ns[known], kind="stable")], count):
        groups.append(part)
        while len(groups) > 1 and np.median(ways_ns[groups[-2]]) > np.median(ways_ns[groups[-1]]):
            groups[-2:] = [np.concatenate(groups[-2:])]
    return groups
