"""Exchanges whose event loops have costs of their parts, in the kernel's memory: which ones it
knows, and what stands there of them.
"""

from __future__ import annotations

from flinknet.arrays import IntArray
from flinknet.config import CREDIT, NetworkConfig
from flinknet.core.consumer.input_channel import RUN_BYTES
from flinknet.core.wire.response_decoder import RUN_BUFFERS
from flinknet.job.load.plan import LoadPlan
from flinknet.simulator.cost_model import Preemptions
from flinknet.simulator.load import reads_runs
from flinknet.simulator.loop_costs import NO_JITTER, TCP_BYTES, Jitter, LoopCosts

from .fast_addresses import Addresses
from .fast_clock import back_ns
from .fast_head import first_number_behind
from .fast_kernel import loop_words as lw
from .fast_kernel import words as k
from .fast_memory import power_of_two
from .full_speed import preemptions_of
from .recorded import RecordedExchange

CHANNELS_MAX = 500
"""Of an exchange: then what a connection requests at once, and the credit for it, are one part of a
stream."""


def knows_loop(exchange: RecordedExchange, network: NetworkConfig, load: LoadPlan) -> bool:
    """Whether the kernel knows the parts of the event loops of an exchange, if they have costs."""
    if exchange.costs.loop is None:
        return not any(_varies(each) for part in exchange.preemptions for each in part)
    writing = {each.task_manager for each in load.sources}
    reading = {each.task_manager for each in load.sinks}
    widths = [len(each.inputs[0].channels) for each in load.sinks]
    return (
        exchange.is_max_rate
        and exchange.flow_control == CREDIT
        and not writing & reading
        and sum(widths) <= CHANNELS_MAX
        and len({_reads_runs(exchange, network, load, each) for each in range(len(widths))}) == 1
    )


def _varies(preemptions: Preemptions) -> bool:
    return any(len(each) for each in _kinds(preemptions.jitter))


def _kinds(jitter: Jitter) -> tuple[IntArray, ...]:
    """In the order of the kernel's kinds."""
    return (
        *(jitter.pick_ns, jitter.send_ns, jitter.write_ns),
        *(jitter.decode_ns, jitter.announce_ns, jitter.read_ns),
    )


def _reads_runs(
    exchange: RecordedExchange, network: NetworkConfig, load: LoadPlan, consumer: int
) -> bool:
    """Whether a consumer reads what waits at one go."""
    mean_bytes = load.scenario.workload.record_size.mean_bytes
    consume_ns = exchange.costs.consume_ns_per_record[consumer]
    return reads_runs(network.segment_size_bytes, mean_bytes, consume_ns)


def loop_numbers(exchange: RecordedExchange) -> list[float]:
    """Those of the costs that are no whole ns."""
    costs = exchange.costs
    loop = costs.loop
    if loop is None:
        return []
    return [
        *(loop.receive_ns_per_byte, loop.decode_ns, loop.decode_ns_per_buffer),
        *(costs.receive_ns_per_message, *costs.consume_ns_per_record),
    ]


