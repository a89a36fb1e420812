"""The fast path of what-if: which exchanges the compiled kernel covers, and what it needs to know.

Covered are records that come at a rate, as it is assumed of messages seen in passing, or as fast as
they are taken; any number of channels, local or over connections with exclusive buffers, with
credit or without, whose sockets may fill; writers that wait for buffers, in an exchange that is
computed whole; checkpoints; buffers that are debloated; network memory for all pools. The kernel
notices by itself if a checkpoint takes longer than it may, or if a writer or a connection without
credit has to wait that may not; `is_covered` says the rest. What is not covered is simulated with
the real core.

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

from .fast_clock import back_ns, one_way_ns
from .fast_head import first_number_behind
from .fast_kernel import joint_words as joint
from .fast_kernel import words as k
from .fast_layout import lay_out
from .recorded import RecordedExchange
from .simulated import CheckpointTimes

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class FastOutcome:
    """What the kernel came to, in the terms of `simulated.SimulatedOutcome`; `last_ns` is
    when the last record was taken. `departures_ns` are by channel, if they were asked for
    (`RecordedExchange.keeps_departures`), and with them `barriers`, what each consumer passes on of
    successive checkpoints; `memory_bytes` is the most that all pools can take; `local_messages`: of
    the messages, within a TaskManager; `resumed_ns`: when a writer last went on that had waited for
    buffers, 0 for never; `full_sockets`: how often a connection was asked for more than its socket
    had taken; `stops`: how often one without credit was not read any more.
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
    if may_wait and ran.memory[k.ENDED] == k.WRITER_WAITS:  # a fifth more, so only where one does
        ran = _run(exchange, network, load, may_wait=True)
    return outcome_of(ran, exchange, network) if ran.is_done else None


def outcome_of(ran: Ran, exchange: RecordedExchange, network: NetworkConfig) -> FastOutcome:
    """What stands in the kernel's memory in the end."""
    memory, numbers = ran.memory, ran.numbers
    has_coordinator = network.checkpoint_interval_ns is not None and exchange.barriers is None
    counts, slopes = np.split(numbers[k.COUNTS : k.COUNTS + 2 * BUCKETS], 2)
    return FastOutcome(
        latency=_histogram(counts, slopes, memory),
        records=int(memory[k.RECORDS]),
        messages=int(memory[k.MESSAGES]),
        backlog_total=int(memory[k.BACKLOG_TOTAL]),
        backlog_max=int(memory[k.BACKLOG_MAX]),
        credits=int(memory[k.CREDITS]),
        credit_messages=int(memory[k.CREDIT_MESSAGES]),
        last_ns=int(memory[k.LAST_NS]),
        latency_bounds=None if exchange.has_instants else _bounds(numbers, memory),
        local_messages=int(memory[k.LOCAL_MESSAGES]),
        resumed_ns=int(memory[k.RESUMED_NS]),
        full_sockets=int(memory[k.FULL_SOCKETS]),
        stops=int(memory[k.STOPS]),
        departures_ns={channel: memory[place] for channel, place in ran.departures.items()},
        barriers={
            sink: memory[first : _word_of_sink(memory, sink, k.ALIGNMENTS)].reshape(
                -1, k.BARRIER_WORDS
            )
            for sink, first in enumerate(ran.alignments)
        },
        checkpoints=_checkpoints(numbers, memory) if has_coordinator else None,
    )


class Ran(NamedTuple):
    """The kernel's memory after a run, and where what was asked for stands in it."""

    is_done: bool
    memory: IntArray
    numbers: FloatArray
    departures: dict[int, slice]
    alignments: list[int]


def _run(
    exchange: RecordedExchange, network: NetworkConfig, load: LoadPlan, *, may_wait: bool
) -> Ran:
    """One run; where the order of turns at one instant is unknown, as quiet ones were left out, all
    of them are taken in another, and where there is too little room for messages, there is more.
    """
    from .fast_kernel.run import run

    keeps_quiet_turns, attempts = False, 0
    while True:
        layout = lay_out(exchange, network, load, attempts=attempts)
        memory = layout.memory.to_array()
        memory[k.MAY_WAIT] = int(may_wait)
        if keeps_quiet_turns:
            memory[k.CATCHES_UP] = 0
        numbers = numbers_of_run(exchange, network)
        ended = run(memory, numbers, BUCKETS, np.zeros(joint.EXCHANGE_AT + 2, np.int64))
        if ended == k.ROOM_MISSING and layout.may_have_more_room:
            attempts += 1
        elif ended == k.ORDER_UNKNOWN and not keeps_quiet_turns:
            keeps_quiet_turns = True
        else:
            break
    return Ran(ended == k.DONE, memory, numbers, layout.departures, layout.alignments)


