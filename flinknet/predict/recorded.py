"""A recorded exchange: its channels, costs and settings.

`exchange` fits a RecordedExchange from the rows of a trace; `what_if.simulate(exchange, network)`
drives it through the stack in virtual time and answers with an Outcome. Both are plain
values, so either side can be tested without the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray
from flinknet.config import CREDIT, NetworkConfig
from flinknet.options.what_if import Setting
from flinknet.simulator.cost_model import CostModel, Preemptions
from flinknet.simulator.link import LinkSettings

from .fit.arrivals import Unseen
from .fit.delays import NO_DELAYS, Delays
from .fit.flusher import LateBeats
from .fit.queued import Queued
from .fit.wakeups import Wakeups
from .intervals import Intervals
from .ramps import Ramps

LATE_FACTORS = (0.0, 2.0)
"""Bounds of the factor of the assumed lateness of beats (`flusher.OWN_SHARE`): from punctual to as
late as recorded."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordedChannel:
    """One recorded channel and its records. Those that do not count bring the exchange into its
    state at that time."""

    channel: int  # index in the manifest of the run
    producer: int
    consumer: int
    connection: int  # number of its TCP connection; -1 if producer and consumer share a process
    arrivals: Ramps  # intended instants of records
    record_wire_bytes: float  # mean of a record in a buffer, with its length prefix and tag
    records_before: int = 0  # records that came since the stream began, before these
    counted: tuple[int, int] | None = None  # stretches that count, from and to; None for all

    @property
    def records(self) -> int:
        return self.arrivals.total_records

    def after(self, before: Ramps) -> RecordedChannel:
        """The channel with records before its own that do not count."""
        arrivals, first = Ramps.joined((before, self.arrivals)), len(before)
        return replace(self, arrivals=arrivals, counted=(first, first + len(self.arrivals)))

    @property
    def arrivals_ns(self) -> IntArray:
        return self.arrivals.instants()[1]


