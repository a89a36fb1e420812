"""TaskManagers on workers: whole runs, who is refused, and what becomes of a run whose worker is
killed or stopped."""

from __future__ import annotations

import os
import random
import signal
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from flinknet.config import Scenario, WorkloadConfig
from flinknet.errors import RemoteProtocolError, RunFailedError, TransportError
from flinknet.job.load.plan import load_plan_of
from flinknet.results import Progress
from flinknet.runtime.cluster import control_messages as messages
from flinknet.runtime.cluster.client import new_token, run_job
from flinknet.runtime.cluster.cluster_process import JobManagerSpec, WorkersSpec
from flinknet.runtime.cluster.control_connection import ControlConnection
from flinknet.runtime.cluster.launcher import places_of, run_scenario
from flinknet.trace import open_run
from flinknet.trace.verify import verify_run
from tests.worker_hosts import SECRET, Start, WorkerHost, spec_of, wait_for_end

pytestmark = [pytest.mark.socket, pytest.mark.slow("real processes of several hosts")]

MS = 1_000_000
SILENCE_S = 10.0
END_S = 30.0


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts workers and ends them."""
    started: list[WorkerHost] = []

    def begin(*options: str, host: str = "127.0.0.1") -> WorkerHost:
        started.append(WorkerHost(tmp_path, host, *options))
        return started[-1]

    yield begin
    for each in started:
        each.close()


def scenario(duration_ms: int, **workload: object) -> Scenario:
    return Scenario(
        workload=WorkloadConfig(
            duration_ns=duration_ms * MS,
            warmup_ns=20 * MS,
            rate_per_s=2000.0,
            **workload,  # type: ignore[arg-type]
        )
    )


def carry(one: ControlConnection, other: ControlConnection) -> bytes:
    """Pass on what one end sends. Returns: it."""
    data = b"".join(map(bytes, one.data_to_send(now_ns=0)))
    other.receive_data(memoryview(data), now_ns=0)
    return data


def ends(secret: str) -> tuple[ControlConnection, ControlConnection]:
    """The two ends of a connection between hosts; the client has a message to send."""
    server = ControlConnection(SECRET, is_challenged=True, facts={"cores": 2})
    client = ControlConnection(secret, role="launcher", is_challenged=True)
    client.send(messages.Heartbeat(1))
    return server, client


@pytest.mark.quick
def test_both_ends_prove_the_secret_and_it_is_never_sent() -> None:
    server, client = ends(SECRET)
    assert not client.data_to_send(now_ns=0)
    sent = carry(server, client) + carry(client, server) + carry(server, client)
    assert client.welcome == {"cores": 2}
    sent += carry(client, server)
    assert list(server.received) == [messages.Heartbeat(1)]
    assert server.peer_role == "launcher"
    assert SECRET.encode() not in sent


@pytest.mark.quick
def test_a_guess_and_a_proof_from_another_connection_are_refused() -> None:
    server, client = ends("another secret of some length")
    carry(server, client)
    with pytest.raises(RemoteProtocolError, match="secret"):
        carry(client, server)
    assert not server.is_open
    (first, known), (second, _) = ends(SECRET), ends(SECRET)
    carry(first, known)
    replayed = b"".join(map(bytes, known.data_to_send(now_ns=0)))
    with pytest.raises(RemoteProtocolError, match="secret"):
        second.receive_data(memoryview(replayed), now_ns=0)


@pytest.mark.quick
@pytest.mark.parametrize(
    "said",
    [messages.Welcome("00", {}), messages.Heartbeat(1), messages.Hello(5, "launcher", SECRET)],
)
def test_nothing_is_told_to_a_server_that_does_not_prove_the_secret(said: object) -> None:
    server, client = ends(SECRET)
    carry(server, client)
    hello = b"".join(map(bytes, client.data_to_send(now_ns=0)))
    false = ControlConnection("none")
    false.send(said)
    with pytest.raises(RemoteProtocolError, match="secret"):
        carry(false, client)
    assert b"Heartbeat" not in hello + b"".join(map(bytes, client.data_to_send(now_ns=0)))


@pytest.mark.quick
def test_another_release_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flinknet.__version__", "0.0.9")
    server, client = ends(SECRET)
    monkeypatch.undo()
    with pytest.raises(RemoteProtocolError, match=r"it runs flinknet 0\.0\.9 .*use the same"):
        carry(server, client)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("given", "ends_on", "placement", "places"),
    [
        (2, (None, None), {"producers": 2, "consumers": 2}, (0, 1)),
        (2, (1, 0), {}, (1, 0)),
        (3, (None, None), {"relays": 1}, (0, 1, 1)),
        (1, (None, None), {}, (0, 0)),
    ],
)
def test_sources_are_on_the_first_worker_and_sinks_on_the_others(
    given: int, ends_on: tuple[int | None, int | None], placement: dict[str, int], places: object
) -> None:
    asked = scenario(10, **placement)
    count = 2 + placement.get("relays", 0)
    workers = WorkersSpec((("h", 1),) * given, SECRET, *ends_on)
    assert places_of(load_plan_of(replace(asked, task_managers=count)), workers) == places


def test_a_run_on_two_workers_has_one_directory_with_everything(
    start: Start, tmp_path: Path
) -> None:
    one, two = start(), start()
    run = tmp_path / "run"
    result = run_scenario(scenario(400), out_dir=run, trace=True, workers=spec_of(one, two))
    assert result.measured.records == 800
    verified = verify_run(open_run(run))
    assert verified.is_ok, verified
    assert not one.task_managers
    assert not two.task_managers
    assert not list(tmp_path.glob("flinknet-worker-*/*"))


def test_strangers_are_refused_and_a_run_does_not_notice(start: Start) -> None:
    one, two = start(), start()
    drawn, open_ones, memory = random.Random(1), [], []

    def knock(progress: Progress) -> None:
        memory.append(psutil.Process(one.process.pid).memory_info().rss)
        for _ in range(100):
            stranger = socket.create_connection(one.address)
            if drawn.random() < 0.5:
                stranger.sendall(drawn.randbytes(drawn.randint(1, 5000)))
            open_ones.append(stranger)

    result = run_scenario(
        scenario(1500), out_dir=None, trace=False, on_progress=knock, workers=spec_of(one, two)
    )
    assert result.measured.records == 3000
    for each in open_ones:
        each.close()
    with pytest.raises(TransportError, match="secret"):
        run_scenario(
            scenario(100),
            out_dir=None,
            trace=False,
            workers=spec_of(one, two, secret="not the secret of them"),
        )
    assert len(open_ones) > 500
    assert max(memory) < min(memory) + (8 << 20)
    assert one.log.read_text().count("refused") == 1


PROGRAM = """
def main(env):
    env.from_sequence(1, 1000).print()
    env.execute("p")
