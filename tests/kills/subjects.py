"""What is killed: commands that run for some seconds, and which of their processes is which."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.runtime.cluster.programs import PIPELINE
from tests.synthetic_trace import write_run

FLINKNET = (sys.executable, "-m", "flinknet")
STARTED_BY = "FLINKNET_KILLS_TRIAL"

KILL, TERM, INT, STOP = signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP
CODES = {KILL: -9, TERM: 143, INT: 130, STOP: 0}
"""How a command ends that gets the signal itself."""

APPEARS_S = 300.0
LOOK_S = 0.02


@dataclass(slots=True)
class Running:
    """Commands under way, in the order of their start; all have the mark of their trial."""

    trial: str
    place: Path
    commands: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    @property
    def out(self) -> Path:
        """The run directory of the trial."""
        return self.place / "out"

    def start(self, name: str, *words: object) -> None:
        """Start a command of flinknet, in the foreground of a session of its own."""
        self.commands[name] = subprocess.Popen(
            [*FLINKNET, *map(str, words)],
            env=os.environ | {STARTED_BY: self.trial, "PYTHONPATH": os.getcwd()},
            cwd=self.place,
            stdin=subprocess.DEVNULL,
            stdout=(self.place / f"{name}.stdout").open("w"),
            stderr=(self.place / f"{name}.stderr").open("w"),
            text=True,
            start_new_session=True,
            preexec_fn=_usual_signals,
        )

    def stderr(self, name: str) -> str:
        """What a command has said so far."""
        return (self.place / f"{name}.stderr").read_text(errors="replace")

    def processes(self) -> Iterator[psutil.Process]:
        """Everything of this trial that lives."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                is_ours = process.environ().get(STARTED_BY) == self.trial
                if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                    yield process

    def processor_s(self) -> float:
        """Processor time that those of them have used so far."""
        return sum(map(used_s, self.processes()))

    def find(self, victim: str) -> psutil.Process | None:
        """The process of a victim, None as long as there is none."""
        if victim in self.commands:
            return psutil.Process(self.commands[victim].pid)
        for process in self.processes():
            with suppress(psutil.Error):
                command = process.cmdline()
                if victim in command[-2:] or (victim == "jvm" and "pyspark-shell" in command):
                    return process
        return None

    def wait_for(self, victim: str) -> psutil.Process | None:
        """The same; None if the command ends before, or it never comes."""
        found: psutil.Process | None = None

        def is_there() -> bool:
            nonlocal found
            found = self.find(victim)
            return found is not None

        self.until(is_there)
        return found

    def until(self, is_so: Callable[[], bool]) -> bool:
        """Look again and again, as long as a command runs and it may still come."""
        end = time.monotonic() + APPEARS_S
        while not is_so():
            running = [each for each in self.commands.values() if each.poll() is None]
            if not running or time.monotonic() > end:
                return False
            with suppress(subprocess.TimeoutExpired):
                running[0].wait(LOOK_S)
        return True


def used_s(process: psutil.Process) -> float:
    """Processor time that a process has used; 0 if it is gone."""
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def _usual_signals() -> None:
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_DFL if each != signal.SIGINT else signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


@dataclass(frozen=True, slots=True)
class Subject:
    """One kind of command.

    Attributes:
        start: starts it in a trial.
        victims: who is killed, and for each signal the exit codes that the command of the same name
            may have, or the first command for a victim that is none.
        span_s: it is killed up to so long after the victim has appeared.
        leaves_trace: it records into the run directory.
    """

    name: str
    start: Callable[[Running], None]
    victims: Mapping[str, Mapping[signal.Signals, frozenset[int]]]
    span_s: float
    leaves_trace: bool = True


def _itself(*more: int) -> dict[signal.Signals, frozenset[int]]:
    """Codes of a command that gets the signal; it may have ended before with one of these."""
    codes = {each: frozenset((code, 0, *more)) for each, code in CODES.items()}
    # Before Python has handlers, or the command anything to end; a shell says 130 and 143.
    return codes | {each: codes[each] | {-each} for each in (INT, TERM)}


def _child(failed: int, *more: int) -> dict[signal.Signals, frozenset[int]]:
    """Codes of a command that loses a process: an interrupt is for the command alone."""
    lost = frozenset((failed, 0, *more))
    return {KILL: lost, TERM: lost, INT: frozenset((0, *more)), STOP: frozenset((0,))}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _bench(run: Running) -> None:
    run.start(
        "launcher",
        *("bench", "--rate", "20k/s", "--producers", 2, "--consumers", 2),
        *("--duration", "2500ms", "--warmup", "200ms", "--checkpoint-interval", "100ms"),
        *("--out", run.out),
    )


def _job(run: Running) -> None:
    program = run.place / "program.py"
    program.write_text(PIPELINE)
    run.start(
        "client",
        *("job", "run", program, "--task-managers", 2, "--slots", 1, "--duration", "2500ms"),
        *("--out", run.out),
    )


def _tap(run: Running) -> None:
    behind, before = _free_port(), _free_port()
    partition = "0" * 32 + "#0@" + "0" * 32 + "_" + "0" * 32 + "_0_0"
    run.start(
        "produce",
        *("bench", "produce", "--listen", f"127.0.0.1:{behind}", "--partition", partition),
        *("--rate", "20k/s", "--duration", "2500ms", "--no-trace"),
    )
    run.start(
        "tap",
        *("trace", "tap", "--listen", f"127.0.0.1:{before}", "--upstream", f"127.0.0.1:{behind}"),
        *("--duration", "6s", "--out", run.out),
    )
    run.until(lambda: _listens(behind) and _listens(before))
    run.start(
        "consume",
        *("bench", "consume", f"127.0.0.1:{before}", "--partition", partition, "--no-trace"),
    )


def _listens(port: int) -> bool:
    """Whether somebody does, without a connection to it."""
    text = f":{port:04X} 00000000:0000 0A"
    return text in Path("/proc/net/tcp").read_text()


def _replay(run: Running) -> None:
    recorded = write_run(run.place / "recorded", channels=2, data_buffers=400)
    run.start("driver", "trace", "replay", recorded, "--buffer-timeout", "0,5ms")


SUBJECTS = {
    each.name: each
    for each in (
        Subject(
            "bench",
            _bench,
            {"launcher": _itself(), "tm-0": _child(1), "tm-1": _child(1)},
            span_s=4.0,
        ),
        Subject(
            "job",
            _job,
            {
                "client": _itself(),
                "jobmanager": _child(1, 4),
                "tm-0": _child(1),
                "tm-1": _child(1),
            },
            span_s=4.0,
        ),
        Subject(
            "tap",
            _tap,
            {"tap": _itself(), "produce": _itself(4), "consume": _itself(4)},
            span_s=4.0,
        ),
        Subject(
            "replay",
            _replay,
            {"driver": _itself(), "jvm": _child(4)},
            span_s=8.0,
            leaves_trace=False,
        ),
    )
}
