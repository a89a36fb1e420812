"""Workers in two network namespaces joined by a pair of virtual interfaces, which stand for hosts;
one has a clock that is ahead and runs too fast.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flinknet.runtime.clock import VARIABLE, monotonic_ns
from flinknet.trace import open_run
from flinknet.trace.verify import verify_run
from tests.worker_hosts import WorkerHost

pytestmark = [pytest.mark.socket, pytest.mark.slow("two hosts with two TaskManagers each")]

ROOT = Path(__file__).parents[3]
OFFSET_NS, DRIFT_PPM = 3_000_000_000, 50
HOSTS = ("10.78.0.1", "10.78.0.2")


def ip(*words: str) -> None:
    subprocess.run(("ip", *words), check=True, capture_output=True)


class Hosts:
    """Two hosts with a worker each."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.names = [f"fn{os.getpid()}{each}" for each in "ab"]
        self.workers: list[WorkerHost] = []

    def begin(self) -> None:
        links = [f"v{each[2:]}" for each in self.names]
        for name in self.names:
            ip("netns", "add", name)
        one, two = ((link, "netns", name) for link, name in zip(links, self.names, strict=True))
        ip("link", "add", *one, "type", "veth", "peer", "name", *two)
        for name, link, host in zip(self.names, links, HOSTS, strict=True):
            ip("-n", name, "addr", "add", f"{host}/24", "dev", link)
            for each in ("lo", link):
                ip("-n", name, "link", "set", each, "up")
        wrong = {VARIABLE: f"{OFFSET_NS},{DRIFT_PPM}"}
        for name, host, variables in zip(self.names, HOSTS, ({}, wrong), strict=True):
            prefix = ("ip", "netns", "exec", name)
            self.workers.append(
                WorkerHost(self.directory, host, prefix=prefix, variables=variables)
            )

    def run(self, *words: str) -> str:
        """Run a command of flinknet on the first host, on both workers. Returns: its output."""
        names = ",".join(each.name for each in self.workers)
        on_workers = ("--workers", names, "--secret-file", str(self.directory / "secret"))
        prefix = ("ip", "netns", "exec", self.names[0])
        done = subprocess.run(
            (*prefix, sys.executable, "-m", "flinknet", *words, *on_workers),
            cwd=self.directory,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def end(self) -> None:
        for worker in self.workers:
            worker.close()
        for name in self.names:
            subprocess.run(("ip", "netns", "del", name), check=False, capture_output=True)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    if os.geteuid() or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the command ip")
    hosts = Hosts(tmp_path_factory.mktemp("hosts"))
    try:
        try:
            hosts.begin()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespace can be made: {error.stderr}")
        yield hosts
    finally:
        hosts.end()


def clocks_in(run: Path) -> tuple[int, dict[str, float]]:
    """The error between the hosts of a run, and the clock of the second host."""
    manifest = json.loads((run / "manifest.json").read_text())
    first, second = manifest["host"]["clocks"]
    assert first["error_ns"] == 0
    return manifest["clock"]["error_ns"], second


def test_a_bench_finds_offset_and_drift_and_states_the_error(hosts: Hosts) -> None:
    hosts.run(
        "bench", "--rate", "2k/s", "--duration", "2s", "--buffer-timeout", "5ms", "--out", "b"
    )
    now_ns = monotonic_ns()
    run = hosts.directory / "b" / "run-0001"
    error_ns, clock = clocks_in(run)
    assert 0 < error_ns == clock["error_ns"] < 50_000_000
    since_ns = 60_000_000_000  # the run has ended within the last minute
    for_minute_ns = since_ns * DRIFT_PPM // 1_000_000
    ahead_ns = OFFSET_NS + now_ns * DRIFT_PPM // 1_000_000
    assert ahead_ns - for_minute_ns - error_ns <= clock["offset_ns"] <= ahead_ns + error_ns
    assert verify_run(open_run(run)).is_ok
    result = json.loads((run / "result.json").read_text())
    assert result["measured"]["records"] == 4000
    assert [each["code"] for each in result["warnings"]].count("clock-error") == 1
    p99 = result["measured"]["latency_ns"]["p99"]
    assert p99 is None or error_ns <= p99 < 2_000_000_000


def test_a_job_and_a_repeated_run_go_across_hosts(hosts: Hosts) -> None:
    program = str(ROOT / "bench" / "jobs" / "shuffle.py")
    hosts.run("job", "run", program, "--task-managers", "2", "--slots", "2", "--duration", "1s",
              "--out", "j")  # fmt: skip
    assert clocks_in(hosts.directory / "j")[0] > 0
    assert verify_run(open_run(hosts.directory / "j")).is_ok


def test_doctor_names_the_clock_and_the_ports(hosts: Hosts) -> None:
    checks = json.loads(hosts.run("doctor", "--json", "-"))["checks"]
    found = {each["name"]: each for each in checks}
    assert found["workers' ports"]["status"] == "ok"
    assert "clock ahead by" in found[f"worker {hosts.workers[1].name}"]["found"]
