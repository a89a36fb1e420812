"""Functions that take their time, in virtual time: they hold up their own task and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest

from flinknet.errors import TaskFailedError
from flinknet.graph import StreamExecutionEnvironment, StreamGraph
from flinknet.job.stream_task import TaskState
from tests.driving import run_on, run_until
from tests.simulated_job import MS, S, printed, task_named
from tests.simulated_worker import WorkedJob, spend

TASK_MANAGERS = {"taskmanager.load-balance.mode": "SLOTS"}

Record = tuple[int, bytes]


def slow(record: Record) -> Record:
    spend(2 * S)
    return record


def plain(record: Record) -> Record:
    return record


def beside(function: Any, *, is_alone: bool = False) -> StreamGraph:
    """A pipeline, and another one on the same TaskManagers with a function in it."""
    env = StreamExecutionEnvironment({})
    quick = env.generate(rate="200/s").name("Made").slot_sharing_group("up")
    quick.rebalance().map(plain).slot_sharing_group("down").name("Quick").discard()
    if not is_alone:
        made = env.generate(rate="20/s").name("Other").slot_sharing_group("up 2")
        made.rebalance().map(function).slot_sharing_group("down 2").name("Slow").discard()
    return env.execute("Beside")


def task(cluster: Any, name: str) -> Any:
    (found,) = [each for each in cluster.tasks.values() if each.name.startswith(name)]
    return found


def test_a_function_of_two_seconds_holds_up_its_own_task_alone() -> None:
    job = WorkedJob(beside(slow), task_managers=2)
    cluster = job.run(until_ns=5 * S)
    slow_task, quick = task(cluster, "Slow"), task(cluster, "Quick")
    assert slow_task.processed_records == 3
    assert slow_task.is_handed_over
    alone = WorkedJob(beside(slow, is_alone=True), task_managers=2).run(until_ns=5 * S)
    flush = 20  # records of a buffer timeout, of which one may just not have been
    assert quick.processed_records >= task(alone, "Quick").processed_records - flush > 900
    times = slow_task.times.metrics(now_ns=cluster.now_ns)
    assert times["accumulateBusyTimeMs"] >= 4_850
    assert times["accumulateIdleTimeMs"] <= 100


@pytest.mark.parametrize("is_unaligned", [False, True])
def test_barriers_pass_between_two_records_of_a_function_in_work(is_unaligned: bool) -> None:
    env = StreamExecutionEnvironment({})
    env.enable_checkpointing("100ms", unaligned=is_unaligned)

    def some_time(record: Record) -> Record:
        spend(30 * MS)
        return record

    made = env.generate(rate="20/s").map(some_time).name("Made")
    made.rebalance().map(some_time).name("Read").rebalance().discard()
    cluster = WorkedJob(env.execute("Barriers"), end_ns=2 * S).run()
    assert cluster.checkpoints is not None
    found = cluster.checkpoints.coordinator.summary()
    assert found.triggered >= 19
    assert found.completed >= found.triggered - 1


def test_what_is_put_out_is_the_same_and_in_the_same_order() -> None:
    lines = {}
    for took_ns in (0, 700_000, 7 * MS):
        env = StreamExecutionEnvironment({})
        env.set_parallelism(2)

        def some_time(value: int, took_ns: int = took_ns) -> int:
            spend(took_ns)
            return value * 3

        numbers = env.from_sequence(1, 500).map(some_time, output_type=int)
        numbers.key_by(lambda value: value % 7).map(some_time, output_type=int).print()
        cluster = WorkedJob(env.execute("Same")).run()
        by_task = {
            which: [line for line in cluster.job.io.lines if line.startswith(which)]
            for which in "12"
        }
        lines[took_ns] = printed(cluster)
        for found in by_task.values():
            for rest in range(7):
                values = [int(line.partition("> ")[2]) // 9 for line in found]
                chosen = [value for value in values if value % 7 == rest]
                halves = ([v for v in chosen if v <= 250], [v for v in chosen if v > 250])
                assert all(half == sorted(half) for half in halves)
    assert len(lines[0]) == 500
    assert len(set(map(str, map(sorted, lines.values())))) == 1


class Opened:
    """Takes its time to open, for each record, and to close."""

    calls: ClassVar[list[str]] = []  # those of all its copies

    def __init__(self) -> None:
        self.calls.clear()

    def open(self) -> None:
        spend(S)
        self.calls.append("open")

    def close(self) -> None:
        spend(S)
        self.calls.append("close")

    def __call__(self, value: int) -> int:
        spend(S)
        self.calls.append("call")
        return value


def test_a_task_is_open_and_finished_when_its_functions_say_so() -> None:
    env, function = StreamExecutionEnvironment({}), Opened()
    env.from_sequence(1, 2).map(function, output_type=int).name("Opened").print()
    job = WorkedJob(env.execute("Opened"), task_managers=1)
    cluster = job.run(until_ns=S // 2)
    (opened,) = cluster.tasks.values()
    assert not opened.is_open
    run_on(job.cluster, until_ns=3 * S + S // 2)
    assert opened.is_open
    assert opened.state is TaskState.FINISHED
    assert not opened.is_finished
    job.run()
    assert function.calls == ["open", "call", "call", "close"]
    assert all(each.is_released for each in job.workers.values())


def test_a_task_that_is_canceled_lets_go_when_its_function_returns() -> None:
    env, function = StreamExecutionEnvironment({}), Opened()
    env.from_sequence(1, 9).rebalance().map(function, output_type=int).name("Opened").print()
    job = WorkedJob(env.execute("Canceled"))
    cluster = job.run(until_ns=2 * S + S // 2)
    opened = task(cluster, "Opened")
    for each in cluster.task_managers:  # as drivers do, they step it no more
        each.tasks = [stepped for stepped in each.tasks if stepped.task is not opened]
    opened.cancel()
    assert opened.is_handed_over
    assert function.calls[:2] == ["open", "call"]
    records = opened.processed_records
    for _ in range(2):  # the record that was in work, then `close`
        cluster.scheduler.at(cluster.now_ns + S, opened.cancel)
        run_until(cluster, cluster.now_ns + S)
    assert not opened.is_handed_over
    assert function.calls[-1] == "close"
    assert opened.processed_records == records
    assert all(worker.is_released for name, worker in job.workers.items() if "Opened" in name)


def test_a_close_that_fails_ends_the_thread_of_its_task() -> None:
    class Fails:
        def close(self) -> None:
            raise ValueError("not closed")

        def __call__(self, value: int) -> int:
            return value

    env = StreamExecutionEnvironment({})
    env.from_sequence(1, 2).map(Fails(), output_type=int).name("Fails").print()
    job = WorkedJob(env.execute("Fails"), task_managers=1)
    with pytest.raises(TaskFailedError, match="not closed"):
        job.run()
    for each in job.cluster.tasks.values():
        each.cancel()
    assert all(each.is_released for each in job.workers.values())


def test_what_is_no_exception_fails_the_task_and_names_the_record_too() -> None:
    def fail(value: int) -> int:
        raise asyncio.CancelledError("given up")

    env = StreamExecutionEnvironment({})
    env.from_sequence(1, 9).rebalance().map(fail, output_type=int).name("Fails").print()
    with pytest.raises(
        TaskFailedError, match=r"Fails failed at its 1st record, .*CancelledError: given"
    ):
        WorkedJob(env.execute("Fails"), task_managers=1).run()


def test_a_function_that_fails_names_the_record() -> None:
    def fail(value: int) -> int:
        spend(MS)
        if value == 7:
            raise ValueError("no sevens")
        return value

    env = StreamExecutionEnvironment({})
    env.from_sequence(1, 9).rebalance().map(fail, output_type=int).name("Fails").print()
    with pytest.raises(
        TaskFailedError, match=r"Fails failed at its 7th record, value 7 .*ValueError: no sevens"
    ):
        WorkedJob(env.execute("Fails"), task_managers=1).run()


def test_a_key_that_takes_its_time_is_no_work_of_the_loop() -> None:
    def key(value: int) -> int:
        spend(10 * MS)
        return value

    env = StreamExecutionEnvironment({})
    env.from_sequence(1, 20).key_by(key).map(lambda value: value, output_type=int).print()
    cluster = WorkedJob(env.execute("Keys"), task_managers=1).run()
    assert sorted(map(int, printed(cluster))) == list(range(1, 21))
    assert task_named(cluster, "Source: Sequence Source (1/1)").emitted_records == 20
