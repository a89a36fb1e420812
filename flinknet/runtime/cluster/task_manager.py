"""The process of a TaskManager: runs its TaskExecutor and reports its failure."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress

from flinknet.errors import FlinknetError

from ..host import stay_on_core
from . import control_messages as messages
from .child import TaskManagerProcessSpec
from .control_connection import ControlConnection
from .task_executor import TaskExecutor, connected

REPORT_WAIT_S = 2.0
"""How long the JobManager may take to read the failure."""


def run_task_manager(spec: TaskManagerProcessSpec) -> None:
    """Run the process."""
    sys.path[:] = spec.module_path
    if spec.has_own_core:
        stay_on_core(spec.index)
    executor: TaskExecutor | None = None
    try:
        executor = TaskExecutor(spec)
        executor.run()
    except FlinknetError as error:
        if executor is not None:
            executor.fail(error)
        _report_failure(spec, str(error), type(error).__name__)
        _save_trace(executor)
        sys.exit(error.exit_code)
    except Exception:  # a bug; the JobManager's side shows the traceback
        _report_failure(spec, traceback.format_exc(), "")
        _save_trace(executor)
        sys.exit(1)


def _report_failure(spec: TaskManagerProcessSpec, error: str, kind: str) -> None:
    """Report to the JobManager why this process ends, over a connection of its own, as there may be
    none yet. Waits until the message was read.
    """
    connection = ControlConnection(spec.token, role="task manager")
    connection.send(messages.TaskManagerFailed(spec.index, os.getpid(), error, kind))
    with suppress(OSError), connected(spec) as sock:
        sock.settimeout(REPORT_WAIT_S)
        sock.sendall(b"".join(connection.data_to_send(now_ns=0)))
        sock.recv(1)


def _save_trace(executor: TaskExecutor | None) -> None:
    if executor is not None:
        executor.save_trace()
