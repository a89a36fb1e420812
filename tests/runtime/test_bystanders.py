"""What others took of the processors while a run went on."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from flinknet.runtime import bystanders
from flinknet.runtime.bystanders import Bystanders

OWN = os.getpid()


class System:
    """Processes and cores whose times a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = 0
        self.processes: list[tuple[int, str, float | None]] = []
        self.steal_s: list[float] = [0.0, 0.0, 0.0]
        monkeypatch.setattr(bystanders, "monotonic_ns", lambda: self.now_ns)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2})
        monkeypatch.setattr(psutil, "process_iter", self._processes)
        monkeypatch.setattr(psutil, "cpu_times", self._cores)

    def _processes(self, _attributes: object) -> list[Any]:
        return [
            SimpleNamespace(
                pid=pid,
                info={
                    "name": name,
                    "cpu_times": used and SimpleNamespace(user=used / 2, system=used / 2),
                },
            )
            for pid, name, used in self.processes
        ]

    def _cores(self, *, percpu: bool) -> list[Any]:
        assert percpu
        return [SimpleNamespace(steal=each) for each in self.steal_s]


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> System:
    return System(monkeypatch)


def test_the_longest_are_told_whatever_they_are_called_meanwhile(system: System) -> None:
    system.processes = [
        *((2, "kworker/0:1-events", 5.0), (3, "x-idle", 9.0), (4, "gone", 1.0)),
        *((OWN, "flinknet", 1.0), (7, "reused", 3.0), (9, "hidden", None)),
    ]
    watch = Bystanders(2)
    system.now_ns = 10_000_000_000
    system.processes = [
        *((2, "kworker/0:1-writeback", 5.2), (3, "x-idle", 9.005), (5, "x-new", 1.0)),
        *((OWN, "flinknet", 8.0), (7, "other", 0.5), (8, "least", 0.1), (9, "hidden", None)),
    ]
    _, others = watch.shares()
    assert others == {"x-new": 0.1, "other": 0.05, "kworker/0:1": 0.02}


@pytest.mark.parametrize(("task_managers", "host_share"), [(1, 0.005), (2, 0.02), (3, 0.02)])
def test_the_host_counts_where_it_took_most_of_a_core_of_the_run(
    system: System, task_managers: int, host_share: float
) -> None:
    watch = Bystanders(task_managers)
    system.now_ns = 2_000_000_000
    system.steal_s = [0.01, 1.0, 0.04]
    assert watch.shares() == (pytest.approx(host_share), {})


def test_a_system_that_does_not_tell_of_its_host(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "cpu_times", lambda *, percpu: [SimpleNamespace(user=1.0)] * 3)
    watch = Bystanders(2)
    system.now_ns = 1_000_000_000
    assert watch.shares() == (None, {})


def test_a_system_that_may_not_be_looked_at_costs_no_result(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Bystanders(2)
    system.now_ns = 1_000_000_000

    def refuse(*, percpu: bool) -> None:
        raise PermissionError

    monkeypatch.setattr(psutil, "cpu_times", refuse)
    assert watch.shares() == (None, {})
