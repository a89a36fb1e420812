"""flinknet job: what they refuse, in one line, before anything runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flinknet.runtime.cluster.job_files import Contact

from .conftest import Flinknet

SHUFFLE = Path(__file__).parents[2] / "bench" / "jobs" / "shuffle.py"


def test_where_no_job_runs_there_is_none_to_look_at(flinknet: Flinknet, tmp_path: Path) -> None:
    for command, message in (
        ("status", "no job is running there, and"),
        ("cancel", "no job is running there"),
    ):
        result = flinknet("job", command, tmp_path)
        assert result.exit_code == 2
        assert message in result.stderr
    (tmp_path / "result.json").write_text(json.dumps({"kind": "bench"}))
    assert "not a run of a job" in flinknet("job", "status", tmp_path).stderr
    nowhere = flinknet("job", "list", tmp_path / "nowhere")
    assert (nowhere.exit_code, "no such directory" in nowhere.stderr) == (2, True)
    assert flinknet("job", "list", tmp_path).stderr == f"no job is running in {tmp_path}\n"
    elsewhere = flinknet("job", "list").stderr
    assert elsewhere.startswith(
        "no job is running in flinknet-runs; for jobs with --out DIR: flinknet job"
    )


@pytest.mark.socket
def test_a_job_whose_job_manager_has_died_is_listed_as_lost(
    flinknet: Flinknet, tmp_path: Path
) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    Contact("127.0.0.1", 1, 12345, "token", "abc", "Count").save(run_dir)
    listed = flinknet("job", "list", tmp_path)
    assert listed.exit_code == 0
    assert flinknet("job", "list", run_dir).stdout == listed.stdout
    assert "abc  LOST        Count" in listed.stdout
    status = flinknet("job", "status", run_dir)
    assert status.exit_code == 4
    assert "the JobManager (pid 12345) has died" in status.stderr
