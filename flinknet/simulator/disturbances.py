"""Disturbances: the faults of a plan that happen to a cluster at an instant."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from flinknet.jobs.load.assembly import run_input_of

from .faults import FaultPlan, Interval
from .link import SimulatedLink

if TYPE_CHECKING:
    from .cluster import Cluster


def schedule_faults(cluster: Cluster, faults: FaultPlan, *, start_ns: int) -> None:
    """Let resets, pauses and exhaustions happen; their instants count from `start_ns`."""
    links = list(cluster.links.values())
    at = cluster.scheduler.at
    for number, at_ns in faults.resets:
        at(start_ns + at_ns, partial(_reset, cluster, links[number]))
    for pause in faults.pauses:
        at(start_ns + pause.from_ns, partial(_pause, cluster, pause.index))
        at(start_ns + pause.to_ns, partial(_unpause, cluster, pause.index))
    for exhaustion in faults.exhaustions:
        end_ns = start_ns + exhaustion.to_ns
        at(start_ns + exhaustion.from_ns, partial(_exhaust, cluster, exhaustion, end_ns))


def _reset(cluster: Cluster, link: SimulatedLink) -> None:
    link.reset(now_ns=cluster.now_ns)


def _pause(cluster: Cluster, consumer: int) -> None:
    run_input_of(cluster.sinks[consumer]).is_paused = True


def _unpause(cluster: Cluster, consumer: int) -> None:
    run_input_of(cluster.sinks[consumer]).unpause()
    task_manager = cluster.deployment.consumer_task_managers[consumer]
    cluster.task_managers[task_manager].wake(cluster.now_ns)


def _exhaust(cluster: Cluster, exhaustion: Interval, end_ns: int) -> None:
    """Another task takes the memory that no pool of a TaskManager was promised, until `end_ns`."""
    task_manager = cluster.task_managers[exhaustion.index]
    memory = task_manager.memory
    exclusive = sum(
        channel.initial_credit
        for consumer in cluster.deployment.consumers_on(exhaustion.index)
        for channel in cluster.gate_of[len(cluster.deployment.edges) - 1, consumer].remote_channels
    )
    promised = sum(pool.required_buffers for pool in memory.pools) + exclusive
    rival = memory.create_buffer_pool(memory.total_buffers - promised, 0)
    taken = []
    while (buffer := rival.try_request()) is not None:
        taken.append(buffer)

    def give_back() -> None:
        for buffer in taken:
            buffer.recycle()
        rival.destroy()
        task_manager.wake(cluster.now_ns)

    cluster.scheduler.at(end_ns, give_back)
