"""What-if of a long run, slice by slice: each a simulation of its own, with a warm-up before what
counts and some time after it.

A slice begins where the simulation of the whole run would stand, as far as that follows from the
records: the flusher on its beat, the segment of each channel filled as far as by the records that
came before, checkpoints at their interval. Queues start empty and fill within the warm-up, for in
what the compiled kernel covers no writer ever waits: no channel has more than its quota of buffers.
What is left are beats that drift by the length of turns, segments that barriers ended before the
warm-up, and checkpoints that take longer than their interval. Latencies count for the records that
came in the slice, messages and credit for those sent in it; outcomes of slices add up. A setting
that the kernel does not cover is simulated again, as far as it is without slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigError
from flinknet.histogram import LogLinearHistogram
from flinknet.options.what_if import Setting
from flinknet.predict.exchange import load_exchange, recorded_channels
from flinknet.predict.fit.costs import CostFit
from flinknet.predict.fit.window_rows import read_arrivals
from flinknet.predict.ramps import ChannelRamps
from flinknet.predict.recorded import RecordedExchange
from flinknet.predict.simulated import CheckpointTimes, SimulatedOutcome, added_checkpoints
from flinknet.results import BacklogSummary
from flinknet.trace import RunManifest
from flinknet.trace.index import Stamp, stamps_of
from flinknet.trace.recordings import Recording, open_recordings

from .observe.arrivals import Slice, SliceLoad

WARM_UP_NS, WARM_UP_BEATS = 50_000_000, 3
"""What comes before a slice: so long and so many beats of the flusher, the longer the better."""

_EDGE_SHARE = 0.25
"""Warm-up and rest may be that long, relative to a slice."""

_NEVER_NS = 2**62


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """What all slices of a run have in common.

    Attributes:
        candidates: numbers of the settings to simulate.
        slices: by number.
    """

    run: int
    place: tuple[Recording, ...]
    candidates: Sequence[int]
    settings: Sequence[Setting]
    from_ns: int
    to_ns: int
    slices: Mapping[int, Slice]
    latest_ns: int

    def unit(self, loads: Sequence[SliceLoad]) -> SliceUnit:
        """A slice, with what comes in it over all channels."""
        own = self.slices[loads[0].slice]
        return SliceUnit(
            run=self.run,
            place=self.place,
            candidates=self.candidates,
            settings=self.settings,
            from_ns=self.from_ns,
            to_ns=self.to_ns,
            slice_from_ns=own.from_ns,
            slice_to_ns=own.to_ns,
            is_last=own.to_ns >= self.to_ns,
            channels=[each for load in loads for each in load.channels],
            records=[each for load in loads for each in load.records],
            records_before=[each for load in loads for each in load.records_before],
            record_wire_bytes=[each for load in loads for each in load.record_wire_bytes],
            latest_ns=self.latest_ns,
        )


@dataclass(frozen=True, slots=True)
class SliceUnit:
    """A slice with the settings to simulate."""

    run: int
    place: tuple[Recording, ...]
    candidates: Sequence[int]
    settings: Sequence[Setting]
    from_ns: int
    to_ns: int
    slice_from_ns: int
    slice_to_ns: int
    is_last: bool
    channels: list[int]
    records: list[int]
    records_before: list[int]
    record_wire_bytes: list[float]
    latest_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicePart:
    """What a slice adds to the outcome of a candidate.

    Attributes:
        is_covered: the kernel could simulate it; without that, or with an error, nothing was added.
    """

    run: int
    candidate: int
    slice_from_ns: int
    is_covered: bool = False
    error: str | None = None
    records: int = 0
    messages: int = 0
    backlog_total: int = 0
    backlog_max: int = 0
    credits: int = 0
    last_ns: int = 0
    memory_bytes: int = 0
    histogram: bytes = b""
    checkpoints_triggered: int = 0
    checkpoints_completed: int = 0
    checkpoints_unaligned: int = 0
    processed_bytes: int = 0
    overtaken_bytes: int = 0
    overtaken_bytes_max: int = 0
    checkpoint_times: list[bytes] = field(default_factory=list)

    @property
    def checkpoints(self) -> CheckpointTimes | None:
        """What became of the checkpoints that began in the slice; None without any."""
        if not self.checkpoint_times:
            return None
        return CheckpointTimes(
            self.checkpoints_triggered,
            self.checkpoints_completed,
            self.checkpoints_unaligned,
            self.processed_bytes,
            self.overtaken_bytes,
            self.overtaken_bytes_max,
            tuple(map(LogLinearHistogram.from_bytes, self.checkpoint_times)),
        )


def simulate_slice(unit: SliceUnit) -> Iterator[SlicePart]:
    """The parts of a slice, one for each setting. Runs in an executor."""
    from flinknet.predict.what_if import simulate_part

    place = tuple(unit.place)
    frame, _ = fitted(place, unit.from_ns, unit.to_ns)
    networks = [setting.network for setting in unit.settings]
    edge_ns = max(_warm_up_ns(frame, network) for network in networks)
    length_ns = unit.slice_to_ns - unit.slice_from_ns
    rest_ns = max(_rest_ns(frame, unit, network) for network in networks)
    rest_ns = min(rest_ns, max(length_ns, WARM_UP_NS))
    load_from_ns = max(unit.slice_from_ns - edge_ns - _period_ns(frame, networks), unit.from_ns)
    load_to_ns = min(unit.slice_to_ns + rest_ns, unit.to_ns)
    pieces = _pieces(unit, place, load_from_ns, load_to_ns)
    for candidate, setting in zip(unit.candidates, unit.settings, strict=True):
        part = SlicePart(run=unit.run, candidate=candidate, slice_from_ns=unit.slice_from_ns)
        if _rest_ns(frame, unit, setting.network) <= max(_EDGE_SHARE * length_ns, rest_ns):
            exchange = _part(frame, unit, pieces, load_from_ns, load_to_ns, setting)
            try:
                outcome = simulate_part(exchange, setting.network)
            except ConfigError as error:
                yield replace(part, error=str(error), is_covered=True)
                continue
            if outcome is not None:
                part = replace(
                    part,
                    is_covered=True,
                    records=outcome.records,
                    messages=outcome.messages,
                    backlog_total=outcome.backlog_total,
                    backlog_max=outcome.backlog_max,
                    credits=outcome.credits,
                    last_ns=outcome.last_ns,
                    memory_bytes=outcome.memory_bytes,
                    histogram=outcome.latency.to_bytes(),
                )
                found = outcome.checkpoints
                if found is not None:
                    part = replace(
                        part,
                        checkpoints_triggered=found.triggered,
                        checkpoints_completed=found.completed,
                        checkpoints_unaligned=found.unaligned,
                        processed_bytes=found.processed_bytes,
                        overtaken_bytes=found.overtaken_bytes,
                        overtaken_bytes_max=found.overtaken_bytes_max,
                        checkpoint_times=[each.to_bytes() for each in found.times],
                    )
        yield part


def fitted(
    place: tuple[Recording, ...], from_ns: int, to_ns: int
) -> tuple[RecordedExchange, CostFit]:
    """The exchange of a run without its arrivals, and what things cost; fitted once in each
    process."""
    return _fitted(place, from_ns, to_ns, stamps_at(place))


def stamps_at(place: tuple[Recording, ...]) -> tuple[Stamp, ...]:
    """When the files of a run were changed: what was kept of them holds as long as this."""
    return stamps_of(open_recordings(place).files)


@lru_cache(maxsize=8)
def _fitted(
    place: tuple[Recording, ...], from_ns: int, to_ns: int, _stamps: tuple[Stamp, ...]
) -> tuple[RecordedExchange, CostFit]:
    return load_exchange(place, from_ns, to_ns, with_arrivals=False)


@dataclass(frozen=True, slots=True, eq=False)
class _Pieces:
    """What comes before a slice, what comes in it in parts, and what comes behind, of the same
    channels."""

    before: ChannelRamps
    own: Sequence[ChannelRamps]
    behind: ChannelRamps

    def faster(self, factor: float, from_ns: int) -> _Pieces:
        if factor == 1:
            return self
        own = [each.faster(factor, from_ns) for each in self.own]
        before, behind = (each.faster(factor, from_ns) for each in (self.before, self.behind))
        return _Pieces(before, own, behind)


def _pieces(
    unit: SliceUnit, place: tuple[Recording, ...], load_from_ns: int, load_to_ns: int
) -> _Pieces:
    files, sent_before_ns = open_recordings(place).files, load_to_ns + unit.latest_ns + 1
    arrivals = read_arrivals(files, load_from_ns, load_to_ns, sent_before_ns)
    known = arrivals.only(np.intersect1d(unit.channels, arrivals.channels))
    edges = (load_from_ns, unit.slice_from_ns, unit.slice_to_ns, load_to_ns)
    before, own, behind = known.split(edges)
    return _Pieces(ChannelRamps.joined(before), own, ChannelRamps.joined(behind))


def _part(
    frame: RecordedExchange,
    unit: SliceUnit,
    pieces: _Pieces,
    load_from_ns: int,
    load_to_ns: int,
    setting: Setting,
) -> RecordedExchange:
    """The exchange of a slice: what comes before it, itself, and what comes behind."""
    run_from_ns, factor = unit.from_ns, setting.rate_factor

    def scaled(at_ns: int) -> int:
        return run_from_ns + round((at_ns - run_from_ns) / factor)

    before = dict(zip(unit.channels, unit.records_before, strict=True))
    sizes = dict(zip(unit.channels, unit.record_wire_bytes, strict=True))
    start_ns = _start_ns(frame, unit, scaled(load_from_ns), scaled(unit.slice_from_ns), setting)
    pieces = pieces.faster(factor, run_from_ns)
    warm = pieces.before.within(start_ns, _NEVER_NS)
    whole = ChannelRamps.joined((warm, *pieces.own, pieces.behind)).by_channel()
    counted = np.sum([each.counts for each in pieces.own], axis=0)
    counts = zip(*(each.tolist() for each in (warm.records, warm.counts, counted)), strict=True)
    channels = []
    recorded = recorded_channels(_manifest(tuple(unit.place)), whole, sizes)
    for channel, (warmed, first, count) in zip(recorded, counts, strict=True):
        channels.append(
            replace(
                channel,
                records_before=before[channel.channel] - warmed,
                counted=(first, first + count),
            )
        )
    exchange = replace(frame, channels=tuple(channels)).under(replace(setting, rate_factor=1.0))
    return replace(
        exchange,
        costs=frame.costs_under(setting),
        measured_from_ns=start_ns,
        measured_to_ns=scaled(load_to_ns),
        checkpoints_from_ns=run_from_ns,
        ends_its_data=frame.ends_its_data and load_to_ns == unit.to_ns,
        counted_ns=(
            scaled(unit.slice_from_ns) if unit.slice_from_ns > unit.from_ns else 0,
            _NEVER_NS if unit.is_last else scaled(unit.slice_to_ns),
        ),
    )


def _start_ns(
    frame: RecordedExchange, unit: SliceUnit, earliest_ns: int, slice_ns: int, setting: Setting
) -> int:
    """When the simulation of a slice starts: a whole number of beats after the run."""
    network = setting.network
    period_ns = max(network.buffer_timeout_ns, 0) + frame.flush_overhead_ns
    wanted_ns = max(slice_ns - _warm_up_ns(frame, network), earliest_ns)
    beats = max(-(-(wanted_ns - unit.from_ns) // period_ns), 0)
    start_ns = unit.from_ns + beats * period_ns
    if start_ns > slice_ns:
        start_ns -= period_ns
    return start_ns


def _warm_up_ns(frame: RecordedExchange, network: NetworkConfig) -> int:
    return max(WARM_UP_NS, WARM_UP_BEATS * _period_ns(frame, [network]))


def _period_ns(frame: RecordedExchange, networks: Sequence[NetworkConfig]) -> int:
    return max(max(each.buffer_timeout_ns, 0) + frame.flush_overhead_ns for each in networks)


def _rest_ns(frame: RecordedExchange, unit: SliceUnit, network: NetworkConfig) -> int:
    """How long it may take until the records of a slice have left."""
    if network.buffer_timeout_ns >= 0:
        return WARM_UP_NS + 2 * _period_ns(frame, [network])
    length_ns = unit.slice_to_ns - unit.slice_from_ns
    slowest = min(
        each * size for each, size in zip(unit.records, unit.record_wire_bytes, strict=True)
    )
    fills_ns = length_ns * network.segment_size_bytes / slowest if slowest else _NEVER_NS
    return WARM_UP_NS + int(2 * fills_ns)


def _manifest(place: tuple[Recording, ...]) -> RunManifest:
    manifest = open_recordings(place).manifest
    assert manifest is not None
    return manifest


def added_up(
    parts: Sequence[SlicePart], exchange: RecordedExchange, network: NetworkConfig
) -> SimulatedOutcome:
    """The outcome of a setting from its parts, all covered.

    Args:
        exchange: as the setting has it.
    """
    from flinknet.predict.what_if import duration_ns

    latency = LogLinearHistogram()
    for part in parts:
        latency.merge(LogLinearHistogram.from_bytes(part.histogram))
    records = sum(part.records for part in parts)
    messages = sum(part.messages for part in parts)
    backlog_total = sum(part.backlog_total for part in parts)
    last_ns = max(part.last_ns for part in parts)
    checkpoints = [each for each in (part.checkpoints for part in parts) if each is not None]
    return SimulatedOutcome(
        latency,
        records,
        messages,
        duration_ns(last_ns, records, messages, exchange, network),
        BacklogSummary(
            backlog_total / messages if messages else None, max(part.backlog_max for part in parts)
        ),
        memory_bytes=max(part.memory_bytes for part in parts),
        credits=sum(part.credits for part in parts),
        method="kernel",
        checkpoints=added_checkpoints(checkpoints).summary() if checkpoints else None,
    )
