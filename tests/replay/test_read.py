"""The part of a trace that is answered from: after the start-up of a tapped job, or as given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinknet.errors import ConfigError
from flinknet.predict.grid import Grid
from flinknet.replay.advise.caveats import caveats
from flinknet.replay.edges import EdgeTimeouts
from flinknet.replay.observe.measured import regime_shares
from flinknet.replay.observe.observed import observe_here
from flinknet.replay.pipeline import replay_runs
from flinknet.replay.plans import check_edge_timeouts
from flinknet.replay.read import AskedPart, RecordedRun, open_runs
from flinknet.trace import RunManifest
from tests.recorded_run import write_run
from tests.replay_documents import documents
from tests.tapped_job import MS, SECOND, SOURCE, START_NS, TappedChannel, write_tapped_job

S = 1_000 * MS


def tapped(directory: Path, *channels: TappedChannel, **asked: int) -> RecordedRun:
    """A tapped run of ten seconds, opened."""
    own = channels or (TappedChannel(SOURCE),)
    (run,) = open_runs([write_tapped_job(directory / "run", own)], AskedPart(**asked))
    return run


def offsets(run: RecordedRun) -> tuple[int, int]:
    """In ms from the start of the trace."""
    return (run.from_ns - START_NS) // MS, (run.to_ns - START_NS) // MS


BURST = TappedChannel(SOURCE, first_buffers=30)
LATE = TappedChannel(SOURCE, consumer=1, after_ns=9_000 * MS)


@pytest.mark.parametrize(
    ("channels", "asked", "used"),
    [
        ([], {}, (0, 10_000)),
        ([BURST], {}, (250, 10_000)),
        ([BURST], {"from_ns": 0, "to_ns": 60 * S}, (0, 10_000)),
        ([TappedChannel(SOURCE), LATE], {}, (0, 10_000)),  # long after the start
    ],
)
def test_a_trace_is_used_without_the_start_of_the_job(
    tmp_path: Path, channels: list[TappedChannel], asked: dict[str, int], used: tuple[int, int]
) -> None:
    run = tapped(tmp_path, *channels, **asked)
    assert offsets(run) == used
    assert bool(run.notes) is (used[0] > 0)


def test_what_comes_before_every_channel_has_opened_is_left_out(tmp_path: Path) -> None:
    late = TappedChannel(SOURCE, consumer=1, after_ns=1_200 * MS)
    run = tapped(tmp_path, TappedChannel(SOURCE), replace(late, buffers=100))
    assert offsets(run)[0] >= 1_000
    assert run.notes == (
        f"part used: {offsets(run)[0] / 1000:.2f} s to 10.0 s of the trace of 10.0 s; before it"
        " the job was starting (--from 0s keeps it)",
    )


@pytest.mark.parametrize(
    ("slow_buffers", "from_buffer", "left_out_ms"),
    [
        (0, 0, 0),
        (20, 0, 2_000),
        (60, 0, 0),  # later, too
        (30, 10, 0),  # the job had begun before: that is no start
    ],
)
def test_a_job_starts_until_credit_comes_back_as_soon_as_later(
    tmp_path: Path, slow_buffers: int, from_buffer: int, left_out_ms: int
) -> None:
    channels = [
        TappedChannel(SOURCE, consumer=each, slow_buffers=slow_buffers, from_buffer=from_buffer)
        for each in range(4)
    ]
    begins_ms = 100 * from_buffer
    assert offsets(tapped(tmp_path, *channels))[0] - begins_ms == left_out_ms


def test_the_part_asked_for_is_used_and_stated(tmp_path: Path) -> None:
    run = tapped(tmp_path, from_ns=2 * S, to_ns=6 * S)
    assert offsets(run) == (2_000, 6_000)
    assert run.notes == ("part used: 2.00 s to 6.00 s of the trace of 10.0 s",)
    (observed,) = observe_here([run])
    assert (observed.measured.records, observed.measured.buffers) == (400, 40)
    assert run.whole_ns == (START_NS, START_NS + 10 * S)


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"from_ns": 10 * S}, "--from: .* ends after 10.0 s; give less"),
        ({"from_ns": 2 * S, "to_ns": 2 * S}, "--to: it is not after --from"),
        ({"to_ns": 0}, "--to: it is not after --from"),
    ],
)
def test_a_part_that_there_is_not_is_refused(
    tmp_path: Path, asked: dict[str, int], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        tapped(tmp_path, **asked)


def test_of_a_blocking_exchange_no_part_can_be_asked_for(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run")
    manifest = RunManifest.load(path)
    scenario = manifest.scenario | {"workload": {"partition_type": "blocking"}}
    replace(manifest, scenario=scenario).save(path)
    with pytest.raises(ConfigError, match="a blocking exchange"):
        open_runs([path], AskedPart(from_ns=1))


@pytest.mark.spark
def test_an_ordinary_run_has_parts_too(spark: Any, sawtooth_run: Path) -> None:
    runs = open_runs([sawtooth_run], AskedPart(from_ns=200 * MS, to_ns=600 * MS))
    (answer,) = documents(replay_runs(spark, runs, Grid()))
    assert answer["observed"]["records"] == pytest.approx(800, abs=20)
    assert answer["remarks"][0] == "part used: 200 ms to 600 ms of the measured part of 1.00 s"
    assert answer["model_error"]["throughput"] == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize(
    ("ends", "begin"),
    [
        ([(0, 1), (1, 0)], "at least 2 of 4 channels (50%) did not pass here, most likely local"),
        ([(0, 0)], "channels within a TaskManager do not pass here"),
    ],
)
def test_local_channels_are_inferred_from_those_that_a_tap_saw(
    tmp_path: Path, ends: list[tuple[int, int]], begin: str
) -> None:
    run = tapped(tmp_path, *(TappedChannel(SOURCE, *each) for each in ends))
    (observed,) = observe_here([run])
    assert regime_shares(observed.rows) is None
    (local,) = [each for each in caveats(observed) if "TaskManager" in each or "local" in each]
    assert local.startswith(begin)


def two_jobs(directory: Path) -> Path:
    """Ten seconds of a job, ten of nothing, and then another one of two exchanges for ten."""
    later = [TappedChannel(each, graph=2, since_ns=20 * S, attempt=1) for each in (SOURCE, SECOND)]
    return write_tapped_job(directory / "run", [TappedChannel(SOURCE, graph=1), *later])


def test_jobs_that_come_and_go_are_runs_of_their_own(tmp_path: Path) -> None:
    first, second, third = open_runs([two_jobs(tmp_path)])
    runs = [(each.run, each.edge, each.execution) for each in (first, second, third)]
    assert runs == [(0, 0, 0), (1, 1, 1), (2, 2, 1)]
    assert offsets(first)[0] == 0
    assert offsets(first)[1] == pytest.approx(9_900, abs=10)
    assert offsets(second) == offsets(third)
    assert offsets(second)[0] == pytest.approx(20_000, abs=10)
    assert first.notes[0].startswith("job 1 of 2 in this trace, 0 s to 9.9")
    assert second.notes[0].startswith("job 2 of 2 in this trace, 20.0 s to ")
    assert "restarted once" in second.notes[1]
    channels = [each.index for run in (first, second, third) for each in run.manifest.channels]
    assert channels == [0, 1, 2]


def test_the_part_asked_for_is_one_of_the_trace_and_leaves_other_jobs_out(tmp_path: Path) -> None:
    path = two_jobs(tmp_path)
    (first,) = open_runs([path], AskedPart(from_ns=2 * S, to_ns=12 * S))
    assert offsets(first)[0] == 2_000
    second, _ = open_runs([path], AskedPart(from_ns=25 * S))
    assert offsets(second)[0] == 25_000
    with pytest.raises(ConfigError, match=r"--from: .* ends after 30\.0 s"):
        open_runs([path], AskedPart(from_ns=40 * S))
    with pytest.raises(ConfigError, match="between jobs"):
        open_runs([path], AskedPart(from_ns=12 * S, to_ns=15 * S))


def test_jobs_of_one_exchange_each_are_no_job_of_several(tmp_path: Path) -> None:
    channels = [TappedChannel(SOURCE, graph=each, since_ns=each * 20 * S) for each in (1, 2)]
    runs = open_runs([write_tapped_job(tmp_path / "run", channels)])
    assert [each.edge for each in runs] == [0, 1]
    timeouts = [EdgeTimeouts((("1", 5 * MS),))]
    with pytest.raises(ConfigError, match="jobs of several exchanges, and there is none"):
        check_edge_timeouts(runs, timeouts)
    two = tmp_path / "two"
    two.mkdir()
    check_edge_timeouts(open_runs([two_jobs(two)]), timeouts)


def restarted_job(directory: Path) -> Path:
    """Two channels for ten seconds, then a restart, and the same tasks for five seconds more."""
    channels = [
        TappedChannel(SOURCE, producer, since_ns=since_ns, buffers=buffers, attempt=attempt)
        for attempt, since_ns, buffers in ((0, 0, 100), (1, 15 * S, 50))
        for producer in (0, 1)
    ]
    return write_tapped_job(directory / "run", channels)


@pytest.mark.parametrize(
    ("from_ns", "to_ms", "channels", "note"),
    [
        (None, 9_900, 2, "restarted once; the answer is about its longest attempt, 0 s to 9.9"),
        (0, 19_900, 4, "what is between two attempts counts as time of the job"),
    ],
)
def test_of_a_job_that_restarted_the_longest_attempt_counts_unless_a_part_is_asked_for(
    tmp_path: Path, from_ns: int | None, to_ms: int, channels: int, note: str
) -> None:
    (run,) = open_runs([restarted_job(tmp_path)], AskedPart(from_ns))
    assert offsets(run) == (0, pytest.approx(to_ms, abs=150))
    assert [each.index for each in run.manifest.channels] == [*range(channels)]
    assert note in run.notes[0]