@dataclass(frozen=True, slots=True, eq=False)
class RecordedExchange:
    """One recorded exchange: p producers, q consumers, the records that came, and the costs seen.

    At the highest rate producers emitted as fast as the stack took records: arrivals then say only
    how many there were; when they come follows from `costs.emit_ns_per_record` and the pressure
    from downstream. Channels within one TaskManager are local; without `task_managers` those tasks
    are together whose channels share a connection. Producers behind another exchange pass barriers
    on, each with the instant, when the checkpoint began, and whether it overtakes data; those of
    sources begin at their interval. Only the compiled model knows of these and of
    `checkpoints_from_ns`.
    """

    producers: int
    consumers: int
    channels: tuple[RecordedChannel, ...]  # those that carried records, by index
    network: NetworkConfig
    is_max_rate: bool
    measured_from_ns: int  # window that the arrivals were taken from
    measured_to_ns: int
    seed: int  # the recorded run's; the simulation's phase of the flusher derives from it
    costs: CostModel
    flow_control: str = CREDIT
    task_managers: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # producers', consumers'
    preemptions: tuple[tuple[Preemptions, ...], tuple[Preemptions, ...]] = ((), ())  # likewise
    flush_overhead_ns: int = 0  # by which the flusher's period is longer than the buffer timeout
    late_beats: LateBeats | None = None  # single periods are longer by that; None: alike, unknown
    counted_ns: tuple[int, int] | None = None  # messages that are sent then count; None for all
    has_instants: bool = True  # False: arrivals are assumed, as messages were seen in passing only
    buffer_size_bytes: int | None = None  # with debloating: announced last when the window began
    wakeups: Wakeups | None = None  # time of messages by their distance; None if all take as long
    ends_its_data: bool = False  # the producers of the recorded run ended with the window
    flushers_before: int = 0  # tasks with a flusher whose phase is drawn before these producers'
    starts_within_ns: int | None = None  # how far apart producers and flushers start; None: any
    keeps_departures: bool = False  # whether to note when the consumer is done with each record
    barriers: tuple[IntArray, ...] | None = None  # of each producer; None where they are sources
    partitioner: str = "rebalance"  # barriers of some are never unaligned
    checkpoints_from_ns: int | None = None  # the first begins an interval later; None: the window's
    socket_bytes: int = LinkSettings().capacity_bytes  # that fill both sockets of a connection
    delays: Delays = NO_DELAYS  # by the machine, which are added to predicted latencies
    pauses: Mapping[int, Intervals] = field(default_factory=dict)  # when producers stood still
    notes: tuple[str, ...] = ()  # assumptions behind costs and arrivals, as lines
    queued: Queued = field(default_factory=Queued)  # only where latency was not recorded
    unseen: Unseen | None = None  # what a capture does not show; None if the run recorded itself

    def data_ends_ns(self, network: NetworkConfig) -> int:
        """When the producers end: what stands in half-filled buffers leaves then at the latest.
        That is the end of the window where theirs was; else a buffer timeout later, when all would
        have left that was not overtaken by records nobody knows."""
        if self.ends_its_data:
            return self.measured_to_ns
        return self.measured_to_ns + max(network.buffer_timeout_ns, 0)

    def up_to(self, to_ns: int) -> RecordedExchange:
        """The exchange as if its window had ended at an instant."""
        if to_ns >= self.measured_to_ns:
            return self
        parts = (
            replace(each, arrivals=each.arrivals.within(self.measured_from_ns, to_ns))
            for each in self.channels
        )
        return replace(self, channels=tuple(parts), measured_to_ns=to_ns, ends_its_data=False)

    def drawn(self, number: int) -> RecordedExchange:
        """A sample of what was not recorded, by its number; the exchange itself if all was."""
        unseen = self.unseen
        if unseen is None:
            return self
        random = np.random.default_rng((self.seed, number))
        dispersion = unseen.pattern.draw(random, number)
        costs, wakeups = self.costs, self.wakeups
        if unseen.round_trip is not None:
            costs = unseen.round_trip.costs_at(costs, *random.uniform(size=2).tolist())
            if wakeups is not None and self.costs.transit_ns:
                steepness = np.random.default_rng((self.seed, number, 2)).uniform(0.5, 1.5)
                wakeups = wakeups.times(costs.transit_ns / self.costs.transit_ns, steepness)
        arrivals = unseen.drawn_arrivals(dispersion, random, to_ns=self.measured_to_ns)
        return replace(
            self.with_late_beats(number),
            seed=self.seed + number,  # the phase of the flusher is unknown, too
            costs=costs,
            wakeups=wakeups,
            delays=unseen.delays(self.delays, self.seed, number),
            channels=tuple(
                replace(each, arrivals=arrivals.get(each.channel, each.arrivals))
                for each in self.channels
            ),
        )

    def with_late_beats(self, number: int) -> RecordedExchange:
        """A sample of the exchange with flushers as late as they may be in another run. All
        exchanges of a job share a number, as they share machines."""
        if self.late_beats is None:
            return self
        factor = np.random.default_rng((self.seed, number, 3)).uniform(*LATE_FACTORS)
        return replace(self, late_beats=self.late_beats.times(factor))

    def under(self, setting: Setting) -> RecordedExchange:
        """The exchange with the situation around it as a setting has it; its network is the
        simulation's argument. A period of the flusher exceeds the timeout by its usual overhead and
        by the mean of delays that come now and then at any timeout."""
        overhead_ns, timeout_ns = self._overhead_under(setting), setting.network.buffer_timeout_ns
        if self.late_beats is not None and timeout_ns > 0:
            overhead_ns += self.late_beats.mean_ns(timeout_ns + overhead_ns)
        changed = replace(
            self,
            costs=self.costs_under(setting),
            flow_control=setting.flow_control,
            flush_overhead_ns=overhead_ns,
            wakeups=None,
            late_beats=None,
        )
        if setting.rate_factor == 1:
            return changed
        from_ns, factor = self.measured_from_ns, setting.rate_factor
        return replace(
            changed,
            channels=tuple(
                replace(each, arrivals=each.arrivals.faster(factor, from_ns))
                for each in self.channels
            ),
            measured_to_ns=from_ns + round(self.duration_ns / factor),
        )

    def costs_under(self, setting: Setting) -> CostModel:
        """Costs of the steps in the situation of a setting."""
        way_ns = setting.round_trip_ns / 2
        costs = self._awake_under(setting).farther(way_ns, is_awake=self.is_max_rate)
        return replace(
            costs,
            receive_ns_per_message=costs.receive_ns_per_message / setting.consumer_speed,
            consume_ns_per_record=tuple(
                each / setting.consumer_speed for each in costs.consume_ns_per_record
            ),
        )

    def late_waits_ns(self, setting: Setting) -> IntArray:
        """Evenly spaced quantiles of what records wait longer for a flush under a setting since
        beats are not alike; empty where they are."""
        timeout_ns = setting.network.buffer_timeout_ns
        if self.late_beats is None or timeout_ns <= 0:
            return np.zeros(0, np.int64)
        return self.late_beats.waits_ns(timeout_ns + self._overhead_under(setting))

    def _overhead_under(self, setting: Setting) -> int:
        """Usual time by which the flusher's period is longer than the timeout. Flink's flusher is a
        thread that sleeps between beats, flinknet's own one a timer of a loop."""
        recorded_ns, timeout_ns = self.network.buffer_timeout_ns, setting.network.buffer_timeout_ns
        if self.has_instants or self.wakeups is None or min(recorded_ns, timeout_ns) <= 0:
            return self.flush_overhead_ns
        return self.wakeups.late_ns(self.flush_overhead_ns, recorded_ns, timeout_ns)

    def waking_share(self, setting: Setting) -> float:
        """Time of messages to their consumers and there under a setting, as a share of the recorded
        time, as far as it depends on the distance of messages."""
        usual_ns, own_ns = (
            each.transit_ns + each.receive_ns_per_message
            for each in (self.costs, self._awake_under(setting))
        )
        return own_ns / usual_ns if usual_ns else 1.0

    def stops_sleeping(self, setting: Setting) -> bool:
        """Whether consumers that slept between messages in the recorded run would poll."""
        return self._polls(setting) and not self._polls(Setting(self.network))

    def starts_sleeping(self, setting: Setting) -> bool:
        """Whether consumers that polled in the recorded run would sleep between messages."""
        return self._polls(Setting(self.network)) and not self._polls(setting)

    def _polls(self, setting: Setting) -> bool:
        if (wakeups := self.wakeups) is None:
            return False
        return wakeups.is_polled(wakeups.gap_ns(setting.network, setting.rate_factor))

    def _awake_under(self, setting: Setting) -> CostModel:
        if (wakeups := self.wakeups) is None:
            return self.costs
        gap_ns = wakeups.gap_ns(setting.network, setting.rate_factor)
        return wakeups.moved(self.costs, wakeups.gap_ns(self.network), gap_ns)

    @property
    def records(self) -> int:
        return sum(channel.records for channel in self.channels)

    @property
    def duration_ns(self) -> int:
        return self.measured_to_ns - self.measured_from_ns


