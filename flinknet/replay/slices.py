"""Slices of long runs, simulated by executors one by one, each with a warm-up before the time that
counts and some time after it.

A slice begins where the simulation of the whole run would stand, as far as that follows from the
records: the flusher on its beat, the segment of each channel filled as far as by earlier records,
checkpoints at their interval. Queues start empty and fill within the warm-up, for in what the
compiled kernel covers no writer ever waits. Left out are beats that drift by the length of turns,
segments that barriers ended before the warm-up, and checkpoints that take longer than their
interval. Latencies count for the records that came in the slice, messages and credit for those sent
in it; outcomes of slices add up. A setting that the kernel does not cover is simulated again, as
far as it is without slices.

Arrivals are found bucket by bucket of the channels and brought together slice by slice: they never
pass through the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigError
from flinknet.histogram import LogLinearHistogram
from flinknet.options.what_if import Setting
from flinknet.predict.exchange import manifest_of, recorded_channels
from flinknet.predict.fit.window_rows import read_arrivals
from flinknet.predict.loading import load_exchange
from flinknet.predict.outcome import CheckpointTimes, Outcome, added_checkpoints, joined
from flinknet.predict.ramps import ChannelRamps
from flinknet.predict.recorded import RecordedExchange
from flinknet.results import BacklogSummary
from flinknet.trace.index import Stamp
from flinknet.trace.recordings import Recording, open_recordings

from . import simulations
from .observe.traffic import SliceLoad, loads_of
from .plans import Window
from .predictions import Prediction, PredictionUnit, within_clocks
from .spark.frames import columns_of, mapped, record_batches, rows_of, schema_of, unpacked
from .spark.worker import freeze_what_is_loaded, return_free_memory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WARM_UP_NS, WARM_UP_BEATS = 50_000_000, 3
"""Warm-up before a slice: its length, and its beats of the flusher; the longer one counts."""

PARTITIONS_MAX = 1_000
SLICES_PER_PARTITION = 2
"""Slices of a partition, by their hash: with as many of both, a third of the tasks would be
idle."""

_NEVER_NS = 2**62

_LOADED = ("channels", "records", "records_before", "record_wire_bytes")


@dataclass(frozen=True, slots=True)
class SliceUnit:
    """A slice, with the arrivals in it on all channels; `whole` has all slices as one window."""

    whole: PredictionUnit
    window: Window
    load: SliceLoad

    @classmethod
    def of(cls, unit: PredictionUnit, loads: Sequence[SliceLoad]) -> SliceUnit:
        part, first = unit.part, loads[0]
        window = next(each for each in part.windows if each.number == first.slice)
        lists = ([each for own in loads for each in getattr(own, name)] for name in _LOADED)
        part = replace(part, windows=(Window(part.from_ns, part.to_ns),))
        return cls(replace(unit, part=part), window, SliceLoad(first.run, first.slice, *lists))

    @property
    def from_ns(self) -> int:
        return self.whole.part.from_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicePart:
    """Share of a slice in the outcome of a candidate; without figures if uncovered or an error."""

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
    latency: LogLinearHistogram | None = None
    checkpoints: CheckpointTimes | None = None


_ADDED = (
    *("records", "messages", "backlog_total", "backlog_max", "credits", "last_ns"),
    *("memory_bytes", "latency", "checkpoints"),
)


def simulated_slices(arrivals: DataFrame, units: Mapping[int, PredictionUnit]) -> DataFrame:
    """Simulate all slices of runs, by tables of ArrivalsRow and units. Returns: rows of
    SlicePart."""
    wanted = {run: [each.number for each in own.part.windows] for run, own in units.items()}
    count = sum(map(len, wanted.values()))

    def loaded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = schema_of(SliceLoad)
        for batch in batches:
            for run, data in zip(batch["run"].to_pylist(), batch["rows"], strict=True):
                for load in loads_of(unpacked(data.as_py()), wanted.get(run, ())):
                    yield from record_batches([columns_of(SliceLoad, [load])], schema)

    loads = mapped(arrivals, loaded, SliceLoad)
    keys = ("run", "slice")
    loads = loads.repartition(
        max(1, min(-(-count // SLICES_PER_PARTITION), PARTITIONS_MAX)), *keys
    ).sortWithinPartitions(*keys)
    return mapped(loads, partial(_parts, units=units), SlicePart)


def _parts(
    batches: Iterator[pa.RecordBatch], *, units: Mapping[int, PredictionUnit]
) -> Iterator[pa.RecordBatch]:
    schema = schema_of(SlicePart)
    loads = (load for batch in batches for load in rows_of(SliceLoad, batch))
    for (run, _), own in groupby(loads, key=lambda each: (each.run, each.slice)):
        unit = SliceUnit.of(units[run], sorted(own, key=lambda each: each.channels))
        yield from record_batches([columns_of(SlicePart, simulate_slice(unit))], schema)
        return_free_memory()
    freeze_what_is_loaded()


def simulate_slice(unit: SliceUnit) -> list[SlicePart]:
    """The parts of a slice, one for each setting. Runs in an executor."""
    from flinknet.predict.what_if import simulate_part

    frame = _exchange_of(unit.whole)
    window, whole = unit.window, unit.whole
    networks = [setting.network for (setting,) in whole.settings]
    edge_ns = max(_warm_up_ns(frame, network) for network in networks)
    length_ns = window.to_ns - window.from_ns
    rest_ns = max(_rest_ns(frame, unit, network) for network in networks)
    rest_ns = min(rest_ns, max(length_ns, WARM_UP_NS))
    load_from_ns = max(window.from_ns - edge_ns - _period_ns(frame, networks), unit.from_ns)
    load_to_ns = min(window.to_ns + rest_ns, unit.whole.part.to_ns)
    pieces = _pieces(unit, load_from_ns, load_to_ns)
    parts = []
    for candidate, (setting,) in zip(whole.candidates, whole.settings, strict=True):
        part = SlicePart(run=whole.runs[0], candidate=candidate, slice_from_ns=window.from_ns)
        if _rest_ns(frame, unit, setting.network) <= max(0.25 * length_ns, rest_ns):
            exchange = _part(frame, unit, pieces, load_from_ns, load_to_ns, setting)
            try:
                if (outcome := simulate_part(exchange, setting.network)) is not None:
                    added = {name: getattr(outcome, name) for name in _ADDED}
                    part = replace(part, is_covered=True, **added)
            except ConfigError as error:
                part = replace(part, error=str(error), is_covered=True)
        parts.append(part)
    return parts


def _exchange_of(unit: PredictionUnit) -> RecordedExchange:
    """The exchange of a unit without its arrivals, and its costs; fitted once in each process."""
    return _fitted(
        unit.place, unit.part.from_ns, unit.part.to_ns, simulations.stamps_at(unit.place)
    )


@lru_cache(maxsize=8)
def _fitted(
    place: tuple[Recording, ...], from_ns: int, to_ns: int, _stamps: tuple[Stamp, ...]
) -> RecordedExchange:
    return load_exchange(place, from_ns, to_ns, with_arrivals=False)


def _pieces(unit: SliceUnit, load_from_ns: int, load_to_ns: int) -> list[ChannelRamps]:
    """Arrivals before a slice, in it, and behind it, of the same channels."""
    files = open_recordings(unit.whole.place).files
    sent_before_ns = load_to_ns + (unit.whole.part.latest_ns or 0) + 1
    arrivals = read_arrivals(files, load_from_ns, load_to_ns, sent_before_ns)
    known = arrivals.only(np.intersect1d(unit.load.channels, arrivals.channels))
    edges = (load_from_ns, unit.window.from_ns, unit.window.to_ns, load_to_ns)
    return [known.within(*each) for each in pairwise(edges)]


def _part(
    frame: RecordedExchange,
    unit: SliceUnit,
    pieces: Sequence[ChannelRamps],
    load_from_ns: int,
    load_to_ns: int,
    setting: Setting,
) -> RecordedExchange:
    """The exchange of a slice, with the arrivals before and behind it."""
    run_from_ns, factor = unit.from_ns, setting.rate_factor

    def scaled(at_ns: int) -> int:
        return run_from_ns + round((at_ns - run_from_ns) / factor)

    before = dict(zip(unit.load.channels, unit.load.records_before, strict=True))
    sizes = dict(zip(unit.load.channels, unit.load.record_wire_bytes, strict=True))
    period_ns = _period_ns(frame, [setting.network])
    slice_ns = scaled(unit.window.from_ns)
    wanted_ns = max(slice_ns - _warm_up_ns(frame, setting.network), scaled(load_from_ns))
    beats = max(-(-(wanted_ns - run_from_ns) // period_ns), 0)
    start_ns = run_from_ns + beats * period_ns  # a whole number of beats after that of the run
    start_ns -= period_ns * (start_ns > slice_ns)
    if factor != 1:
        pieces = [each.faster(factor, run_from_ns) for each in pieces]
    earlier, own, later = pieces
    warm = earlier.within(start_ns, _NEVER_NS)
    whole = ChannelRamps.joined((warm, own, later)).by_channel()
    counts = zip(*(each.tolist() for each in (warm.records, warm.counts, own.counts)), strict=True)
    channels = [
        replace(
            channel, records_before=before[channel.channel] - warmed, counted=(first, first + count)
        )
        for channel, (warmed, first, count) in zip(
            recorded_channels(manifest_of(unit.whole.place), whole, sizes), counts, strict=True
        )
    ]
    exchange = replace(frame, channels=tuple(channels)).under(replace(setting, rate_factor=1.0))
    return replace(
        exchange,
        costs=frame.costs_under(setting),
        measured_from_ns=start_ns,
        measured_to_ns=scaled(load_to_ns),
        checkpoints_from_ns=run_from_ns,
        ends_its_data=frame.ends_its_data and load_to_ns == unit.whole.part.to_ns,
        counted_ns=(
            scaled(unit.window.from_ns) if unit.window.from_ns > unit.from_ns else 0,
            _NEVER_NS if unit.window.to_ns >= unit.whole.part.to_ns else scaled(unit.window.to_ns),
        ),
    )


def _warm_up_ns(frame: RecordedExchange, network: NetworkConfig) -> int:
    return max(WARM_UP_NS, WARM_UP_BEATS * _period_ns(frame, [network]))


def _period_ns(frame: RecordedExchange, networks: Sequence[NetworkConfig]) -> int:
    return max(max(each.buffer_timeout_ns, 0) + frame.flush_overhead_ns for each in networks)


def _rest_ns(frame: RecordedExchange, unit: SliceUnit, network: NetworkConfig) -> int:
    """Time until the records of a slice have left, at most."""
    if network.buffer_timeout_ns >= 0:
        return WARM_UP_NS + 2 * _period_ns(frame, [network])
    length_ns = unit.window.to_ns - unit.window.from_ns
    slowest = min(
        each * size
        for each, size in zip(unit.load.records, unit.load.record_wire_bytes, strict=True)
    )
    fills_ns = length_ns * network.segment_size_bytes / slowest if slowest else _NEVER_NS
    return WARM_UP_NS + int(2 * fills_ns)


def added_up(
    parts: Sequence[SlicePart], exchange: RecordedExchange, network: NetworkConfig
) -> Outcome:
    """The outcome of an exchange under a setting from its parts, all covered."""
    from flinknet.predict.what_if import duration_ns

    def outcome_of(part: SlicePart) -> Outcome:
        mean = part.backlog_total / part.messages if part.messages else None
        return Outcome(
            part.latency or LogLinearHistogram(),
            part.records,
            part.messages,
            1,
            BacklogSummary(mean, part.backlog_max),
            memory_bytes=part.memory_bytes,
            credits=part.credits,
            method="kernel",
        )

    found = joined([outcome_of(part) for part in parts])
    last_ns = max(part.last_ns for part in parts)
    length_ns = duration_ns(last_ns, found.records, found.messages or 0, exchange, network)
    checkpoints = [part.checkpoints for part in parts if part.checkpoints is not None]
    times = added_checkpoints(checkpoints) if checkpoints else None
    return replace(found, duration_ns=length_ns, checkpoints=times)


def prediction_of_slices(unit: PredictionUnit, parts: Sequence[SlicePart]) -> Prediction:
    """The prediction of an exchange from its slices, in order; the unit has one candidate."""
    from flinknet.predict.what_if import with_delays

    part, ((setting,),) = unit.part, unit.settings
    if not all(each.is_covered for each in parts):
        first = part.from_ns + part.core_ns
        core = replace(part, windows=(Window(part.from_ns, first),), latest_ns=None)
        (row,) = simulations.predictions_of(replace(unit, part=core))
        return row if first >= part.to_ns else simulations.of_the_first(row, part.from_ns, first)
    exchange = _exchange_of(unit)
    row = simulations.unpredicted(unit, 0, exchange)
    error = part.why_refused(setting) or next((each.error for each in parts if each.error), None)
    if error is None:
        simulated = added_up(parts, exchange.under(setting), setting.network)
        if part.simulated_ns < part.to_ns - part.from_ns:
            length_ns = round(part.simulated_ns / setting.rate_factor)
            simulated = replace(simulated, duration_ns=length_ns)
            row = replace(row, windows=len(parts), simulated_ns=part.simulated_ns)
        simulated = with_delays(simulated, exchange, setting)
        row = simulations.with_outcome(row, simulated, exchange, setting)
    row = simulations.with_notes(simulations.unknown(row, error), unit.recorded[0], is_timed=True)
    return within_clocks(row, manifest_of(unit.place).clock.error_ns)
