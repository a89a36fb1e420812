"""Attempts of one TaskManager, commanded by hand."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from time import monotonic_ns, sleep
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from flinknet.config import NetworkConfig, Scenario, WorkloadConfig
from flinknet.core.buffers import DataType, NetworkBuffer
from flinknet.core.consumer.input_gate import RECOVERED
from flinknet.core.consumer.priority_events import unpooled_buffer
from flinknet.errors import RemoteTransportError
from flinknet.graph import execution_graph_of, job_graph_of, load_program, physical_plan_of
from flinknet.graph.execution_graph import ExecutionState
from flinknet.job import descriptors_of
from flinknet.job.descriptor import TaskDeploymentDescriptor
from flinknet.job.elements import StreamElementSerializer
from flinknet.job.load.plan import load_plan_of
from flinknet.job.serializers import serializer_of
from flinknet.results import Strangers
from flinknet.runtime.cluster import control_messages as messages
from flinknet.runtime.cluster.attempts import Attempts
from flinknet.runtime.cluster.cluster_process import TaskManagerProcessSpec
from flinknet.runtime.cluster.control_connection import ControlConnection
from flinknet.runtime.cluster.hosted_job import HostedJob
from flinknet.runtime.cluster.reports import UsedConnection
from flinknet.runtime.cluster.task_executor import TaskExecutor
from flinknet.runtime.shuffle_environment import ShuffleEnvironment
from tests.invariants import check_invariants
from tests.job_cluster import MemoryIO

pytestmark = pytest.mark.socket

SEGMENTS = 8
S = 1_000_000_000
NOW_NS = 5 * S
START = messages.Start(NOW_NS, NOW_NS, None, None)
_E = ExecutionState


PROGRAM = """
def same(number: int) -> int:
    return number

def main(env):
    env.set_parallelism(1)
    env.from_sequence(1, 9).set_parallelism(2).rebalance().map(same).print()
    env.execute("Program")
"""


WORKING = """
import work

def wait(number: int) -> int:
    work.begun.set()
    work.may_return.wait(60)
    return number

def main(env):
    env.set_parallelism(1)
    env.from_sequence(1, 9).map(wait).rebalance().print().set_parallelism(2)
    env.execute("Program")
"""
"""Its function returns when the test says so."""

TWO_OUTPUTS = """
def is_late(number: int) -> bool:
    return number > 9

def main(env):
    env.set_parallelism(1)
    numbers = env.from_sequence(1, 99)
    numbers.broadcast().print()
    numbers.filter(is_late).broadcast().print()
    env.execute("Program")
"""


class ManagerIO(MemoryIO):
    """Keeps what tasks print."""

    def flush(self) -> None:
        """Nothing waits to be sent."""


class Manager:
    """A TaskManager that is to read two remote channels, of two exclusive buffers each."""

    def __init__(self) -> None:
        self.io = ManagerIO()
        self.network = NetworkConfig(
            segment_size_bytes=4096,
            network_memory_bytes=SEGMENTS * 4096,
            buffers_request_timeout_ns=3 * S,
        )
        scenario = Scenario(self.network, WorkloadConfig(producers=2, records=1))
        self.environment = ShuffleEnvironment(
            self.network, "credit", "tm-1", task_managers=2, channel_of={}, may_spin=False
        )
        self.memory = self.environment.pool
        self.said: list[Any] = []
        self.attempts = Attempts(self.environment, self.said.append)
        (self.task,) = load_plan_of(scenario).sinks
        self.initialize(messages.SubmitLoad(scenario))
        self.addresses = {0: ("127.0.0.1", 1)}

    def initialize(self, submission: messages.SubmitJob | messages.SubmitLoad) -> None:
        """Host the job of the task, which prints here."""
        job_id = self.task.attempt_id.execution_graph_id
        message = messages.InitializeJob(job_id, submission, None, None, None)
        job = HostedJob(message, self.environment, 1)
        job.network = self.network
        job.io = self.io  # type: ignore[assignment]
        self.attempts.jobs[job.id] = job
        self.job = job

    def load_program(self) -> None:
        """Read what a program's source writes, and print it."""
        (reader,) = (each for each in self.tasks_of(PROGRAM) if each.inputs)
        (gate,) = reader.inputs
        ends = {"producer_task_manager": 0, "consumer_task_manager": 1}
        channels = tuple(replace(each, **ends) for each in gate.channels)
        self.task = replace(reader, inputs=(replace(gate, channels=channels),))
        self.initialize(messages.SubmitJob("program.py", PROGRAM, (), {}, False, None, 0, 1))

    def load_source(self, source: str) -> None:
        """Read a program's sequence."""
        (self.task,) = (each for each in self.tasks_of(source) if not each.inputs)
        self.initialize(messages.SubmitJob("program.py", source, (), {}, False, None, 0, 1))

    def tasks_of(self, source: str) -> list[TaskDeploymentDescriptor]:
        """What is deployed of a program."""
        program = load_program(Path("program.py"), {}, (), source=source)
        graph = execution_graph_of(job_graph_of(program.stream_graph))
        plan = physical_plan_of(graph, task_managers=2, slots_per_task_manager=1)
        return [each for own in descriptors_of(plan) for each in own]

    def submit(self, start: messages.Start | None = None) -> None:
        message = messages.SubmitTask(self.task, self.addresses, start)
        self.attempts.submit(message, now_ns=NOW_NS)

    def states(self) -> list[tuple[ExecutionState, str]]:
        return [(each.state, each.error) for each in self.said]

    def held_by_another(self) -> list[NetworkBuffer]:
        """All buffers that there are, in the hands of a pool that requires one."""
        pool = self.memory.create_buffer_pool(1, SEGMENTS)
        return [buffer for _ in range(SEGMENTS) if (buffer := pool.try_request()) is not None]


