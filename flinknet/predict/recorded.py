"""The contract between fits and simulations: what was recorded, and what a simulation answers.

`exchange` fits a RecordedExchange from the rows of a trace; `what_if.simulate(exchange, network)`
drives it through the stack in virtual time and answers with a SimulatedOutcome. Both are plain
values, so either side can be tested without the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray
from flinknet.config import CREDIT, NetworkConfig
from flinknet.histogram import LogLinearHistogram
from flinknet.results import BacklogSummary, CheckpointSummary
from flinknet.simulator.cost_model import CostModel, Preemptions

from .fit.wakeups import Wakeups


@dataclass(frozen=True, slots=True)
class Setting:
    """What a prediction is made for: the network's settings, and the situation around it.

    Attributes:
        round_trip_ns: round trip between TaskManagers, on top of the recorded way.
        consumer_speed: factor of the consumers' speed; 2 halves their time for each buffer.
        rate_factor: factor of the arrival rate; 2 brings the same records in half the time.
    """

    network: NetworkConfig
    flow_control: str = CREDIT
    round_trip_ns: int = 0
    consumer_speed: float = 1.0
    rate_factor: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Ramps:
    """Instants of records, so many to each stretch of time, evenly spaced in it; int64 columns,
    ascending.

    Record j of n came at first + (last - first) * j // (n - 1).
    """

    records: IntArray
    first_ns: IntArray
    last_ns: IntArray

    @classmethod
    def of(cls, instants_ns: IntArray) -> Ramps:
        """Records that each have an instant of their own."""
        return cls(np.ones(len(instants_ns), np.int64), instants_ns, instants_ns)

    @property
    def total_records(self) -> int:
        """Number of records."""
        return int(self.records.sum())

    def instants(self) -> tuple[IntArray, IntArray]:
        """For each record the index of its stretch, and its instant."""
        records = self.records
        ramp = np.repeat(np.arange(len(records)), records)
        position = np.arange(len(ramp)) - np.repeat(np.cumsum(records) - records, records)
        steps = np.maximum(records - 1, 1)[ramp]
        length_ns = (self.last_ns - self.first_ns)[ramp]
        return ramp, self.first_ns[ramp] + length_ns * position // steps

    def within(self, from_ns: int, to_ns: int) -> Ramps:
        """Those that came in [from_ns, to_ns); a stretch at the edge is cut."""
        return self.cut(from_ns, to_ns)[0]

    def cut(self, from_ns: int, to_ns: int) -> tuple[Ramps, IntArray]:
        """The same, and the places of the stretches that are left."""
        kept = np.flatnonzero((self.first_ns < to_ns) & (self.last_ns >= from_ns))
        own = self._where(kept)
        is_cut = (own.first_ns < from_ns) | (own.last_ns >= to_ns)
        if not is_cut.any():
            return own, kept
        ramp, instants_ns = own._where(is_cut).instants()
        keep = (instants_ns >= from_ns) & (instants_ns < to_ns)
        cut, starts, counts = np.unique(ramp[keep], return_index=True, return_counts=True)
        places = np.flatnonzero(is_cut)[cut]
        records = own.records * ~is_cut
        first_ns, last_ns = own.first_ns.copy(), own.last_ns.copy()
        records[places] = counts
        first_ns[places] = instants_ns[keep][starts]
        last_ns[places] = instants_ns[keep][starts + counts - 1]
        is_left = records > 0
        return Ramps(records, first_ns, last_ns)._where(is_left), kept[is_left]

    def faster(self, factor: float, from_ns: int) -> Ramps:
        """The same records, so many times as many in each stretch of time from an instant on."""

        def scaled(instants_ns: IntArray) -> IntArray:
            return from_ns + np.round((instants_ns - from_ns) / factor).astype(np.int64)

        return Ramps(self.records, scaled(self.first_ns), scaled(self.last_ns))

    @classmethod
    def joined(cls, parts: Sequence[Ramps]) -> Ramps:
        """One after the other."""
        return cls(
            np.concatenate([each.records for each in parts]),
            np.concatenate([each.first_ns for each in parts]),
            np.concatenate([each.last_ns for each in parts]),
        )

    def __len__(self) -> int:
        return len(self.records)

    def _where(self, keep: npt.NDArray[Any]) -> Ramps:
        return Ramps(self.records[keep], self.first_ns[keep], self.last_ns[keep])


@dataclass(frozen=True, slots=True, eq=False)
class ChannelRamps:
    """The records of several channels in few arrays, so that what is done to them is done once.

    Attributes:
        channels: ascending.
        bounds: where the stretches of each channel begin, and where the last ones end.
        ramps: of all channels, one after the other.
    """

    channels: IntArray
    bounds: IntArray
    ramps: Ramps

    @classmethod
    def of(cls, channels: IntArray, channel: IntArray, ramps: Ramps) -> ChannelRamps:
        """Stretches of some channels, those of each in their order; `channel`: of each stretch."""
        place = np.searchsorted(channels, channel)
        order = np.argsort(place, kind="stable")
        bounds = np.r_[0, np.cumsum(np.bincount(place, minlength=len(channels)))]
        return cls(channels, bounds, ramps._where(order))

    @property
    def channel(self) -> IntArray:
        """Of each stretch."""
        return np.repeat(self.channels, np.diff(self.bounds))

    def within(self, from_ns: int, to_ns: int) -> ChannelRamps:
        """As `Ramps.within`."""
        ramps, kept = self.ramps.cut(from_ns, to_ns)
        return ChannelRamps(self.channels, np.searchsorted(kept, self.bounds), ramps)

    def faster(self, factor: float, from_ns: int) -> ChannelRamps:
        """As `Ramps.faster`."""
        return ChannelRamps(self.channels, self.bounds, self.ramps.faster(factor, from_ns))

    def only(self, channels: IntArray) -> ChannelRamps:
        """Those of some channels; of one that is not there, none."""
        own = self.channel
        keep = np.isin(own, channels)
        return ChannelRamps.of(channels, own[keep], self.ramps._where(keep))

    @classmethod
    def joined(cls, parts: Sequence[ChannelRamps]) -> ChannelRamps:
        """One after the other, of the same channels."""
        channel = np.concatenate([each.channel for each in parts])
        return cls.of(parts[0].channels, channel, Ramps.joined([each.ramps for each in parts]))

    def by_channel(self) -> dict[int, Ramps]:
        """Those of each channel."""
        bounds, ramps = pairwise(self.bounds.tolist()), self.ramps
        columns = ramps.records, ramps.first_ns, ramps.last_ns
        return {
            channel: Ramps(*(each[start:end] for each in columns))
            for channel, (start, end) in zip(self.channels.tolist(), bounds, strict=True)
        }


@dataclass(frozen=True, slots=True, eq=False)
class RecordedChannel:
    """What went through one channel.

    Attributes:
        channel: index in the manifest of the run.
        producer: index of the producing subtask.
        consumer: index of the consuming subtask.
        connection: channels with equal numbers shared one TCP connection; -1 if producer and
            consumer share a process.
        arrivals: intended instants of the records used.
        record_wire_bytes: mean bytes of a record in a buffer, with its length prefix and tag.
        records_before: that came since the stream began, before these.
        counted: the stretches of `arrivals` whose records count, from and to; None for all. The
            others only make the exchange what it is when those come.
    """

    channel: int
    producer: int
    consumer: int
    connection: int
    arrivals: Ramps
    record_wire_bytes: float
    records_before: int = 0
    counted: tuple[int, int] | None = None

    @property
    def records(self) -> int:
        """Number of records."""
        return self.arrivals.total_records

    @property
    def arrivals_ns(self) -> IntArray:
        """The instant of each record."""
        return self.arrivals.instants()[1]


@dataclass(frozen=True, slots=True, eq=False)
class RecordedExchange:
    """One recorded exchange: p producers, q consumers, the records that came, and the costs seen.

    Attributes:
        producers: number of producing subtasks.
        consumers: number of consuming subtasks.
        channels: those that carried records, by index.
        network: the settings of the recorded run.
        is_max_rate: producers emitted as fast as the stack took records. Arrivals then say only how
            many records there were; when they come follows from `costs.emit_ns_per_record` and the
            pressure from downstream.
        measured_from_ns: start of the window that the arrivals were taken from.
        measured_to_ns: its end.
        seed: of the recorded run; the simulation's phase of the flusher derives from it.
        costs: fitted from the trace.
        flow_control: of the recorded run.
        task_managers: where each producer and each consumer ran; empty to put those together whose
            channels share a connection. Channels within one TaskManager are local.
        flush_overhead_ns: what the flusher's period is longer than the buffer timeout.
        counted_ns: messages that are sent in this time count; None for all.
        preemptions: of the process of each producer and each consumer; empty for none.
        has_instants: False where the arrivals are assumed, for messages were seen in passing only.
        buffer_size_bytes: that consumers with buffer debloating had announced last when the window
            began; None where they had not.
        wakeups: what messages take by their distance; None if all take as long.
        ends_its_data: the producers of the recorded run ended with the window.
        flushers_before: tasks with a flusher before the first of these producers, in the order that
            the phases of flushers are drawn in.
        starts_within_ns: how far apart the producers start, and with them their flushers; None for
            any time apart.
        keeps_departures: of each record, when its consumer is done with it shall be known.
    """

    producers: int
    consumers: int
    channels: tuple[RecordedChannel, ...]
    network: NetworkConfig
    is_max_rate: bool
    measured_from_ns: int
    measured_to_ns: int
    seed: int
    costs: CostModel
    flow_control: str = CREDIT
    task_managers: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    preemptions: tuple[tuple[Preemptions, ...], tuple[Preemptions, ...]] = ((), ())
    flush_overhead_ns: int = 0
    counted_ns: tuple[int, int] | None = None
    has_instants: bool = True
    buffer_size_bytes: int | None = None
    wakeups: Wakeups | None = None
    ends_its_data: bool = False
    flushers_before: int = 0
    starts_within_ns: int | None = None
    keeps_departures: bool = False

    def data_ends_ns(self, network: NetworkConfig) -> int:
        """When the producers end: what stands in half-filled buffers leaves then at the latest.

        That is the end of the window where theirs was; else a buffer timeout later, when all would
        have left that was not overtaken by records nobody knows.
        """
        if self.ends_its_data:
            return self.measured_to_ns
        return self.measured_to_ns + max(network.buffer_timeout_ns, 0)

    def beat_ns(self, network: NetworkConfig) -> int | None:
        """From one beat of the flusher to the next; None where it does not beat, 0 where each
        record is flushed.
        """
        timeout_ns = network.buffer_timeout_ns
        if timeout_ns < 0:
            return None
        return timeout_ns + self.flush_overhead_ns if timeout_ns else 0

    def up_to(self, to_ns: int) -> RecordedExchange:
        """The exchange as if its window had ended at an instant."""
        if to_ns >= self.measured_to_ns:
            return self
        parts = (
            replace(each, arrivals=each.arrivals.within(self.measured_from_ns, to_ns))
            for each in self.channels
        )
        return replace(self, channels=tuple(parts), measured_to_ns=to_ns, ends_its_data=False)

    def under(self, setting: Setting) -> RecordedExchange:
        """The exchange with the situation around it as a setting has it; its network is the
        simulation's argument.
        """
        changed = replace(
            self,
            costs=self.costs_under(setting),
            flow_control=setting.flow_control,
            flush_overhead_ns=self._flush_overhead_under(setting),
            wakeups=None,
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
        """What the steps take with the situation around the exchange as a setting has it."""
        costs = self._awake_under(setting)
        return replace(
            costs,
            transit_ns=costs.transit_ns + setting.round_trip_ns / 2,
            back_ns=None if costs.back_ns is None else costs.back_ns + setting.round_trip_ns / 2,
            receive_ns_per_message=costs.receive_ns_per_message / setting.consumer_speed,
            consume_ns_per_record=tuple(
                each / setting.consumer_speed for each in costs.consume_ns_per_record
            ),
        )

    def _flush_overhead_under(self, setting: Setting) -> int:
        """What the flusher's period is longer than the timeout: of threads, which sleep between
        beats, as of those that messages wake; flinknet's own flusher is a timer of a loop."""
        recorded_ns, timeout_ns = self.network.buffer_timeout_ns, setting.network.buffer_timeout_ns
        if self.has_instants or self.wakeups is None or min(recorded_ns, timeout_ns) <= 0:
            return self.flush_overhead_ns
        return self.wakeups.late_ns(self.flush_overhead_ns, recorded_ns, timeout_ns)

    def waking_share(self, setting: Setting) -> float:
        """What messages take to their consumers and there under a setting, as a share of what they
        took in the recorded run, as far as that comes of their distance.
        """
        before, after = self.costs, self._awake_under(setting)
        usual_ns = before.transit_ns + before.receive_ns_per_message
        if not usual_ns:
            return 1.0
        return (after.transit_ns + after.receive_ns_per_message) / usual_ns

    def stops_sleeping(self, setting: Setting) -> bool:
        """Whether consumers that slept between messages in the recorded run would poll."""
        return self._polls(setting) and not self._polls(Setting(self.network))

    def starts_sleeping(self, setting: Setting) -> bool:
        """Whether consumers that polled in the recorded run would sleep between messages."""
        return self._polls(Setting(self.network)) and not self._polls(setting)

    def _polls(self, setting: Setting) -> bool:
        wakeups = self.wakeups
        if wakeups is None:
            return False
        return wakeups.is_polled(wakeups.gap_ns(setting.network, setting.rate_factor))

    def _awake_under(self, setting: Setting) -> CostModel:
        wakeups = self.wakeups
        if wakeups is None:
            return self.costs
        gap_ns = wakeups.gap_ns(setting.network, setting.rate_factor)
        return wakeups.moved(self.costs, wakeups.gap_ns(self.network), gap_ns)

    @property
    def records(self) -> int:
        """Records over all channels."""
        return sum(channel.records for channel in self.channels)

    @property
    def duration_ns(self) -> int:
        """Length of the window."""
        return self.measured_to_ns - self.measured_from_ns


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedOutcome:
    """What a simulation of a RecordedExchange under some NetworkConfig came to.

    Attributes:
        latency: consume instant minus intended instant (at maximum rate: emit instant), of every
            record.
        records: records that reached their consumer.
        messages: data buffers sent.
        duration_ns: virtual time from the start of the window until the last record was consumed,
            less one buffer timeout, or the length of the window if that is longer. At maximum rate
            until the last record was consumed: when records came is then not given.
        backlog_buffers: backlog that the data messages carried.
        memory_bytes: most that the buffers of all partitions and gates can take.
        credits: announced by the consumers.
        credit_messages: that announced them.
        method: what computed it.
        latency_bounds: where the arrivals were assumed, the latency if every record had come as
            late as it can have, and as early.
        checkpoints: what became of them; None without any, and where it is not simulated.
    """

    latency: LogLinearHistogram
    records: int
    messages: int
    duration_ns: int
    backlog_buffers: BacklogSummary
    memory_bytes: int = 0
    credits: int = 0
    credit_messages: int = 0
    method: str = "simulator"
    latency_bounds: tuple[LogLinearHistogram, LogLinearHistogram] | None = None
    checkpoints: CheckpointSummary | None = None

    @property
    def throughput_records_per_s(self) -> float | None:
        """Records consumed per second of virtual time."""
        return self.records * 1e9 / self.duration_ns if self.duration_ns > 0 else None

    @property
    def buffers_per_s(self) -> float | None:
        """Data buffers sent per second of virtual time."""
        return self.messages * 1e9 / self.duration_ns if self.duration_ns > 0 else None


