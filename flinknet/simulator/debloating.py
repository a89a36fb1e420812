"""Buffer debloating of a cluster: evaluates the gates periodically, which takes no time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flinknet.config import NetworkConfig
from flinknet.job.debloating import BufferDebloating, GateDebloating, debloated_gates
from flinknet.job.stream_task import StreamTask

from .scheduler import Scheduler
from .task_manager import SimulatedTaskManager


def start_debloating(
    tasks: Sequence[StreamTask],
    task_manager: SimulatedTaskManager,
    scheduler: Scheduler,
    network: NetworkConfig,
    is_over: Callable[[], bool],
) -> Sequence[GateDebloating]:
    """Evaluate the gates of a TaskManager's tasks until their job is over. Returns: the gates."""
    now_ns = task_manager.now_ns
    debloating = BufferDebloating(
        debloated_gates(tasks, network, now_ns=now_ns),
        network.debloating_period_ns,
        start_ns=now_ns,
    )

    def debloat() -> None:
        if is_over():
            return
        debloating.handle_deadline(now_ns=task_manager.now_ns)
        task_manager.wake(scheduler.now_ns)
        due_ns = debloating.next_deadline_ns()
        if due_ns is not None:
            scheduler.at(task_manager.virtual_ns(due_ns), debloat)

    debloat()
    return debloating.gates