@pytest.fixture
def manager() -> Iterator[Manager]:
    made = Manager()
    yield made
    made.environment.close()


@pytest.mark.row("S006")
def test_gates_wait_for_exclusive_segments_that_others_still_hold(manager: Manager) -> None:
    held = manager.held_by_another()
    manager.submit()
    assert manager.states() == []
    assert manager.attempts.has_setups
    assert not manager.attempts.are_channels_open
    for _ in range(4):
        manager.attempts.advance_setups(now_ns=NOW_NS + S)
        assert manager.states() == []
        held.pop().recycle()
    manager.attempts.advance_setups(now_ns=NOW_NS + S)
    assert manager.states() == [(_E.INITIALIZING, "")]
    assert not manager.attempts.has_setups
    (gate,) = [gate for each in manager.attempts.prepared for gate in each.gates]
    assert [each.initial_credit for each in gate.remote_channels] == [2, 2]
    gate.close()


@pytest.mark.row("S006")
def test_what_is_not_given_back_in_time_fails_the_attempt_in_flinks_words(manager: Manager) -> None:
    held = manager.held_by_another()
    manager.submit()
    manager.attempts.advance_setups(now_ns=NOW_NS + 3 * S - 1)
    assert manager.states() == []
    manager.attempts.advance_setups(now_ns=NOW_NS + 3 * S)
    ((state, error),) = manager.states()
    assert state is _E.FAILED
    assert error.startswith(
        "Timeout triggered when requesting exclusive buffers: The total number of network buffers"
        " is currently set to 8 of 4096 bytes each."
    )
    assert "the timeout which is 3000ms" in error
    assert "'taskmanager.network.memory.buffers-request-timeout'" in error
    for buffer in held:
        buffer.recycle()
    check_invariants(manager.memory)
    assert len(manager.memory.pools) == 1


@pytest.mark.row("S006")
def test_an_attempt_that_is_cancelled_while_its_gates_wait_gives_back_what_they_had(
    manager: Manager,
) -> None:
    held = manager.held_by_another()
    manager.submit()
    held.pop().recycle()
    manager.attempts.advance_setups(now_ns=NOW_NS)
    manager.attempts.cancel(manager.task.attempt_id)
    assert manager.states() == [(_E.CANCELED, "")]
    assert manager.memory.available_buffers == 1
    assert not manager.attempts.has_setups


@pytest.mark.row("S006")
def test_exclusive_segments_that_others_need_fail_the_attempt_at_once(manager: Manager) -> None:
    manager.memory.create_buffer_pool(SEGMENTS - 3, SEGMENTS)
    manager.submit()
    ((state, error),) = manager.states()
    assert state is _E.FAILED
    assert "required 2, but only 0 of 8 buffers" in error


@pytest.mark.row("S020")
def test_partitions_that_cannot_be_read_yet_are_requested_when_they_can(manager: Manager) -> None:
    (gate,) = manager.task.inputs
    manager.task = replace(manager.task, inputs=(replace(gate, is_consumable=False),))
    held = manager.held_by_another()
    manager.submit()
    update = messages.UpdatePartitions(manager.task.attempt_id, (gate.edge,))
    manager.attempts.update_partitions(update)
    for buffer in held:
        buffer.recycle()
    manager.attempts.advance_setups(now_ns=NOW_NS)
    (made,) = [gate for each in manager.attempts.prepared for gate in each.gates]
    assert made.is_requested
    made.close()


@pytest.mark.row("S042")
def test_a_task_reads_what_was_recovered_and_requests_its_partitions_in_that_turn(
    manager: Manager,
) -> None:
    manager.load_program()
    manager.submit(START)
    (running,) = manager.attempts.running
    (gate,) = running.task.gates
    assert not gate.is_requested
    assert not running.task.is_open
    elements = StreamElementSerializer(serializer_of(int))
    data = bytes(elements.write([7, 8], np.zeros(2, np.int64)).data)
    in_flight = unpooled_buffer(data, DataType.DATA_BUFFER)
    gate.channels[1].received.appendleft((in_flight, RECOVERED))
    while not gate.is_state_consumed:
        assert not gate.is_requested
        running.step(now_ns=NOW_NS)
    assert gate.is_requested
    assert running.task.is_open
    assert manager.io.lines == ["7", "8"]
    assert all(each.connection is not None for each in gate.remote_channels)
    manager.attempts.cancel(manager.task.attempt_id)


