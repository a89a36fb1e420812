"""TaskManagers on workers: whole runs, who is refused, and what becomes of a run whose worker is
killed or stopped."""

from __future__ import annotations

import random
import selectors
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from flinknet.cli import main
from flinknet.cli.worker import secret_of
from flinknet.config import NetworkConfig
from flinknet.core.wire.ids import ExecutionGraphID
from flinknet.errors import ConfigError, FlinknetError, RemoteProtocolError, TransportError
from flinknet.job.load.plan import load_plan_of
from flinknet.results import Progress
from flinknet.runtime.clock import monotonic_ns
from flinknet.runtime.cluster import control_messages as messages
from flinknet.runtime.cluster import worker_process
from flinknet.runtime.cluster.client import JobClient, new_token, run_job, start_session
from flinknet.runtime.cluster.cluster_process import (
    JobManagerSpec,
    RemoteProcess,
    TaskManagerProcessSpec,
    WorkersSpec,
)
from flinknet.runtime.cluster.control_connection import ControlConnection, ControlServer
from flinknet.runtime.cluster.control_messages import PART_BYTES
from flinknet.runtime.cluster.job_files import Contact
from flinknet.runtime.cluster.launcher import places_of, run_scenario
from flinknet.runtime.cluster.task_executor import on_worker
from flinknet.runtime.cluster.worker_process import (
    SILENCE_MAX_NS,
    WorkerProcess,
    may_write,
    part_of,
    sizes_in,
)
from flinknet.runtime.cluster.workers import Worker, Workers
from flinknet.runtime.event_loop import EventLoop
from flinknet.trace import open_run
from flinknet.trace.verify import verify_run
from tests.runtime.runs import MS
from tests.worker_hosts import COMMANDS, SECRET, Start, WorkerHost, lose, scenario, spec_of

pytestmark = [pytest.mark.socket, pytest.mark.slow("real processes of several hosts")]

SPEC = TaskManagerProcessSpec(*("", 2, 1, NetworkConfig(), "credit", 0), control_host="127.0.0.1")


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


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[WorkerHost, WorkerHost]]:
    """Two workers that outlive a test."""
    directory = tmp_path_factory.mktemp("workers")
    one, two = (WorkerHost(directory, "127.0.0.1") for _ in "12")
    yield one, two
    for each in one, two:
        each.close()
    assert not list(directory.glob("flinknet-worker-*"))


def carry(one: ControlConnection, other: ControlConnection) -> bytes:
    """Pass on what one end sends. Returns: it."""
    data = b"".join(map(bytes, one.data_to_send(now_ns=0)))
    other.receive_data(memoryview(data), now_ns=0)
    return data


def ends(secret: str) -> tuple[ControlConnection, ControlConnection]:
    """The two ends of a connection between hosts; the client has a message to send."""
    server = ControlConnection(SECRET, facts={"cores": 2})
    client = ControlConnection(secret, role="launcher")
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
    with pytest.raises(RemoteProtocolError, match="the secrets differ"):
        carry(client, server)
    assert server.is_closing
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
    false.data_to_send(now_ns=0)
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
    pair: tuple[WorkerHost, WorkerHost], tmp_path: Path
) -> None:
    one, two = pair
    run = tmp_path / "run"
    result = run_scenario(scenario(400), out_dir=run, trace=True, workers=spec_of(one, two))
    assert result.measured.records == 800
    verified = verify_run(open_run(run))
    assert verified.is_ok, verified
    assert not one.task_managers
    assert not two.task_managers


def test_strangers_are_refused_and_a_run_does_not_notice(
    pair: tuple[WorkerHost, WorkerHost],
) -> None:
    one, two = pair
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
from own.module import marked

def main(env, word):
    copy = env.register_cached_file(word, "a word")

    def line(number: int) -> str:
        return marked(copy, number)

    env.from_sequence(1, 1000).map(line).print()
    env.execute("p")
