"""Disturbances: the faults of a plan that happen to a cluster at an instant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from flinknet.core.consumer import SingleInputGate
from flinknet.errors import FlinknetError, RemoteTransportError, RunFailedError
from flinknet.job.load.load_tasks import run_input_of
from flinknet.job.stream_task import StreamTask

from .faults import HEARTBEAT_TIMEOUT_NS, FaultPlan, Injection
from .hosts import SimulatedHosts
from .link import SimulatedLink
from .scheduler import Scheduler
from .task_manager import SimulatedTaskManager


class Disturbances:
    """Schedules the faults of a plan that happen at an instant, and applies them to a cluster.

    Args:
        links: links by TaskManager of the producer, TaskManager of the consumer, and number.
        gates: gates of each TaskManager.
        sinks: consumers, each with its TaskManager.
        cancel: ends the job with an error.
        is_over: whether the job has ended.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        hosts: SimulatedHosts,
        links: Mapping[tuple[int, int, int], SimulatedLink],
        gates: Sequence[Sequence[SingleInputGate]],
        sinks: Sequence[tuple[StreamTask, SimulatedTaskManager]],
        cancel: Callable[..., None],
        is_over: Callable[[], bool],
    ) -> None:
        self._scheduler = scheduler
        self._hosts = hosts
        self._links = links
        self._gates = gates
        self._sinks = sinks
        self._cancel_job = cancel
        self._is_over = is_over

    def schedule(self, faults: FaultPlan, *, start_ns: int) -> None:
        """Schedule the faults; their instants count from `start_ns`."""
        at = self._scheduler.at
        for number, at_ns in faults.resets:
            at(start_ns + at_ns, partial(self._reset, number))
        for number, side, at_ns in faults.half_opens:
            at(start_ns + at_ns, partial(self._half_open, number, side))
        for number, at_ns in faults.crashes:
            at(start_ns + at_ns, partial(self._crash, number))
        for at_ns in faults.cancels_at_ns:
            at(start_ns + at_ns, self._cancel)
        for injection in faults.injections:
            at(start_ns + injection.at_ns, partial(self._inject, injection))
        for pause in faults.pauses:
            at(start_ns + pause.from_ns, partial(self._pause, pause.index))
            at(start_ns + pause.to_ns, partial(self._unpause, pause.index))
        for exhaustion in faults.exhaustions:
            end_ns = start_ns + exhaustion.to_ns
            exhaust = partial(self._exhaust, exhaustion.index, end_ns, faults.late_buffers_ns)
            at(start_ns + exhaustion.from_ns, exhaust)

    def _link(self, number: int) -> SimulatedLink | None:
        """The current link with a number; None if there is none."""
        links = list(self._links.values())
        return links[number] if number < len(links) else None

    def _reset(self, number: int) -> None:
        link = self._link(number)
        if link is not None:
            link.reset(now_ns=self._scheduler.now_ns)

    def _half_open(self, number: int, side: int) -> None:
        link = self._link(number)
        if link is not None:
            link.ends[side].close(now_ns=self._scheduler.now_ns)
            self._time_out()

    def _crash(self, index: int) -> None:
        """End the process of a TaskManager; its host resets its connections."""
        if self._is_over():
            return
        dead = self._hosts.task_managers[index]
        for each in dead.tasks:
            each.is_cancelled = True
        dead.tasks = ()
        for (upstream, downstream, _), link in self._links.items():
            if index in (upstream, downstream):
                link.reset(now_ns=self._scheduler.now_ns)
        self._time_out()

    def _time_out(self) -> None:
        def cancel() -> None:
            self._end(RemoteTransportError("its heartbeat timed out"))

        self._scheduler.at(self._scheduler.now_ns + HEARTBEAT_TIMEOUT_NS, cancel)

    def _cancel(self) -> None:
        self._end(RunFailedError("it was cancelled"), breaks_links=False)

    def _end(self, error: FlinknetError, *, breaks_links: bool = True) -> None:
        if not self._is_over():
            self._cancel_job(error, breaks_links=breaks_links)

    def _inject(self, injection: Injection) -> None:
        link = self._link(injection.link)
        if link is not None:
            end = link.ends[injection.side]
            end.inject(injection.data, now_ns=self._scheduler.now_ns)

    def _pause(self, consumer: int) -> None:
        task, _ = self._sinks[consumer]
        run_input_of(task).is_paused = True

    def _unpause(self, consumer: int) -> None:
        task, task_manager = self._sinks[consumer]
        run_input_of(task).unpause()
        task_manager.wake(self._scheduler.now_ns)

    def _exhaust(self, index: int, end_ns: int, late_ns: int) -> None:
        """Take all memory of a TaskManager that is not promised to its pools, until `end_ns`; then
        return it at once or, with `late_ns`, one buffer after another at this interval.
        """
        task_manager = self._hosts.task_managers[index]
        memory = task_manager.memory
        exclusive = sum(
            channel.initial_credit
            for gate in self._gates[index]
            for channel in gate.remote_channels
        )
        promised = sum(pool.required_buffers for pool in memory.pools) + exclusive
        rival = memory.create_buffer_pool(memory.total_buffers - promised, 0)
        taken = []
        while (buffer := rival.try_request()) is not None:
            taken.append(buffer)

        def give_back() -> None:
            if late_ns:
                rival.destroy()
                give_one_back()
                return
            for buffer in taken:
                buffer.recycle()
            rival.destroy()
            task_manager.wake(self._scheduler.now_ns)

        def give_one_back() -> None:
            if taken:
                taken.pop().recycle()
                task_manager.wake(self._scheduler.now_ns)
                self._scheduler.at(self._scheduler.now_ns + late_ns, give_one_back)

        self._scheduler.at(end_ns, give_back)
