"""JobManager and TaskManagers as child processes: how they are started and configured.

The secret of the cluster comes over standard input, never on the command line, where every user of
the machine could read it. A TaskManager whose JobManager has died ends, even if it was stopped: the
kernel then sends SIGCONT, and SIGALRM kills a process that has not ended within GRACE_S.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from flinknet.config import NetworkConfig
from flinknet.plain_values import from_plain, to_plain

GRACE_S = 5
JOB_MANAGER, TASK_MANAGER = "jobmanager", "taskmanager"


@dataclass(frozen=True, slots=True)
class JobManagerSpec:
    """The specification of a JobManager.

    Attributes:
        token: the secret of the cluster.
        run_dir: receives the logs, and the output of the job that the cluster is started for.
        is_session: the cluster is started for future jobs, and stays up without any.
    """

    token: str
    run_dir: str
    task_managers: int
    slots: int
    settings: dict[str, str]
    is_session: bool = False


@dataclass(frozen=True, slots=True)
class TaskManagerProcessSpec:
    """The specification of a TaskManager.

    Attributes:
        control_port: port of the JobManager, on loopback.
        silence_max_ns: the JobManager is lost if it sends nothing for this long.
        has_own_core: there is a CPU core for each TaskManager.
        sample_interval_ns: how often it sends statistics.
        module_path: its `sys.path`.
    """

    token: str
    index: int
    control_port: int
    task_managers: int
    slots: int
    network: NetworkConfig
    flow_control: str
    silence_max_ns: int
    has_own_core: bool
    sample_interval_ns: int
    module_path: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its name in logs and traces."""
        return f"tm-{self.index}"


_SPECS: Mapping[str, type] = {JOB_MANAGER: JobManagerSpec, TASK_MANAGER: TaskManagerProcessSpec}


def start_child(
    role: str, spec: Any, log_dir: Path | None, name: str, *, has_answer: bool = False
) -> subprocess.Popen[bytes]:
    """Start a process; its standard output goes to NAME.out and its standard error to NAME.log.

    Args:
        log_dir: the directory of these files; None: both streams are inherited.
        has_answer: standard output is a pipe instead, for its first line.
    """
    with ExitStack() as files:
        out: IO[bytes] | int | None = subprocess.PIPE if has_answer else None
        log = None
        if log_dir is not None:
            log = files.enter_context(open(log_dir / f"{name}.log", "ab"))
            if not has_answer:
                out = files.enter_context(open(log_dir / f"{name}.out", "ab"))
        process = subprocess.Popen(
            [sys.executable, "-P", "-u", "-m", __package__, role, name],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=log,
            start_new_session=role == JOB_MANAGER,
        )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(json.dumps(to_plain(spec)).encode())
    return process


def read_spec(role: str, stdin: IO[bytes]) -> Any:
    """Read the specification that the parent has written for this process."""
    return from_plain(_SPECS[role], json.loads(stdin.read()))
