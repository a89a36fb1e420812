"""ResourceManager: starts, registers, watches and ends the TaskManagers of a cluster (Flink:
ResourceManager).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import TYPE_CHECKING, Any

from flinknet.config import Link
from flinknet.results import TaskManagerStatus

from ..host import available_cores
from ..link_process import LinkEmulator
from ..signals import interrupts_held, raise_dropped_termination
from . import control_messages as messages
from .cluster_process import (
    TASK_MANAGER,
    RemoteProcess,
    TaskManagerProcess,
    TaskManagerProcessSpec,
    TaskManagerState,
    WorkersSpec,
    start_child,
)
from .control_connection import ControlConnection

if TYPE_CHECKING:
    from .workers import Worker, Workers


EXIT_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The specification of a cluster.

    Attributes:
        task_manager: what its TaskManagers have in common.
        log_dir: directory of the processes' logs; None: they inherit this process's output.
        link: emulated link between each two TaskManagers; None: plain sockets.
        place_of: number of the worker of each TaskManager; if empty, they take turns.
    """

    task_manager: TaskManagerProcessSpec
    heartbeat_interval_ns: int
    log_dir: Path | None
    link: Link | None = None
    seed: int = 0
    workers: WorkersSpec | None = None
    place_of: tuple[int, ...] = ()


