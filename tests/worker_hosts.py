"""Workers in processes of their own, on loopback or in network namespaces."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from flinknet.runtime.cluster.cluster_process import WorkersSpec

SECRET = "a secret for tests, long enough"


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


def wait_for_end(processes: Sequence[psutil.Process], within_s: float) -> list[psutil.Process]:
    """Wait for processes. Returns: those that are still there."""
    _, alive = psutil.wait_procs(processes, within_s)
    return list(alive)


Start = Callable[..., WorkerHost]
