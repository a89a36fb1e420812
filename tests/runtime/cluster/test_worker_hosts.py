"""Two network namespaces joined by a pair of virtual interfaces, which stand for hosts; one has a
clock that is ahead and runs too fast. The truth is known, as both have the clock of one machine.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

import pytest
from click.testing import CliRunner

from bench.link_accuracy import round_trips_us
from flinknet.cli import main
from flinknet.config import Link
from flinknet.runtime.clock import VARIABLE, monotonic_ns
from flinknet.runtime.cluster.workers import Worker
from flinknet.runtime.event_loop import EventLoop
from flinknet.runtime.link_process import LinkEmulator
from flinknet.trace import open_run
from flinknet.trace.verify import verify_run
from tests.worker_hosts import COMMANDS, SECRET, WorkerHost, lose

pytestmark = [pytest.mark.socket, pytest.mark.slow("two hosts with two TaskManagers each")]

ROOT = Path(__file__).parents[3]
OFFSET_NS, DRIFT_PPM = 3_000_000_000, 50
HOSTS = ("10.78.0.1", "10.78.0.2")
WRONG = {VARIABLE: f"{OFFSET_NS},{DRIFT_PPM}"}
LOAD = ("--rate", "2k/s", "--duration", "2s", "--buffer-timeout", "5ms")
LOSSES = int(os.environ.get("FLINKNET_LOSSES", "1"))
CLONE_NEWNET = 0x40000000

NOTES = '''"""Notes when a process of the wrong clock is told how to correct it."""
import os, time
import flinknet.runtime.clock as clock

host_clock = clock._host_clock
if host_clock is not None:
    adjust = host_clock.adjust

    def noted(*line):
        adjust(*line)
        with open(os.path.join(os.path.dirname(__file__), f"{os.getpid()}.notes"), "a") as file:
            print(time.monotonic_ns(), *line, file=file)

    host_clock.adjust = noted
'''


def ahead_ns(now_ns: int) -> int:
    """How far the wrong clock is ahead at an instant of the true one."""
    return OFFSET_NS + now_ns * DRIFT_PPM // 1_000_000


def ip(*words: str) -> None:
    subprocess.run(("ip", *words), check=True, capture_output=True)


class Hosts:
    """Two hosts with a worker each; the launcher is on the first."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.names = [f"fn{os.getpid()}{each}" for each in "ab"]
        self.links = [f"v{each[2:]}" for each in self.names]
        self.workers: list[WorkerHost] = []
        self.notes = directory / "notes"
        self.notes.mkdir()
        (self.notes / "sitecustomize.py").write_text(NOTES)

    def begin(self) -> None:
        for name in self.names:
            ip("netns", "add", name)
        one, two = ((link, "netns", at) for link, at in zip(self.links, self.names, strict=True))
        ip("link", "add", *one, "type", "veth", "peer", "name", *two)
        for name, link, host in zip(self.names, self.links, HOSTS, strict=True):
            ip("-n", name, "addr", "add", f"{host}/24", "dev", link)
            for each in ("lo", link):
                ip("-n", name, "link", "set", each, "up")
        self.workers = [self.worker(at) for at in range(2)]

    def worker(self, at: int) -> WorkerHost:
        """Start the worker of a host."""
        prefix = ("ip", "netns", "exec", self.names[at])
        variables = {**WRONG, "PYTHONPATH": f"{self.notes}:{ROOT}"} if at else {}
        return WorkerHost(self.directory, HOSTS[at], prefix=prefix, variables=variables)

    @contextmanager
    def inside(self, at: int = 0) -> Iterator[None]:
        """Be on a host: what this thread opens and starts meanwhile is there."""
        enter = ctypes.CDLL(None, use_errno=True).setns
        with open("/proc/thread-self/ns/net") as own, open(f"/run/netns/{self.names[at]}") as there:
            assert not enter(there.fileno(), CLONE_NEWNET), os.strerror(ctypes.get_errno())
            try:
                yield
            finally:
                enter(own.fileno(), CLONE_NEWNET)

    def run(self, *words: object) -> str:
        """Run a command of flinknet on the first host, on both workers. Returns: its output."""
        names = ",".join(each.name for each in self.workers)
        on_workers = ("--workers", names, "--secret-file", str(self.directory / "secret"))
        with self.inside():
            done = CliRunner().invoke(main, [*map(str, words), *on_workers])
        assert done.exit_code == 0, done.output
        return done.stdout

    def start(self, at: int, *words: object) -> subprocess.Popen[bytes]:
        """Start a command on a host."""
        command = (sys.executable, "-m", "flinknet", *map(str, words))
        with self.inside(at):
            return subprocess.Popen(command, env={**os.environ, **(WRONG if at else {})})

    def listens(self, at: int, port: int) -> bool:
        """Whether somebody on a host listens on a port."""
        with self.inside(at):
            return f":{port:04X} 00000000:0000 0A" in Path("/proc/thread-self/net/tcp").read_text()

    def wrong_by_ns(self, pids: list[int], from_ns: int, to_ns: int) -> float:
        """The most by which TaskManagers of the second host misread the true clock."""
        worst = 0.0
        for path in self.notes.glob("*.notes"):
            if int(path.stem) not in pids:
                continue
            lines = [line.split() for line in path.read_text().splitlines()]
            ends = [*(int(each[0]) for each in lines[1:]), to_ns]
            for (begin, at, offset, drift), end_ns in zip(lines, ends, strict=True):
                for now_ns in (max(from_ns, int(begin)), min(to_ns, end_ns)):
                    if from_ns <= end_ns and int(begin) <= to_ns:
                        since_ns = now_ns + ahead_ns(now_ns) - int(at)
                        misread_ns = ahead_ns(now_ns) - int(offset) - since_ns * float(drift)
                        worst = max(worst, abs(misread_ns))
        return worst

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


