"""Costs of the steps on a buffer's way in a recorded run, fitted from its rows; at the highest rate
also when the machine preempted processes, and the factor on all costs that leads to the recorded
rate.

A run shows how long a message took as a whole. The share of the message itself and that of its
bytes or records can only be separated if messages differ in size. If they do not, the share of the
message is assumed to be that of flinknet's own stack; a note says so.

A consumer that works long on a buffer, while its event loop serves others, is fitted from its own
buffers (`Service`). A process has work while a buffer, credit or room for a record waits for it,
and each row of the trace is progress. Time with work but without progress that is far longer than
usual is a preemption.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np

from flinknet.arrays import EventColumns, FloatArray, IntArray
from flinknet.config import TCP
from flinknet.core.probe import TracePoint
from flinknet.simulator.cost_model import TYPICAL_COSTS, CostModel, Preemptions
from flinknet.simulator.task_manager import BUSY_NS_MAX
from flinknet.trace import RunManifest
from flinknet.trace.event_block import same_message
from flinknet.trace.job_names import named_edges

from ..intervals import NOTHING, Intervals, merged
from ..recorded import RecordedExchange
from . import SAMPLES_MIN
from .round_trips import ASSUMED_CONSUME_NS_PER_RECORD
from .window_rows import ExchangeRows, of_channels, same_credit, switches

IDLE_SHARE_MAX = 0.1
"""Largest share of the time that a saturated consumer waits for buffers."""

SATURATED_SAMPLES_MIN = 3
"""Fewest buffers of a saturated consumer: they fill its time, however few they are."""

UNQUEUED_SHARE_MIN = 0.01
"""Smallest share of messages without others ahead of them from which transit time is measured."""

UNCONTENDED = 0.05
"""Quantile of measured transit times that is taken for the time without any waiting."""

RATE_WITHIN, RATE_STEPS = 0.005, 16
"""Difference from the recorded throughput that is left, and the most simulations to get there."""

RATE_IS_FITTED = (
    "fitted: the time of producers and consumers for a record and a message, so that the model has"
    " the recorded throughput; that it has it says nothing about other settings"
)
"""Note of predictions from a run at the highest rate."""

COSTS_FACTOR_MAX = 64.0
"""Largest factor by which costs are multiplied or divided to meet the recorded throughput."""

SHARE_WORTH_NOTING = 0.02
"""Least share of the time in preemptions that is worth a note."""

_USUAL_TIMES = 8
"""Multiple of the usual time for a step above which the step contains a preemption."""

_SHORTEST_NS = 250_000
"""Shortest preemption in ns; shorter delays count as busy time. Where a buffer takes 12 us, delays
of 0.3 ms are what one record in a hundred waits for."""

SATURATED_SEND_SHARE = 0.05
"""Share of a producer's time at the highest rate that belongs to messages and not to records: one
system call sends many full buffers. Busy time per record with buffers of 8 and of 32 KiB was 13.7
and 16.5 ns, 19.0 and 25.8."""

_SIZES_DIFFER = 2.0
"""Least ratio of the upper to the lower quartile of sizes at which two costs can be separated."""

_BEFORE_NS = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True, eq=False)
class Service:
    """The work of one consumer on its buffers with records. It is saturated if it hardly ever
    waited for a buffer, and its own work took the time; tasks that write to others are not, as they
    may wait for room there."""

    lengths_ns: IntArray  # of each, from its arrival or the end of the one before it
    records: IntArray
    is_saturated: bool

    @property
    def is_slow(self) -> bool:
        """Whether its event loop serves others while it works on a buffer: its usual time for the
        records of one, as a process that was kept from its work is not slow."""
        usual_ns = float(np.median(self.lengths_ns / self.records)) * float(self.records.mean())
        return self.is_saturated and usual_ns > BUSY_NS_MAX


@dataclass(frozen=True, slots=True, eq=False)
class Saturation:
    """Costs of a run at the highest rate, whose rate follows from the work of slow consumers, if
    there are any: those whose event loop serves others while they work on a buffer."""

    transit_ns: float  # from SENT to RECEIVED of an uncontended buffer
    preemptions: Mapping[str, Preemptions]  # by process; instants count from the window's start
    notes: tuple[str, ...]  # a sentence on preemptions; none if there were few
    slow_consumers: frozenset[int]  # their indices


def services_of(rows: ExchangeRows, manifest: RunManifest) -> dict[int, Service]:
    """The services of consumers, by index, that have enough buffers from other processes."""
    consumed = rows.consumed
    consumer_of = {each.index: each.consumer for each in manifest.channels}
    number, edges = max((x.edge for x in manifest.channels), default=0), named_edges(manifest)
    if number in edges:
        may_saturate = all(each.source != edges[number].target for each in edges.values())
    else:
        relays = int((manifest.scenario.get("workload") or {}).get("relays", 0))
        may_saturate = number >= relays
    received_at, consumed_at = same_message(rows.received, consumed)
    arrived_ns = np.full(len(consumed["at_ns"]), _BEFORE_NS)
    arrived_ns[consumed_at] = rows.received["at_ns"][received_at]
    consumer = np.array([consumer_of.get(each, -1) for each in consumed["channel"].tolist()])
    found = {}
    for index in np.unique(consumer[consumer >= 0]).tolist():
        own = np.flatnonzero(consumer == index)
        own = own[np.argsort(consumed["at_ns"][own], kind="stable")]
        done_ns = consumed["at_ns"][own].astype(np.int64)
        done_before_ns = np.r_[_BEFORE_NS, done_ns[:-1]]
        began_ns = np.maximum(arrived_ns[own], done_before_ns)
        records = consumed["records"][own].astype(np.int64)
        counted = (records > 0) & (arrived_ns[own] > _BEFORE_NS)
        idle_ns = (began_ns - done_before_ns)[1:].sum()
        is_busy = idle_ns <= IDLE_SHARE_MAX * (done_ns[-1] - done_ns[0])
        is_saturated = bool(may_saturate and is_busy)
        if counted.sum() >= (SATURATED_SAMPLES_MIN if is_saturated else SAMPLES_MIN):
            found[index] = Service((done_ns - began_ns)[counted], records[counted], is_saturated)
    held = _held_up(found, manifest)
    process_of = {each.consumer: each.consumer_process for each in manifest.channels}
    return {i: each for i, each in found.items() if each.is_slow or process_of[i] not in held}


def _held_up(services: Mapping[int, Service], manifest: RunManifest) -> set[str]:
    """Processes in which, without credit, channels of slow consumers hold up all others: for these,
    neither the time of buffers nor pauses between them say anything."""
    if manifest.scenario.get("flow_control") != TCP:
        return set()
    slow = {index for index, each in services.items() if each.is_slow}
    return {each.consumer_process for each in manifest.channels if each.consumer in slow}


def unqueued_ns(transit_ns: float, sent: EventColumns, received: EventColumns) -> float:
    """The measured transit time, or a typical one if nearly all messages waited behind others, as
    they do without credit in full sockets."""
    sent_at, received_at = same_message(sent, received)
    order = np.lexsort((sent["sequence_number"][sent_at], sent["channel"][sent_at]))
    sent_at, received_at = sent_at[order], received_at[order]
    is_next = np.diff(sent["channel"][sent_at]) == 0
    is_unqueued = received["at_ns"][received_at][:-1] <= sent["at_ns"][sent_at][1:]
    if not is_next.any() or is_unqueued[is_next].mean() >= UNQUEUED_SHARE_MIN:
        return transit_ns
    return min(transit_ns, TYPICAL_COSTS.transit_ns)


def fit_saturation(
    rows: ExchangeRows, manifest: RunManifest, from_ns: int, to_ns: int
) -> Saturation:
    """Fit the window [from_ns, to_ns), in which all rows are known; rows after it only show how
    long slow consumers work on a buffer."""
    services = services_of(rows, manifest)
    slow = frozenset(index for index, each in services.items() if each.is_slow)
    rows = rows.within(from_ns, to_ns)
    produces = {each.index: each.producer_process for each in manifest.channels}
    consumes = {each.index: each.consumer_process for each in manifest.channels}
    held = _held_up(services, manifest)
    in_loop = [
        each.index
        for each in manifest.channels
        if each.consumer not in slow and each.consumer_process not in held
    ]
    there, here = same_message(rows.sent, rows.received)
    transits_ns = rows.received["at_ns"][here] - rows.sent["at_ns"][there]
    transit_ns = unqueued_ns(_uncontended_ns(transits_ns), rows.sent, rows.received)
    preemptions: dict[str, Preemptions] = {}
    shares: list[float] = []
    for process in dict.fromkeys([*produces.values(), *consumes.values()]):
        own_in = [channel for channel, name in consumes.items() if name == process]
        own_out = [channel for channel, name in produces.items() if name == process]
        taken, written = of_channels(rows.consumed, own_in), of_channels(rows.sent, own_out)
        in_turns = of_channels(taken, in_loop)
        waits = of_channels(rows.waits, own_out)
        credit = of_channels(rows.credit_received, own_out)
        sent = of_channels(rows.sent, own_in)
        there, here = same_message(sent, in_turns)
        consuming = _between(sent["at_ns"][there] + int(transit_ns), in_turns["at_ns"][here])
        if len(waits["at_ns"]) or not len(written["at_ns"]):
            writing = merged(switches(waits, TracePoint.WRITER_RESUMES, from_ns, to_ns))
        else:  # nothing ever held it back
            writing = Intervals(np.array([from_ns]), np.array([to_ns]))
        crediting = _crediting(of_channels(rows.credit_sent, own_out), credit)
        work = merged((consuming, writing, crediting)).clipped(from_ns, to_ns)
        received = of_channels(rows.received, own_in)
        progress = [taken, received, of_channels(rows.credit_sent, own_in), written, credit, waits]
        found = preempted(work, np.concatenate([each["at_ns"] for each in progress]))
        lengths_ns = found.ends_ns - found.starts_ns
        preemptions[process] = Preemptions(found.starts_ns - from_ns, lengths_ns)
        shares.append(found.total_ns / max(to_ns - from_ns, 1))
    share, notes = float(np.mean(shares)) if shares else 0.0, []
    if share >= SHARE_WORTH_NOTING:
        notes.append(
            f"the machine kept the TaskManagers from their work for {share:.0%} of the time; the"
            " same preemptions are assumed at every setting"
        )
    return Saturation(transit_ns, preemptions, tuple(notes), slow)


def at_recorded_rate(
    exchange: RecordedExchange, throughput_of: Callable[[RecordedExchange], float | None]
) -> RecordedExchange | None:
    """The exchange with one factor on all times of work, those of producers and consumers, so that
    the model has the recorded throughput. Busy time is not exactly work: an event loop that waits
    for a core looks busy, and one that handles many events at once does more in less time. The
    throughput of an exchange is under its recorded settings, in records/s. Returns: None if no
    factor up to COSTS_FACTOR_MAX leads there, as where preemptions alone take longer."""
    wanted_per_s = exchange.records * 1e9 / exchange.duration_ns
    largest = float(np.log(COSTS_FACTOR_MAX))
    ends: dict[bool, tuple[float, float]] = {}  # where the model is too slow, and too fast
    best, is_fast_before = (np.inf, exchange), None
    factor = move = 0.0  # logarithms, as is by how much more throughput there is
    for _ in range(RATE_STEPS):
        scaled = replace(exchange, costs=_scaled(exchange.costs, float(np.exp(factor))))
        off = float(np.log((throughput_of(scaled) or 1.0) / wanted_per_s))
        best = min(best, (abs(off), scaled), key=itemgetter(0))
        if best[0] <= RATE_WITHIN:
            break
        is_fast = off > 0
        ends[is_fast] = factor, off
        if len(ends) == 1:  # the rate hardly changes until work takes longer than all else
            if abs(factor) == largest:
                return None
            move = max(abs(off), 2 * move)
            factor = min(max(factor + (move if is_fast else -move), -largest), largest)
            continue
        if is_fast == is_fast_before:  # else the other end would stay: the Illinois algorithm
            other, other_off = ends[not is_fast]
            ends[not is_fast] = other, other_off / 2
        is_fast_before = is_fast
        (slow, slow_off), (fast, fast_off) = ends[False], ends[True]
        factor = (slow * fast_off - fast * slow_off) / (fast_off - slow_off)
    return best[1]


def _scaled(costs: CostModel, factor: float) -> CostModel:
    return replace(
        costs,
        send_ns_per_message=factor * costs.send_ns_per_message,
        send_ns_per_byte=factor * costs.send_ns_per_byte,
        receive_ns_per_message=factor * costs.receive_ns_per_message,
        emit_ns_per_record=factor * costs.emit_ns_per_record,
        consume_ns_per_record=tuple(factor * each for each in costs.consume_ns_per_record),
    )


def _uncontended_ns(transits_ns: IntArray) -> float:
    return float(np.quantile(transits_ns, UNCONTENDED)) if len(transits_ns) else 0.0


def _between(starts_ns: IntArray, ends_ns: IntArray) -> Intervals:
    is_some = ends_ns > starts_ns
    return merged((Intervals(starts_ns[is_some], ends_ns[is_some]),))


def _crediting(sent: EventColumns, received: EventColumns) -> Intervals:
    """When credit lay before a producer, longer than its uncontended way takes."""
    found = []
    for channel in np.unique(received["channel"]).tolist():
        gives, gets = (of_channels(each, [channel]) for each in (sent, received))
        given, got = same_credit(gives, gets)
        found.append((gives["at_ns"][given], gets["at_ns"][got]))
    if not found:
        return NOTHING
    given_ns, got_ns = (np.concatenate(each) for each in zip(*found, strict=True))
    return _between(given_ns + int(_uncontended_ns(np.maximum(got_ns - given_ns, 0))), got_ns)


def preempted(work: Intervals, progress_ns: IntArray) -> Intervals:
    """Intervals in which a process had work and made no progress for longer than usual; progress is
    all that it recorded, in any order."""
    events_ns = np.unique(progress_ns)
    spent_ns = np.diff(work.until(events_ns))
    working = spent_ns[spent_ns > 0]
    if not len(working):
        return NOTHING
    usual_ns = int(np.median(working))
    limit_ns = max(_USUAL_TIMES * usual_ns, _SHORTEST_NS)
    is_preemption = spent_ns > limit_ns
    before_ns = events_ns[:-1][is_preemption]
    inside = np.searchsorted(work.starts_ns, before_ns, side="right") - 1
    is_inside = (inside >= 0) & (work.ends_ns[inside] > before_ns)
    following = np.minimum(inside + 1, len(work.starts_ns) - 1)
    starts_ns = np.where(is_inside, before_ns, work.starts_ns[following])
    return Intervals(starts_ns, starts_ns + spent_ns[is_preemption] - usual_ns)


def fit_costs(
    rows: ExchangeRows,
    manifest: RunManifest,
    writing_ns: float | None,
    work_ratio: float | None = None,
) -> tuple[CostModel, list[str]]:
    """Fit the costs of one run to a part of its window, and name the assumptions behind them.

    Args:
        writing_ns: time of writers for a record, less their waits; None for a run with a rate.
        work_ratio: work of the producers' event loops for that of the consumers', which counts if
            known: while a writer waits, its event loop sends, and writes for others.
    """
    notes: list[str] = []
    sent_at, received_at = same_message(rows.sent, rows.received)
    ways_ns = rows.received["at_ns"][received_at] - rows.sent["at_ns"][sent_at]
    transit_ns = float(np.median(ways_ns)) if len(ways_ns) else TYPICAL_COSTS.transit_ns
    transit_ns = unqueued_ns(transit_ns, rows.sent, rows.received)
    consumers = 1 + max((each.consumer for each in manifest.channels), default=0)
    services = services_of(rows, manifest)
    receive_ns, consume_ns = _fit_consumers(services, consumers, notes)
    records_per_message = _mean(rows.sent["records"], 1.0)
    emit_ns = TYPICAL_COSTS.emit_ns_per_record
    send_ns, send_ns_per_byte = TYPICAL_COSTS.send_ns_per_message, TYPICAL_COSTS.send_ns_per_byte
    if writing_ns is not None:
        busy_ns = writing_ns * records_per_message
        if work_ratio is not None and not any(each.is_slow for each in services.values()):
            busy_ns = work_ratio * (receive_ns + float(np.mean(consume_ns)) * records_per_message)
        message_ns = send_ns + send_ns_per_byte * _mean(rows.sent["payload_bytes"], 0.0)
        share_ns = min(message_ns, SATURATED_SEND_SHARE * busy_ns)
        scale = share_ns / message_ns
        send_ns, send_ns_per_byte = send_ns * scale, send_ns_per_byte * scale
        emit_ns = (busy_ns - share_ns) / records_per_message
        notes.append(
            f"assumed: sending takes {send_ns / 1e3:.1f} us a message of the producer's time;"
            " one run does not separate it from the time of its records"
        )
    transit_ns = max(transit_ns, 0.0)
    costs = CostModel(send_ns, send_ns_per_byte, transit_ns, receive_ns, emit_ns, consume_ns)
    return costs, notes


def split_cost(
    total_ns: FloatArray, units: IntArray, assumed_fixed_ns: float
) -> tuple[float, float, bool]:
    """Split the cost of messages into a fixed part and one for each unit (record or byte). Returns:
    fixed ns, ns for a unit, and whether the sizes differ enough for that."""
    low, high = np.quantile(units, [0.25, 0.75])
    small, large = units <= low, units >= high
    typical_ns, typical_units = float(np.median(total_ns)), max(float(np.median(units)), 1.0)
    units_small, units_large = float(np.median(units[small])), float(np.median(units[large]))
    if units_large >= _SIZES_DIFFER * max(units_small, 1.0):
        step_ns = float(np.median(total_ns[large]) - np.median(total_ns[small]))
        slope = min(max(step_ns / (units_large - units_small), 0.0), typical_ns / typical_units)
        return max(typical_ns - slope * typical_units, 0.0), slope, True
    fixed_ns = min(assumed_fixed_ns, typical_ns)
    return fixed_ns, (typical_ns - fixed_ns) / typical_units, False


def _fit_consumers(
    services: Mapping[int, Service], consumers: int, notes: list[str]
) -> tuple[float, tuple[float, ...]]:
    """Time of a consumer for each message (median over consumers) and for each record of each
    consumer, in ns. A consumer that never waits takes its mean time for a record, however uneven:
    that is the rate at which it takes records. Of others the typical time counts, and `delays` has
    the rest."""
    fixed: list[float] = []
    per_record = [ASSUMED_CONSUME_NS_PER_RECORD] * consumers
    for index, own in services.items():
        message_ns, record_ns, is_known = split_cost(
            own.lengths_ns.astype(np.float64), own.records, TYPICAL_COSTS.receive_ns_per_message
        )
        if own.is_saturated:
            rest_ns = int(own.lengths_ns.sum()) - message_ns * len(own.records)
            record_ns = max(rest_ns, 0.0) / int(own.records.sum())
        per_record[index] = record_ns
        fixed.append(message_ns)
        if not is_known and not notes:
            typical_us = TYPICAL_COSTS.receive_ns_per_message / 1e3
            notes.append(
                f"assumed: a consumer takes up to {typical_us:.0f} us for a message; its messages"
                " are too similar in size to separate the cost per message"
            )
    message_ns = float(np.median(fixed)) if fixed else TYPICAL_COSTS.receive_ns_per_message
    return message_ns, tuple(per_record)


def _mean(values: IntArray, otherwise: float) -> float:
    return float(values.mean()) if len(values) and values.any() else otherwise
