"""The fast path of what-if: which exchanges the compiled kernel covers, and its results.

Covered are records that come at a rate, also where that is assumed, or as fast as they are taken;
any number of channels, local or over connections with exclusive buffers, with credit or without,
whose sockets may fill; writers that wait for buffers, in an exchange that is computed whole;
checkpoints; buffers that are debloated; network memory for all pools. The kernel notices by itself
if a checkpoint takes longer than it may, or if a writer or a connection without credit has to wait
that may not; `is_covered` says the rest. All others are simulated with the real core.

Differs from the simulator, within the bound that its tests state: many latencies of one buffer are
counted by their density.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray
from flinknet.config import NetworkConfig
from flinknet.histogram import BUCKETS, LogLinearHistogram, bucket_bounds_ns, bucket_index
from flinknet.job.load.payload import OVERHEAD_BYTES
from flinknet.job.load.plan import LoadPlan
from flinknet.simulator.cluster import OPENING_NS

from . import kernel
from .kernel.memory import FIRST, Barrier, Exchange
from .layout import Layout, lay_out
from .layout_head import back_ns, first_number_behind, one_way_ns
from .outcome import CheckpointTimes
from .recorded import RecordedExchange

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class FastOutcome:
    """Results of the kernel, in the terms of `outcome.EdgeOutcome`.

    Attributes:
        last_ns: instant at which the last record was taken.
        departures_ns: by channel, if asked for (`RecordedExchange.keeps_departures`).
        memory_bytes: most that all pools can take.
        local_messages: messages within a TaskManager.
        resumed_ns: instant at which a writer last went on that had waited; 0 for never.
        full_sockets: requests of connections that had unsent bytes.
        stops: without credit: how often a socket was not read any more.
        barriers: with departures, the barriers that each consumer passes on.
    """

    latency: LogLinearHistogram
    records: int
    messages: int
    backlog_total: int
    backlog_max: int
    credits: int
    credit_messages: int
    last_ns: int
    latency_bounds: tuple[LogLinearHistogram, LogLinearHistogram] | None = None
    departures_ns: Mapping[int, IntArray] = field(default_factory=dict)
    memory_bytes: int = 0
    local_messages: int = 0
    resumed_ns: int = 0
    full_sockets: int = 0
    stops: int = 0
    barriers: Mapping[int, IntArray] = field(default_factory=dict)
    checkpoints: CheckpointTimes | None = None


def is_covered(exchange: RecordedExchange, network: NetworkConfig, load: LoadPlan) -> bool:
    """Whether the kernel knows this kind of exchange."""
    scenario = load.scenario
    return (
        (exchange.is_max_rate or not exchange.preemptions[0])
        and (exchange.has_instants or not exchange.is_max_rate)
        and network.exclusive_buffers > 0
        and network.required_buffers_per_gate_max is None
        and knows_checkpoints(network)
        and network.segment_size_bytes.bit_count() == 1
        and scenario.workload.record_size.low_bytes + OVERHEAD_BYTES <= network.segment_size_bytes
        and max(one_way_ns(exchange), back_ns(exchange)) < OPENING_NS // 4
        and all(each.most_buffers <= each.total_buffers for each in load.buffers())
    )


def knows_checkpoints(network: NetworkConfig) -> bool:
    """Whether there are none, or tasks that have ended take part in them."""
    return network.checkpoint_interval_ns is None or network.checkpoints_after_tasks_finish


def run_fast(
    exchange: RecordedExchange, network: NetworkConfig, load: LoadPlan, *, may_wait: bool = True
) -> FastOutcome | None:
    """Run a covered exchange.

    Args:
        may_wait: whether writers may wait for buffers, and connections without credit.

    Returns: None if one would have to wait that may not, and where a checkpoint takes too long.
    """
    if exchange.is_max_rate and not may_wait:
        return None
    ran = _run(exchange, network, load, may_wait=exchange.is_max_rate)
    if may_wait and ran.exchange.ended == kernel.WRITER_WAITS:  # takes a fifth more
        ran = _run(exchange, network, load, may_wait=True)
    return outcome_of(ran, exchange, network) if ran.is_done else None


def outcome_of(ran: Ran, exchange: RecordedExchange, network: NetworkConfig) -> FastOutcome:
    """Results in the kernel's memory after a run."""
    memory, numbers, m = ran.memory, ran.numbers, ran.exchange
    has_coordinator = network.checkpoint_interval_ns is not None and exchange.barriers is None
    counts, slopes = np.split(numbers[kernel.COUNTS : kernel.COUNTS + 2 * BUCKETS], 2)
    return FastOutcome(
        latency=_histogram(counts, slopes, m),
        records=m.records,
        messages=m.messages,
        backlog_total=m.backlog_total,
        backlog_max=m.backlog_max,
        credits=m.credits,
        credit_messages=m.credit_messages,
        last_ns=m.last_ns,
        latency_bounds=None if exchange.has_instants else _bounds(numbers, m),
        local_messages=m.local_messages,
        resumed_ns=m.resumed_ns,
        full_sockets=m.full_sockets,
        stops=m.stops,
        departures_ns={channel: memory[place] for channel, place in ran.layout.departures.items()},
        barriers={
            sink: memory[first : m.sinks[sink].alignments.at].reshape(-1, Barrier.width())
            for sink, first in enumerate(ran.layout.alignments)
        },
        checkpoints=_checkpoints(numbers, m) if has_coordinator else None,
    )


