"""A TaskManager that is refused a partition asks its JobManager before it asks again."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from flinknet.config import Scenario, WorkloadConfig
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.java_errors import PARTITION_NOT_FOUND_EXCEPTION, JavaThrowable
from flinknet.core.wire.layout import Direction
from flinknet.core.wire.messages import ErrorResponse, PartitionRequest
from flinknet.graph.execution_graph import ExecutionState
from flinknet.job.load.plan import load_plan_of
from flinknet.job.scheduling import PartitionState, RequestPartitionState
from flinknet.runtime.clock import monotonic_ns
from flinknet.runtime.cluster import control_messages as messages
from flinknet.runtime.cluster.cluster_process import (
    TASK_MANAGER,
    TaskManagerProcessSpec,
    start_child,
)
from flinknet.runtime.cluster.control_connection import ControlServer
from flinknet.runtime.event_loop import EventLoop

pytestmark = pytest.mark.socket

PATIENCE_NS = 60_000_000_000


class Leader:
    """A JobManager that says what the test says, of one TaskManager."""

    def __init__(self) -> None:
        self.loop = EventLoop(may_spin=False)
        self.server = ControlServer(self.loop, "secret")
        spec = TaskManagerProcessSpec(
            *("secret", 2, 1, Scenario().network, "credit", PATIENCE_NS, 10_000_000_000),
            *(1, self.server.port, False, tuple(sys.path)),
        )
        self.process = start_child(TASK_MANAGER, spec, None, "tm-1")

    def send(self, message: Any) -> None:
        self.server.connections[0].send(message)

    def hear(self, kind: type) -> Any:
        until_ns = monotonic_ns() + PATIENCE_NS
        while monotonic_ns() < until_ns:
            self.loop.run_once(until_ns=monotonic_ns() + 10_000_000)
            for connection in self.server.connections:
                while connection.received:
                    message = connection.received.popleft()
                    if isinstance(message, kind):
                        return message
        raise AssertionError(f"no {kind.__name__}")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.server.close()
        self.loop.close()


@pytest.fixture
def leader() -> Iterator[Leader]:
    leader = Leader()
    yield leader
    leader.close()


@pytest.mark.row("S037")
def test_it_asks_again_while_the_producer_runs_and_is_canceled_when_that_is_over(
    leader: Leader,
) -> None:
    scenario = Scenario(workload=WorkloadConfig())
    _, sink = load_plan_of(scenario).tasks
    (channel,) = sink.inputs[0].channels
    decoder = FrameDecoder(Direction.CONSUMER_TO_PRODUCER)
    cause = JavaThrowable(PARTITION_NOT_FOUND_EXCEPTION, "not there")
    with socket.create_server(("127.0.0.1", 0)) as server:
        leader.hear(messages.RegisterTaskManager)
        job = sink.attempt_id.execution_graph_id
        leader.send(messages.InitializeJob(job, messages.SubmitLoad(scenario), None, None, None))
        leader.hear(messages.JobInitialized)
        task = replace(sink, task_manager=1)
        addresses = {channel.producer_task_manager: ("127.0.0.1", server.getsockname()[1])}
        leader.send(messages.SubmitTask(task, addresses, None))
        leader.hear(messages.TaskStateChanged)
        producer, _ = server.accept()
        with producer:
            for state in (ExecutionState.RUNNING, ExecutionState.FAILED):
                (request,) = decoder.feed(producer.recv(1 << 16))
                assert isinstance(request, PartitionRequest)
                producer.sendall(ErrorResponse(cause, request.receiver_id).encode())
                asked = leader.hear(RequestPartitionState)
                assert asked == RequestPartitionState(task.attempt_id, channel.partition_id)
                leader.send(PartitionState(asked.attempt_id, asked.partition_id, state))
                leader.loop.run_once(until_ns=0)
            changed = leader.hear(messages.TaskStateChanged)
    assert changed == messages.TaskStateChanged(task.attempt_id, ExecutionState.CANCELED)
