"""Runs of the compiled kernel: one exchange alone, or those of a job, which wait for each other.

Where a writer waits for buffers, its task reads nothing more, and queues before it fill up. All
exchanges of a run lie in one memory; one alone is a job of one edge. Records of a task's output
follow in the run from those that it reads; only their number is laid out.

Differs from the simulator, within the bound that its tests state: many latencies of one buffer are
counted by their density.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, cached_property

import numpy as np

from flinknet.arrays import FloatArray, IntArray
from flinknet.histogram import BUCKETS, LogLinearHistogram, bucket_bounds_ns, bucket_index

from .kernel import DONE, ROOM_MISSING
from .kernel.memory import Barrier, Channel, Exchange, Histogram, Job, Ramp
from .kernel.views import KernelMemory
from .kernel_edge import KernelEdge, hold_each_other_up
from .layout import Layout, put_relays
from .outcome import CheckpointTimes

RESERVED_WORDS = 1 << 21
"""Most words of a memory that has its size from the beginning: growth takes half as long again.
Larger memories grow: they would be new each time."""

HISTOGRAMS_WORDS = 2 * BUCKETS
"""Words of an exchange's histograms without those of checkpoints."""

TURNS_FACTOR = 4
"""Factor of the turns that may be needed, for writers that wait for those behind them."""


