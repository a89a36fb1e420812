"""Who misbehaves at the control port, one by one (`by_clients`): each gets the reason, and its
connection ends. What else may come from there, drawn at random:
tests/runtime/cluster/test_control_connection.py.
"""

from __future__ import annotations

import pytest

from flinknet.errors import RemoteProtocolError
from flinknet.plain_values import decode_message
from flinknet.runtime.cluster import control_messages as messages
from flinknet.runtime.cluster.control_connection import ControlConnection
from tests.peers.by_clients import CASES, LATER, Case, show_secret


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"J{case.number:02d}-{case.said}")
def test_who(case: Case) -> None:
    server = ControlConnection("secret", peer="127.0.0.1:4")
    if case.when == LATER:
        show_secret(server)
        assert server.peer_role is not None
    with pytest.raises(RemoteProtocolError, match=case.why):
        server.receive_data(memoryview(case.data), now_ns=0)
    assert not server.received
    assert server.loss is not None
    assert server.is_closing
    assert server.fault
    *_, refusal = server.data_to_send(now_ns=0)
    assert isinstance(decode_message(messages.MESSAGES, bytes(refusal)[4:]), messages.Refused)
