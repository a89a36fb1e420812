"""Exchanges of a job in one run of the compiled kernel, in which they wait for each other: where a
writer waits for buffers, its task reads nothing more, and what is before it fills up.

Each exchange has its own words, laid out as if it were alone. What comes to a task's output follows
from what it reads in the run; laid out is only how many records there will be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from flinknet.arrays import IntArray
from flinknet.config import TCP, NetworkConfig
from flinknet.histogram import BUCKETS

from .fast_clock import alignments_max
from .fast_kernel import joint_words as joint
from .fast_kernel import words as k
from .fast_layout import Layout, lay_out
from .fast_memory import KernelMemory
from .fast_path import (
    FastOutcome,
    FloatArray,
    Ran,
    is_covered,
    numbers_of_run,
    outcome_of,
)
from .recorded import RecordedExchange
from .recorded_job import Passage
from .what_if import memory_bytes, recorded_load, without_idle_tasks

WITHIN = -1
"""The connection of channels within a TaskManager."""

TURNS_FACTOR = 4
"""Turns that may be needed, beside those of an exchange in which nobody waits."""


class JoinedEdge(NamedTuple):
    """An exchange to be computed with others.

    Attributes:
        exchange: of channels that a task of another exchange writes, only the number of records
            counts.
        before: the place of the exchange that its producers read; None for sources.
        passages: what these do with their records.
    """

    exchange: RecordedExchange
    network: NetworkConfig
    before: int | None
    passages: Mapping[int, Passage]


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """What an exchange came to.

    Attributes:
        taken_from: of each consumer that writes others, the channels of its records in the order
            in which it took them.
        waited_ns: how long the tasks that write it and read another one waited for buffers.
    """

    fast: FastOutcome
    waited_ns: int
    taken_from: Mapping[int, IntArray]


class _Part:
    """One exchange as it is laid out."""

    def __init__(self, edge: JoinedEdge) -> None:
        own = [each for each in edge.exchange.channels if each.records]
        self.edge = edge
        self.producers = sorted({each.producer for each in own})
        self.consumers = sorted({each.consumer for each in own})
        self.taken = dict.fromkeys(self.consumers, 0)
        for each in own:
            self.taken[each.consumer] += each.records
        self.exchange = without_idle_tasks(edge.exchange)
        self.load = recorded_load(self.exchange, edge.network)
        self.load.check_memory()
        self.layout: Layout | None = None
        self.logs: dict[int, slice] = {}
        self.links: list[int] = []

    @property
    def relayed(self) -> list[int]:
        """Producers that read the exchange before."""
        return [each for each in self.producers if each in self.edge.passages]

    def is_known(self) -> bool:
        """Whether the kernel can compute it with others."""
        network = self.edge.network
        has_checkpoints = network.checkpoint_interval_ns is not None
        if self.edge.before is not None and has_checkpoints and self.relayed != self.producers:
            return False  # who begins the barriers of the others is unknown
        return not self.exchange.is_max_rate and is_covered(self.exchange, network, self.load)


def hold_each_other_up(exchanges: Iterable[RecordedExchange]) -> bool:
    """Whether exchanges without credit share connections: what one does not read stops another."""
    used = [
        connection
        for exchange in exchanges
        if exchange.flow_control == TCP
        for connection in {each.connection for each in exchange.channels} - {WITHIN}
    ]
    return len(used) > len(set(used))


def run_joined(edges: Sequence[JoinedEdge]) -> list[Joined] | None:
    """Run exchanges to their end, the first of which sources write.

    Returns: None where the kernel does not know one of them, or what comes of them.

    Raises: ConfigError when the buffers of an exchange do not fit into network memory.
    """
    if hold_each_other_up(each.exchange for each in edges):
        return None
    ended, attempts = k.ROOM_MISSING, 0
    while ended == k.ROOM_MISSING:
        parts = [_Part(each) for each in edges]
        if not all(each.is_known() for each in parts):
            return None
        ended, outcomes = _run(parts, attempts)
        if not any(_layout(each).may_have_more_room for each in parts):
            break
        attempts += 1
    return outcomes if ended == k.DONE else None


def _run(parts: Sequence[_Part], attempts: int) -> tuple[int, list[Joined] | None]:
    """One attempt. Returns: how it ended, and what came of it."""
    from .fast_kernel.run import run

    joints = KernelMemory(joint.EXCHANGE_AT + 2 * len(parts))
    for part in parts:
        part.layout = _laid_out(part, _barriers_before(parts, part), attempts)
    for place in range(len(parts)):
        _put_relays(parts, place, joints)
    memories = [_layout(each).memory.to_array() for each in parts]
    numbers = [numbers_of_run(each.exchange, each.edge.network) for each in parts]
    starts = {joint.EXCHANGES: len(parts)}
    for place in range(len(parts)):
        starts[joint.EXCHANGE_AT + 2 * place] = sum(map(len, memories[:place]))
        starts[joint.EXCHANGE_AT + 2 * place + 1] = sum(map(len, numbers[:place]))
    joints.record(0, starts)
    joined = joints.to_array()
    memory, number = np.concatenate(memories), np.concatenate(numbers)
    ended = run(memory, number, BUCKETS, joined)
    if ended != k.DONE:
        return ended, None
    own = np.split(memory, np.cumsum([len(each) for each in memories])[:-1])
    own_numbers = np.split(number, np.cumsum([len(each) for each in numbers])[:-1])
    if any(
        int(words[k.RECORDS]) != p.exchange.records for words, p in zip(own, parts, strict=True)
    ):
        return ended, None
    return ended, [
        _outcome(part, words, floats, joined)
        for part, words, floats in zip(parts, own, own_numbers, strict=True)
    ]


def _layout(part: _Part) -> Layout:
    assert part.layout is not None
    return part.layout


def _laid_out(part: _Part, barriers: int, attempts: int) -> Layout:
    """An exchange before it begins: to what tasks write nothing has come.

    Args:
        barriers: room for those that a task passes on.
        attempts: that have had too little room for messages on their way.
    """
    exchange, relayed = part.exchange, set(part.relayed)
    if part.edge.before is not None:
        room = np.zeros((barriers, k.BARRIER_WORDS), np.int64)
        exchange = replace(exchange, barriers=(room,) * exchange.producers)
    layout = lay_out(exchange, part.edge.network, part.load, attempts=attempts)
    memory = layout.memory
    turns = TURNS_FACTOR * memory.word(k.TURNS_MAX)
    memory.record(0, {k.MAY_WAIT: 1, k.CATCHES_UP: 0, k.TURNS_MAX: turns})
    for each in part.exchange.channels:
        if part.producers[each.producer] in relayed:
            address = layout.channel_at[each.channel]
            first = memory.word(address + k.RAMP)
            memory.record(address, {k.RAMP_END: first})
    for producer, address in zip(part.producers, layout.source_at, strict=True):
        if producer in relayed:
            begin = memory.word(address + k.NEXT_BARRIER)
            memory.record(address, {k.END_NS: k.NEVER, k.BARRIERS_END: begin})
    return layout


def _barriers_before(parts: Sequence[_Part], part: _Part) -> int:
    """Checkpoints of which the tasks before an exchange pass barriers on, at most."""
    while part.edge.before is not None:
        part = parts[part.edge.before]
    return alignments_max(part.exchange, part.edge.network)


def _put_relays(parts: Sequence[_Part], place: int, joints: KernelMemory) -> None:
    """The tasks that read an exchange and write others, each with its links."""
    part, layout = parts[place], _layout(parts[place])
    behind = [(n, each) for n, each in enumerate(parts) if each.edge.before == place]
    for consumer, sink, task in zip(part.consumers, layout.sink_at, part.load.sinks, strict=True):
        links = [(n, each) for n, each in behind if consumer in each.relayed]
        if not links:
            continue
        taken, relay = part.taken[consumer], joints.take(joint.RELAY_WORDS)
        log = joints.take(taken)
        part.logs[consumer] = slice(log, log + taken)
        layout.memory.record(sink, {k.RELAY: relay})
        first = 0
        for writes, each in reversed(links):
            first = _put_link(joints, each, writes, consumer, relay, first, taken)
        joints.record(
            relay,
            {
                joint.READS: place,
                joint.READING_SINK: sink,
                joint.READING_TASK_MANAGER: layout.manager_at[task.task_manager],
                joint.ALL_RECORDS: taken,
                joint.TAKEN_FROM: log,
                joint.FIRST_LINK: first,
                joint.SEEN_BARRIERS: layout.memory.word(sink + k.ALIGNMENTS),
            },
        )


def _put_link(
    joints: KernelMemory,
    part: _Part,
    writes: int,
    producer: int,
    relay: int,
    next_link: int,
    taken: int,
) -> int:
    """What a task writes of its records to one exchange. Returns: the address of the link."""
    layout, exchange, address = _layout(part), part.exchange, joints.take(joint.LINK_WORDS)
    passage = part.edge.passages[producer]
    inputs = passage.inputs(taken)
    routes = passage.routes[: len(inputs)]
    place = part.producers.index(producer)
    source, task = layout.source_at[place], part.load.sources[place]
    layout.memory.record(source, {k.LINK: address})
    part.links.append(address)
    joints.record(
        address,
        {
            joint.WRITES: writes,
            joint.WRITING_SOURCE: source,
            joint.WRITING_TASK_MANAGER: layout.manager_at[task.task_manager],
            joint.ROUTES: joints.list_of(_addresses(layout, routes)),
            joint.ROUTES_COUNT: len(routes),
            joint.WRITTEN_AFTER: joints.list_of(np.searchsorted(inputs, np.arange(taken), "right")),
            joint.ENDS_FROM_NS: exchange.measured_to_ns,
            joint.ENDS_AFTER_NS: exchange.data_ends_ns(part.edge.network) - exchange.measured_to_ns,
            joint.WAITS_SINCE_NS: k.NEVER,
            joint.WITHHELD: joints.take(task.outputs[0].subpartitions),
            joint.LINK_RELAY: relay,
            joint.NEXT_LINK: next_link,
        },
    )
    return address


def _addresses(layout: Layout, routes: IntArray) -> IntArray:
    channels, places = np.unique(routes, return_inverse=True)
    return np.array([layout.channel_at[each] for each in channels.tolist()], np.int64)[places]


def _outcome(part: _Part, memory: IntArray, numbers: FloatArray, joined: IntArray) -> Joined:
    layout = _layout(part)
    ran = Ran(True, memory, numbers, layout.departures, layout.alignments)
    fast = outcome_of(ran, part.exchange, part.edge.network)
    last_ns = max(int(each.max()) for each in fast.departures_ns.values())
    fast = replace(fast, last_ns=last_ns, memory_bytes=memory_bytes(part.load))
    channels = np.array([each.index for each in part.load.channels], np.int64)
    return Joined(
        fast,
        sum(int(joined[each + joint.WAITED_NS]) for each in part.links),
        {
            consumer: channels[(joined[own] - layout.channels) // k.CHANNEL_WORDS]
            for consumer, own in part.logs.items()
        },
    )
