"""The process of a JobManager or of a TaskManager (see `child.start_child`)."""

from __future__ import annotations

import signal
import sys

from .child import JOB_MANAGER, end_with_parent, read_spec


def main(role: str) -> None:
    """Entry of the process; it loads what its role needs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started us decides when we end
    spec = read_spec(role, sys.stdin.buffer)
    if role == JOB_MANAGER:
        from .job_process import run_job_manager

        run_job_manager(spec)
    else:
        end_with_parent()
        from .task_manager import run_task_manager

        run_task_manager(spec)


if __name__ == "__main__":
    main(sys.argv[1])
