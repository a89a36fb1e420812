"""Several jobs on the same processes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from flinknet.results import ConnectionStatus
from flinknet.runtime.cluster.client import (
    JobClient,
    JobRefusedError,
    new_token,
    run_job,
    start_session,
    submit_job,
)
from flinknet.runtime.cluster.cluster_process import JobManagerSpec
from flinknet.runtime.cluster.control_messages import SubmitJob
from flinknet.runtime.cluster.job_files import Contact
from flinknet.trace import open_run
from flinknet.trace.verify import verify_run
from tests.runtime.cluster.live_job import Start, gone, listening_port
from tests.runtime.cluster.programs import ACROSS

pytestmark = pytest.mark.socket


RUNS = ("one", "two")
SPREAD = {"taskmanager.load-balance.mode": "SLOTS"}
"""One task of each job on each TaskManager."""

OTHER = ACROSS.replace("Across", "Other")
ODD = """
import sys

class Odd:
    @property
    def __file__(self):
        raise KeyError("odd")

sys.modules["odd"] = Odd()

def main(env):
    env.generate().print()
    env.execute()
"""
"""A program with a module that nothing can be asked about."""


@pytest.mark.row("S148")
@pytest.mark.row("S150")
@pytest.mark.row("S079")
def test_two_jobs_share_a_cluster_and_one_goes_on_when_the_other_ends(
    start: Start, join: Start
) -> None:
    one = start(ACROSS, slots=2, settings=SPREAD)
    with pytest.raises(JobRefusedError, match=r"KeyError: 'odd'; see jobmanager\.log"):
        join(one, ODD)  # the others go on
    two = join(one, OTHER)
    processes = [one.job_manager, *one.task_managers().values()]
    status = one.until(lambda each: any(found.shared_with for found in each.connections))
    two.until(lambda each: any(found.shared_with for found in each.connections))
    (connection,) = status.connections
    assert (connection.name, connection.channels) == ("tm-0->tm-1", 1)
    assert connection.shared_with == ("Other",)
    assert [each.name for each in status.other_jobs] == ["Other"]
    assert [each.slots_in_use for each in status.task_managers] == [2, 2]
    assert one.client.cancel().state == "CANCELED"
    assert not (one.run_dir / "jobmanager.json").exists()
    before = two.client.status()
    assert [each.slots_in_use for each in before.task_managers] == [1, 1]
    two.until_running(records=before.vertices[-1].records_in + 1000)
    after = two.until(lambda each: not each.other_jobs and bool(each.connections))
    (connection,) = after.connections
    assert (connection.shared_with, connection.jobs_before) == ((), 1)
    assert two.client.cancel().state == "CANCELED"
    assert gone(processes)
    numbers = []
    for job in (one, two):
        run = open_run(job.run_dir)
        assert verify_run(run).is_ok
        assert run.manifest is not None
        numbers.append([each.index for each in run.manifest.channels])
        (warning,) = (each for each in job.result()["warnings"] if each["code"] == "shared-cluster")
        assert ("Other" if job is one else "Across") in warning["text"]
        assert job.result()["state"] == "canceled"
    assert numbers == [[0], [1]]


@pytest.mark.slow("real processes, for rules tested without", first=True)
@pytest.mark.row("S078")
@pytest.mark.row("S157")
@pytest.mark.parametrize("reuses", [False, True])
def test_a_later_job_of_a_session_has_a_connection_of_its_own_without_reuse(
    tmp_path: Path, reuses: bool
) -> None:
    session = tmp_path / "session"
    session.mkdir()
    key = "taskmanager.network.tcp-connection.enable-reuse-across-jobs"
    settings = {key: str(reuses).lower()}
    spec = JobManagerSpec(new_token(), str(session), 2, 1, settings, True)
    started, job_manager = start_session(spec)
    contact = Contact.load(session)
    assert contact is not None
    pids = [contact.pid, *(each.pid for each in started.task_managers)]
    processes = [psutil.Process(each) for each in pids]
    try:
        follow = {"watch": print, "waits": print}
        # long enough that a TaskManager reports its connection
        run_job(contact, submission(tmp_path, "one", "500/s", "1000"), **follow)
        submit_job(contact, submission(tmp_path, "two", "1k/s"))
        two = Contact.load(tmp_path / "two")
        assert two is not None
        with JobClient(two) as client:
            while not (status := client.status()).connections:
                assert status.state in ("CREATED", "RUNNING")
            (connection,) = status.connections
            expected = (
                ConnectionStatus("tm-0->tm-1", 1, (), 1)
                if reuses
                else ConnectionStatus("tm-0->tm-1#1", 1)
            )
            assert connection == expected
            processes_of = {each.index: psutil.Process(each.pid) for each in status.task_managers}
            assert len(data_connections(processes_of)) == 1
        with JobClient(contact) as client:
            assert [each.run_dir for each in client.cluster().jobs] == [str(tmp_path / "two")]
            assert client.stop_cluster().canceled == ("Across",)
        assert gone(processes)
        states = [json.loads((tmp_path / each / "result.json").read_text()) for each in RUNS]
        assert [each["state"] for each in states] == ["finished", "canceled"]
        assert not (session / "jobmanager.json").exists()
    finally:
        with suppress(OSError):
            os.killpg(contact.pid, signal.SIGKILL)
        job_manager.wait()


def data_connections(task_managers: Mapping[int, psutil.Process]) -> set[int]:
    """Ports at which the second TaskManager's connections to the data port of the first begin."""
    first, second = task_managers[0], task_managers[1]
    port = listening_port(first)
    return {
        each.laddr.port
        for each in second.net_connections("tcp")
        if each.raddr and each.raddr.port == port
    }


@pytest.mark.row("S157")
@pytest.mark.slow("real processes, for rules tested without", first=True)
@pytest.mark.parametrize("connections", [1, 2])
def test_jobs_share_as_many_connections_as_are_configured(
    start: Start, join: Start, connections: int
) -> None:
    settings = {"taskmanager.network.max-num-tcp-connections": str(connections)}
    one = start(ACROSS, slots=3, settings=SPREAD | settings, records_trace=False)
    jobs = [one, join(one, OTHER)]
    for each in jobs:
        each.until_running()
    assert len(data_connections(one.task_managers())) == connections
    found = [each.until(lambda status: bool(status.connections)) for each in jobs]
    numbers = {each.name for status in found for each in status.connections}
    assert len(numbers) == connections
    shared = [each.shared_with for status in found for each in status.connections]
    assert shared == ([("Other",), ("Across",)] if connections == 1 else [(), ()])


def submission(directory: Path, run: str, *arguments: str) -> SubmitJob:
    run_dir = directory / run
    run_dir.mkdir()
    path = str(directory / "program.py")
    return SubmitJob(path, ACROSS, arguments, {}, False, None, 0, 1, str(run_dir))