"""
MODULE = """
def marked(path, number):
    return f"{__file__} {path.read_text()} {number}"
"""


@pytest.mark.parametrize("is_session", [False, True])
def test_a_job_runs_on_workers_with_its_modules_and_cached_files(
    pair: tuple[WorkerHost, WorkerHost], tmp_path: Path, is_session: bool
) -> None:
    program, run, word = tmp_path / "program.py", tmp_path / "job", tmp_path / "word"
    program.write_text(PROGRAM)
    word.write_text("found")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "module.py").write_text(MODULE)
    session = tmp_path / "session" if is_session else run
    for each in {run, session}:
        each.mkdir()
    spec = JobManagerSpec(
        *(new_token(), str(session), 2, 1, {}, is_session), workers=spec_of(*pair)
    )
    place: JobManagerSpec | Contact | None = spec
    if is_session:
        _, job_manager = start_session(spec)
        place = Contact.load(session)
    assert place is not None
    submission = messages.SubmitJob(
        str(program), PROGRAM, (str(word),), {}, True, None, 0, 1, run_dir=str(run)
    )

    def ignore(_: object) -> None:
        """Nobody watches."""

    ended = run_job(place, submission, watch=ignore, waits=ignore)
    assert ended.state == "FINISHED", ended
    if isinstance(place, Contact):
        with JobClient(place) as client:
            client.stop_cluster()
        job_manager.wait()
    printed = "".join(each.read_text() for each in run.glob("tm-*.out")).splitlines()
    assert len(printed) == 1000
    assert all("/modules/own/module.py found " in each for each in printed), printed[0]
    assert verify_run(open_run(run)).is_ok


@pytest.mark.quick
def test_a_task_manager_of_a_worker_without_code_takes_loads_and_no_programs(
    tmp_path: Path,
) -> None:
    spec = replace(SPEC, work_dir=str(tmp_path), takes_code=False)
    job = ExecutionGraphID(bytes(16))
    load = messages.InitializeJob(job, messages.SubmitLoad(scenario(10)), "/run", None, None)
    assert on_worker(load, spec).trace_dir == str(tmp_path / str(job))
    program = messages.SubmitJob("/a/job.py", PROGRAM, (), {}, True, None, 5, 1)
    with pytest.raises(ConfigError, match="no-code"):
        on_worker(replace(load, submission=program), spec)


@pytest.mark.quick
@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "tm-0.fnt/..", "jobmanager.json"])
def test_a_worker_hands_over_files_of_task_managers_only(tmp_path: Path, name: str) -> None:
    job = tmp_path / "job"
    job.mkdir()
    for each in ("tm-0.fnt", "other.txt", "jobmanager.json"):
        (job / each).write_text("text")
    (tmp_path / "secret").write_text("text")
    (tmp_path / "tm-0.log").write_text("text")
    assert sizes_in(job) == {"tm-0.fnt": 4, "tm-0.log": 4}
    read = messages.ReadFile(ExecutionGraphID(bytes(16)), name, 0)
    assert not part_of(job, read).data
    assert part_of(job, replace(read, name="tm-0.log", offset=2)).data == b"xt"
    for offset in (-1, 2**63, 2**70):
        assert not part_of(job, replace(read, name="tm-0.log", offset=offset)).data


@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "with_code", "without"),
    [
        ("arrivals/producer-0.npy", True, True),
        (f"spill-{'0' * 32}/modules/own/module.py", True, False),
        (f"spill-{'0' * 32}/cached/a%20word", True, False),
        (f"spill-{'0' * 32}/modules/../../../module.py", False, False),
        (f"spill-{'0' * 32}/other", False, False),
        ("/etc/passwd", False, False),
        ("arrivals/../tm-0.log", False, False),
    ],
)
def test_a_launcher_writes_arrivals_and_files_of_programs_only(
    name: str, with_code: bool, without: bool
) -> None:
    assert may_write(name, takes_code=True) is with_code
    assert may_write(name, takes_code=False) is without


class Near:
    """A worker in this process, and the ends of its launchers, in turns."""

    def __init__(self) -> None:
        self.worker = WorkerProcess(("127.0.0.1", 0), SECRET, NetworkConfig())
        self.loop = EventLoop(may_spin=False)

    def connect(self) -> ControlConnection:
        """A launcher that is known to the worker."""
        launcher = ControlConnection(SECRET, role="launcher")
        sock = socket.create_connection(("127.0.0.1", self.worker.port))
        self.loop.add_transport(sock, launcher)
        self.until(lambda: launcher.welcome is not None)
        return launcher

    def until(self, is_so: Callable[[], bool]) -> None:
        for _ in range(100):
            if is_so():
                return
            self.loop.run_once(until_ns=0)
            self.worker.turn()
        pytest.fail("the worker has not answered")

    @property
    def sessions(self) -> list[str]:
        return sorted(each.name for each in self.worker.directory.iterdir())


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> Iterator[Near]:
    monkeypatch.setattr(worker_process, "TURN_NS", 2 * MS)
    near = Near()
    yield near
    near.loop.close()
    near.worker.close()


@pytest.mark.quick
def test_a_fault_in_the_worker_ends_one_connection_only(
    near: Near, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(worker_process, "sizes_in", fail)
    one, other = near.connect(), near.connect()
    one.send(messages.ListFiles(ExecutionGraphID(bytes(16))))
    near.until(lambda: one.loss is not None)
    other.send(messages.Heartbeat(7))
    near.until(lambda: bool(other.received))
    assert other.received.popleft().number == 7
    assert near.sessions == ["000002"]
    assert capsys.readouterr().err.count("ValueError: a bug") == 1


@pytest.mark.quick
def test_a_launcher_that_vanishes_before_its_first_task_manager_has_one_session(
    near: Near, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    launcher = near.connect()
    near.until(lambda: bool(near.sessions))
    later_ns = SILENCE_MAX_NS + 10**9
    monkeypatch.setattr(worker_process, "monotonic_ns", lambda: monotonic_ns() + later_ns)
    near.until(lambda: launcher.loss is not None)
    assert not near.sessions
    assert capsys.readouterr().err.count("said nothing for 60 s") == 1


@pytest.mark.quick
def test_a_connection_that_is_given_up_does_not_wait_for_its_reader() -> None:
    loop = EventLoop(may_spin=False)
    server = ControlServer(loop, SECRET, address=("127.0.0.1", 0))
    with socket.create_connection((server.host, server.port)):
        while not server.connections:
            loop.run_once()
        (connection,) = server.connections
        connection.send(messages.Refused("-" * (16 << 20)))
        loop.run_once(until_ns=0)
        connection.give_up("silence")
        loop.run_once(until_ns=0)
        assert connection.loss is not None
        assert not loop.transports
    server.close()
    loop.close()


@pytest.fixture
def served() -> Iterator[WorkerProcess]:
    """A worker on a thread of its own."""
    noted: list[int] = []
    process = WorkerProcess(("127.0.0.1", 0), SECRET, NetworkConfig())
    thread = threading.Thread(target=process.run, args=(noted,))
    thread.start()
    yield process
    noted.append(signal.SIGTERM)
    thread.join()


@pytest.mark.quick
@pytest.mark.parametrize(
    ("processes", "jobs", "has_traces"), [(1, 1, True), (1, 0, False), (0, 1, False)]
)
def test_a_worker_that_is_quiet_is_named_before_it_is_lost(
    served: WorkerProcess,
    loop: EventLoop,
    capsys: pytest.CaptureFixture[str],
    processes: int,
    jobs: int,
    has_traces: bool,
) -> None:
    worker = Worker(loop, ("127.0.0.1", served.port), SECRET, None, 50_000 * MS)
    worker.processes |= {each: RemoteProcess(worker, each) for each in range(processes)}
    worker.recorded |= {ExecutionGraphID(bytes(16)) for _ in range(jobs)}
    now_ns = monotonic_ns()
    for after_s in (1, 6, 7, 1):
        worker.advance(now_ns + after_s * 1_000 * MS)
    said = capsys.readouterr().err
    assert said.count("has not answered for 5 s; it is lost after 50 s") == 1, said
    assert said.count("answers again") == 1, said
    assert worker.loss is None
    worker.advance(now_ns + 52_000 * MS)
    assert "for 50 s and counts as lost" in str(worker.loss)
    assert ("its traces are still on that host" in str(worker.loss)) is has_traces


@pytest.mark.quick
def test_files_are_written_on_the_workers_that_are_left_or_the_reason_is_known(
    served: WorkerProcess, loop: EventLoop, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(bytes(PART_BYTES + 1))
    spec = WorkersSpec((("127.0.0.1", served.port),) * 2, SECRET)
    workers = Workers(loop, spec, NetworkConfig(), 50_000 * MS)
    workers.each[0].lose_silent()
    job = f"spill-{'0' * 32}", {"cached/word": tmp_path / "file"}
    assert len(list(workers.write_files(*job))) == 2  # parts, between which heartbeats go on
    (written,) = served.directory.glob("*/*/cached/word")
    assert written.stat().st_size == PART_BYTES + 1
    written.unlink()
    written.mkdir()
    with pytest.raises(TransportError, match=r"cannot write a file: .*Is a directory"):
        list(workers.write_files(*job))
    workers.each[1].measure_clock()  # its connection goes on
    assert not list(served.directory.glob("*/spill-*"))
    workers.close()


@pytest.mark.quick
def test_files_of_a_job_are_moved_from_a_worker(
    served: WorkerProcess, loop: EventLoop, tmp_path: Path
) -> None:
    spec = WorkersSpec((("127.0.0.1", served.port),), SECRET)
    workers = Workers(loop, spec, NetworkConfig(), 50_000 * MS)
    workers.each[0].processes[0] = RemoteProcess(workers.each[0], 0)
    (session,) = served.directory.iterdir()
    ended, running = (ExecutionGraphID(bytes([each]) * 16) for each in (1, 2))
    for each in ended, running:
        (session / str(each)).mkdir()
        (session / str(each) / "tm-0.fnt").write_bytes(bytes(PART_BYTES + 1))
    workers.each[0].recorded |= {ended, running}
    assert workers.fetch(ended, tmp_path) == []
    assert workers.each[0].recorded == {running}
    workers.each[0].measure_clock()
    assert (tmp_path / "tm-0.fnt").stat().st_size == PART_BYTES + 1
    assert [each.name for each in session.iterdir()] == [str(running)]
    (session / str(running) / "tm-0.fnt").unlink()  # or it would stay
    workers.close()


@pytest.mark.quick
def test_an_answer_that_comes_late_is_not_taken_for_another(
    served: WorkerProcess, loop: EventLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(loop, ("127.0.0.1", served.port), SECRET, None, 50_000 * MS)
    (session,) = served.directory.iterdir()
    job = ExecutionGraphID(bytes(16))
    (session / str(job)).mkdir()
    (session / str(job) / "tm-0.fnt").write_bytes(b"trace")
    with monkeypatch.context() as patched:
        patched.setattr("flinknet.runtime.cluster.workers.ANSWER_MAX_NS", -1)
        with pytest.raises(TransportError, match="has not taken a file"):
            worker.write_file(f"spill-{job}/cached/word", b"word")
    worker.fetch(job, tmp_path)
    assert (tmp_path / "tm-0.fnt").read_bytes() == b"trace"
    worker.disconnect()


def test_a_slow_connection_takes_files_and_one_that_stands_still_or_trickles_is_refused(
    served: WorkerProcess, loop: EventLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_ns, gate = 500 * MS, threading.Event()
    gate.set()
    monkeypatch.setattr("flinknet.runtime.cluster.workers.ANSWER_WAIT_NS", wait_ns)
    with socket.create_server(("127.0.0.1", 0)) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 10)
        carrier = threading.Thread(target=carry_slowly, args=(slow, served.port, gate))
        carrier.start()
        worker = Worker(loop, slow.getsockname(), SECRET, None, 50_000 * MS)
        began_ns = monotonic_ns()
        worker.write_file(f"spill-{'0' * 32}/cached/word", bytes(PART_BYTES))
        assert monotonic_ns() - began_ns > 2 * wait_ns
        with monkeypatch.context() as patched:
            patched.setattr("flinknet.runtime.cluster.workers.ANSWER_MAX_NS", 700 * MS)
            with pytest.raises(TransportError, match=r"has not taken a file within 0\.7 s"):
                worker.write_file(f"spill-{'0' * 32}/cached/word", bytes(PART_BYTES))
        gate.clear()
        with pytest.raises(TransportError, match="has not taken a file within"):
            worker.write_file(f"spill-{'0' * 32}/cached/word", bytes(PART_BYTES))
        gate.set()
        loop.close()
        carrier.join()


def carry_slowly(server: socket.socket, port: int, gate: threading.Event) -> None:
    """Pass on what a client sends, at most 512 KiB/s and nothing while the gate is closed; and all
    answers."""
    client, _ = server.accept()
    with client, socket.create_connection(("127.0.0.1", port)) as other, suppress(OSError):
        selector, pause = selectors.DefaultSelector(), threading.Event()
        for one, to in (client, other), (other, client):
            selector.register(one, selectors.EVENT_READ, to)
        while True:
            for key, _ in selector.select():
                gate.wait()
                data = key.fileobj.recv(16 << 10)  # type: ignore[union-attr]
                if not data:
                    return
                key.data.sendall(data)
                pause.wait(len(data) / (512 << 10))


@pytest.mark.quick
@pytest.mark.parametrize("host", ["0", "0.0.0.0", "0::0"])
def test_a_worker_does_not_listen_on_all_addresses(host: str) -> None:
    with pytest.raises(FlinknetError, match=r"--bind: name one address|cannot listen"):
        WorkerProcess((host, 0), SECRET, NetworkConfig())


@pytest.mark.quick
@pytest.mark.parametrize(
    ("link", "code", "why"), [((), 4, "cannot be reached"), (("--link", "rtt=1ms"), 2, "--link")]
)
def test_a_run_that_its_workers_cannot_do_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: tuple[str, ...], code: int, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").touch(0o600)
    (tmp_path / "secret").write_text(SECRET)
    words = ("bench", "--workers", "127.0.0.1:1", "--secret-file", "secret", *link)
    done = CliRunner().invoke(main, words)
    assert done.exit_code == code, done.output
    assert why in done.stderr
    assert "starting" not in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["secret"]


@pytest.mark.quick
def test_all_lines_of_a_secret_file_are_the_secret(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.touch(0o600)
    file.write_text(f"# of the workers\n{SECRET}\n")
    assert secret_of(str(file), is_tls=False) == f"# of the workers\n{SECRET}"


@pytest.mark.parametrize(
    ("seed", "command"), [(0, "bench"), (1, "bench"), (2, "job"), (4, "compare")]
)
def test_a_worker_that_is_killed_or_stopped_is_named_and_leaves_no_process(
    start: Start, pair: tuple[WorkerHost, WorkerHost], tmp_path: Path, seed: int, command: str
) -> None:
    drawn, hosts = random.Random(seed), list(pair)
    at, number = drawn.randrange(2), (signal.SIGKILL, signal.SIGSTOP)[seed % 2]
    if number == signal.SIGKILL:  # the pair lives on
        hosts[at] = start()
    victim = hosts[at].process
    lose(
        hosts,
        hosts[at],
        lambda: victim.send_signal(number),
        lambda: victim.send_signal(signal.SIGCONT),
        drawn.randrange(1_000 * MS),
        tmp_path / "run",
        COMMANDS.get(command, ()),
    )