def test_connections_that_broke_are_not_told_when_another_job_has_ended(manager: Manager) -> None:
    manager.submit()
    manager.attempts.start(START, now_ns=NOW_NS)
    connections, running = manager.environment.connections, manager.attempts.running
    assert manager.attempts.used(running) == (UsedConnection(0, 0, 2),)
    (client,) = connections.clients
    client.fail(RemoteTransportError("broke"), now_ns=NOW_NS)
    connections.forget_closed()
    assert manager.attempts.used(running) == ()
    manager.attempts.cancel(manager.task.attempt_id)
    assert manager.said[-1] == messages.TaskStateChanged(manager.task.attempt_id, _E.CANCELED)


@pytest.mark.row("S042")
def test_what_cannot_be_read_yet_is_not_requested_when_the_state_was_read(manager: Manager) -> None:
    manager.load_program()
    (gate,) = manager.task.inputs
    manager.task = replace(manager.task, inputs=(replace(gate, is_consumable=False),))
    manager.submit(START)
    (running,) = manager.attempts.running
    (made,) = running.task.gates
    while not made.is_state_consumed:
        running.step(now_ns=NOW_NS)
    assert not made.is_requested
    update = messages.UpdatePartitions(manager.task.attempt_id, (gate.edge,))
    manager.attempts.update_partitions(update)
    assert made.is_requested
    manager.attempts.cancel(manager.task.attempt_id)


@pytest.mark.parametrize("is_canceled", [False, True])
def test_a_job_that_is_forgotten_lets_go_of_functions_when_they_return(
    manager: Manager, monkeypatch: pytest.MonkeyPatch, is_canceled: bool
) -> None:
    work = SimpleNamespace(begun=Event(), may_return=Event())
    monkeypatch.setitem(sys.modules, "work", work)
    manager.load_source(WORKING)
    manager.submit(START)
    attempts = manager.attempts
    (running,) = attempts.running
    while not work.begun.is_set():
        running.step(now_ns=NOW_NS)
    if is_canceled:
        attempts.cancel(manager.task.attempt_id)
    manager.said.clear()
    attempts.forget(manager.job)
    assert all(each.is_released for each in running.partitions)
    assert attempts.has_unreported_change  # it is looked at again
    attempts.report_changes()
    assert attempts.has_unreported_change
    work.may_return.set()
    while attempts.has_unreported_change:
        attempts.report_changes()
    assert manager.said == []


def test_a_job_that_is_forgotten_lets_go_of_attempts_that_wait(manager: Manager) -> None:
    manager.submit()
    assert manager.attempts.prepared
    manager.attempts.forget(manager.job)
    assert not manager.attempts.prepared
    assert manager.memory.available_buffers == SEGMENTS
    assert not manager.memory.pools


@pytest.mark.row("S018")
def test_first_outputs_are_looked_for_until_all_were_reported(manager: Manager) -> None:
    manager.load_source(TWO_OUTPUTS)
    manager.submit(START)
    (running,) = manager.attempts.running
    manager.said.clear()
    manager.attempts.awaits_first_output = True
    while manager.attempts.awaits_first_output:  # the functions run in threads of their own
        running.step(now_ns=NOW_NS)
        manager.attempts.report_first_outputs()
    assert sorted(each.output for each in manager.said) == [0, 1]


def test_strangers_of_earlier_jobs_are_not_told_again(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hosted() -> HostedJob:
        manager.load_program()
        return manager.job

    seen = Strangers(3, 2, 700)
    monkeypatch.setattr(manager.environment.connections, "strangers", lambda: seen)
    assert hosted().report().strangers == Strangers()
    job = hosted()
    seen = Strangers(4, 2, 900)
    assert job.report().strangers == Strangers(1, 0, 200)
    job = hosted()
    seen = Strangers(3, 3, 800)  # one has turned out to be no stranger
    assert job.report().strangers == Strangers(0, 1, 0)


def test_statistics_that_waited_for_a_cpu_do_not_put_off_the_next_ones() -> None:
    """Sampling takes 50 ms, in which the process does not run."""
    manager = Manager()
    network, interval_ns = manager.network, S // 20
    spec = TaskManagerProcessSpec("", 2, 1, network, "credit", S, interval_ns)
    control = ControlConnection("", role="task manager")
    executor = TaskExecutor(spec, manager.environment, control)
    executor.attempts.jobs[manager.job.id] = manager.job
    manager.job.load = SimpleNamespace(  # type: ignore[assignment]
        note_statistics=lambda memory, within_ns: sleep(0.05)
    )
    began_ns = monotonic_ns()
    executor._send_statistics()
    assert executor._next_statistics_ns - began_ns < 5 * interval_ns