def check_clock(hosts: Hosts, run: Path) -> int:
    """Offset, drift and readings of the second host are as wrong as the manifest says, at most.

    Returns: the error that it states.
    """
    manifest = json.loads((run / "manifest.json").read_text())
    first, second = manifest["host"]["clocks"]
    error_ns: int = second["error_ns"]
    assert (first["error_ns"], first["offset_ns"]) == (0, 0)
    assert 0 < error_ns == manifest["clock"]["error_ns"] < 50_000_000
    from_ns, to_ns = manifest["measured_from_ns"], manifest["measured_to_ns"]
    pids = [each["pid"] for each in manifest["processes"]]
    assert 0 < hosts.wrong_by_ns(pids, from_ns, to_ns) <= error_ns
    later_ns = monotonic_ns() - to_ns  # the offset was measured within this time
    assert abs(second["offset_ns"] - ahead_ns(to_ns)) <= error_ns + later_ns * DRIFT_PPM // 10**6
    assert verify_run(open_run(run)).is_ok
    return error_ns


def known(latency_ns: dict[str, int | None], error_ns: int) -> bool:
    """Whether percentiles are left out exactly where the clocks do not know them."""
    figures = [each for name, each in latency_ns.items() if name != "count"]
    return all(each is None or error_ns <= each < 2_000_000_000 for each in figures)


def test_an_offset_is_within_its_stated_error_twenty_times_of_twenty(hosts: Hosts) -> None:
    for _ in range(20):
        loop = EventLoop(may_spin=False)
        with hosts.inside():
            worker = Worker(loop, hosts.workers[1].address, SECRET, None, 10**10)
        line, now_ns = worker.clock.line(), monotonic_ns()
        found_ns = line.offset_at(now_ns + ahead_ns(now_ns))
        assert abs(found_ns - ahead_ns(now_ns)) <= line.error_ns < 50_000_000
        worker.disconnect()
        loop.close()


def test_a_bench_a_repetition_and_a_comparison_state_the_error_of_the_clocks(hosts: Hosts) -> None:
    out = hosts.directory
    hosts.run("bench", *LOAD, "--out", out / "b")
    error_ns = check_clock(hosts, out / "b" / "run-0001")
    result = json.loads((out / "b" / "run-0001" / "result.json").read_text())
    assert result["measured"]["records"] == 4000
    assert [each["code"] for each in result["warnings"]].count("clock-error") == 1
    assert known(result["measured"]["latency_ns"], error_ns)
    hosts.run("bench", "again", out / "b" / "run-0001", "--buffer-timeout", "20ms",
              "--out", out / "again", "--json", out / "again.json")  # fmt: skip
    for run in sorted((out / "again").glob("run-*")):
        check_clock(hosts, run)
    rows = json.loads((out / "again.json").read_text())["runs"]
    assert len(rows) == 2
    for row in rows:
        assert known(row["predicted"]["latency_ns"], error_ns)
    hosts.run("compare-configs", "base", "buffer-timeout=20ms", "--rate", "2k/s",
              "--duration", "500ms", "--runs", "2", "--repeat-disturbed", "0",
              "--out", out / "c", "--trace")  # fmt: skip
    runs = sorted((out / "c").glob("*/manifest.json"))
    assert len(runs) == 4
    for manifest in runs:
        check_clock(hosts, manifest.parent)


def test_a_job_runs_across_hosts(hosts: Hosts) -> None:
    program, out = ROOT / "bench" / "jobs" / "shuffle.py", hosts.directory / "j"
    hosts.run("job", "run", program, "--task-managers", "2", "--slots", "2", "--duration", "1s",
              "--out", out)  # fmt: skip
    check_clock(hosts, out)


