"""Strangers: who comes to a data port and does not belong to the run."""

from __future__ import annotations

import contextlib
import socket
import struct

from flinknet.core.producer.peer_trust import STRANGE_REQUESTS_MAX
from flinknet.core.wire.ids import InputChannelID, ResultSubpartitionIndexSet
from flinknet.core.wire.messages import PartitionRequest
from tests.pair import partition_id

HOST = "127.0.0.1"


def strange_request(number: int) -> bytes:
    """A request for a partition that nobody has."""
    return PartitionRequest(
        partition_id(7),
        ResultSubpartitionIndexSet(0, 0),
        InputChannelID(struct.pack(">QQ", 0, number)),
        2,
    ).encode()


def intrude(port: int) -> None:
    """Make strange requests until the connection is closed from there."""
    requests = b"".join(map(strange_request, range(STRANGE_REQUESTS_MAX + 1)))
    with socket.create_connection((HOST, port)) as sock, contextlib.suppress(ConnectionError):
        sock.sendall(requests)
        while sock.recv(1 << 16):
            pass