def put_loop(at: Addresses) -> None:
    """The costs of the parts of turns, and more of each channel, connection, sink and
    TaskManager."""
    loop, memory = at.exchange.costs.loop, at.memory
    if loop is None:
        return
    segment_bytes = at.network.segment_size_bytes
    costs = first_number_behind(at.exchange, at.network)
    head = memory.take(lw.RUN_WORDS)
    memory.record(0, {k.LOOP: head})
    memory.record(
        head,
        {
            lw.TAKE_CREDIT_NS: int(loop.take_credit_ns),
            lw.PICK_NS: int(loop.pick_ns),
            lw.SEND_NS: int(loop.send_ns),
            lw.RECEIVE_NS: int(loop.receive_ns),
            lw.ANNOUNCE_NS: int(loop.announce_ns),
            lw.PART_BYTES: TCP_BYTES,
            lw.FILL_BUFFERS: RUN_BUFFERS,
            lw.READ_BUFFERS: max(RUN_BYTES // segment_bytes, 1),
            lw.COSTS: costs,
        },
    )
    states = _put_states(at, loop)
    _put_streams(at)
    _put_memory(at, states, costs)


def _put_states(at: Addresses, loop: LoopCosts) -> list[int]:
    """Of the TaskManagers: what their turns take more or less."""
    memory, found = at.memory, preemptions_of(at.exchange, at.load)
    states = [memory.take(lw.STATE_WORDS) for _ in at.manager_at]
    openings = _Opening(at, loop, found)
    for number, (address, state) in enumerate(zip(at.manager_at, states, strict=True)):
        memory.record(address, {k.LOOP_STATE: state})
        ends_up, ends_down = openings.ends_of(number)
        jitter = found[number].jitter if number in found else NO_JITTER
        taken = {lw.PICK_JITTER: ends_up, lw.ANNOUNCE_JITTER: ends_down}
        for kind, values in enumerate(_kinds(jitter)):
            place = state + lw.JITTERS + kind * lw.JITTER_WORDS
            following = taken.get(kind, 0) % max(len(values), 1)
            memory.record(place, {0: memory.list_of(values), 1: len(values), 2: following})
        if number in found and len(found[number].wakeups_ns):
            wakeups = openings.wakeups_of(number) % len(found[number].wakeups_ns)
            memory.record(address, {k.NEXT_WAKEUP: wakeups})
    return states


def _put_streams(at: Addresses) -> None:
    """Of the connections: room for the parts that are on their way."""
    memory = at.memory
    for address in at.connection_at.values():
        slots = memory.word(address + k.SLOTS_MASK) + 1
        parts = power_of_two(slots * (2 + at.network.segment_size_bytes // TCP_BYTES))
        stream = memory.take(lw.STREAM_WORDS)
        memory.record(address, {k.STREAM: stream})
        memory.record(
            stream, {lw.PARTS: memory.take(parts * lw.PART_WORDS), lw.PARTS_MASK: parts - 1}
        )


def _put_memory(at: Addresses, states: list[int], costs: int) -> None:
    """Of the channels and the sinks: which buffers they have."""
    memory, exclusive = at.memory, at.network.exclusive_buffers
    segments = [0] * len(states)
    for sink, (task, address) in enumerate(zip(at.load.sinks, at.sink_at, strict=True)):
        gate, place = task.inputs[0], task.task_manager
        pool = 0
        if _reads_runs(at.exchange, at.network, at.load, sink):
            width = power_of_two(gate.pool.max_buffers + 1)
            pool = memory.take(lw.POOL_WORDS)
            memory.record(
                pool,
                {
                    lw.KEPT: memory.take(width),
                    lw.KEPT_MASK: width - 1,
                    lw.NEXT_NEW: states[place] + lw.NEXT_SEGMENT,
                    lw.CONSUME_AT: costs + lw.CONSUME + sink,
                },
            )
        memory.record(address, {k.POOL_MEMORY: pool})
        for each in gate.channels:
            own = range(segments[place], segments[place] + exclusive)
            segments[place] += exclusive
            room = 2 * (exclusive + gate.pool.max_buffers + 1)
            more = memory.take(lw.MEMORY_WORDS)
            free = memory.take(room)
            memory.record(free, dict(enumerate(own)))
            memory.record(at.channel_at[each.index], {k.MEMORY: more})
            halves = (each.receiver_id[:8], each.receiver_id[8:])
            high, low = (int.from_bytes(half, "big", signed=True) for half in halves)
            memory.record(
                more,
                {
                    lw.ID_HIGH: high,
                    lw.ID_LOW: low,
                    lw.FREE: free,
                    lw.FREE_END: exclusive,
                    lw.FREE_ROOM: room,
                },
            )
    for state, count in zip(states, segments, strict=True):
        memory.record(state, {lw.NEXT_SEGMENT: count})


class _Opening:
    """What TaskManagers have done when the tasks start: each consumer's has requested its channels,
    over one connection after the other; each producer's has heard of that."""

    def __init__(self, at: Addresses, loop: LoopCosts, found: dict[int, Preemptions]) -> None:
        self._loop, self._found = loop, found
        self._requested_ns: list[list[int]] = [[] for _ in at.manager_at]
        self._sent = [0] * len(at.manager_at)
        free_ns = [0] * len(at.manager_at)
        for upstream, downstream in at.connection_at:
            now_ns = free_ns[downstream]
            self._requested_ns[upstream].append(now_ns + back_ns(at.exchange))
            varied_ns = _nth(self._jitter(downstream).announce_ns, self._sent[downstream])
            free_ns[downstream] += max(0, int(loop.announce_ns) + varied_ns)
            self._sent[downstream] += 1

    def _jitter(self, number: int) -> Jitter:
        return self._found[number].jitter if number in self._found else NO_JITTER

    def ends_of(self, number: int) -> tuple[int, int]:
        """How often a TaskManager has received requests, and sent some."""
        return len(self._requested_ns[number]), self._sent[number]

    def wakeups_of(self, number: int) -> int:
        """How often it had to get going."""
        waiting = dict(enumerate(self._requested_ns[number]))
        wakeups_ns, pick_ns = self._found[number].wakeups_ns, self._jitter(number).pick_ns
        woken = picked = free_ns = 0
        while waiting:
            now_ns = max(min(waiting.values()), free_ns)
            if now_ns > free_ns:
                now_ns += _nth(wakeups_ns, woken)
                woken += 1
            for end, at_ns in list(waiting.items()):
                if at_ns <= now_ns:
                    del waiting[end]
                    took_ns = max(0, int(self._loop.pick_ns) + _nth(pick_ns, picked))
                    picked += 1
                    now_ns += int(self._loop.take_credit_ns) + took_ns
            free_ns = now_ns
        return woken


def _nth(values_ns: IntArray, number: int) -> int:
    """Of values that come over and over; 0 if there are none."""
    return int(values_ns[number % len(values_ns)]) if len(values_ns) else 0