def numbers_of_run(exchange: RecordedExchange, network: NetworkConfig) -> FloatArray:
    """The floating-point numbers that the kernel starts with."""
    costs = exchange.costs
    end = first_number_behind(exchange, network)
    numbers = np.zeros(end)
    numbers[end - exchange.consumers :] = network.starting_segment_size_bytes
    numbers[k.NEWEST_SHARE] = 2 / (network.debloating_samples + 1)
    numbers[k.SEND_NS_PER_MESSAGE] = costs.send_ns_per_message
    numbers[k.SEND_NS_PER_BYTE] = costs.send_ns_per_byte
    numbers[k.EMIT_NS_PER_RECORD] = costs.emit_ns_per_record
    return numbers


def _word_of_sink(memory: IntArray, sink: int, word: int) -> int:
    return int(memory[memory[k.FIRST_SINK] + sink * k.SINK_WORDS + word])


def _checkpoints(numbers: FloatArray, memory: IntArray) -> CheckpointTimes:
    times = []
    for kind in range(k.TIME_KINDS):
        sums = memory[k.TIME_SUMS] + kind * k.TIME_WORDS
        first = memory[k.TIMES] + kind * BUCKETS
        time = LogLinearHistogram()
        time.counts += numbers[first : first + BUCKETS].astype(np.int64)
        time.add_totals(*memory[sums : sums + k.TIME_WORDS].tolist())
        times.append(time)
    return CheckpointTimes(
        triggered=int(memory[k.TRIGGERED]),
        completed=int(memory[k.COMPLETED]),
        unaligned=int(memory[k.UNALIGNED_TOTAL]),
        processed_bytes=int(memory[k.PROCESSED_BYTES]),
        overtaken_bytes=int(memory[k.OVERTAKEN_TOTAL]),
        overtaken_bytes_max=int(memory[k.OVERTAKEN_MAX]),
        times=tuple(times),
    )


def _bounds(numbers: FloatArray, memory: IntArray) -> tuple[LogLinearHistogram, LogLinearHistogram]:
    """The lowest and the highest latencies that there may have been."""
    found = []
    lows = k.COUNTS + 2 * BUCKETS
    for first, total in ((lows, k.LOW_TOTAL), (lows + BUCKETS, k.HIGH_TOTAL)):
        latency = LogLinearHistogram()
        if memory[k.RECORDS]:
            latency.counts = np.rint(numbers[first : first + BUCKETS]).astype(np.int64)
            latency.count = int(latency.counts.sum())
            latency.total, latency.min, latency.max = memory[total : total + 3].tolist()
        found.append(latency)
    return found[0], found[1]


def _histogram(counts: FloatArray, slopes: FloatArray, memory: IntArray) -> LogLinearHistogram:
    """Counts and densities as whole records, whose sum is exact."""
    latency = LogLinearHistogram()
    records = int(memory[k.RECORDS])
    if not records:
        return latency
    low_ns, high_ns = int(memory[k.SMALLEST]), int(memory[k.LARGEST])
    filled = np.maximum(counts + np.cumsum(slopes) * _widths(), 0.0)
    low, high = bucket_index(np.array([low_ns, high_ns])).tolist()
    filled[:low] = filled[high + 1 :] = 0.0  # but for rounding they are
    reached = np.cumsum(filled)
    reached *= records / reached[-1]
    latency.counts = np.diff(np.rint(reached).astype(np.int64), prepend=0)
    latency.count, latency.total = records, int(memory[k.LATENCY_TOTAL])
    latency.min, latency.max = low_ns, high_ns
    return latency


@cache
def _widths() -> IntArray:
    bounds = map(bucket_bounds_ns, range(BUCKETS))
    return np.array([high - low for low, high in bounds], np.int64)
