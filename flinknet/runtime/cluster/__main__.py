"""The process of a JobManager or of a TaskManager (see `child.start_child`)."""

from __future__ import annotations

import signal
import sys

from ..signals import end_with_parent
from .cluster_process import GRACE_S, JOB_MANAGER, read_spec


def main(role: str) -> None:
    """Run the process; only the modules of its role are imported."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it
    spec = read_spec(role, sys.stdin.buffer)
    if role == JOB_MANAGER:
        from .job_process import run_job_manager

        run_job_manager(spec)
    else:
        end_with_parent(GRACE_S)
        from .task_executor import run_task_manager

        run_task_manager(spec)


if __name__ == "__main__":
    main(sys.argv[1])
