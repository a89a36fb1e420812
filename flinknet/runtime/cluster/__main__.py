"""The process of a JobManager or of a TaskManager (see `cluster_process.start_child`)."""

from __future__ import annotations

import json
import signal
import sys

from flinknet.plain_values import from_plain

from ..signals import end_with_parent
from .cluster_process import GRACE_S, JOB_MANAGER, JobManagerSpec, TaskManagerProcessSpec


def main(role: str) -> None:
    """Run the process; only the modules of its role are imported."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it
    spec = json.load(sys.stdin)
    if role == JOB_MANAGER:
        from .job_process import run_job_manager

        run_job_manager(from_plain(JobManagerSpec, spec))
    else:
        end_with_parent(GRACE_S)
        from .task_executor import run_task_manager

        run_task_manager(from_plain(TaskManagerProcessSpec, spec))


if __name__ == "__main__":
    main(sys.argv[1])
