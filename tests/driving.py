"""How tests drive a cluster in virtual time: to an instant or to its end, and what they change."""

from __future__ import annotations

from flinknet.errors import StalledError
from flinknet.job.load.load_tasks import run_input_of
from flinknet.simulator.cluster import Cluster


def run_until(cluster: Cluster, at_ns: int) -> None:
    """Run all actions up to an instant of virtual time."""
    while (next_ns := cluster.scheduler.next_ns) is not None and next_ns <= at_ns:
        if not cluster.step():
            return


def run_on(cluster: Cluster, *, until_ns: int | None = None, limit: int = 20_000_000) -> None:
    """Run until the job has ended, or to an instant counted from the start, or until there were
    `limit` actions, so that a livelock fails. Raises: the error that cancelled the job;
    StalledError if it has not ended.
    """
    for _ in range(limit):
        if cluster.error is not None:
            raise cluster.error
        next_ns = cluster.scheduler.next_ns
        if cluster.is_finished:
            return
        if until_ns is not None and next_ns and next_ns > cluster.job.start_ns + until_ns:
            return
        if not cluster.step():
            left = ", ".join(e.name for e in cluster.tasks.values() if not e.is_finished)
            raise StalledError(
                f"nothing can happen any more, but these are left: {left}", cluster.seed
            )
    raise StalledError(f"not finished after {limit} steps", cluster.seed)


def stop(cluster: Cluster) -> None:
    """End the sources, so that the job runs to its end."""
    for task in cluster.tasks.values():
        task.stop()
    for task_manager in cluster.task_managers:
        task_manager.wake(cluster.now_ns)


def set_delay(cluster: Cluster, consumer: int, delay_ns_per_record: int) -> None:
    """Let a consumer take this time for each record from now on."""
    tasks = cluster.tasks
    sinks = [x for x in cluster.job.subtasks if x.key in tasks and x.inputs and not x.outputs]
    run_input_of(tasks[sinks[consumer].key]).set_delay(delay_ns_per_record)
    cluster.task_managers[sinks[consumer].task_manager].wake(cluster.now_ns)
