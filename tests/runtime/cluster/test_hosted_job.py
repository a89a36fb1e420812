"""What a TaskManager has of one job: what is told of it, and what stays when it is forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from flinknet.config import NetworkConfig
from flinknet.core.wire.ids import ExecutionAttemptID, ExecutionGraphID, ExecutionVertexID
from flinknet.results import Strangers
from flinknet.runtime.cluster import attempts as attempts_module
from flinknet.runtime.cluster import control_messages as say
from flinknet.runtime.cluster.attempt_channels import AttemptChannels
from flinknet.runtime.cluster.attempts import Attempts, _Waiting
from flinknet.runtime.cluster.hosted_job import HostedJob
from flinknet.runtime.shuffle_environment import ShuffleEnvironment

PROGRAM = """
def main(env):
    env.from_sequence(1, 9).print()
    env.execute("Program")
"""


class Attempted:
    """Stands for RunningTask."""

    def __init__(self, attempt_id: Any, *partitions: Any) -> None:
        self.attempt_id = attempt_id
        self.partitions = partitions
        self.task = SimpleNamespace(gates=())
        self.descriptor = SimpleNamespace(key=(0, 0))
        self.has_news = False
        self.is_in_work = True
        self.released: list[str | None] = []

    def release(self, cause: str | None) -> None:
        self.released.append(cause)

    def let_go(self) -> bool:
        return not self.is_in_work


@pytest.fixture
def environment() -> Iterator[ShuffleEnvironment]:
    made = ShuffleEnvironment(
        NetworkConfig(), "credit", "tm-0", task_managers=1, channel_of={}, may_spin=False
    )
    yield made
    made.close()


def hosted(environment: ShuffleEnvironment) -> HostedJob:
    submission = say.SubmitJob("program.py", PROGRAM, (), {}, False, None, 0, 1)
    message = say.InitializeJob(ExecutionGraphID(bytes(16)), submission, None, None, None)
    return HostedJob(message, environment, 0)


def attempt_of(job: HostedJob) -> ExecutionAttemptID:
    return ExecutionAttemptID(job.id, ExecutionVertexID(bytes(16), 0), 0)


def test_strangers_of_earlier_jobs_are_not_told_again(
    environment: ShuffleEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Strangers(3, 2, 700)
    monkeypatch.setattr(environment.connections, "strangers", lambda: seen)
    assert hosted(environment).report().strangers == Strangers()
    job = hosted(environment)
    seen = Strangers(4, 2, 900)
    assert job.report().strangers == Strangers(1, 0, 200)
    job = hosted(environment)
    seen = Strangers(3, 3, 800)  # one has turned out to be no stranger
    assert job.report().strangers == Strangers(0, 1, 0)


def test_a_job_that_is_forgotten_lets_go_of_functions_when_they_return(
    environment: ShuffleEnvironment,
) -> None:
    said: list[Any] = []
    attempts = Attempts(environment, AttemptChannels(environment), said.append)
    job = hosted(environment)
    attempts.initialize(job)
    running, ending = Attempted(attempt_of(job)), Attempted(attempt_of(job))
    failed: list[str] = []
    partition: Any = SimpleNamespace(fail=failed.append)
    gate: Any = SimpleNamespace(close=lambda: failed.append("closed"))
    attempts._tasks[running.attempt_id] = running  # type: ignore[assignment]
    attempts._ending.append((ending, said))  # type: ignore[arg-type]
    attempts._waiting.append(_Waiting(job, None, (partition,), (gate,)))  # type: ignore[arg-type]
    attempts.forget(job)
    assert failed == ["its job is over", "closed"]
    assert not attempts.is_any_waiting
    assert running.released == ["its job is over"]
    for each in (running, ending):
        assert attempts.has_news  # they are looked at again
        each.is_in_work = False
        attempts.handle_news()
    assert not attempts.has_news
    assert said == []


def test_first_outputs_are_looked_for_until_all_were_told(
    environment: ShuffleEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts_module, "has_output", lambda partition: partition[0])
    said: list[Any] = []
    attempts = Attempts(environment, AttemptChannels(environment), said.append)
    job = hosted(environment)
    partitions = [True], [False]
    attempt = Attempted(attempt_of(job), *partitions)
    attempts._tasks[attempt.attempt_id] = attempt  # type: ignore[assignment]
    attempts.tells_first_output = True
    attempts.tell_first_output()
    assert attempts.tells_first_output
    partitions[1][0] = True
    attempts.tell_first_output()
    assert [each.output for each in said] == [0, 1]
    assert not attempts.tells_first_output
