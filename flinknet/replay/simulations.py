"""Recorded arrivals under other settings: one simulation for each run and candidate, inside the
executors. A work unit is a run with a share of its candidates, so that the run is read once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigError, SimulationError
from flinknet.options.what_if import Setting
from flinknet.predict.captured import load_captured
from flinknet.predict.exchange import BLOCKING_IS_NO_MODEL, is_blocking, is_max_rate, load_exchange
from flinknet.predict.fit.costs import CostFit
from flinknet.predict.fit.queued import contradiction
from flinknet.predict.flushes import flushes_factor
from flinknet.predict.likely import likely_around
from flinknet.predict.recorded import RecordedExchange
from flinknet.predict.simulated import SimulatedOutcome, joined_outcomes
from flinknet.trace.index import Stamp
from flinknet.trace.recordings import Recording, open_recordings

from . import figures
from .advise.edges import NOT_FROM_SOURCES, is_from_sources
from .observe.arrivals import Slicing
from .outcome import Candidate, Outcome, Window
from .read import RecordedRun
from .sliced import PARTITIONS_MAX, simulated_slices, slice_plans
from .slices import SlicePart, added_up, fitted, stamps_at
from .spark.checkpoint import Checkpoint
from .spark.frames import (
    Columns,
    columns_of,
    in_order,
    map_units,
    mapped,
    rows_of,
    table_of,
)
from .spark.units import UNITS_MIN
from .windows import why_too_short

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Simulate = Callable[[RecordedExchange, NetworkConfig], SimulatedOutcome]

MAX_RATE_WINDOW_NS = 2_000_000_000
"""How much of a run at the highest rate is read without Spark."""

SEVERAL_EXCHANGES = "records passed through several exchanges, and the model knows one at a time"
"""Why nothing is predicted from the first producer to the last consumer."""


@dataclass(frozen=True, slots=True)
class PredictionUnit:
    """A run with a share of its candidates, and the windows to simulate.

    Attributes:
        to_ns: end of the part that the windows are of.
        part_ns: how much of the windows together is simulated where the compiled model does not
            know the exchange.
        is_asked: the part was asked for.
    """

    run: int
    place: list[Recording]
    candidates: list[int]
    settings: list[Setting]
    windows: list[Window]
    to_ns: int
    part_ns: int
    edge: int | None = None
    is_asked: bool = False


def predict(
    spark: SparkSession,
    candidates: Sequence[Candidate],
    simulate: Simulate | None = None,
    slicings: Mapping[int, Slicing] | None = None,
    arrivals: DataFrame | None = None,
    checkpoint: Checkpoint | None = None,
) -> DataFrame:
    """Simulate every candidate.

    Args:
        simulate: the simulation; None for the one of `predict.what_if`.
        slicings: how long runs are cut, by their number; each slice is simulated on its own, by
            `predict.what_if`.
        arrivals: what comes in the slices, from `ObservedTables.packed_arrivals`.
        checkpoint: where what comes of the slices is kept; None: nowhere.

    Returns: rows of Outcome.
    """
    if slicings:
        assert arrivals is not None
        sliced = [each for each in candidates if each.run.run in slicings]
        table = _predict_slices(sliced, slicings, arrivals, checkpoint)
        rest = [each for each in candidates if each.run.run not in slicings]
        return table.union(predict(spark, rest, simulate)) if rest else table
    units = _units(candidates, UNITS_MIN)
    return map_units(spark, units, partial(_predicted_columns, simulate=simulate), Outcome)


def _predicted_columns(unit: PredictionUnit, *, simulate: Simulate | None) -> Iterable[Columns]:
    return [columns_of(Outcome, list(_simulate_unit(unit, simulate)))]


def _predict_slices(
    candidates: Sequence[Candidate],
    slicings: Mapping[int, Slicing],
    arrivals: DataFrame,
    checkpoint: Checkpoint | None,
) -> DataFrame:
    bare = {each.run.run: _without_channels(each.run) for each in candidates}
    by_key = {
        (each.run.run, each.number): replace(each, run=bare[each.run.run]) for each in candidates
    }

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = (part for batch in batches for part in rows_of(SlicePart, batch))
        for key, own in groupby(found, lambda part: (part.run, part.candidate)):
            parts = sorted(own, key=lambda part: part.slice_from_ns)
            outcome = _outcome_of_slices(by_key[key], parts, slicings[key[0]].simulated_ns)
            yield from table_of(Outcome, [outcome]).to_batches()

    keys = ("run", "candidate")
    plans = slice_plans(candidates, slicings)
    parts = simulated_slices(arrivals, plans, checkpoint)
    parts = parts.repartition(min(len(candidates), PARTITIONS_MAX), *keys)
    return in_order(mapped(parts.sortWithinPartitions(*keys), merge, Outcome), *keys)


def _without_channels(run: RecordedRun) -> RecordedRun:
    """What outcomes need of a run: with a million channels it would not travel."""
    return replace(run, manifest=replace(run.manifest, channels=()), files=())


def _outcome_of_slices(
    candidate: Candidate, parts: Sequence[SlicePart], simulated_ns: int | None = None
) -> Outcome:
    """The outcome of a candidate from those of its slices, in their order; `simulated_ns`: their
    length together where they are not all.
    """
    run, setting, to_ns = candidate.run, candidate.setting, candidate.to_ns
    from_ns = run.from_ns
    if not all(part.is_covered for part in parts):
        capped_to_ns = candidate.capped_to_ns or to_ns
        (unit,) = _units([replace(candidate, to_ns=capped_to_ns)], shares=1)
        (outcome,) = _simulate_unit(unit, None)
        return (
            outcome
            if capped_to_ns >= to_ns
            else figures.of_the_first(outcome, from_ns, capped_to_ns)
        )
    exchange, fit = fitted(run.place, from_ns, to_ns)
    unpredicted = figures.unpredicted(run.run, candidate.number, setting, fit, to_ns)
    error = next((part.error for part in parts if part.error), None)
    if candidate.is_asked:
        error = why_too_short(to_ns - from_ns, setting) or error
    if error is not None:
        return replace(unpredicted, error=error)
    simulated = added_up(parts, exchange.under(setting), setting.network)
    if simulated_ns is not None:
        simulated = replace(simulated, duration_ns=round(simulated_ns / setting.rate_factor))
        unpredicted = replace(unpredicted, windows=len(parts), simulated_ns=simulated_ns)
    return figures.with_figures(unpredicted, simulated, exchange, fit, setting)


def predict_here(run: RecordedRun, settings: Sequence[Setting], duration_ns: int) -> list[Outcome]:
    """Predict some settings in this process, without Spark.

    Args:
        duration_ns: how long records come, from the start of the measured part, until producers
            end. What things cost is found in more of the trace, if there is more.

    Returns: an outcome for each.
    """
    is_capped = is_max_rate(run.manifest)
    to_ns = run.from_ns + (min(duration_ns, MAX_RATE_WINDOW_NS) if is_capped else duration_ns)
    candidates = [Candidate(run, number, each, to_ns) for number, each in enumerate(settings)]
    (unit,) = _units(candidates, shares=1)
    return list(_simulate_unit(unit, None, ends_its_data=not is_capped))


def _units(candidates: Sequence[Candidate], shares: int) -> list[PredictionUnit]:
    """Each run with its candidates dealt out to so many units."""
    units = []
    runs = {each.run.run: each for each in candidates}
    for run, last in runs.items():
        own = [each for each in candidates if each.run.run == run]
        windows = [*last.windows] or [Window(last.run.from_ns, last.to_ns)]
        part_ns = (last.capped_to_ns or last.to_ns) - last.run.from_ns
        parts = min(shares, len(own))
        for part in range(parts):
            share = own[part::parts]
            units.append(
                PredictionUnit(
                    run,
                    list(last.run.place),
                    [each.number for each in share],
                    [each.setting for each in share],
                    windows,
                    last.to_ns,
                    part_ns,
                    last.run.edge,
                    last.is_asked,
                )
            )
    return units


@dataclass(frozen=True, slots=True, eq=False)
class _Loaded:
    """The windows of a run, and what things cost."""

    exchanges: tuple[RecordedExchange, ...]
    fit: CostFit


@lru_cache(maxsize=1)
def _loaded(
    place: tuple[Recording, ...],
    windows: tuple[Window, ...],
    edge: int | None,
    _stamps: tuple[Stamp, ...],
) -> _Loaded:
    """What all shares of the settings of a run need, loaded once in each process."""
    manifest = open_recordings(place).manifest
    load = load_captured if manifest is not None and manifest.is_from_between else load_exchange
    found = [load(place, each.from_ns, each.to_ns, edge=edge) for each in windows]
    _, fit = max(found, key=lambda each: each[0].records)
    return _Loaded(tuple(exchange for exchange, _ in found), fit)


def _simulate_unit(
    unit: PredictionUnit, simulate: Simulate | None, *, ends_its_data: bool = False
) -> Iterator[Outcome]:
    """The outcomes of a unit; `ends_its_data`: of producers that end with the window, whether or
    not the recorded ones did."""
    manifest = open_recordings(unit.place).manifest
    assert manifest is not None, "runs without a manifest are refused by open_recorded_run"
    place = tuple(unit.place)
    loaded = _loaded(place, tuple(unit.windows), unit.edge, stamps_at(place))
    exchanges, fit = list(loaded.exchanges), loaded.fit
    if ends_its_data:
        exchanges = [replace(each, ends_its_data=True) for each in exchanges]
    error = None
    if not is_from_sources(manifest, unit.edge):
        error = NOT_FROM_SOURCES
    elif is_blocking(manifest):
        error = BLOCKING_IS_NO_MODEL
    elif unit.edge is None and len({each.edge for each in manifest.channels}) > 1:
        error = SEVERAL_EXCHANGES
    elif not any(each.records for each in exchanges):
        error = "the trace holds no records to drive a simulation with"
    why_no_latency = None if error else _contradiction(loaded, unit.part_ns, simulate)
    for candidate, setting in zip(unit.candidates, unit.settings, strict=True):
        outcome = figures.unpredicted(unit.run, candidate, setting, fit, unit.to_ns)
        why = error
        if why is None and unit.is_asked:
            why = why_too_short(unit.to_ns - unit.windows[0].from_ns, setting)
        if why is not None:
            yield replace(outcome, error=why)
            continue
        try:
            outcome = _simulated(outcome, exchanges, fit, setting, simulate, unit.part_ns)
        except (SimulationError, ConfigError) as failure:
            outcome = replace(outcome, error=str(failure))
        else:
            outcome = (
                figures.without_latency(outcome, why_no_latency) if why_no_latency else outcome
            )
        yield outcome


def _simulated(
    unpredicted: Outcome,
    exchanges: Sequence[RecordedExchange],
    fit: CostFit,
    setting: Setting,
    simulate: Simulate | None,
    part_ns: int,
) -> Outcome:
    """The outcome of the windows of a run, with its range where something was not recorded."""
    windows, whole = len(exchanges), exchanges
    exchanges, found = _simulate_windows(exchanges, setting, simulate, part_ns)
    busiest = max(exchanges, key=lambda each: each.records)
    simulated = joined_outcomes(found)
    outcome = figures.with_figures(unpredicted, simulated, busiest, fit, setting)
    if fit.unseen is not None and outcome.records:
        fitted_to = next(each for each in whole if fit.unseen.is_of(each))
        outcome = _with_range(outcome, simulated, fitted_to, fit, setting, simulate)
    if len(exchanges) > 1:
        simulated_ns = sum(each.duration_ns for each in exchanges)
        if len(exchanges) < windows:
            note = f"of the first {len(exchanges)} of {windows} windows only: {figures.SLOW}"
            outcome = replace(outcome, notes=[note, *outcome.notes])
        return replace(outcome, windows=len(exchanges), simulated_ns=simulated_ns)
    from_ns, to_ns = exchanges[0].measured_from_ns, exchanges[0].measured_to_ns
    return (
        outcome
        if to_ns >= unpredicted.window_to_ns
        else figures.of_the_first(outcome, from_ns, to_ns)
    )


def _simulate_windows(
    exchanges: Sequence[RecordedExchange],
    setting: Setting,
    simulate: Simulate | None,
    part_ns: int,
) -> tuple[Sequence[RecordedExchange], list[SimulatedOutcome]]:
    """What is simulated of the windows of a run, and what each of them comes to. What the compiled
    model does not know of is simulated message by message, and only the first windows, or the first
    part of the first.
    """
    from flinknet.predict import what_if

    if simulate is None and sum(each.duration_ns for each in exchanges) > part_ns:
        found = _compiled(exchanges, setting)
        if found is not None:
            return exchanges, found
        exchanges = _first_of(exchanges, part_ns)
    if simulate is None:  # with assumed instants there are many simulations (`likely`)
        has_instants = all(each.has_instants for each in exchanges)
        simulate = what_if.simulate if has_instants else what_if.simulate_quickly
    return exchanges, [simulate(each.under(setting), setting.network) for each in exchanges]


def _with_range(
    outcome: Outcome,
    simulated: SimulatedOutcome,
    exchange: RecordedExchange,
    fit: CostFit,
    setting: Setting,
    simulate: Simulate | None,
) -> Outcome:
    """The outcome with the 90% interval of its figures."""
    from flinknet.predict.what_if import simulate_quickly

    assert fit.unseen is not None
    simulate = simulate or simulate_quickly
    delays = fit.delays.awake(exchange.waking_share(setting), flushes_factor([exchange], [setting]))
    found = likely_around(simulated, exchange, fit.unseen, delays, setting, simulate)
    bounds = json.dumps([asdict(found.low.latency_ns), asdict(found.high.latency_ns)])
    return replace(
        outcome,
        bounds=bounds,
        buffers_low_per_s=found.low.buffers_per_s,
        buffers_high_per_s=found.high.buffers_per_s,
        notes=[*outcome.notes, found.in_words],
    )


def _first_of(exchanges: Sequence[RecordedExchange], part_ns: int) -> list[RecordedExchange]:
    """The first windows that come to a length together, or so much of the first."""
    lengths_ns = np.cumsum([each.duration_ns for each in exchanges])
    count = int(np.searchsorted(lengths_ns, part_ns, side="right"))
    if count:
        return list(exchanges[:count])
    return [exchanges[0].up_to(exchanges[0].measured_from_ns + part_ns)]


def _compiled(
    exchanges: Sequence[RecordedExchange], setting: Setting
) -> list[SimulatedOutcome] | None:
    """The outcomes of all windows; None if there is one that the compiled model does not know."""
    from flinknet.predict.what_if import simulate_compiled

    found: list[SimulatedOutcome] = []
    for each in exchanges:
        outcome = simulate_compiled(each.under(setting), setting.network)
        if outcome is None:
            return None
        found.append(outcome)
    return found


@lru_cache(maxsize=1)
def _contradiction(loaded: _Loaded, part_ns: int, simulate: Simulate | None) -> str | None:
    """Why no latency can be predicted of an exchange, by what its backlog says about the recorded
    setting; None if it can."""
    exchanges, fit = loaded.exchanges, loaded.fit
    if not fit.queued.is_worth_a_look:
        return None
    recorded = Setting(exchanges[0].network, exchanges[0].flow_control)
    try:
        _, found = _simulate_windows(exchanges, recorded, simulate, part_ns)
    except (SimulationError, ConfigError):
        return None
    simulated = joined_outcomes(found)
    if simulated.latency_bounds is None:
        return None
    summaries = (simulated.latency, *simulated.latency_bounds)
    return contradiction(fit.queued, *(asdict(fit.delays.over(each)) for each in summaries))
