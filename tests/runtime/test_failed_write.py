"""A write that fails ends the connection and releases everything that was read over it."""

from __future__ import annotations

import socket

import pytest

from flinknet.core.producer import ProducerConnection
from flinknet.core.wire.ids import ResultSubpartitionIndexSet
from flinknet.core.wire.messages import PartitionRequest
from flinknet.errors import RemoteTransportError
from flinknet.runtime.transport import TcpTransport
from tests.pair import partition_id, partition_of, producer_of, receiver_ids, records_of

SEGMENT_BYTES = 32 * 1024
BUFFERS_PER_READER = 6
CREDITS = (4, 1, 0)
"""Of the readers: what leaves is of two of them, and the third has no turn at all."""


def transport_of(connection: ProducerConnection, sock: socket.socket) -> TcpTransport:
    return TcpTransport(sock, connection, memoryview(bytearray(1)), lambda _: None, lambda _: None)


@pytest.mark.row("S085")
@pytest.mark.parametrize("is_begun", [False, True], ids=["first write", "rest of a write"])
def test_a_failed_write_releases_all_readers(is_begun: bool) -> None:
    partition, memory = partition_of(len(CREDITS), segment_size_bytes=SEGMENT_BYTES, buffers=40)
    connection, _ = producer_of(partition)
    for index, (receiver, credit) in enumerate(zip(receiver_ids(3), CREDITS, strict=True)):
        partition.emit(index, records_of([SEGMENT_BYTES] * BUFFERS_PER_READER))
        indices = ResultSubpartitionIndexSet(index, index)
        request = PartitionRequest(partition_id(), indices, receiver, credit).encode()
        connection.receive_data(memoryview(request), now_ns=0)
    here, there = socket.socketpair()
    here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEGMENT_BYTES)
    transport = transport_of(connection, here)
    if is_begun:
        transport.pump()
        assert 0 < transport.sent_bytes < transport.sent_bytes + transport.unsent_bytes
        assert transport.wants_to_write
    there.close()
    if is_begun:
        transport.handle_writable()
    else:
        transport.pump()
        assert transport.sent_bytes == 0
    assert transport.is_closed
    assert transport.unsent_bytes > 0
    assert connection.queue.readers == {}
    assert len(connection.queue.available) == 0
    assert isinstance(connection.loss, RemoteTransportError)
    assert len(connection.lost_channels) == len(CREDITS)
    assert all(each.is_released for each in partition.subpartitions)
    partition.close()
    assert memory.available_buffers == memory.total_buffers
