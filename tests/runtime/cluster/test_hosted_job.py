"""What a TaskManager tells of one job."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flinknet.config import NetworkConfig
from flinknet.core.wire.ids import ExecutionGraphID
from flinknet.results import Strangers
from flinknet.runtime.cluster import control_messages as messages
from flinknet.runtime.cluster.hosted_job import HostedJob
from flinknet.runtime.shuffle_environment import ShuffleEnvironment

PROGRAM = """
def main(env):
    env.from_sequence(1, 9).print()
    env.execute("Program")
"""


@pytest.fixture
def environment() -> Iterator[ShuffleEnvironment]:
    made = ShuffleEnvironment(
        NetworkConfig(), "credit", "tm-0", task_managers=1, channel_of={}, may_spin=False
    )
    yield made
    made.close()


def hosted(environment: ShuffleEnvironment) -> HostedJob:
    submission = messages.SubmitJob("program.py", PROGRAM, (), {}, False, None, 0, 1)
    message = messages.InitializeJob(ExecutionGraphID(bytes(16)), submission, None, None, None)
    return HostedJob(message, environment, 0)


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
