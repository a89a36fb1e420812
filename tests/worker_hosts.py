"""Workers in processes of their own, on loopback or in network namespaces."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from flinknet.config import Scenario
from flinknet.errors import RunFailedError
from flinknet.results import Progress
from flinknet.runtime.cluster.cluster_process import WorkersSpec
from flinknet.runtime.cluster.launcher import run_scenario
from flinknet.trace.run import open_with_faults
from flinknet.trace.verify import verify_run
from tests.kills.__main__ import CUT
from tests.runtime.runs import MS, scenario_of

SECRET = "a secret for tests, long enough"
SILENCE_NS, END_TRIES = 10_000 * MS, 300

COMMANDS = {
    "job": (
        *("job", "run", str(Path(__file__).parents[1] / "bench" / "jobs" / "shuffle.py")),
        *("--task-managers", "2", "--slots", "2", "--duration", "60s"),
    ),
    "compare": (
        *("compare-configs", "base", "buffer-timeout=20ms", "--rate", "2k/s"),
        *("--duration", "60s", "--runs", "2", "--trace"),
    ),
}
"""Commands that lose a worker."""


class WorkerHost:
    """A worker.

    Args:
        prefix: of its command line, such as `ip netns exec NAME`.
        variables: of its environment.
    """

    def __init__(
        self,
        directory: Path,
        host: str,
        *options: str,
        prefix: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        secret = directory / "secret"
        secret.write_text(SECRET)
        secret.chmod(0o600)
        self.log = directory / f"worker-{len(list(directory.glob('*.log')))}.log"
        command = (sys.executable, "-m", "flinknet", "worker", "--bind", f"{host}:0")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                (*prefix, *command, "--secret-file", str(secret), *options),
                stderr=log,
                env={**os.environ, "TMPDIR": str(directory), **(variables or {})},
            )
        while not (found := re.search(r" worker on \S*:(\d+)\n", self.log.read_text())):
            assert self.process.poll() is None, self.log.read_text()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)
        self.address = host, int(found[1])
        self.name = f"{host}:{found[1]}"

    @property
    def task_managers(self) -> list[psutil.Process]:
        """The TaskManagers that it has started and that live."""
        with suppress(psutil.Error):
            return [
                each
                for each in psutil.Process(self.process.pid).children(recursive=True)
                if "taskmanager" in each.cmdline()
            ]
        return []

    def close(self) -> None:
        for number in (signal.SIGCONT, signal.SIGTERM):
            self.process.send_signal(number)
        self.process.wait()


def spec_of(*workers: WorkerHost, secret: str = SECRET) -> WorkersSpec:
    """The workers of a run."""
    return WorkersSpec(tuple(each.address for each in workers), secret)


def scenario(duration_ms: int, **workload: object) -> Scenario:
    usual = {"producers": 1, "consumers": 1, "rate_per_s": 2000.0}
    asked = usual | {"duration_ns": duration_ms * MS} | workload
    return scenario_of(timeout_ns=100 * MS, **asked)  # type: ignore[arg-type]


def _lives(process: psutil.Process) -> bool:
    """Whether a process goes on; a worker that is stopped does not reap those that have ended."""
    with suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def lose(
    workers: Sequence[WorkerHost],
    victim: WorkerHost,
    strike: Callable[[], None],
    mend: Callable[[], None],
    at_ns: int,
    out: Path,
    command: Sequence[str] = (),
) -> None:
    """Strike one of two workers at an instant of a run: one line names it, every TaskManager ends,
    and what was recorded on both hosts verifies as far as it goes.

    Args:
        mend: called when everything has ended.
        command: words of a command that runs in a process of its own; none: a bench in this one.
    """
    seen: dict[WorkerHost, list[psutil.Process]] = {}

    def hit() -> None:
        seen.update((each, each.task_managers) for each in workers)
        strike()

    def watch(progress: Progress) -> None:
        if not seen and progress.phase != "starting" and progress.elapsed_ns >= at_ns:
            hit()

    if command:
        line = _end_of(command, workers, hit, at_ns, out)
    else:
        with pytest.raises(RunFailedError) as ended:
            run_scenario(
                replace(
                    scenario(60_000),
                    heartbeat_interval_ns=SILENCE_NS // 5,
                    heartbeat_timeout_ns=SILENCE_NS,
                ),
                out_dir=out,
                trace=True,
                on_progress=watch,
                workers=spec_of(*workers),
            )
        line = str(ended.value)
    assert re.search(f"worker {victim.name} (is lost|has not answered for 10 s)", line), line
    assert "\n" not in line
    every = [process for each in workers for process in seen[each]]
    assert len(every) == 2
    for _ in range(END_TRIES):
        if every := [each for each in every if _lives(each)]:
            psutil.wait_procs(every, 0.1)
    mend()
    assert not every
    other = f"tm-{int(victim is workers[0])}"
    (fetched,) = out.rglob("*.fnt")
    run = fetched.parent
    assert fetched.stem == other
    found = victim.log.parent.glob("flinknet-worker-*/*/*/*.fnt")
    (kept,) = (each for each in found if each.stem != other)  # that was fetched and is removed
    shutil.copy(kept, run)
    findings = verify_run(*open_with_faults(run)).findings
    assert not [x.text for x in findings if not any(each in x.text for each in CUT)]
    shutil.rmtree(kept.parents[1])


def _end_of(
    command: Sequence[str],
    workers: Sequence[WorkerHost],
    hit: Callable[[], None],
    at_ns: int,
    out: Path,
) -> str:
    """Run a command on workers, and hit it some time after its first run has begun.

    Returns: the last line that it prints.
    """
    seconds = SILENCE_NS // 10**9
    ended = subprocess.Popen(
        (
            *(sys.executable, "-m", "flinknet", *command, "--out", str(out)),
            *("--workers", ",".join(each.name for each in workers)),
            *("--secret-file", str(workers[0].log.parent / "secret")),
            *("-D", f"heartbeat.interval={seconds // 5}s", "-D", f"heartbeat.timeout={seconds}s"),
        ),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not list(out.rglob("manifest.json")):
        assert ended.poll() is None, ended.communicate()
        with suppress(subprocess.TimeoutExpired):
            ended.wait(0.05)
    with suppress(subprocess.TimeoutExpired):
        ended.wait(at_ns / 1e9)
    hit()
    _, printed = ended.communicate(timeout=60)
    assert ended.returncode
    return printed.strip().splitlines()[-1]


Start = Callable[..., WorkerHost]