class FastOutcome(Exchange):
    """An exchange in the kernel's memory after a run: its words, and what follows from them."""

    def __init__(self, layout: Layout, words: IntArray) -> None:
        super().__init__(words, layout.head)
        self._layout, self.edge = layout, layout.edge

    @property
    def records(self) -> int:
        return self.latencies.count

    @property
    def memory_bytes(self) -> int:
        """Most that all pools can take."""
        return self.edge.memory_bytes

    @cached_property
    def latency(self) -> LogLinearHistogram:
        """Counts and densities as whole records, whose sum is exact."""
        latencies = self.latencies
        if not latencies.count:
            return LogLinearHistogram()
        densities = np.cumsum(self.densities.array(BUCKETS))
        filled = np.maximum(latencies.counts.array(BUCKETS) + densities * _widths(), 0.0)
        ends = np.array([latencies.smallest_ns, latencies.largest_ns])
        low, high = bucket_index(ends).tolist()
        filled[:low] = filled[high + 1 :] = 0.0  # but for rounding they are
        reached = np.cumsum(filled)
        reached *= latencies.count / reached[-1]
        counts = np.diff(np.rint(reached), prepend=0.0)
        return _histogram(latencies, counts)

    @property
    def checkpoints(self) -> CheckpointTimes | None:
        """Checkpoints that a coordinator began; None if there is none."""
        if not self.has_barriers or self.edge.exchange.barriers is not None:
            return None
        histograms = self.checkpoint_times, self.start_delays, self.alignments, self.travels
        return CheckpointTimes(
            triggered=self.triggered,
            completed=self.completed,
            aborted=0,
            unaligned=self.unaligned_total,
            processed_bytes=self.processed_bytes,
            overtaken_bytes=self.overtaken_total,
            overtaken_bytes_max=self.overtaken_max,
            times=tuple(_histogram(each, each.counts.array(BUCKETS)) for each in histograms),
        )

    @cached_property
    def departures_ns(self) -> dict[int, IntArray]:
        """By channel, when the consumer was done with each record, if the exchange keeps that."""
        return {channel: self.words[own] for channel, own in self._layout.departures.items()}

    @property
    def barriers(self) -> dict[int, IntArray]:
        """With departures, the barriers that each consumer passes on."""
        firsts = enumerate(zip(self.edge.consumers, self._layout.alignments, strict=False))
        words, width = self.words, Barrier.width()
        return {
            consumer: words[first : self.sinks[sink].alignments.at].reshape(-1, width)
            for sink, (consumer, first) in firsts
        }

    @property
    def taken_from(self) -> dict[int, IntArray]:
        """Channels of the records of each consumer that writes another exchange, in the order in
        which it took them."""
        channels = np.array([each.channel for each in self.edge.exchange.channels], np.int64)
        return {
            consumer: channels[(self.words[own] - self.channels.at) // Channel.width()]
            for consumer, own in self._layout.logs.items()
        }


def run_fast(edge: KernelEdge, *, may_wait: bool = True) -> FastOutcome | None:
    """Run an exchange alone. Returns: None where the kernel does not know it, where a checkpoint
    takes too long, and unless `may_wait`, if a writer waited for buffers, or a connection without
    credit did."""
    if edge.why_not_covered is not None:
        return None
    ended, (found,) = _run([edge])
    has_waited = edge.exchange.is_max_rate or found.resumed_ns > 0 or found.stops > 0
    return found if ended == DONE and (may_wait or not has_waited) else None


def run_joined(edges: Sequence[KernelEdge]) -> list[FastOutcome] | None:
    """Run exchanges to their end, the first of which sources write. Returns: None where the kernel
    does not know one of them, or cannot compute their result."""
    if hold_each_other_up(each.exchange for each in edges):
        return None
    for each in edges:
        is_checkpointed = each.network.checkpoint_interval_ns is not None
        has_others = each.before is not None and len(each.passages) < len(each.producers)
        if is_checkpointed and has_others:
            return None  # who begins their barriers is unknown
        if each.why_not_covered is not None or each.exchange.is_max_rate:
            return None
    ended, found = _run(edges)
    pairs = zip(edges, found, strict=True)
    if ended != DONE or any(own.records != each.exchange.records for each, own in pairs):
        return None
    for own in found:  # departures may have been put off
        own.last_ns = max(int(each.max()) for each in own.departures_ns.values())
    return found


def _run(edges: Sequence[KernelEdge]) -> tuple[int, list[FastOutcome]]:
    """One run; where there is too little room for messages on their way, another with more.
    Returns: its end, and the exchanges then."""
    from .kernel.run import run

    attempts = 0
    while True:
        layouts = lay_out(edges, attempts)
        words = layouts[0].memory.to_array()
        found = [FastOutcome(each, words) for each in layouts]
        for m in found:
            m.turns_max *= TURNS_FACTOR if len(edges) > 1 else 1
        ended = run(words)
        if ended != ROOM_MISSING or not any(each.may_have_more_room for each in layouts):
            return ended, found
        attempts += 1


def lay_out(edges: Sequence[KernelEdge], attempts: int = 0) -> list[Layout]:
    """Lay exchanges out in one memory, which begins with their job; `attempts` as in Layout."""
    ramps = sum(len(each.arrivals) for edge in edges for each in edge.exchange.channels)
    words = Ramp.width() * ramps + HISTOGRAMS_WORDS * len(edges)
    memory = KernelMemory(words if words < RESERVED_WORDS else 0)
    job, layouts = memory.take(Job.width()), list[Layout]()
    for edge in edges:
        first = edge
        while first.before is not None:
            first = edges[first.before]
        if first is not edge:  # room for the barriers that the tasks before it pass on
            room = np.zeros((first.alignments_max, Barrier.width()), np.int64)
            exchange = replace(edge.exchange, barriers=(room,) * edge.exchange.producers)
            edge = replace(edge, exchange=exchange)
        layouts.append(Layout(edge, memory, attempts))
    for place, layout in enumerate(layouts):
        put_relays(layout, [each for each in layouts if each.edge.before == place])
    exchanges = memory.list_of([each.head for each in layouts])
    memory.put(Job, job, exchanges=exchanges, exchanges_count=len(layouts))
    return layouts


def _histogram(totals: Histogram, counts: FloatArray) -> LogLinearHistogram:
    """A histogram from its totals and whole counts."""
    found = LogLinearHistogram()
    if totals.count:
        found.counts = counts.astype(np.int64)
        found.add_totals(totals.count, totals.total_ns, totals.smallest_ns, totals.largest_ns)
    return found


@cache
def _widths() -> IntArray:
    bounds = map(bucket_bounds_ns, range(BUCKETS))
    return np.array([high - low for low, high in bounds], np.int64)
