"""Checkpoints in a trace: what its barriers show is what the coordinator of the run has counted."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from flinknet.graph import StreamExecutionEnvironment, StreamGraph
from flinknet.histogram import LogLinearHistogram
from flinknet.predict.grid import Grid
from flinknet.replay.ledger import ledger_of
from flinknet.replay.observe.checkpoints import (
    BarrierRow,
    begun_within,
    checkpoints_in,
    checkpoints_of,
    interval_ns_of,
    since_trigger,
)
from flinknet.replay.observe.observed import observe_here
from flinknet.replay.plans import grids_for
from flinknet.replay.read import AskedPart, open_runs
from flinknet.results import CheckpointSummary
from flinknet.simulator.cluster import Cluster
from flinknet.trace.metrics import METRICS_NAME
from flinknet.trace.recordings import checkpoints_within
from tests.edited_manifest import edit_manifest
from tests.page_answer import typed
from tests.replay.advise.test_between import tapped
from tests.simulation import MS
from tests.traced_run import trace_job

TAPPED = Path(__file__).parents[3] / "traces/recordings/tap-slow-sink-checkpoints"
LENGTH_NS = 250 * MS
SETTINGS = {"taskmanager.memory.segment-size": "4kb", "execution.buffer-timeout.interval": "5 ms"}


def same(record: tuple[int, bytes]) -> tuple[int, bytes]:
    return record


def one_exchange(*, unaligned: bool) -> StreamGraph:
    env = StreamExecutionEnvironment(SETTINGS)
    env.set_parallelism(2)
    env.enable_checkpointing("40ms", unaligned=unaligned)
    records = env.generate(rate="3k/s", record_size="400b", key_skew=2.0)
    records.key_by(lambda record: record[0]).map(same).discard()
    return env.execute("One exchange")


def recorded(directory: Path, *, unaligned: bool) -> CheckpointSummary:
    """What the coordinator counted of the run that is in the directory now."""
    found: list[CheckpointSummary] = []

    def look(cluster: Cluster) -> None:
        found.append(cluster.checkpoints.coordinator.summary())

    trace_job(directory, one_exchange(unaligned=unaligned), for_ns=LENGTH_NS, look=look)
    return found[0]


@pytest.mark.parametrize("unaligned", [False, True])
def test_a_trace_shows_the_checkpoints_that_were_drawn(tmp_path: Path, unaligned: bool) -> None:
    counted = recorded(tmp_path / "run", unaligned=unaligned)
    (observed,) = observe_here(open_runs([tmp_path / "run"]))
    found = observed.measured.checkpoints
    assert found.completed == counted.completed >= 4
    assert found.unaligned == counted.unaligned == (counted.completed if unaligned else 0)
    assert found.travel_ns.count == 4 * found.completed
    assert found.alignment_ns == counted.alignment_ns
    assert found.overtaken_bytes_mean is None


def test_a_tap_shows_how_long_barriers_block(tmp_path: Path) -> None:
    counted = recorded(tmp_path / "run", unaligned=False)
    path = tapped(tmp_path / "run", tmp_path / "tap")
    (observed,) = observe_here(open_runs([path], AskedPart(from_ns=0)))
    found = observed.measured.checkpoints
    few = tapped(tmp_path / "run", tmp_path / "few", block_events=20)
    (cut,) = observe_here(open_runs([few], AskedPart(from_ns=0)))
    assert cut.measured.checkpoints == found  # wherever a block ends
    assert found.completed == counted.completed
    assert found.travel_ns.count == 0
    assert found.alignment_ns.min >= 30_000  # there and back


def test_a_tap_that_asked_flink_knows_what_was_overtaken_and_how_long_barriers_took(
    tmp_path: Path,
) -> None:
    recorded(tmp_path / "run", unaligned=True)
    path = tapped(tmp_path / "run", tmp_path / "tap")
    edit_manifest(path, lambda each: each["scenario"].update(job=JOB))
    (run,) = open_runs([path], AskedPart(from_ns=0))
    (before,) = observe_here([run])
    lines = [
        {"at_ns": run.from_ns + number * MS, "job": job, "checkpoint": number} | fields
        for number, (job, fields) in enumerate(
            [
                ("j", completed(4_000, [7, 9])),
                ("j", completed(8_000, [11])),
                ("j", {"status": "FAILED"}),
                ("another", completed(1 << 30, [1_000])),
            ],
            start=1,
        )
    ]
    (path / METRICS_NAME).write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    (after,) = observe_here([run])
    was, found = before.measured.checkpoints, after.measured.checkpoints
    assert (found.completed, found.travel_ns) == (was.completed, was.travel_ns)
    assert (found.aborted, found.overtaken_bytes_mean, found.overtaken_bytes_max) == (1, 6e3, 8000)
    assert (found.start_delay_ns.count, found.start_delay_ns.max) == (3, 11 * MS)
    assert found.alignment_ns.count == 0 + 2


def test_a_tap_is_predicted_with_checkpoints_as_often_as_it_had_them(tmp_path: Path) -> None:
    recorded(tmp_path / "run", unaligned=False)
    path = tapped(tmp_path / "run", tmp_path / "tap")
    edit_manifest(path, lambda each: each["flink_keys"].pop("execution.checkpointing.interval"))
    runs = open_runs([path], AskedPart(from_ns=0))
    observed = observe_here(runs)
    (grid,) = grids_for(runs, observed, Grid(aligned_timeouts_ns=(0, 5 * MS)))
    assert grid.lists["checkpoint_intervals_ns"] == (40 * MS,)
    other = Grid(buffer_timeouts_ns=(5 * MS,))
    assert grids_for(runs, observed, other) == [other]


JOB = {
    "name": "One exchange",
    "ids": ["j"],
    "vertices": [
        {
            "index": index,
            "job": "j",
            "id": name,
            "name": name,
            "parallelism": 2,
            "tasks": [f"{name} (1/2)", f"{name} (2/2)"],
            "task_managers": ["tm-0", "tm-1"],
        }
        for index, name in enumerate(("source", "map", "sink"))
    ],
    "edges": [
        {"index": index, "source": index, "target": index + 1, "partitioner": "hash"}
        for index in (0, 1)
    ],
}


def completed(persisted: int, start_delays_ms: list[int]) -> dict[str, object]:
    return {
        "status": "COMPLETED",
        "persisted_bytes": persisted,
        "start_delays_ms": {"map": start_delays_ms, "sink": [99]},
        "alignments_ms": {"map": [0]},
    }


@pytest.mark.parametrize(
    ("from_s", "to_s", "count", "aborted"), [(40, 55, 3, 3), (None, None, 10, 9)]
)
def test_checkpoints_of_a_part_are_those_of_that_part(
    from_s: int | None, to_s: int | None, count: int, aborted: int
) -> None:
    """All expire, the last one behind the end; two did so while the job was starting."""
    asked = AskedPart(from_s and from_s * 1000 * MS, to_s and to_s * 1000 * MS)
    observed = observe_here(open_runs([TAPPED], asked))
    found = [each.measured.checkpoints for each in observed]
    assert [(each.triggered, each.aborted) for each in found] == [(count, aborted)] * 2
    counts = ledger_of(observed).checkpoints
    assert (counts.completed, counts.expired, counts.failed) == (0, count, 0)


def test_checkpoints_whose_barriers_stuck_before_the_edge_count() -> None:
    """Of ten that expired, barriers of two came as far as this edge."""
    run = open_runs([TAPPED], AskedPart(None, None))[0]
    lines = checkpoints_within(run.place, run.from_ns, run.to_ns)
    barriers = [
        BarrierRow(0, 0, number, line["checkpoint"], sent_ns, -1, 0)
        for number, line in enumerate(lines[-9:-7])
        for sent_ns in [line["at_ns"] - line["duration_ms"] * MS]
    ]
    found = checkpoints_in(run, barriers)
    assert found is not None
    assert (found.triggered, found.aborted) == (2, 9)


def test_the_interval_of_checkpoints_is_that_of_most() -> None:
    begun_ms = {3: 0, 4: 100, 6: 301, 7: 400, 8: 520}  # nothing was recorded of the fifth
    rows = [
        barrier(number, channel, at_ms * MS + channel, -1)
        for number, at_ms in begun_ms.items()
        for channel in (0, 1)
    ]
    assert interval_ns_of(rows) == 100 * MS
    assert interval_ns_of(rows[:2]) is None
    assert interval_ns_of([]) is None


def start_delays(*values_ns: int) -> dict[str, Any]:
    histogram = LogLinearHistogram()
    histogram.add(list(values_ns))
    return {"start_delay_ns": asdict(histogram.summary())}


def test_predicted_start_delays_count_from_the_trigger_as_flinks_do() -> None:
    """What comes before the edge takes as long as at the recorded setting."""
    points = [
        {"checkpoints": start_delays(*[1 * MS] * 40), "is_recorded": True},
        {"checkpoints": start_delays(*[3 * MS] * 40)},
        {"checkpoints": None},
    ]
    answer = typed(
        {"trade_offs": points, "observed": {"checkpoints": start_delays(*[17 * MS] * 40)}}
    )
    found = since_trigger(answer.trade_offs, answer.observed.checkpoints)
    delays = [each.checkpoints.start_delay_ns for each in found if each.checkpoints is not None]
    assert [each.p50 for each in delays] == pytest.approx([17 * MS, 19 * MS], rel=0.01)
    assert [each.count for each in delays] == [40, 40]
    assert all("Flink's trigger" in each.notes[-1] for each in found[:2])
    assert found[2] == answer.trade_offs[2]
    sooner = typed(
        {"trade_offs": points, "observed": {"checkpoints": start_delays(*[MS // 2] * 40)}}
    )
    assert since_trigger(sooner.trade_offs, sooner.observed.checkpoints) == sooner.trade_offs


def barrier(checkpoint: int, channel: int, sent_ns: int, read_ns: int) -> BarrierRow:
    return BarrierRow(0, channel, checkpoint, checkpoint, sent_ns, read_ns, 0)


def test_alignment_is_from_the_first_barrier_of_a_consumer_to_its_last() -> None:
    rows = [
        *(barrier(1, 0, 100, 110), barrier(1, 1, 105, 150), barrier(1, 2, 100, 115)),
        *(barrier(2, 0, 200, 210), barrier(2, 1, 200, 260)),
    ]
    begun = begun_within(rows, 0, 1000)
    found = checkpoints_of(begun.values(), {0: 0, 1: 0, 2: 1}, is_from_between=False)
    assert (found.triggered, found.completed, found.aborted) == (2, 1, None)
    assert (found.alignment_ns.min, found.alignment_ns.max) == (0, 40)
    assert (found.travel_ns.min, found.travel_ns.max) == (10, 45)
    assert found.duration_ns.max == 50
    assert begun_within(rows, 150, 1000).keys() == {2}