"""


@pytest.mark.parametrize("takes_code", [True, False])
def test_a_job_runs_on_workers_unless_they_take_no_code(
    start: Start, tmp_path: Path, takes_code: bool
) -> None:
    workers = [start(*(() if takes_code else ("--no-code",))) for _ in range(2)]
    program, run = tmp_path / "program.py", tmp_path / "job"
    program.write_text(PROGRAM)
    run.mkdir()
    spec = JobManagerSpec(new_token(), str(run), 2, 1, {}, workers=spec_of(*workers))
    submission = messages.SubmitJob(
        str(program), PROGRAM, (), {}, True, None, 0, 1, run_dir=str(run)
    )

    def ignore(_: object) -> None:
        """Nobody watches."""

    ended = run_job(spec, submission, accepted=ignore, watch=ignore, waits=ignore)
    if not takes_code:
        assert "no-code" in ended.reason
        return
    assert ended.state == "FINISHED", ended
    printed = "".join(each.read_text() for each in run.glob("tm-*.out"))
    assert len(printed.splitlines()) == 1000
    assert verify_run(open_run(run)).is_ok


@pytest.mark.parametrize("seed", range(3))
def test_a_worker_that_is_killed_or_stopped_is_named_and_leaves_no_process(
    start: Start, tmp_path: Path, seed: int
) -> None:
    one, two = start(), start()
    drawn = random.Random(seed)
    victim, number = drawn.choice((one, two)), (signal.SIGKILL, signal.SIGSTOP)[seed % 2]
    at_ns = drawn.randrange(1_000 * MS)
    seen: list[psutil.Process] = []

    def strike(progress: Progress) -> None:
        if not seen and progress.phase != "starting" and progress.elapsed_ns >= at_ns:
            seen.extend([*one.task_managers, *two.task_managers])
            os.kill(victim.process.pid, number)

    run = tmp_path / "run"
    with pytest.raises(RunFailedError, match=f"worker {victim.name} (is lost|has not answered)"):
        run_scenario(
            scenario(60_000),
            out_dir=run,
            trace=True,
            on_progress=strike,
            silence_max_s=SILENCE_S,
            workers=spec_of(one, two),
        )
    assert len(seen) == 2
    os.kill(victim.process.pid, signal.SIGCONT)
    assert not wait_for_end(seen, END_S)
    other = "tm-1" if victim is one else "tm-0"
    assert [each.stem for each in run.glob("*.fnt")] == [other]
    assert list(tmp_path.glob("flinknet-worker-*/*/*/*.fnt"))
