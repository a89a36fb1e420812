"""The host of a run: its facts, what others took of its processors, and whether it stood still."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flinknet.results import Taken
from flinknet.runtime import host
from flinknet.runtime.host import MISSING, OK, check_machine
from flinknet.runtime.other_processes import (
    OtherProcesses,
    ProcessorReading,
    ProcessTimes,
    Standstill,
    ThreadUse,
    read_processors,
    read_times,
    threads_in,
)

MS = 1_000_000
S = 1_000_000_000
LAUNCHER, TASK_MANAGER = 1, 4242


def use(at_ns: int, *threads: ThreadUse, steal_s: tuple[float, ...] = ()) -> ProcessorReading:
    """A reading on a machine of three cores, of which this process may use the first and last."""
    numbered = dict(enumerate(threads, 100))
    return ProcessorReading(
        at_ns, (0, 2), dict(enumerate(steal_s)), numbered, LAUNCHER, frozenset({TASK_MANAGER})
    )


def taken(before: ProcessorReading, after: ProcessorReading, task_managers: int = 2) -> Taken:
    readings = iter([before, after])
    return OtherProcesses(task_managers, lambda: next(readings)).taken()


def test_the_longest_are_named_and_new_threads_count_from_zero() -> None:
    before = use(0, *(ThreadUse(pid, f"p{pid}", 5 * S, 10) for pid in (2, 3, 7)))
    after = use(
        10 * S,
        ThreadUse(2, "kworker", 5 * S + 200 * MS, 20),
        ThreadUse(3, "x-idle", 5 * S + 5 * MS, 11),
        ThreadUse(7, "other", 500 * MS, 4),  # less than before: another thread of that number
        ThreadUse(5, "x-new", 400 * MS, 3),
        ThreadUse(5, "x-new", 600 * MS, 5),
        ThreadUse(8, "least", 100 * MS, 4),
    )
    assert taken(before, after).others_share == {"x-new": 0.1, "other": 0.05, "kworker": 0.02}


def test_pieces_are_as_long_as_where_most_of_the_time_goes() -> None:
    pids = (LAUNCHER, 2, 3, TASK_MANAGER)
    before = use(0, *(ThreadUse(pid, f"p{pid}", S, 1000) for pid in pids))
    after = use(
        S,
        ThreadUse(LAUNCHER, "launcher", S + 10 * MS, 1005),
        ThreadUse(2, "bursts", S + 30 * MS, 1010),
        ThreadUse(3, "sleeps", S, 1000),
        ThreadUse(TASK_MANAGER, "own", 2 * S, 1001),
    )
    result = taken(before, after)
    assert result.others_share == {"bursts": 0.03}
    assert result.outside_share == pytest.approx(0.04)
    assert result.outside_slice_ns == pytest.approx((10 * 2 + 30 * 3) / 40 * MS)


@pytest.mark.parametrize(("task_managers", "host_share"), [(1, 0.005), (2, 0.02), (3, 0.02)])
def test_the_host_counts_where_it_took_most_of_a_core_of_the_run(
    task_managers: int, host_share: float
) -> None:
    before, after = use(0, steal_s=(0.0, 0.0, 0.0)), use(2 * S, steal_s=(0.01, 1.0, 0.04))
    assert taken(before, after, task_managers) == Taken(pytest.approx(host_share), cores=2)


def test_a_system_that_reports_neither_threads_nor_the_host() -> None:
    assert taken(use(0, steal_s=(0.0, 0.0)), use(S)) == Taken(cores=2)


def test_threads_are_named_after_their_process(tmp_path: Path) -> None:
    for pid, name, thread in ((2, "kworker/0:1-events", 2), (5, "x", 5), (5, "x", 6)):
        directory = tmp_path / str(pid) / "task" / str(thread)
        directory.mkdir(parents=True)
        (tmp_path / str(pid) / "comm").write_text(name + "\n")
        (directory / "schedstat").write_text(f"{thread} 77 {pid}\n")
    (tmp_path / "9").mkdir()  # has ended
    (tmp_path / "version").touch()
    assert dict(threads_in(tmp_path)) == {
        2: ThreadUse(2, "kworker/0:1", 2, 2),
        5: ThreadUse(5, "x", 5, 5),
        6: ThreadUse(5, "x", 6, 5),
    }


def test_this_machine_can_be_read() -> None:
    use = read_processors()
    assert use.cores
    assert use.at_ns > 0
    assert use.launcher not in use.task_managers


@pytest.mark.parametrize(
    ("cpu_ns", "queued_ns", "stood_ns"),
    [
        (0, 0, 2 * S - S // 10),
        (S // 2, S // 2, S - S // 10),
        (S, S, 0),
        (0, 2 * S, 0),
        (0, None, 0),
    ],
)
def test_a_gap_without_cpu_time_and_without_waiting_for_a_cpu_is_a_standstill(
    cpu_ns: int, queued_ns: int | None, stood_ns: int
) -> None:
    begun = ProcessTimes(5 * S, S, None if queued_ns is None else 7 * S)
    ended = ProcessTimes(7 * S, S + cpu_ns, None if queued_ns is None else 7 * S + queued_ns)
    readings = [begun, ended, ended]
    standstill = Standstill(lambda: readings.pop(0))
    standstill.look(within_ns=S // 10)
    standstill.look(within_ns=S // 10)
    assert standstill.stood_ns == stood_ns
    assert standstill.queued_ns == queued_ns


def test_the_times_of_this_process_can_be_read() -> None:
    first, second = read_times(), read_times()
    assert second.clock_ns > first.clock_ns
    assert second.cpu_ns >= first.cpu_ns


@pytest.mark.parametrize(("number", "core"), [(0, 3), (1, 5), (2, 3)])
def test_a_process_stays_on_one_of_the_cores_it_may_use(
    number: int, core: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[set[int]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {5, 3})
    monkeypatch.setattr(os, "sched_setaffinity", lambda _pid, cores: chosen.append(cores))
    host.stay_on_core(number)
    assert chosen == [{core}]


def test_what_makes_records_cost_more_is_reported_by_name() -> None:
    here = host.environment()
    there = {**here, "cores": 64, "core": "hand-made", "load_average": -1}
    assert host.differences_from(there, here) == [
        f"core hand-made there, {here['core']} here",
        f"cores 64 there, {here['cores']} here",
    ]
    assert host.differences_from(here, here) == []
    assert host.differences_from({}, here) == []


def test_this_machine_passes_every_check_that_a_run_needs() -> None:
    checks = check_machine()
    assert len({check.name for check in checks}) == len(checks)
    assert all(check.status != MISSING for check in checks)
    assert all(check.advice for check in checks if check.status != OK)