def emission_order(channels: Sequence[RecordedChannel]) -> tuple[IntArray, npt.NDArray[np.int32]]:
    """The instants of all records that a producer emits, ascending, and the subpartition of each;
    its channels are in the order of subpartitions."""
    instants_ns = np.concatenate([channel.arrivals_ns for channel in channels])
    counts = [channel.records for channel in channels]
    subpartitions = np.repeat(np.arange(len(channels), dtype=np.int32), counts)
    order = np.argsort(instants_ns, kind="stable")
    return instants_ns[order], subpartitions[order]


def flushes_factor(exchanges: Sequence[RecordedExchange], settings: Sequence[Setting]) -> float:
    """How many times as many flushes some exchanges have under their settings as they had in the
    recorded run."""
    recorded = sum(flushes_per_s(each, Setting(each.network)) for each in exchanges)
    pairs = zip(exchanges, settings, strict=True)
    return sum(flushes_per_s(*each) for each in pairs) / recorded if recorded else 1.0


def flushes_per_s(exchange: RecordedExchange, setting: Setting) -> float:
    """Flushes of all producers, each of all its channels; full buffers where nothing is flushed."""
    network, producers = setting.network, dict[int, list[RecordedChannel]]()
    for each in exchange.channels:
        producers.setdefault(each.producer, []).append(each)
    timeout_ns, found = network.buffer_timeout_ns, 0.0
    beat_ns = max(timeout_ns + exchange.flush_overhead_ns if timeout_ns else 0, 1)
    for own in producers.values():
        if timeout_ns < 0:
            full = sum(each.records * each.record_wire_bytes for each in own)
            found += full / network.segment_size_bytes
        else:
            instants_ns = np.concatenate([each.arrivals_ns for each in own])
            beats = (instants_ns / setting.rate_factor).astype(np.int64) // beat_ns
            found += np.count_nonzero(np.diff(np.sort(beats, kind="stable"), prepend=-1))
    return found * setting.rate_factor * 1e9 / exchange.duration_ns