class Ran(NamedTuple):
    """An exchange after a run, and its layout."""

    is_done: bool
    exchange: Exchange
    memory: IntArray
    numbers: FloatArray
    layout: Layout


def _run(
    exchange: RecordedExchange, network: NetworkConfig, load: LoadPlan, *, may_wait: bool
) -> Ran:
    """One run; where the order of turns at one instant is unknown, as quiet ones were left out, all
    of them are taken in another, and where there is too little room for messages, there is more."""
    from .kernel.run import run

    keeps_quiet_turns, attempts = False, 0
    while True:
        layout = lay_out(exchange, network, load, attempts=attempts)
        memory = layout.memory.to_array()
        m = Exchange(memory, FIRST)
        m.may_wait = int(may_wait)
        if keeps_quiet_turns:
            m.catches_up = 0
        numbers = numbers_of_run(exchange, network)
        ended = run(memory, numbers, BUCKETS, 0)
        if ended == kernel.ROOM_MISSING and layout.may_have_more_room:
            attempts += 1
        elif ended == kernel.ORDER_UNKNOWN and not keeps_quiet_turns:
            keeps_quiet_turns = True
        else:
            break
    return Ran(ended == kernel.DONE, m, memory, numbers, layout)


def numbers_of_run(exchange: RecordedExchange, network: NetworkConfig) -> FloatArray:
    """The floating-point numbers that the kernel starts with."""
    costs = exchange.costs
    end = first_number_behind(exchange, network)
    numbers = np.zeros(end)
    numbers[end - exchange.consumers :] = network.starting_segment_size_bytes
    numbers[kernel.NEWEST_SHARE] = 2 / (network.debloating_samples + 1)
    numbers[kernel.SEND_NS_PER_MESSAGE] = costs.send_ns_per_message
    numbers[kernel.SEND_NS_PER_BYTE] = costs.send_ns_per_byte
    numbers[kernel.EMIT_NS_PER_RECORD] = costs.emit_ns_per_record
    return numbers


def _checkpoints(numbers: FloatArray, m: Exchange) -> CheckpointTimes:
    times = []
    for kind in range(kernel.TIME_KINDS):
        sums, first = m.time_sums[kind], m.times + kind * BUCKETS
        time = LogLinearHistogram()
        time.counts += numbers[first : first + BUCKETS].astype(np.int64)
        time.add_totals(sums.count, sums.total_ns, sums.smallest_ns, sums.largest_ns)
        times.append(time)
    return CheckpointTimes(
        triggered=m.triggered,
        completed=m.completed,
        unaligned=m.unaligned_total,
        processed_bytes=m.processed_bytes,
        overtaken_bytes=m.overtaken_total,
        overtaken_bytes_max=m.overtaken_max,
        times=tuple(times),
    )


def _bounds(numbers: FloatArray, m: Exchange) -> tuple[LogLinearHistogram, LogLinearHistogram]:
    """The lowest and the highest latencies that there may have been."""
    found = []
    lows = kernel.COUNTS + 2 * BUCKETS
    low = m.low_total, m.low_smallest, m.low_largest
    high = m.high_total, m.high_smallest, m.high_largest
    for first, totals in ((lows, low), (lows + BUCKETS, high)):
        latency = LogLinearHistogram()
        if m.records:
            latency.counts = np.rint(numbers[first : first + BUCKETS]).astype(np.int64)
            latency.count = int(latency.counts.sum())
            latency.total, latency.min, latency.max = totals
        found.append(latency)
    return found[0], found[1]


def _histogram(counts: FloatArray, slopes: FloatArray, m: Exchange) -> LogLinearHistogram:
    """Counts and densities as whole records, whose sum is exact."""
    latency = LogLinearHistogram()
    records = m.records
    if not records:
        return latency
    low_ns, high_ns = m.smallest, m.largest
    filled = np.maximum(counts + np.cumsum(slopes) * _widths(), 0.0)
    low, high = bucket_index(np.array([low_ns, high_ns])).tolist()
    filled[:low] = filled[high + 1 :] = 0.0  # but for rounding they are
    reached = np.cumsum(filled)
    reached *= records / reached[-1]
    latency.counts = np.diff(np.rint(reached).astype(np.int64), prepend=0)
    latency.count, latency.total = records, m.latency_total
    latency.min, latency.max = low_ns, high_ns
    return latency


@cache
def _widths() -> IntArray:
    bounds = map(bucket_bounds_ns, range(BUCKETS))
    return np.array([high - low for low, high in bounds], np.int64)
