"""What others took of the processors while a run went on."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from flinknet.results import Taken
from flinknet.runtime import bystanders
from flinknet.runtime.bystanders import Bystanders

MS = 1_000_000
S = 1_000_000_000
TASK_MANAGER = 4242


class System:
    """Threads and cores whose times a test sets; time stands still meanwhile."""

    def __init__(self, proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = 0
        self.steal_s: list[float] = [0.0, 0.0, 0.0]
        self._proc = proc
        threads_of = bystanders._threads
        monkeypatch.setattr(bystanders, "monotonic_ns", lambda: self.now_ns)
        monkeypatch.setattr(bystanders, "_threads", lambda: threads_of(proc))
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2})
        monkeypatch.setattr(os, "getpid", lambda: 1)
        monkeypatch.setattr(psutil, "cpu_times", self._cores)
        own = SimpleNamespace(children=lambda recursive: [SimpleNamespace(pid=TASK_MANAGER)])
        monkeypatch.setattr(psutil, "Process", lambda: own)

    def set(self, pid: int, name: str, used_ns: int, slices: int, thread: int = 0) -> None:
        """What a thread has used by now."""
        directory = self._proc / str(pid) / "task" / str(thread or pid)
        directory.mkdir(parents=True, exist_ok=True)
        (self._proc / str(pid) / "comm").write_text(name + "\n")
        (directory / "schedstat").write_text(f"{used_ns} 77 {slices}\n")

    def _cores(self, *, percpu: bool) -> list[Any]:
        assert percpu
        return [SimpleNamespace(steal=each) for each in self.steal_s]


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    return System(tmp_path, monkeypatch)


def test_the_longest_are_told_whatever_they_are_called_meanwhile(system: System) -> None:
    system.set(2, "kworker/0:1-events", 5 * S, 10)
    system.set(3, "x-idle", 9 * S, 10)
    system.set(7, "reused", 3 * S, 10)
    watch = Bystanders(2)
    system.now_ns = 10 * S
    system.set(2, "kworker/0:1-writeback", 5 * S + 200 * MS, 20)
    system.set(3, "x-idle", 9 * S + 5 * MS, 11)
    system.set(5, "x-new", 400 * MS, 3)
    system.set(5, "x-new", 600 * MS, 5, thread=6)
    system.set(7, "other", 500 * MS, 4)
    system.set(8, "least", 100 * MS, 4)
    assert watch.taken().others_share == {"x-new": 0.1, "other": 0.05, "kworker/0:1": 0.02}


def test_pieces_are_as_long_as_where_most_of_the_time_goes(system: System) -> None:
    for pid in (1, 2, 3, TASK_MANAGER):
        system.set(pid, f"process {pid}", S, 1000)
    watch = Bystanders(2)
    system.now_ns = S
    system.set(1, "launcher", S + 10 * MS, 1005)
    system.set(2, "bursts", S + 30 * MS, 1010)
    system.set(TASK_MANAGER, "own", 2 * S, 1001)
    taken = watch.taken()
    assert taken.others_share == {"bursts": 0.03}
    assert taken.beside_share == pytest.approx(0.04)
    assert taken.beside_slice_ns == pytest.approx((10 * 2 + 30 * 3) / 40 * MS)


@pytest.mark.parametrize(("task_managers", "host_share"), [(1, 0.005), (2, 0.02), (3, 0.02)])
def test_the_host_counts_where_it_took_most_of_a_core_of_the_run(
    system: System, task_managers: int, host_share: float
) -> None:
    watch = Bystanders(task_managers)
    system.now_ns = 2 * S
    system.steal_s = [0.01, 1.0, 0.04]
    assert watch.taken() == Taken(pytest.approx(host_share), cores=2)


def test_a_system_that_does_not_tell(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "cpu_times", lambda *, percpu: [SimpleNamespace(user=1.0)] * 3)
    system.set(2, "unreadable", S, 10)
    watch = Bystanders(2)
    system.now_ns = S

    def refuse(*, percpu: bool) -> None:
        raise PermissionError

    monkeypatch.setattr(psutil, "cpu_times", refuse)
    monkeypatch.setattr(bystanders, "_threads", lambda: iter(()))
    assert watch.taken() == Taken(cores=2)
