"""However a run is cut into slices of time and blocks, the observed answers are the same."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import synthetic_trace
from flinknet.config import NetworkConfig, Scenario, WorkloadConfig
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.histogram import LogLinearHistogram
from flinknet.predict.ramps import Ramps
from flinknet.replay.observe import channel_events, units, widening
from flinknet.replay.observe.channel_events import SetAside
from flinknet.replay.observe.credit import CREDIT_TRIPS
from flinknet.replay.observe.latency import add_latencies
from flinknet.replay.observe.observed import collect, observe
from flinknet.replay.observe.regimes import REGIME_TIMES, REGIMES, TASK_TIMES, WAITS
from flinknet.replay.observe.stretches import CHANNEL_TIMES
from flinknet.replay.observe.tree import answers_of
from flinknet.replay.observe.units import Group, Unit, Units, even_cuts, groups_of
from flinknet.replay.read import RecordedRun, open_recorded_run
from flinknet.trace import BytesRead
from tests.recorded_run import START_NS, write_run

MS = 1_000_000

OF_SLICES = {each.name: each for each in (REGIME_TIMES, TASK_TIMES, CREDIT_TRIPS, CHANNEL_TIMES)}
"""The questions that the events of a slice answer."""


def made_run(directory: Path, *, seed: int, timeout_ns: int, rate_per_s: float) -> RecordedRun:
    """A synthetic run of many small blocks; some of its buffers wait for credit."""
    scenario = Scenario(
        network=NetworkConfig(buffer_timeout_ns=timeout_ns, exclusive_buffers=2),
        workload=WorkloadConfig(
            producers=2,
            consumers=2,
            rate_per_s=rate_per_s,
            duration_ns=800 * MS,
            warmup_ns=100 * MS,
        ),
        seed=seed,
    )
    assert synthetic_trace.make_run(directory, scenario, skew=0.7)
    return open_recorded_run(directory, 0)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic_trace, "BLOCK_EVENTS", 500)
    monkeypatch.setattr(synthetic_trace, "SLICE_EVENTS", 4_000)


def slices_of(run: RecordedRun, split: int) -> Units:
    """The slices of a run."""
    found = units.work_units([run], split)
    assert all(each.is_slice for each in found.units)
    return found


def of_first(found: Units) -> tuple[Unit, Group]:
    """The first unit and its channels."""
    return found.units[0], found.groups[found.units[0].group]


def regimes(run: RecordedRun, split: int) -> dict[tuple[Any, ...], int]:
    """Time by channel, window and regime, without Spark."""
    sums: dict[tuple[Any, ...], int] = {}
    found = slices_of(run, split)
    for unit in found.units:
        group = found.groups[unit.group]
        for name, answer in answers_of(unit, group, OF_SLICES):
            for row in answer.to_pylist() if name == REGIME_TIMES.name else ():
                for regime in REGIMES:
                    key = row["channel"], row["from_ns"], regime
                    sums[key] = sums.get(key, 0) + row[regime]
    return sums


@pytest.mark.parametrize(
    ("timeout_ns", "rate_per_s"), [(0, 4_000.0), (MS, 20_000.0), (40 * MS, 9_000.0), (-1, 3e5)]
)
def test_regimes_do_not_depend_on_how_time_is_cut(
    tmp_path: Path, small_blocks: None, timeout_ns: int, rate_per_s: float
) -> None:
    run = made_run(
        tmp_path / "run", seed=timeout_ns % 7, timeout_ns=timeout_ns, rate_per_s=rate_per_s
    )
    whole = regimes(run, 1)
    assert sum(whole.values()) == 4 * run.duration_ns
    assert sum(ns for (_, _, name), ns in whole.items() if name == "in_socket") > 0
    for split in (2, 7, 150):
        assert regimes(run, split) == whole


def of_a_slice(run: RecordedRun) -> dict[str, list[tuple[Any, ...]]]:
    """The rows about the whole run as one slice, in order."""
    found = slices_of(run, 1)
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for name, part in answers_of(*of_first(found), OF_SLICES):
        rows.setdefault(name, []).extend(tuple(each.values()) for each in part.to_pylist())
    return {name: sorted(own) for name, own in rows.items()}


@pytest.mark.parametrize("rows_at_once", [1, 700])
def test_channels_do_not_show_how_many_of_them_are_looked_at_together(
    tmp_path: Path, small_blocks: None, monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    run = made_run(tmp_path / "starved", seed=3, timeout_ns=MS, rate_per_s=20_000.0)
    waits_ns = [(START_NS + 3 * MS, START_NS + 208 * MS)]
    waiting = open_recorded_run(
        write_run(tmp_path / "waiting", buffers=200, block_events=50, waits_ns=waits_ns), 0
    )
    together = [of_a_slice(each) for each in (run, waiting)]
    monkeypatch.setattr(channel_events, "ROWS_AT_ONCE", rows_at_once)
    assert [of_a_slice(each) for each in (run, waiting)] == together
    (_, rows) = together
    assert {row[3]: row[4] for row in rows["task_times"] if row[1] == 0}[WAITS] > 0


@pytest.mark.spark
def test_every_table_is_the_same_for_any_split(
    spark: Any, tmp_path: Path, small_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made_run(tmp_path / "run", seed=5, timeout_ns=3 * MS, rate_per_s=20_000.0)
    answers = []
    for most, split in ((3_000_000, 1), (3_000_000, 13), (5_000, None)):
        monkeypatch.setattr(units, "EVENTS_PER_TIME_SLICE", most)
        (found,) = collect(observe(spark, [run], split), [run])
        arrivals = sum(row.records for row in found.rows.arrivals)
        answers.append((replace(found.rows, arrivals=[], work=[]), arrivals))
    assert answers[0] == answers[1] == answers[2]
    rows, arrivals = answers[0]
    assert (
        arrivals
        == rows.total_latency.latency_ns.count
        == pytest.approx(2 * 20_000 * 0.8, rel=0.001)
    )


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 3_000), st.integers(0, 10**6)), max_size=20
    ),
    st.integers(0, 3_000),
    st.integers(0, 3_000),
)
@settings(max_examples=60, deadline=None)
def test_compiled_and_plain_latencies_are_the_same(
    buffers: list[tuple[int, int, int]], from_ns: int, length_ns: int
) -> None:
    records, first_ns, lasts_ns = np.array(buffers, np.int64).reshape(-1, 3).T
    records = records + 1
    rows = {
        "records": records,
        "first_record_ns": first_ns,
        "last_record_ns": np.where(records > 1, first_ns + lasts_ns, first_ns),
        "at_ns": first_ns + lasts_ns * 2,
    }
    histogram, expected = LogLinearHistogram(), LogLinearHistogram()
    inside = add_latencies(histogram, rows, from_ns, from_ns + length_ns)
    buffer, came_ns = Ramps(records, rows["first_record_ns"], rows["last_record_ns"]).instants()
    counts = (came_ns >= from_ns) & (came_ns < from_ns + length_ns)
    expected.add((rows["at_ns"][buffer] - came_ns)[counts])
    assert histogram.to_bytes() == expected.to_bytes()
    assert inside.tolist() == np.bincount(buffer[counts], minlength=len(records)).tolist()


@given(
    st.integers(0, 10**9),
    st.integers(1, 10**6),
    st.integers(1, 200),
    st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 1), st.integers(1, 10**6)), max_size=20),
)
def test_cuts_cover_the_time_once_and_each_part_has_its_share_of_events(
    from_ns: int, length_ns: int, parts: int, blocks: list[tuple[float, float, int]]
) -> None:
    to_ns = from_ns + length_ns
    starts_ns = np.array([from_ns + int(at * (length_ns - 1)) for at, _, _ in blocks], np.int64)
    lengths_ns = np.array([max(int(long * length_ns), 1) for _, long, _ in blocks], np.int64)
    ends_ns = np.minimum(starts_ns + lengths_ns, to_ns)
    counts = np.array([count for _, _, count in blocks], np.int64)
    edges = even_cuts(from_ns, to_ns, starts_ns, ends_ns, counts, parts)
    assert len(edges) - 1 <= parts
    assert (edges[0], edges[-1]) == (from_ns, to_ns)
    assert all(start < end for start, end in pairwise(edges))
    densest = sum(counts / (ends_ns - starts_ns))  # what one ns holds at most
    for start, end in pairwise(edges):
        shared_ns = np.minimum(ends_ns, end) - np.maximum(starts_ns, start)
        held = (counts * np.maximum(shared_ns, 0) / (ends_ns - starts_ns)).sum()
        assert held <= counts.sum() / parts + 2 * densest + 1e-6


def test_a_burst_is_cut_into_as_many_parts_as_its_events_are_worth() -> None:
    second = 1_000_000_000
    starts_ns = np.arange(100) * second
    counts = np.where(np.arange(100) == 70, 50_000_000, 1_000_000)  # fifty times the mean
    edges = even_cuts(0, 100 * second, starts_ns, starts_ns + second, counts, 50)
    inside = [edge for edge in edges if 70 * second < edge < 71 * second]
    assert len(inside) == 17  # a third of all events


def test_files_without_a_channel_in_common_are_cut_apart(tmp_path: Path) -> None:
    whole = made_run(tmp_path / "run", seed=3, timeout_ns=MS, rate_per_s=2_000.0)
    assert groups_of(whole) == [([*whole.files], [0, 1, 2, 3])]
    alone = replace(whole, files=whole.files[:1])
    assert [files for files, _ in groups_of(alone)] == [[*whole.files[:1]]]
    assert groups_of(replace(whole, manifest=replace(whole.manifest, channels=()))) == [
        ([file], []) for file in whole.files
    ]


def test_rows_of_a_channel_that_was_idle_for_long_are_few_and_read_once_by_a_process(
    tmp_path: Path,
) -> None:
    path = write_run(tmp_path / "run", buffers=1_000, block_events=20, idle=range(5, 990))
    run = open_recorded_run(path, 0)
    read = []
    for unit in slices_of(run, 40).units[10:20]:
        counted = BytesRead()
        widening.completed(unit, SetAside(np.array([1]), *unit.reach_ns).events(), counted)
        read.append(counted.data_bytes)
    assert 0 < read[0] < 4_000
    assert not any(read[1:])
    assert regimes(run, 20) == regimes(run, 1)


def test_rows_that_are_kept_are_those_of_the_run_that_reads_them(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", buffers=100, block_events=20)
    run = open_recorded_run(path, 0)
    found = slices_of(run, 40).units[20:]

    def first_ns(unit: Unit, skipped: list[int]) -> int:
        files = [replace(each, file=replace(each.file, skipped=skipped)) for each in unit.files]
        own = replace(unit, files=files)
        nothing = SetAside(np.array([0]), *own.reach_ns).events()
        events = widening.completed(own, nothing, BytesRead())[0]
        return int(events[MessageKind.BUFFER_RESPONSE, TracePoint.SENT]["at_ns"].min())

    whole = [first_ns(unit, []) for unit in found]
    assert [first_ns(unit, [0]) for unit in found] == whole  # a block long before them
