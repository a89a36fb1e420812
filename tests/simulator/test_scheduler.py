"""Scheduler: virtual time."""

from __future__ import annotations

from flinknet.simulator.task_manager import Scheduler


def test_actions_run_by_instant_and_then_in_the_order_they_came() -> None:
    scheduler = Scheduler()
    seen: list[tuple[str, int]] = []
    for name, at_ns in (("c", 20), ("a", 10), ("b", 10), ("d", 30)):
        scheduler.at(at_ns, lambda name=name: seen.append((name, scheduler.now_ns)))  # type: ignore[misc]
    while scheduler.step():
        pass
    assert seen == [("a", 10), ("b", 10), ("c", 20), ("d", 30)]


def test_an_instant_that_has_passed_means_now() -> None:
    scheduler = Scheduler(start_ns=100)
    seen: list[int] = []
    scheduler.at(50, lambda: seen.append(scheduler.now_ns))
    assert scheduler.next_ns == 100
    assert scheduler.step()
    assert seen == [100]
    assert not scheduler.step()


def test_what_an_action_schedules_for_now_runs_behind_what_was_there() -> None:
    scheduler = Scheduler()
    seen: list[str] = []

    def first() -> None:
        seen.append("first")
        scheduler.at(0, lambda: seen.append("third"))

    scheduler.at(5, first)
    scheduler.at(5, lambda: seen.append("second"))
    while scheduler.step():
        pass
    assert seen == ["first", "second", "third"]


def test_time_does_not_pass_for_what_was_cancelled() -> None:
    scheduler = Scheduler()
    seen: list[str] = []
    for name in "abc":
        planned = scheduler.at(10, lambda name=name: seen.append(name))  # type: ignore[misc]
        if name != "b":
            scheduler.cancel(planned)
    scheduler.cancel(scheduler.at(99, lambda: seen.append("d")))
    assert scheduler.next_ns == 10
    assert scheduler.step()
    assert not scheduler.step()
    assert scheduler.next_ns is None
    assert (seen, scheduler.now_ns) == (["b"], 10)
