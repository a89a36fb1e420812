"""Disturbances: the faults of a plan that happen to a cluster at an instant."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from flinknet.core.consumer import SingleInputGate
from flinknet.job.load.load_tasks import run_input_of
from flinknet.job.stream_task import StreamTask

from .faults import FaultPlan, Interval
from .link import SimulatedLink
from .scheduler import Scheduler
from .task_manager import SimulatedTaskManager


class Disturbances:
    """Lets resets, pauses and exhaustions of a plan happen to the parts of a cluster.

    Args:
        gates: on each TaskManager.
        sinks: the consumers, and where they run.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        task_managers: Sequence[SimulatedTaskManager],
        links: Sequence[SimulatedLink],
        gates: Sequence[Sequence[SingleInputGate]],
        sinks: Sequence[tuple[StreamTask, SimulatedTaskManager]],
    ) -> None:
        self._scheduler = scheduler
        self._task_managers = task_managers
        self._links = links
        self._gates = gates
        self._sinks = sinks

    def schedule(self, faults: FaultPlan, *, start_ns: int) -> None:
        """Let the faults happen; their instants count from `start_ns`."""
        at = self._scheduler.at
        for number, at_ns in faults.resets:
            at(start_ns + at_ns, partial(self._reset, self._links[number]))
        for pause in faults.pauses:
            at(start_ns + pause.from_ns, partial(self._pause, pause.index))
            at(start_ns + pause.to_ns, partial(self._unpause, pause.index))
        for exhaustion in faults.exhaustions:
            end_ns = start_ns + exhaustion.to_ns
            at(start_ns + exhaustion.from_ns, partial(self._exhaust, exhaustion, end_ns))

    def _reset(self, link: SimulatedLink) -> None:
        link.reset(now_ns=self._scheduler.now_ns)

    def _pause(self, consumer: int) -> None:
        task, _ = self._sinks[consumer]
        run_input_of(task).is_paused = True

    def _unpause(self, consumer: int) -> None:
        task, task_manager = self._sinks[consumer]
        run_input_of(task).unpause()
        task_manager.wake(self._scheduler.now_ns)

    def _exhaust(self, exhaustion: Interval, end_ns: int) -> None:
        """Another task takes the memory that no pool of a TaskManager was promised, until
        `end_ns`.
        """
        task_manager = self._task_managers[exhaustion.index]
        memory = task_manager.memory
        exclusive = sum(
            channel.initial_credit
            for gate in self._gates[exhaustion.index]
            for channel in gate.remote_channels
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
            task_manager.wake(self._scheduler.now_ns)

        self._scheduler.at(end_ns, give_back)
