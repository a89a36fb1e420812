"""The whole replay of some runs: observed answers, predictions and the model's error, as JSON-ready
plain data.

    {"schema_version": 1, "trace": {…}, "observed": {…}, "model_error": {…}, "trade_offs": [{…}], …}

The names under `observed` are those of bench. Beside what is named above stand `messages` (by
kind), `channels`, `latency_distribution`, `regimes` (shares of the channels' time; null where
nobody knows them), `diagnosis` (verdicts), `over_time`, `remarks` (lines to know beside the
numbers) and `simulated` (how much of the run the predictions used); with details also `details`.
`is_bottleneck`, of one of several exchanges, is null where that is not known. Several runs give
`{"schema_version": 1, "replays": [{…}]}`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinknet.histogram import LogLinearHistogram
from flinknet.predict.captured import with_settings
from flinknet.predict.exchange import is_blocking, is_max_rate, recorded_setting
from flinknet.predict.grid import Grid, ascending
from flinknet.predict.recorded import Setting
from flinknet.results import Measured, TradeOffPoint
from flinknet.trace import TraceReader, find_runs

from .advise.advice import advice, withheld
from .advise.caveats import caveats, warnings_of
from .advise.channel_times import channel_times, times_between
from .advise.diagnose import Verdict, diagnose, diagnose_in_passing, verdict_of_blocking
from .advise.edges import (
    PRESSED,
    Pressure,
    bottlenecks,
    ends_of,
    pressed_from_behind,
    pressure_in_passing,
)
from .advise.order import EdgeOrder, produced_edge
from .advise.targets import Target, finer_settings
from .observe.distribution import distribution
from .observe.latency import latency_percentiles
from .observe.observed import ObservedRows, collect, latency_summary, measured_of, observe
from .observe.observed_json import channels_json, messages_json, over_time
from .observe.page_details import run_details
from .observe.slicing import Slicing, slice_edges, slicing_of
from .observe.time_shares import shares_of_all
from .part import WHOLE, AskedPart, part_of
from .spark.units import (
    ALL_CHANNELS,
    RecordedRun,
    edges_of,
    open_recorded_run,
    units_frame,
    work_units,
)
from .trade_off import candidates_of, default_max_records, model_error, trade_off_points, window_for
from .what_if import Candidate, Simulate, predict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Replay:
    """Answers of all runs, and the tables that they were made from."""

    answers: list[dict[str, Any]]
    tables: dict[str, DataFrame]

    def to_dict(self) -> dict[str, Any]:
        """One run as it is, several in a list."""
        if len(self.answers) == 1:
            return self.answers[0]
        return {"schema_version": SCHEMA_VERSION, "replays": self.answers}


def replay_runs(
    spark: SparkSession,
    runs: Sequence[RecordedRun],
    grid: Grid,
    *,
    max_records: int | None = None,
    simulate: Simulate | None = None,
    details: bool = False,
    split: int | None = None,
    targets: Sequence[Target] = (),
    is_finer: bool = False,
    on_progress: Callable[[str], None] = lambda _: None,
) -> Replay:
    """Observe all runs, and predict them under each setting.

    Args:
        grid: candidates; the recorded setting is always one more.
        max_records: of each run, to simulate for each candidate; None for as many as take seconds.
        split: parts of its time that each run is cut into; None for as many as suit its size.
        simulate: the simulation; None for the one of `predict.what_if`.
        targets: bounds that the advice looks for a setting to hold.
        is_finer: predict timeouts between the chosen one and the next longer one, too.
        details: tell what a page shows beside the answer, too.
        on_progress: takes a line that says what is being done.
    """
    cores = spark.sparkContext.defaultParallelism
    units = work_units(runs, cores)
    on_progress(f"reading {_count(len(runs), 'run')} in {_count(len(units), 'work unit')}")
    frame = units_frame(spark, units)
    tables = observe(spark, runs, split)
    rows = collect(tables, runs)
    measured = [measured_of(run, own) for run, own in zip(runs, rows, strict=True)]
    candidates: list[Candidate] = []
    slicings: dict[int, Slicing] = {}
    for run, each, own in zip(runs, measured, rows, strict=True):
        most = default_max_records(each, is_max_rate=is_max_rate(run.manifest))
        capped_to_ns = window_for(run, each.records, most)
        to_ns = window_for(run, each.records, max_records or most)
        edges = slice_edges(run, split)
        is_cut = len(edges) > 2 and (split or to_ns > capped_to_ns)
        if simulate is None and is_cut and own.arrivals and not is_blocking(run.manifest):
            slicings[run.run] = slicing_of(own.arrivals, edges)
            to_ns = next(edge for edge in edges[1:] if edge >= to_ns)
        setting = recorded_setting(run.manifest)
        candidates += [
            replace(candidate, capped_to_ns=min(capped_to_ns, to_ns))
            for candidate in candidates_of(run, setting, grid, to_ns)
        ]
    on_progress(f"simulating {_count(len(candidates), 'setting')}")
    trade_offs = predict(spark, candidates, simulate, slicings).cache()
    outcomes = [row.asDict() for row in trade_offs.collect()]
    windows = {
        run.run: replace(
            run,
            to_ns=next(
                outcome["window_to_ns"]
                for candidate, outcome in _with_outcomes(candidates, outcomes)
                if candidate.run is run and candidate.setting == recorded_setting(run.manifest)
            ),
        )
        for run in runs
    }
    observed_in_window = _observe_windows(spark, runs, windows, measured, cores)
    for run, own in zip(runs, rows, strict=True):
        if run.manifest.is_from_between and windows[run.run].to_ns != run.to_ns:
            seen = observed_in_window[run.run]
            observed_in_window[run.run] = _passed_within(seen, own, windows[run.run].duration_ns)
        observed_in_window[run.run] = _as_predicted(windows[run.run], observed_in_window[run.run])

    def advise(run: RecordedRun) -> _Advised:
        own = [each for each in candidates if each.run is run]
        recorded = recorded_setting(run.manifest)
        asked = grid.asked(recorded, is_max_rate=is_max_rate(run.manifest))
        told = [outcome for outcome in outcomes if outcome["run"] == run.run]
        return _advised(run, own, told, observed_in_window[run.run], targets, asked)

    advised = {run.run: advise(run) for run in runs}
    if is_finer:
        finer = _finer_candidates(runs, candidates, advised)
        if finer:
            on_progress(f"simulating {_count(len(finer), 'setting')} in finer steps")
            finer_offs = predict(spark, finer, simulate, slicings).cache()
            outcomes += [row.asDict() for row in finer_offs.collect()]
            trade_offs = trade_offs.union(finer_offs)
            candidates = sorted(
                [*candidates, *finer], key=lambda each: (each.run.run, ascending(each.setting))
            )
            advised = {run.run: advise(run) for run in runs}
    answers = []
    for run, own, each in zip(runs, rows, measured, strict=True):
        seen = observed_in_window[run.run]
        answers.append(
            {
                "schema_version": SCHEMA_VERSION,
                "trace": _describe(run),
                "observed": asdict(each),
                "model_error": advised[run.run].errors,
                "trade_offs": [_plain(point) for point in advised[run.run].points],
                "advice": advised[run.run].advice,
                "simulated": {
                    "records": seen.records,
                    "window_ns": windows[run.run].duration_ns,
                    "is_whole": windows[run.run].to_ns == run.to_ns,
                },
                "messages": messages_json(run, own),
                "channels": channels_json(run, own, each),
                "latency_distribution": distribution(_histogram(own)),
                "regimes": shares_of_all(own),
                "diagnosis": [asdict(verdict) for verdict in _diagnosis(run, own, each)],
                "over_time": over_time(own, run.duration_ns, each.duration_ns),
                "remarks": caveats(run, own, each),
            }
        )
    _tell_bottlenecks(runs, rows, answers)
    if details:
        on_progress("looking closer")
        for answer, more in zip(answers, run_details(frame, tables, runs), strict=True):
            answer["details"] = more
    return Replay(answers, tables.named() | {"trade_offs": trade_offs})


@dataclass(frozen=True, slots=True)
class _Advised:
    """The predictions of one run in the order of its candidates, how far they can be trusted, and
    what follows."""

    points: tuple[TradeOffPoint, ...]
    errors: dict[str, float | None]
    advice: dict[str, Any]


def _advised(
    run: RecordedRun,
    candidates: Sequence[Candidate],
    outcomes: Sequence[dict[str, Any]],
    seen: Measured,
    targets: Sequence[Target],
    asked: Collection[Setting],
) -> _Advised:
    points = trade_off_points(candidates, outcomes, recorded_setting(run.manifest))
    recorded = next(point for point in points if point.is_recorded)
    error = model_error(recorded, seen.throughput_records_per_s, seen.latency_ns)
    errors = asdict(error) | _error_in_passing(run, recorded, seen)
    found = advice(
        points,
        targets,
        error,
        asked=[place for place, each in enumerate(candidates) if each.setting in asked],
        why_not=withheld(errors.values(), recorded),
    )
    return _Advised(points, errors, found)


def _finer_candidates(
    runs: Sequence[RecordedRun], candidates: Sequence[Candidate], advised: Mapping[int, _Advised]
) -> list[Candidate]:
    """More candidates for each run, around those that its advice chose."""
    found = []
    for run in runs:
        own = [each for each in candidates if each.run is run]
        worlds = advised[run.run].advice["worlds"]
        settings = finer_settings(worlds, [each.setting for each in own])
        found += [
            replace(own[0], number=number, setting=each)
            for number, each in enumerate(settings, len(own))
        ]
    return found


def _with_outcomes(
    candidates: Sequence[Candidate], outcomes: Sequence[dict[str, Any]]
) -> Iterator[tuple[Candidate, dict[str, Any]]]:
    by_key = {(each["run"], each["candidate"]): each for each in outcomes}
    for candidate in candidates:
        yield candidate, by_key[candidate.run.run, candidate.number]


def _observe_windows(
    spark: SparkSession,
    runs: Sequence[RecordedRun],
    windows: Mapping[int, RecordedRun],
    measured: Sequence[Measured],
    cores: int,
) -> dict[int, Measured]:
    """What was observed in the part of each run whose arrivals the recorded setting was simulated
    with: like is compared with like."""
    seen = {run.run: each for run, each in zip(runs, measured, strict=True)}
    parts = {
        run.run: windows[run.run]
        for run in runs
        if windows[run.run].to_ns != run.to_ns and not run.manifest.is_from_between
    }
    if not parts:
        return seen
    frame = units_frame(spark, work_units(list(parts.values()), cores))
    totals = latency_percentiles(frame).where(f"channel = {ALL_CHANNELS}")
    for row in totals.collect():
        run = parts[row["run"]]
        seen[run.run] = replace(
            seen[run.run],
            records=row["count"],
            duration_ns=max(run.to_ns, row["consumed_to_ns"]) - run.from_ns,
            latency_ns=latency_summary(row.asDict()),
        )
    return seen


def _as_predicted(run: RecordedRun, seen: Measured) -> Measured:
    """What was observed, with its throughput over the length of time that a prediction counts."""
    if run.manifest.is_from_between or not seen.records:
        return seen
    from flinknet.predict.what_if import counted_ns

    timeout_ns = max(recorded_setting(run.manifest).network.buffer_timeout_ns, 0)
    # Records that typically wait longer than the timeout wait for something else.
    waits_for_beat = not is_max_rate(run.manifest) and (seen.latency_ns.p50 or 0) <= timeout_ns
    length_ns = counted_ns(seen.duration_ns, run.duration_ns, timeout_ns if waits_for_beat else 0)
    return replace(seen, throughput_records_per_s=seen.records * 1e9 / length_ns)


def _passed_within(seen: Measured, rows: ObservedRows, duration_ns: int) -> Measured:
    """What had passed up to an instant of the measured part, by the windows before it."""
    whole = [row for row in rows.throughput if row["from_ns"] + row["width_ns"] <= duration_ns]
    if not whole:
        return seen
    covered_ns = max(row["from_ns"] + row["width_ns"] for row in whole)
    records = sum(row["records"] for row in whole)
    return replace(
        seen,
        records=records,
        buffers=sum(row["buffers"] for row in whole),
        duration_ns=covered_ns,
        throughput_records_per_s=records * 1e9 / covered_ns,
    )


def _diagnosis(run: RecordedRun, rows: ObservedRows, measured: Measured) -> list[Verdict]:
    if run.manifest.is_from_between:
        return diagnose_in_passing(ends_of(run.manifest, run.edge).name, times_between(run, rows))
    if is_blocking(run.manifest):
        return [verdict_of_blocking(ends_of(run.manifest, run.edge).name, _written(rows, measured))]
    return diagnose(channel_times(run, rows))


def _written(rows: ObservedRows, measured: Measured) -> float | None:
    """Share of the time that had passed when the first buffer was taken."""
    first_ns = min((row["from_ns"] for row in rows.throughput if row["buffers"]), default=None)
    return None if first_ns is None else min(first_ns / measured.duration_ns, 1.0)


def _error_in_passing(
    run: RecordedRun, recorded: TradeOffPoint, measured: Measured
) -> dict[str, float | None]:
    """What can be compared where latency was not seen: messages per second."""
    if not run.manifest.is_from_between:
        return {}
    predicted = recorded.buffers_per_s
    if predicted is None or not measured.buffers or not measured.duration_ns:
        return {"buffers_per_s": None}
    return {"buffers_per_s": predicted * measured.duration_ns / (measured.buffers * 1e9) - 1}


def _tell_bottlenecks(
    runs: Sequence[RecordedRun], rows: Sequence[ObservedRows], answers: Sequence[dict[str, Any]]
) -> None:
    """Say of each edge of a run with several whether it holds the job up."""
    of_path: dict[Path, list[int]] = {}
    for place, run in enumerate(runs):
        if run.edge is not None:
            of_path.setdefault(run.path, []).append(place)
    for places in of_path.values():
        own = [answers[place] for place in places]
        names = [ends_of(runs[place].manifest, runs[place].edge).name for place in places]
        if runs[places[0]].manifest.is_from_between:
            order = EdgeOrder(
                [produced_edge(runs[place].manifest, rows[place].milestones) for place in places]
            )
            found = pressure_in_passing(
                order, [number for number, each in enumerate(own) if PRESSED & _kinds(each).keys()]
            )
            _tell_pressure(own, names, found)
            continue
        edges = [
            (ends_of(runs[place].manifest, runs[place].edge), _kinds(answers[place]))
            for place in places
        ]
        last = bottlenecks(edges)
        for number, answer in enumerate(own):
            answer["is_bottleneck"] = number in last
            if number not in last:
                for each in answer["diagnosis"]:
                    if each["kind"] in PRESSED:
                        each |= pressed_from_behind(each["share"])


def _kinds(answer: Mapping[str, Any]) -> dict[str, float]:
    return {each["kind"]: each["share"] for each in answer["diagnosis"]}


def _tell_pressure(
    answers: Sequence[dict[str, Any]], names: Sequence[str], found: Mapping[int, Pressure]
) -> None:
    """Say of the edges of a run that was recorded between processes where their pressure comes
    from."""
    for number, answer in enumerate(answers):
        pressure = found.get(number, Pressure(False))
        answer["is_bottleneck"] = pressure.is_bottleneck
        for each in answer["diagnosis"]:
            if pressure.behind and each["kind"] in PRESSED:
                behind = [names[other].split(" → ")[0] for other in pressure.behind]
                each |= pressure.described(each["share"], behind)


def _describe(run: RecordedRun) -> dict[str, Any]:
    damaged = []
    events = 0
    for file in run.files:
        with TraceReader(file) as reader:
            events += sum(block.count for block in reader.blocks())
            if not reader.is_whole:
                damaged.append(file.name)
    return {
        "path": str(run.path),
        "started_at": run.manifest.started_at,
        "config": dict(run.manifest.flink_keys),
        "is_max_rate": is_max_rate(run.manifest),
        "events": events,
        "channels": len(run.manifest.channels),
        "measured_duration_ns": run.duration_ns,
        "damaged_files": damaged,
        "warnings": warnings_of(run),
        "edge": None if run.edge is None else ends_of(run.manifest, run.edge).name,
        "origin": run.manifest.origin,
        "part": _part(run),
    }


def _part(run: RecordedRun) -> dict[str, int]:
    """The part that is answered from, as offsets from the start of what was recorded."""
    from_ns, to_ns = run.whole_ns or (run.from_ns, run.to_ns)
    return {
        "from_ns": run.from_ns - from_ns,
        "to_ns": run.to_ns - from_ns,
        "whole_ns": to_ns - from_ns,
    }


def _plain(point: TradeOffPoint) -> dict[str, Any]:
    return asdict(point) | {"notes": list(point.notes)}


def _histogram(rows: ObservedRows) -> LogLinearHistogram:
    """Of the latency of all records; an empty one without any."""
    found = [row["histogram"] for row in rows.histograms]
    return LogLinearHistogram.from_bytes(found[0]) if found else LogLinearHistogram()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def open_runs(paths: Sequence[Path], asked: AskedPart = WHOLE) -> list[RecordedRun]:
    """Open every run directory at the paths or directly below them, numbered in order; of a run
    with several exchanges, each edge.

    Args:
        asked: the part of each run to answer from.

    Raises: TraceFormatError for what is no run, ConfigError for a part that there is not.
    """
    runs: list[RecordedRun] = []
    found = [run for path in paths for run in find_runs(path)]
    for directory in dict.fromkeys(found):
        run = open_recorded_run(directory, len(runs))
        if run.manifest.is_from_between:
            manifest, *_ = with_settings(run.manifest, run.path)
            run = replace(run, manifest=manifest)
        run = part_of(run, asked)
        runs += edges_of(run)
    return runs
