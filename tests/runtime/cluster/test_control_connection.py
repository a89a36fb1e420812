"""Control connections: what they take, and from whom."""

from __future__ import annotations

import json
from dataclasses import fields
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.config import Scenario
from flinknet.core.wire.ids import ExecutionAttemptID, ExecutionGraphID
from flinknet.errors import RemoteProtocolError
from flinknet.graph import execution_graph_of, job_graph_of, physical_plan_of
from flinknet.graph.execution_graph import ExecutionState
from flinknet.job import descriptors_of
from flinknet.job.checkpoint_coordinator import AcknowledgeCheckpoint, TriggerCheckpoint
from flinknet.plain_values import decode_message
from flinknet.results import FillLevels, FillSample, JobStatus, TaskManagerStatus, VertexStatus
from flinknet.runtime.cluster import control_messages as messages
from flinknet.runtime.cluster.control_connection import ControlConnection
from flinknet.runtime.cluster.reports import (
    ReadChannel,
    Report,
    Statistics,
    TaskCounts,
    UsedConnection,
)
from tests.graph.programs import all_to_all

*_, DESCRIPTOR = chain.from_iterable(
    descriptors_of(physical_plan_of(execution_graph_of(job_graph_of(all_to_all(2)))))
)
JOB = ExecutionGraphID(bytes(range(16)))
ATTEMPT = ExecutionAttemptID.decode(bytes(range(40)))

MESSAGES = [
    messages.SubmitJob("/a/job.py", "text", ("1", "2"), {"a.b": "c"}, True, None, 5, 1),
    messages.TaskStateChanged(ATTEMPT, ExecutionState.FAILED, "why"),
    messages.InitializeJob(JOB, messages.SubmitLoad(Scenario()), "/run", None, None),
    messages.SubmitTask(DESCRIPTOR, {1: ("h", 2)}, messages.Start(1, 2, None, None, 3, 4)),
    messages.HeartbeatAnswer(3),
    Statistics(
        4,
        (TaskCounts(ATTEMPT, "t", {"numIn": 5, "share": 0.5, "is": True}, b"\x00\xff"),),
        (ReadChannel(7, 8, 9),),
        fill=FillSample(1, FillLevels(6), True, False, True),
        connections=(UsedConnection(0, 1, 2),),
    ),
    messages.JobCommand(JOB, TriggerCheckpoint(1, 2)),
    messages.JobAnswer(JOB, AcknowledgeCheckpoint("t", 1, {0: 10}, {}, None, 5, 0, 0, False)),
    messages.JobClosed(JOB, Report(buffers=3)),
    messages.CancelTask(ATTEMPT),
    JobStatus(
        "id",
        "name",
        "RUNNING",
        "",
        0,
        1,
        2,
        (VertexStatus(0, "v", 2, 0, 0, None, None, None, "running", 0),),
        (TaskManagerStatus(0, 1, "registered", 2, 1, 3, 5),),
    ),
]


def framed(text: str) -> memoryview:
    """A message on the wire, from its JSON text."""
    data = text.encode()
    return memoryview(len(data).to_bytes(4, "big") + data)


def pair(token: str = "secret") -> tuple[ControlConnection, ControlConnection]:
    return ControlConnection("secret"), ControlConnection(token, role="client")


def carry(
    server: ControlConnection, client: ControlConnection, *, piece_bytes: int = 1 << 20
) -> None:
    """Challenge, hello, welcome, and what the client says then."""
    for one, other in ((server, client), (client, server)) * 2:
        data = b"".join(map(bytes, one.data_to_send(now_ns=0)))
        for at in range(0, len(data), piece_bytes):
            other.receive_data(memoryview(data[at : at + piece_bytes]), now_ns=0)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("piece_bytes", [1, 7, 1 << 20])
def test_a_message_arrives_as_it_was_sent_however_it_is_cut(
    message: object, piece_bytes: int
) -> None:
    server, client = pair()
    client.send(message)
    assert server.is_ready
    carry(server, client, piece_bytes=piece_bytes)
    assert not client.is_ready
    assert server.peer_role == "client"
    assert list(server.received) == [message]


def test_without_the_secret_nothing_is_taken() -> None:
    server, client = pair(token="guess")
    client.send(messages.JobRequest(messages.CANCEL))
    with pytest.raises(RemoteProtocolError, match="the secrets differ"):
        carry(server, client)
    assert not server.received
    assert server.loss is not None
    assert server.is_closing
    (refusal,) = server.data_to_send(now_ns=0)
    assert isinstance(decode_message(messages.MESSAGES, bytes(refusal)[4:]), messages.Refused)


def test_a_peer_that_does_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flinknet.runtime.cluster.control_connection.UNSENT_MAX_BYTES", 500)
    server, _ = pair()
    for number in range(100):
        server.send(messages.Heartbeat(number))
    assert server.loss is not None
    assert server.is_closing


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.text("0123456789abcdef", min_size=80, max_size=80),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def documents(draw: st.DrawFn) -> object:
    """Messages with the right fields, of any value."""
    kind = draw(st.sampled_from(list(messages.MESSAGES.values())))
    return {"message": kind.__name__, "body": {each.name: draw(anything) for each in fields(kind)}}


@given(document=documents())
def test_what_a_stranger_says_is_a_message_or_is_refused(document: object) -> None:
    server = ControlConnection("secret")
    with pytest.raises(RemoteProtocolError):  # a message, too: it is no hello with the secret
        server.receive_data(framed(json.dumps(document)), now_ns=0)
    assert server.loss is not None
    assert server.is_closing