def test_taps_on_both_hosts_relate_their_clocks_within_the_stated_error(hosts: Hosts) -> None:
    partition = "0" * 32 + "#0@" + "0" * 32 + "_" + "0" * 32 + "_0_0"
    started, out = [], [hosts.directory / f"tap{at}" for at in range(2)]
    started.append(hosts.start(1, "bench", "produce", "--listen", f"{HOSTS[1]}:7101", "--no-trace",
                               "--partition", partition, *LOAD[:4]))  # fmt: skip
    for at, port, upstream in ((1, 7102, 7101), (0, 7002, 7102)):
        started.append(hosts.start(at, "trace", "tap", "--listen", f"{HOSTS[at]}:{port}",
                                   "--upstream", f"{HOSTS[1]}:{upstream}",
                                   "--out", out[at]))  # fmt: skip
    try:
        for at, port in ((1, 7101), (1, 7102), (0, 7002)):
            while not hosts.listens(at, port):
                assert all(each.poll() is None for each in started)
                with suppress(subprocess.TimeoutExpired):
                    started[0].wait(0.05)
        reader = hosts.start(0, "bench", "consume", f"{HOSTS[0]}:7002", "--partition", partition,
                             "--no-trace")  # fmt: skip
        assert reader.wait(60) == 0
        for each in started[1:]:
            each.send_signal(signal.SIGINT)
            each.wait()
    finally:
        for each in started:
            each.kill()
            each.wait()
    for each in out:
        assert verify_run(open_run(each)).is_ok
    info = CliRunner().invoke(main, ["trace", "info", *map(str, out), "--json"])
    (together,) = json.loads(info.stdout)["sets"]
    clock = together["recordings"][1]["clock"]
    now_ns = json.loads((out[0] / "manifest.json").read_text())["measured_from_ns"]
    assert clock["basis"] == "messages"
    assert abs(-clock["offset_ns"] - ahead_ns(now_ns)) <= clock["error_ns"] < 50_000_000


def test_doctor_names_the_clock_and_the_ports(hosts: Hosts) -> None:
    checks = json.loads(hosts.run("doctor", "--json", "-"))["checks"]
    found = {each["name"]: each for each in checks}
    assert found["workers' ports"]["status"] == "ok"
    assert "clock ahead by" in found[f"worker {hosts.workers[1].name}"]["found"]


def test_an_emulated_link_is_as_long_as_one_of_tc_netem(hosts: Hosts) -> None:
    def round_trip_us(address: tuple[str, int]) -> float:
        return median(round_trips_us(server, address, 10_000_000))

    netem = ("qdisc", "add", "dev", "lo", "root", "netem", "delay", "5ms")
    with hosts.inside(), socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()[:2]
        emulator = LinkEmulator(Link(rtt_ns=10_000_000), 2, seed=1)
        try:
            emulator.set_target(1, address)
            emulated_us = round_trip_us(emulator.address_of(1, 0))
        finally:
            emulator.close()
        if shutil.which("tc") is None:
            pytest.skip("tc netem needs the command tc")
        done = subprocess.run(("tc", *netem), check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"this kernel has no netem: {done.stderr.strip()}")
        try:
            assert emulated_us == pytest.approx(round_trip_us(address), rel=0.03)
        finally:
            subprocess.run(("tc", "qdisc", "del", "dev", "lo", "root"), check=True)


@pytest.mark.parametrize("seed", range(LOSSES))
def test_a_worker_that_is_killed_stopped_or_cut_off_is_named_and_leaves_no_process(
    hosts: Hosts, tmp_path: Path, seed: int
) -> None:
    """FLINKNET_LOSSES=50 for a campaign of bench, job run and compare-configs."""
    drawn, how = random.Random(seed), ("kill", "stop", "cut")[seed % 3]
    command = ((), *COMMANDS.values())[seed // 3 % 3]
    at = 1 if how == "cut" else drawn.randrange(2)
    victim, cable = hosts.workers[at], ("-n", hosts.names[1], "link", "set", hosts.links[1])

    def strike() -> None:
        if how == "cut":
            ip(*cable, "down")
        else:
            victim.process.send_signal(signal.SIGKILL if how == "kill" else signal.SIGSTOP)

    def mend() -> None:
        victim.process.send_signal(signal.SIGCONT)
        ip(*cable, "up")

    try:
        with hosts.inside():
            at_ns = drawn.randrange(2_000_000_000)
            lose(hosts.workers, victim, strike, mend, at_ns, tmp_path / "run", command)
    finally:
        ip(*cable, "up")
        if how == "kill":
            victim.process.kill()
            victim.process.wait()
            hosts.workers[at] = hosts.worker(at)
