"""Exchanges of a job in one run of the compiled kernel, in which they wait for each other: where a
writer waits for buffers, its task reads nothing more, and queues before it fill up.

All exchanges lie in one memory, each as if it were alone. Records of a task's output follow in the
run from those that it reads; only their number is laid out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from flinknet.arrays import IntArray
from flinknet.config import TCP, NetworkConfig
from flinknet.histogram import BUCKETS

from .fast_path import FastOutcome, Ran, is_covered, numbers_of_run, outcome_of
from .job import Passage
from .kernel import DONE, NEVER, ROOM_MISSING
from .kernel.memory import Barrier, Channel, Exchange, Job, Link, Relay, Sink, Source
from .kernel.views import KernelMemory
from .layout import Layout, lay_out
from .layout_head import alignments_max
from .recorded import RecordedExchange, recorded_load, without_idle_tasks
from .what_if import memory_bytes

WITHIN = -1
"""The connection of channels within a TaskManager."""

TURNS_FACTOR = 4
"""Factor of the turns that may be needed, for writers that wait."""


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
    """Results of an exchange in a job.

    Attributes:
        taken_from: of each consumer that writes others, the channels of its records in the order
            in which it took them.
        waited_ns: how long the tasks that write it and read another one waited for buffers.
    """

    fast: FastOutcome
    waited_ns: int
    taken_from: Mapping[int, IntArray]


class _Part:
    """An exchange to be laid out."""

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
    """Whether exchanges without credit share connections: unread messages of one stop another."""
    used = [
        connection
        for exchange in exchanges
        if exchange.flow_control == TCP
        for connection in {each.connection for each in exchange.channels} - {WITHIN}
    ]
    return len(used) > len(set(used))


def run_joined(edges: Sequence[JoinedEdge]) -> list[Joined] | None:
    """Run exchanges to their end, the first of which sources write.

    Returns: None where the kernel does not know one of them, or cannot compute their result.

    Raises: ConfigError when the buffers of an exchange do not fit into network memory."""
    if hold_each_other_up(each.exchange for each in edges):
        return None
    ended, attempts = ROOM_MISSING, 0
    while ended == ROOM_MISSING:
        parts = [_Part(each) for each in edges]
        if not all(each.is_known() for each in parts):
            return None
        ended, outcomes = _run(parts, attempts)
        if not any(_layout(each).may_have_more_room for each in parts):
            break
        attempts += 1
    return outcomes if ended == DONE else None


def _run(parts: Sequence[_Part], attempts: int) -> tuple[int, list[Joined] | None]:
    """One attempt. Returns: its end, and results; None for those of an attempt that failed."""
    from .kernel.run import run

    memory = KernelMemory()
    for part in parts:
        part.layout = _laid_out(part, memory, _barriers_before(parts, part), attempts)
    for place in range(len(parts)):
        _put_relays(parts, place, memory)
    numbers = [numbers_of_run(each.exchange, each.edge.network) for each in parts]
    heads = [_layout(each).head for each in parts]
    for head, first in zip(heads, np.cumsum([0, *map(len, numbers)]), strict=False):
        memory.put(Exchange, head, first_number=int(first))
    job, exchanges = memory.take(Job.width()), memory.list_of(heads)
    memory.put(Job, job, exchanges=exchanges, exchanges_count=len(parts))
    words = memory.to_array()
    all_numbers = np.concatenate(numbers)
    ended = run(words, all_numbers, BUCKETS, job)
    own = np.split(all_numbers, np.cumsum([len(each) for each in numbers])[:-1])
    ran = [
        Ran(ended == DONE, Exchange(words, _layout(part).head), words, floats, _layout(part))
        for part, floats in zip(parts, own, strict=True)
    ]
    pairs = list(zip(parts, ran, strict=True))
    if ended != DONE or any(each.exchange.records != p.exchange.records for p, each in pairs):
        return ended, None
    return ended, [_outcome(part, each) for part, each in pairs]


def _layout(part: _Part) -> Layout:
    assert part.layout is not None
    return part.layout


def _laid_out(part: _Part, memory: KernelMemory, barriers: int, attempts: int) -> Layout:
    """An exchange before it begins: to what tasks write nothing has come.

    Args:
        barriers: room for those that a task passes on.
        attempts: that have had too little room for messages on their way.
    """
    exchange, relayed = part.exchange, set(part.relayed)
    if part.edge.before is not None:
        room = np.zeros((barriers, Barrier.width()), np.int64)
        exchange = replace(exchange, barriers=(room,) * exchange.producers)
    network, load = part.edge.network, part.load
    layout = lay_out(exchange, network, load, memory=memory, attempts=attempts)
    m = memory.at(Exchange, layout.head)
    m.may_wait, m.catches_up, m.turns_max = 1, 0, TURNS_FACTOR * m.turns_max
    for each in part.exchange.channels:
        if part.producers[each.producer] in relayed:
            channel = memory.at(Channel, layout.channel_at[each.channel])
            channel.ramp_end = channel.ramp
    for producer, address in zip(part.producers, layout.source_at, strict=True):
        if producer in relayed:
            source = memory.at(Source, address)
            source.end_ns, source.barriers_end = NEVER, source.next_barrier
    return layout


def _barriers_before(parts: Sequence[_Part], part: _Part) -> int:
    """Most checkpoints whose barriers the tasks before an exchange pass on."""
    while part.edge.before is not None:
        part = parts[part.edge.before]
    return alignments_max(part.exchange, part.edge.network)


def _put_relays(parts: Sequence[_Part], place: int, memory: KernelMemory) -> None:
    """The tasks that read an exchange and write others, each with its links."""
    part, layout = parts[place], _layout(parts[place])
    behind = [each for each in parts if each.edge.before == place]
    for consumer, sink, task in zip(part.consumers, layout.sink_at, part.load.sinks, strict=True):
        links = [each for each in behind if consumer in each.relayed]
        if not links:
            continue
        taken, relay = part.taken[consumer], memory.take(Relay.width())
        log = memory.take(taken)
        part.logs[consumer] = slice(log, log + taken)
        memory.put(Sink, sink, relay=relay)
        first = 0
        for each in reversed(links):
            first = _put_link(memory, each, consumer, relay, first, taken)
        memory.put(
            Relay,
            relay,
            exchange=layout.head,
            sink=sink,
            task_manager=layout.manager_at[task.task_manager],
            all_records=taken,
            taken_from=log,
            first_link=first,
            seen_barriers=memory.at(Sink, sink).alignments.at,
        )


def _put_link(
    memory: KernelMemory, part: _Part, producer: int, relay: int, next_link: int, taken: int
) -> int:
    """Lay out the records that a task writes to one exchange. Returns: the address of the link."""
    layout, exchange, address = _layout(part), part.exchange, memory.take(Link.width())
    passage = part.edge.passages[producer]
    inputs = passage.inputs(taken)
    routes = passage.routes[: len(inputs)]
    place = part.producers.index(producer)
    source, task = layout.source_at[place], part.load.sources[place]
    memory.put(Source, source, link=address)
    part.links.append(address)
    memory.put(
        Link,
        address,
        exchange=layout.head,
        source=source,
        task_manager=layout.manager_at[task.task_manager],
        routes=memory.list_of(_addresses(layout, routes)),
        routes_count=len(routes),
        written_after=memory.list_of(np.searchsorted(inputs, np.arange(taken), "right")),
        ends_from_ns=exchange.measured_to_ns,
        ends_after_ns=exchange.data_ends_ns(part.edge.network) - exchange.measured_to_ns,
        waits_since_ns=NEVER,
        withheld=memory.take(task.outputs[0].subpartitions),
        relay=relay,
        next_link=next_link,
    )
    return address


def _addresses(layout: Layout, routes: IntArray) -> IntArray:
    channels, places = np.unique(routes, return_inverse=True)
    return np.array([layout.channel_at[each] for each in channels.tolist()], np.int64)[places]


def _outcome(part: _Part, ran: Ran) -> Joined:
    fast = outcome_of(ran, part.exchange, part.edge.network)
    last_ns = max(int(each.max()) for each in fast.departures_ns.values())
    fast = replace(fast, last_ns=last_ns, memory_bytes=memory_bytes(part.load))
    channels = np.array([each.index for each in part.load.channels], np.int64)
    return Joined(
        fast,
        sum(Link(ran.memory, each).waited_ns for each in part.links),
        {
            consumer: channels[(ran.memory[own] - ran.layout.channels) // Channel.width()]
            for consumer, own in part.logs.items()
        },
    )