class ResourceManager:
    """All TaskManagers, by index. It sends them heartbeats and detects silence; any bytes of a
    TaskManager count as a sign of life.
    """

    def __init__(self, spec: ClusterSpec, workers: Workers | None = None) -> None:
        self._spec = spec
        self._workers = workers
        self._next_heartbeat_ns: int | None = None
        self._heartbeats = 0
        self._known: list[TaskManagerProcess] = []
        self._emulator: LinkEmulator | None = None

    @property
    def _hosts(self) -> Sequence[Worker]:
        return () if self._workers is None else self._workers.each

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[TaskManagerProcess]:
        return iter(self._known)

    def __getitem__(self, index: int) -> TaskManagerProcess:
        return self._known[index]

    def start(self, control_port: int) -> None:
        """Start all TaskManagers."""
        spec, count = self._spec, self._spec.task_manager.task_managers
        processes = count
        if spec.link is not None and count > 1:
            self._emulator = LinkEmulator(spec.link, count, spec.seed)
            processes += 1
        for index in range(count):
            raise_dropped_termination()
            child = replace(
                spec.task_manager,
                index=index,
                control_port=control_port,
                has_own_core=available_cores() >= processes,
                module_path=tuple(sys.path),
                core=index,
            )
            process: Popen[bytes] | RemoteProcess
            with interrupts_held():  # a process that is not in the list would not be ended
                if self._workers is not None:
                    in_turns = [at % len(self._workers.each) for at in range(count)]
                    process = self._workers.start(child, spec.place_of or in_turns)
                else:
                    process = start_child(TASK_MANAGER, child, spec.log_dir, child.name)
                self._known.append(TaskManagerProcess(index, process))

    def register(
        self, connection: ControlConnection, message: messages.RegisterTaskManager, *, now_ns: int
    ) -> TaskManagerProcess | None:
        """Register a TaskManager; one that was not started here is refused, and None returned."""
        for each in [each for each in self._known if each.index == message.index]:
            if isinstance(each.process, RemoteProcess) and not each.process.pid:
                each.process.pid = message.pid
            if each.process.pid == message.pid:
                each.connection = connection
                each.address = (message.data_host, message.data_port)
                if self._emulator is not None:
                    self._emulator.set_target(each.index, each.address)
                each.state = TaskManagerState.REGISTERED
                for worker in self._hosts:
                    worker.next_adjustment_ns = 0  # it has missed the corrections so far
                if self._next_heartbeat_ns is None:
                    self._next_heartbeat_ns = now_ns + self._spec.heartbeat_interval_ns
                return each
        connection.send(messages.Refused("it is no TaskManager of this cluster"))
        connection.close()
        return None

    def address_of(self, task_manager: int, connecting: int) -> tuple[str, int]:
        """The address at which one TaskManager reaches the data port of another. Raises:
        RunFailedError if there is an emulated link between them whose process has ended.
        """
        if self._emulator is None:
            return self._known[task_manager].address
        return self._emulator.address_of(task_manager, connecting)

    def check_link(self) -> None:
        """Raises: RunFailedError if the process of the emulated link has ended."""
        if self._emulator is not None:
            self._emulator.check()

    def failed(self, message: messages.TaskManagerFailed) -> TaskManagerProcess | None:
        """The TaskManager that reports its failure; None if it is unknown or no longer alive."""
        for each in self._known:
            if (each.index, each.process.pid) == (message.index, message.pid) and each.is_alive:
                return each
        return None

    def sender(self, connection: ControlConnection) -> TaskManagerProcess | None:
        """The TaskManager at the other end; None if it is unknown or no longer alive."""
        found = (each for each in self._known if each.connection is connection and each.is_alive)
        return next(found, None)

    def next_deadline_ns(self) -> int | None:
        """When to call `advance`, None for never."""
        timeout_ns = self._spec.task_manager.silence_max_ns
        due = [each.heard_ns + timeout_ns for each in self._known if each.is_registered]
        if due and self._next_heartbeat_ns is not None:
            due.append(self._next_heartbeat_ns)
        due += [each.next_deadline_ns() for each in self._hosts if each.loss is None]
        return min(due, default=None)

    def advance(self, *, now_ns: int) -> list[tuple[TaskManagerProcess, str]]:
        """Send the heartbeats that are due. Returns: lost TaskManagers, with the reason."""
        for worker in self._hosts:
            adjustment = worker.advance(now_ns)
            if adjustment is not None:
                for index in worker.processes:
                    self._known[index].send(adjustment)
        watched = [each for each in self._known if each.is_registered]
        if self._next_heartbeat_ns is not None and now_ns >= self._next_heartbeat_ns:
            self._next_heartbeat_ns = now_ns + self._spec.heartbeat_interval_ns
            self._heartbeats += 1
            for each in watched:
                each.send(messages.Heartbeat(self._heartbeats))
        timeout_ns = self._spec.task_manager.silence_max_ns
        silent = [each for each in watched if now_ns - each.heard_ns >= timeout_ns]
        for worker in self._hosts:
            if worker.is_quiet and any(each.index in worker.processes for each in silent):
                worker.lose_silent()
        lost = [(each, death) for each in self._known if (death := each.death()) is not None]
        for each in silent:
            text = f"{each.process_name} has not answered heartbeats for"
            lost.append((each, f"{text} {timeout_ns / 1e9:g} s and counts as lost"))
        return lost

    def lose(self, task_manager: TaskManagerProcess) -> None:
        task_manager.state = TaskManagerState.LOST
        task_manager.kill()

    def send_to_all(self, message: Any) -> None:
        for each in self._known:
            if each.is_alive:
                each.send(message)

    def status(
        self, slots_in_use: Callable[[int], int], *, now_ns: int
    ) -> tuple[TaskManagerStatus, ...]:
        """The status of every TaskManager."""
        return tuple(
            TaskManagerStatus(
                each.index,
                each.process.pid,
                each.state.value,
                self._spec.task_manager.slots,
                slots_in_use(each.index),
                each.heartbeats,
                max(0, now_ns - each.heard_ns) if each.is_registered else 0,
            )
            for each in self._known
        )

    def end(self) -> None:
        """Wait for the processes to end after the command to end; kill those that do not."""
        for each in self._known:
            if each.connection is None:  # the command did not reach it
                each.kill()
            try:
                each.process.wait(EXIT_WAIT_S)
            except TimeoutExpired:
                each.kill()
        if self._emulator is not None:
            self._emulator.close()