def joined_outcomes(parts: Sequence[SimulatedOutcome]) -> SimulatedOutcome:
    """What the windows of an exchange came to together."""
    if len(parts) == 1:
        return parts[0]
    messages = sum(each.messages for each in parts)
    backlog = sum((each.backlog_buffers.mean or 0.0) * each.messages for each in parts)
    most = [each.backlog_buffers.max for each in parts if each.backlog_buffers.max is not None]
    bounds = [each.latency_bounds for each in parts if each.latency_bounds is not None]
    return SimulatedOutcome(
        latency=merged([each.latency for each in parts]),
        records=sum(each.records for each in parts),
        messages=messages,
        duration_ns=sum(each.duration_ns for each in parts),
        backlog_buffers=BacklogSummary(
            backlog / messages if messages else None, max(most, default=None)
        ),
        memory_bytes=max(each.memory_bytes for each in parts),
        credits=sum(each.credits for each in parts),
        credit_messages=sum(each.credit_messages for each in parts),
        method=next((each.method for each in parts if each.records), parts[0].method),
        latency_bounds=(merged([low for low, _ in bounds]), merged([high for _, high in bounds]))
        if bounds
        else None,
        checkpoints=parts[0].checkpoints,
    )


def merged(latencies: Sequence[LogLinearHistogram]) -> LogLinearHistogram:
    """All of them in one."""
    latency = LogLinearHistogram()
    for each in latencies:
        latency.merge(each)
    return latency
