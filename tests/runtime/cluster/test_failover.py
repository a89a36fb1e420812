"""Failures on real processes: what begins again, what is kept, and what is released."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinknet.errors import RunFailedError
from flinknet.results import JobDump
from tests.runtime.cluster.live_job import RESTARTS, LiveJob, Start, gone
from tests.runtime.cluster.programs import FAILS_ONCE, STAGES, TIGHT, TWO_REGIONS

pytestmark = [pytest.mark.socket, pytest.mark.slow("real processes, for rules tested without")]


RECORDS = 1000
BATCH = {"execution.runtime-mode": "BATCH", "taskmanager.load-balance.mode": "SLOTS"}


@pytest.mark.row("S146")
def test_with_the_full_strategy_every_region_begins_again(start: Start, tmp_path: Path) -> None:
    settings = RESTARTS | {"jobmanager.execution.failover-strategy": "full"}
    job = start(TWO_REGIONS, tmp_path / "mark", task_managers=2, slots=2, settings=settings)
    assert job.ended().state == "FINISHED"
    result = job.result()
    assert result["restarts"] == 1
    assert [task["attempt"] for each in result["vertices"] for task in each["tasks"]] == [1] * 4


@pytest.mark.row("S006")
def test_a_task_that_begins_again_waits_for_buffers_that_others_hold(
    start: Start, tmp_path: Path
) -> None:
    memory = {f"taskmanager.memory.network.{end}": "36kb" for end in ("min", "max")}
    settings = RESTARTS | memory | {"taskmanager.memory.segment-size": "4kb"}
    settings["restart-strategy.fixed-delay.delay"] = "100ms"
    job = start(TIGHT, tmp_path / "mark", task_managers=2, slots=2, settings=settings)
    status = job.until(
        lambda status: any(
            (each.state, each.attempt) == ("finished", 1) for each in status.vertices[2:]
        )
    )
    assert status.restarts == 1
    assert job.client.cancel().state == "CANCELED"


@pytest.mark.row("S140")
@pytest.mark.parametrize(("history", "kept"), [("16", 1), ("0", 0)])
def test_prior_attempts_are_kept_in_the_result(
    start: Start, tmp_path: Path, history: str, kept: int
) -> None:
    settings = RESTARTS | {"jobmanager.execution.attempts-history-size": history}
    job = start(FAILS_ONCE, tmp_path / "mark", settings=settings)
    assert job.ended().state == "FINISHED"
    prior = [
        attempt
        for vertex in job.result()["vertices"]
        for task in vertex["tasks"]
        for attempt in task["prior_attempts"]
    ]
    assert len(prior) == kept * 4
    assert {(each["attempt"], each["task_manager"] in ("tm-0", "tm-1")) for each in prior} == (
        {(0, True)} if kept else set()
    )
    failed = [each for each in prior if "ValueError: this once" in each["failure"]]
    assert [(each["state"], each["task"][:5]) for each in failed] == [("failed", "Fails")] * kept


@pytest.mark.row("S140")
def test_a_running_job_names_the_attempts_that_failed(start: Start, tmp_path: Path) -> None:
    job = start(TWO_REGIONS, tmp_path / "mark", task_managers=2, slots=2, settings=RESTARTS)
    status = job.until(lambda status: bool(status.failed_attempts))
    (failed,) = status.failed_attempts
    assert (failed.attempt, failed.state) == (0, "failed")
    assert failed.task.startswith("Map -> Sink: Discard")
    assert "ValueError: this once" in failed.failure


@pytest.mark.quick
@pytest.mark.row("S140")
def test_a_job_whose_plan_for_display_fails_runs_and_says_so(start: Start) -> None:
    program = (
        "from flinknet.graph import JobGraph\n\n"
        "def fail(job):\n    raise ValueError('no ink')\n\n"
        "JobGraph.json_plan = fail\n\n"
        "def main(env):\n    env.from_sequence(1, 9).print()\n    env.execute('Unplanned')\n"
    )
    job = start(program, task_managers=1)
    assert job.ended().state == "FINISHED"
    (doubt,) = (each for each in job.result()["warnings"] if each["code"] == "no-json-plan")
    assert doubt["text"] == "the job has no plan for display: no ink"


@pytest.mark.row("S141")
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_sink_that_cannot_be_written_is_refused_before_anything_is_deployed(
    start: Start, tmp_path: Path, parallelism: int
) -> None:
    (tmp_path / "file").touch()
    program = (
        f"def main(env):\n    env.set_parallelism({parallelism})\n"
        f"    env.from_sequence(1, 9).write_as_text({str(tmp_path / 'file' / 'below')!r})\n"
        "    env.execute('Refused')\n"
    )
    with pytest.raises(RunFailedError, match=r"Sequence Source.*File: it cannot be initialized on"):
        start(program)
    assert not list((tmp_path / "run").glob("*.out"))


def kept_of(dump: JobDump) -> set[str]:
    """Data sets of the partitions that are kept."""
    return {each.id.partition("#")[0] for tm in dump.task_managers for each in tm.kept_partitions}


@pytest.mark.row("S146")
@pytest.mark.parametrize(("releases", "data_sets"), [("true", 1), ("false", 2)])
def test_results_that_everybody_has_read_are_gone_from_the_task_managers(
    start: Start, tmp_path: Path, releases: str, data_sets: int
) -> None:
    settings = BATCH | {"jobmanager.partition.release-during-job-execution": releases}
    job = start(STAGES, 20 * RECORDS, tmp_path / "out", task_managers=2, slots=2, settings=settings)
    job.until(lambda status: bool(status.vertices) and status.vertices[-1].records_in > 0)
    job.until(lambda _: len(kept_of(job.client.dump())) == data_sets)
    spilled = list((job.run_dir / "spill").iterdir())
    assert len(spilled) == data_sets * 2 * 2  # partitions, each with its data and its index
    assert job.client.cancel().state == "CANCELED"
    assert not (job.run_dir / "spill").exists()


@pytest.mark.quick
@pytest.mark.row("S146")
def test_a_batch_job_that_loses_a_task_manager_writes_again_what_was_lost_and_ends_right(
    start: Start, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    job = start(STAGES, RECORDS, out, task_managers=2, slots=2, settings=BATCH | RESTARTS)
    status = job.until(lambda status: bool(status.vertices) and status.vertices[-1].records_in > 0)
    assert [each.slots_in_use for each in status.task_managers] == [1, 1]
    lost = job.task_managers()[1]
    lost.kill()
    assert job.ended().state == "FINISHED"
    assert gone([lost])
    written = [int(line) for each in out.iterdir() for line in each.read_text().splitlines()]
    assert sorted(written) == list(range(1, RECORDS + 1))
    first, *_ = job.result()["vertices"]
    # what the lost one had read was released long ago: its producer had to begin again, too
    assert max(task["attempt"] for task in first["tasks"]) > 0
    assert {task["task_manager"] for task in first["tasks"] if task["attempt"]} == {"tm-0"}


def stored(job: LiveJob) -> int:
    """Number of stored partitions; each has a file of data and one of its index."""
    return len(list((job.run_dir / "spill").iterdir())) // 2


@pytest.mark.row("S166")
@pytest.mark.parametrize("is_killed", [False, True])
def test_stored_partitions_are_there_as_long_as_they_may_be_read(
    start: Start, tmp_path: Path, is_killed: bool
) -> None:
    settings = BATCH | RESTARTS
    job = start(STAGES, RECORDS, tmp_path / "out", task_managers=2, slots=2, settings=settings)
    job.until(lambda status: bool(status.vertices) and status.vertices[1].records_in > 0)
    assert stored(job) >= 2  # those of the first stage, which the second reads
    reads_last = lambda status: status.vertices[-1].records_in > 0  # noqa: E731
    job.until(reads_last)
    job.until(lambda _: stored(job) == 2)  # of the second stage alone: the first has no readers
    if is_killed:
        lost = job.task_managers()[1]
        lost.kill()
        job.until(lambda status: status.restarts > 0)
        job.until(lambda status: status.restarts > 0 and reads_last(status))
    assert job.ended().state == "FINISHED"
    assert not (job.run_dir / "spill").exists()


@pytest.mark.row("S166")
def test_stored_partitions_go_with_a_job_manager_that_is_killed(
    start: Start, tmp_path: Path
) -> None:
    job = start(STAGES, 20 * RECORDS, tmp_path / "out", task_managers=2, slots=2, settings=BATCH)
    job.until(lambda status: bool(status.vertices) and status.vertices[-1].records_in > 0)
    assert stored(job)
    processes = list(job.task_managers().values())
    job.job_manager.kill()
    assert gone(processes)
    assert not (job.run_dir / "spill").exists()
