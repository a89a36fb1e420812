"""What lies in the run directory of a job, and who may read it."""

from __future__ import annotations

import io
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from flinknet.errors import ConfigError
from flinknet.graph import execution_graph_of, job_graph_of
from flinknet.runtime.cluster.control_messages import SubmitJob
from flinknet.runtime.cluster.job_files import (
    CONTACT_NAME,
    Contact,
    PrintedLines,
    save_manifest,
    warnings_of,
)
from flinknet.runtime.cluster.job_master import JobMaster
from flinknet.runtime.cluster.job_measurements import Measurements
from flinknet.runtime.cluster.job_state import JobState
from flinknet.runtime.cluster.placement import SharedCluster
from flinknet.trace.manifest import MANIFEST_NAME, RunManifest
from tests.graph.programs import all_to_all

CONTACT = Contact("127.0.0.1", 1, 2, "secret", "id", "name")


def test_only_its_owner_can_read_how_to_reach_a_job(tmp_path: Path) -> None:
    CONTACT.save(tmp_path)
    CONTACT.save(tmp_path)
    assert stat.S_IMODE((tmp_path / CONTACT_NAME).stat().st_mode) == 0o600
    assert Contact.load(tmp_path) == CONTACT


def test_no_file_no_contact(tmp_path: Path) -> None:
    assert Contact.load(tmp_path) is None
    (tmp_path / CONTACT_NAME).write_text('{"host": 1}')
    with pytest.raises(ConfigError, match="cannot be read"):
        Contact.load(tmp_path)


def measured(
    ended_ns: int | None, settings: Mapping[str, str] = MappingProxyType({})
) -> tuple[JobMaster, Measurements]:
    """Two tasks that send to two."""
    graph = execution_graph_of(job_graph_of(all_to_all(2, dict(settings))))
    master = JobMaster(graph, 2, SharedCluster(1), now_ns=0)
    master.register(0, now_ns=0)
    master.register(1, now_ns=0)
    measurements = Measurements(deployed_ns=10, ended_ns=ended_ns, measured_from_ns=50)
    (deployment,) = master.deployments
    measurements.deploy(deployment.plan, deployment.tasks)
    return master, measurements


@pytest.mark.parametrize(
    ("ended_ns", "state", "codes"),
    [
        (1_000_000_050, JobState.FINISHED, []),
        (189_000_050, JobState.FINISHED, ["few-flushes"]),
        (189_000_050, JobState.FAILED, []),
        (40, JobState.CANCELED, ["no-measured-part", "few-flushes"]),
    ],
)
def test_the_rates_of_a_job_of_less_than_ten_flushes_are_doubted(
    ended_ns: int, state: JobState, codes: list[str]
) -> None:
    _, measurements = measured(ended_ns)
    found = [*warnings_of(state, measurements, has_run=True, is_joining=False)]
    assert [each.code for each in found] == codes
    if codes == ["few-flushes"]:
        assert found[0].line == "run too short: 189 ms is less than 10 flushes of 100ms"


def manifest_at(run_dir: Path, ended_ns: int | None, settings: Mapping[str, str]) -> RunManifest:
    master, measurements = measured(ended_ns, settings)
    submission = SubmitJob("/job.py", "", (), dict(settings), True, None, 0, 7)
    save_manifest(run_dir, submission, master, measurements, [])
    return RunManifest.load(run_dir)


@pytest.mark.parametrize(
    ("ended_ns", "measured"), [(None, (50, None)), (80, (50, 80)), (40, (10, 40)), (50, (10, 50))]
)
def test_a_job_that_ended_within_its_warm_up_is_measured_as_a_whole(
    tmp_path: Path, ended_ns: int | None, measured: tuple[int, int | None]
) -> None:
    manifest = manifest_at(tmp_path, ended_ns, {})
    assert (manifest.measured_from_ns, manifest.measured_to_ns) == measured


def test_the_manifest_names_tasks_edges_and_channels_and_no_password(tmp_path: Path) -> None:
    settings = {
        "security.ssl.internal.keystore-password": "very secret",
        "security.ssl.internal.truststore-password": "very secret",
    }
    manifest = manifest_at(tmp_path, 60, settings)
    assert "very secret" not in (tmp_path / MANIFEST_NAME).read_text()
    job = manifest.scenario["job"]
    assert [each["tasks"] for each in job["vertices"]] == [
        ["Source: A (1/2)", "Source: A (2/2)"],
        ["Sink: B (1/2)", "Sink: B (2/2)"],
    ]
    assert job["edges"] == [
        {
            "index": 0,
            "source": 0,
            "target": 1,
            "partitioner": "shuffle",
            "partition_type": "pipelined-bounded",
            "buffer_timeout_ns": 100_000_000,
        }
    ]
    assert [
        (each.index, each.producer, each.consumer, each.connection, each.is_local)
        for each in manifest.channels
    ] == [
        (0, 0, 0, "tm-0->tm-0", True),
        (1, 0, 1, "tm-0->tm-1", False),
        (2, 1, 0, "tm-1->tm-0", False),
        (3, 1, 1, "tm-1->tm-1", True),
    ]
    assert manifest.seed == 7


class Growing(io.BytesIO):
    """A file whose half line gets its rest between two reads."""

    def __next__(self) -> bytes:
        line = super().__next__()
        if not line.endswith(b"\n"):
            at = self.tell()
            self.write(b"o\n")
            self.seek(at)
        return line


def test_half_a_printed_line_is_not_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = PrintedLines(tmp_path, 1)
    for written, read in (b"one\ntw", ["one"]), (b"one\ntwo\n", ["two"]):
        monkeypatch.setattr(Path, "open", lambda *_, data=written: Growing(data))
        assert list(lines.new_lines()) == read


def test_printed_lines_come_whole_and_once(tmp_path: Path) -> None:
    lines = PrintedLines(tmp_path, 2)
    assert list(lines.new_lines()) == []
    with (tmp_path / "tm-1.out").open("a") as file:
        file.write("one\ntwo\nthr")
        file.flush()
        assert list(lines.new_lines()) == ["one", "two"]
        assert list(lines.new_lines()) == []
        file.write("ee\n\n")
        file.flush()
        assert list(lines.new_lines()) == ["three", ""]