def without_idle_tasks(exchange: RecordedExchange) -> tuple[RecordedExchange, list[int], list[int]]:
    """Drop the channels and tasks without records from an exchange. Returns: the exchange, and the
    producers and consumers that are left."""
    channels = [channel for channel in exchange.channels if channel.records]
    producers = sorted({channel.producer for channel in channels})
    consumers = sorted({channel.consumer for channel in channels})
    producer_at = {each: place for place, each in enumerate(producers)}
    consumer_at = {each: place for place, each in enumerate(consumers)}

    def kept(of_tasks: tuple[tuple[Any, ...], tuple[Any, ...]]) -> Any:
        pairs = zip(of_tasks, (producers, consumers), strict=True)
        return tuple(tuple(each[n] for n in own if each) for each, own in pairs)

    costs, barriers = exchange.costs, exchange.barriers
    consume_ns = tuple(costs.consume_ns_per_record[each] for each in consumers)
    exchange = replace(
        exchange,
        producers=len(producers),
        consumers=len(consumers),
        channels=tuple(
            replace(each, producer=producer_at[each.producer], consumer=consumer_at[each.consumer])
            for each in channels
        ),
        task_managers=kept(exchange.task_managers),
        preemptions=kept(exchange.preemptions),
        barriers=None if barriers is None else tuple(barriers[each] for each in producers),
        costs=replace(costs, consume_ns_per_record=consume_ns),
    )
    return exchange, producers, consumers


def places_of(exchange: RecordedExchange) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """TaskManagers of the producers and of the consumers; if unknown, tasks that share a connection
    share TaskManagers, with producers and consumers apart."""
    if exchange.task_managers[0]:
        return exchange.task_managers
    channels = exchange.channels
    upstream = _groups(exchange.producers, [(c.producer, c.connection) for c in channels])
    downstream = _groups(exchange.consumers, [(c.consumer, c.connection) for c in channels])
    first = 1 + max(upstream)
    return tuple(upstream), tuple(first + each for each in downstream)


def _groups(members: int, links: list[tuple[int, int]]) -> list[int]:
    """The group of each member, counted from 0, where members of one connection are together."""
    group = list(range(members))
    first_of: dict[int, int] = {}
    for member, connection in links:
        old, new = group[member], group[first_of.setdefault(connection, member)]
        if old != new:
            group = [new if each == old else each for each in group]
    numbers = {each: number for number, each in enumerate(dict.fromkeys(group))}
    return [numbers[each] for each in group]
