"""The thread of a task: what it raises comes back, and its end wakes the loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable

import pytest

from flinknet.errors import TaskFailedError
from flinknet.runtime import task_thread
from flinknet.runtime.clock import monotonic_ns
from flinknet.runtime.event_loop import EventLoop
from flinknet.runtime.task_thread import RETRY_AFTER, TaskThread

S = 1_000_000_000


def run(loop: EventLoop, thread: TaskThread, work: Callable[[], None]) -> None:
    """Do a piece of work, with turns of the loop until it is over."""
    if not thread.begin(work):
        while not thread.is_over:
            loop.run_once(until_ns=monotonic_ns() + 60 * S)
    thread.end()


def test_work_is_done_in_a_thread_that_has_the_name_of_the_task(loop: EventLoop) -> None:
    thread, names = TaskThread(loop, "Map (1/2)"), list[str]()
    for _ in range(3):
        run(loop, thread, lambda: names.append(threading.current_thread().name))
    assert names == ["Map (1/2)"] * 3
    thread.release()


def test_work_that_takes_its_time_wakes_the_loop_when_it_is_over(loop: EventLoop) -> None:
    thread, gate = TaskThread(loop, "Map (1/1)"), threading.Event()
    for _ in range(2):
        gate.clear()
        assert not thread.begin(lambda: bool(gate.wait()))
        assert not thread.is_over
        assert loop.working_threads == 1
        loop.call_at(0, gate.set)
        began_ns = monotonic_ns()
        while not thread.is_over:
            loop.run_once(until_ns=began_ns + 60 * S)
        assert monotonic_ns() - began_ns < 30 * S
        thread.end()
        assert loop.working_threads == 0
    thread.release()


def test_the_loop_is_patient_again_after_a_while(
    loop: EventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread, gate = TaskThread(loop, "Map (1/1)"), threading.Event()
    run(loop, thread, lambda: None)
    assert not thread.begin(lambda: bool(gate.wait()))
    gate.set()
    while not thread.is_over:
        loop.run_once(until_ns=monotonic_ns() + S)
    thread.end()
    monkeypatch.setattr(task_thread, "PATIENCE_S", 60)
    for _ in range(RETRY_AFTER):
        run(loop, thread, lambda: None)
    assert thread.begin(lambda: None)
    thread.end()
    thread.release()


KILLS = TaskFailedError, r"^Map \(1/1\): a function raised [CK]\w+\("


@pytest.mark.parametrize(
    ("error", "raised", "text"),
    [
        (ValueError("no"), ValueError, "no"),
        (SystemExit(3), SystemExit, "3"),
        (asyncio.CancelledError("no"), *KILLS),  # it would end the process
        (KeyboardInterrupt(), *KILLS),
    ],
)
def test_what_work_raises_is_raised_where_it_ends(
    loop: EventLoop, error: BaseException, raised: type[BaseException], text: str
) -> None:
    def fail() -> None:
        raise error

    thread = TaskThread(loop, "Map (1/1)")
    with pytest.raises(raised, match=text):
        run(loop, thread, fail)
    run(loop, thread, lambda: None)
    thread.release()


def test_a_thread_ends_when_it_is_released_and_its_work_is_over(loop: EventLoop) -> None:
    thread, gate, found = TaskThread(loop, "Map (1/1)"), threading.Event(), list[threading.Thread]()

    def work() -> None:
        found.append(threading.current_thread())
        gate.wait()

    assert not thread.begin(work)
    thread.release()
    while not found:
        loop.run_once(until_ns=monotonic_ns() + S // 1000)
    assert found[0].is_alive()
    assert found[0].daemon
    gate.set()
    found[0].join(60)
    assert not found[0].is_alive()
    thread.end()


def test_a_loop_that_closes_waits_for_a_thread_that_wakes_it(
    loop: EventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would write to a closed file, or to whatever has that number by then."""
    loop.make_wakeable()
    closes = threading.Thread(target=loop.close)

    def write_while_it_closes(file: int, data: bytes) -> int:
        closes.start()
        closes.join(timeout=0.05)
        return write(file, data)

    write = os.write
    monkeypatch.setattr(os, "write", write_while_it_closes)
    loop.wake()
    closes.join()
    loop.wake()  # of a closed loop: nothing
