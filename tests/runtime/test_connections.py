"""Connections between TaskManagers: who connects, when, what is shared, and what happens when one
breaks.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from flinknet.config import CREDIT, NetworkConfig
from flinknet.core.buffers import DataType, NetworkBufferPool
from flinknet.core.buffers.read_buffer_pool import BatchShuffleReadBufferPool
from flinknet.core.consumer import ConsumerConnection
from flinknet.core.probe import NullProbe
from flinknet.core.producer import (
    BlockingStorage,
    ProducerConnection,
    ResultPartitionFactory,
    ResultPartitionType,
)
from flinknet.core.wire.buffer_response import BufferResponse
from flinknet.core.wire.events import OtherEvent
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.ids import InputChannelID, ResultSubpartitionIndexSet
from flinknet.core.wire.layout import BUFFER_RESPONSE_HEADER_BYTES, Direction
from flinknet.core.wire.messages import (
    AddCredit,
    CancelPartitionRequest,
    CloseRequest,
    PartitionRequest,
    SegmentId,
)
from flinknet.errors import (
    ConfigError,
    CreditExceededError,
    FlinknetError,
    LocalTransportError,
    PartitionConnectionError,
    RemoteTransportError,
)
from flinknet.options import network_config
from flinknet.runtime.connection_manager import LOCAL_ONLY_PORT, ConnectionID
from flinknet.runtime.shuffle_environment import ShuffleEnvironment, create_spill_file
from flinknet.runtime.sockets import create_selector
from flinknet.runtime.transport import TcpTransport
from tests.node import HOST, SEGMENT_BYTES, Node, drive, settle
from tests.pair import partition_id, records_of

pytestmark = pytest.mark.socket

NETWORK = NetworkConfig()
NewNode = Callable[..., Node]


def unused_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        port: int = server.getsockname()[1]
        return port


# Start


@pytest.mark.row("S063")
def test_a_start_returns_a_port_that_listens_and_connects_to_nobody(node: NewNode) -> None:
    one = node()
    assert one.port > 0
    assert one.clients == []
    with socket.create_connection((HOST, one.port)):
        drive([one], lambda: len(one.accepted) == 1)


@pytest.mark.row("S063")
def test_the_client_is_ready_before_the_server_listens(node: NewNode) -> None:
    tls = replace(NETWORK, ssl_internal_enabled=True, bind_port=str(unused_port()))
    with pytest.raises(ConfigError, match="keystore is missing"):
        node(tls)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, int(tls.bind_port or "")))


@pytest.mark.row("S064")
def test_a_connection_manager_has_five_parts(node: NewNode) -> None:
    one = node()
    manager = one.manager
    socket.create_connection((HOST, one.port)).close()  # it listens
    assert len(one.loop.receive_buffer) > 0
    assert isinstance(manager.protocol.server_connection(), ProducerConnection)
    assert isinstance(manager.protocol.client_connection("tm-1"), ConsumerConnection)


@pytest.mark.row("S064")
def test_where_everything_is_local_there_is_no_port_and_no_client() -> None:
    environment = ShuffleEnvironment(
        NETWORK, CREDIT, "tm-0", task_managers=1, channel_of={}, may_spin=False
    )
    manager = environment.connections
    assert manager.start() == LOCAL_ONLY_PORT
    with pytest.raises(LocalTransportError, match=r"no network .*tm-1 at 127\.0\.0\.1:50100"):
        manager.create_client(ConnectionID(1, (HOST, 50100)))
    environment.close()


@pytest.mark.row("S067")
@pytest.mark.parametrize("transport", ["nio", "epoll", "auto", "NIO"])
def test_data_flows_over_every_transport(node: NewNode, transport: str) -> None:
    network, _ = network_config({"taskmanager.network.netty.transport": transport})
    one, other = node(network), node(network)
    other.read_from(one, 0)
    one.write(0, b"over " + transport.encode())
    taken: list[tuple[int, bytes]] = []
    drive([one, other], lambda: bool(taken.extend(other.read()) or taken))
    assert taken == [(0, b"over " + transport.encode())]


@pytest.mark.row("S067")
def test_a_transport_by_its_name() -> None:
    import selectors

    with create_selector("auto") as auto, create_selector("epoll") as epoll:
        assert type(auto) is type(epoll) is selectors.EpollSelector
    with create_selector("nio") as nio:
        assert type(nio) is selectors.SelectSelector
    with pytest.raises(ConfigError, match=r"netty\.transport: .kqueue. is not one of auto, nio"):
        network_config({"taskmanager.network.netty.transport": "kqueue"})


# Who shares a connection


@pytest.mark.row("S062")
@pytest.mark.row("S079")
def test_two_nodes_that_read_from_each_other_have_a_connection_each_way(node: NewNode) -> None:
    one, other = node(), node()
    for subpartition in range(4):
        one.read_from(other, subpartition)
        other.read_from(one, subpartition)
    for each in (one, other):
        for subpartition in range(4):
            each.write(subpartition, bytes([each.index, subpartition]))
    taken: dict[int, list[tuple[int, bytes]]] = {0: [], 1: []}

    def has_all() -> bool:
        for each in (one, other):
            taken[each.index] += each.read()
        return all(len(found) == 4 for found in taken.values())

    drive([one, other], has_all)
    assert sorted(taken[0]) == [(each, bytes([1, each])) for each in range(4)]
    assert sorted(taken[1]) == [(each, bytes([0, each])) for each in range(4)]
    for each in (one, other):
        assert (len(each.clients), len(each.accepted)) == (1, 1)
        assert len(each.loop.transports) == 2
        socket.create_connection((HOST, each.port)).close()  # it listens on


@pytest.mark.row("S079")
@pytest.mark.parametrize(("most", "connections"), [(1, 1), (2, 2), (7, 2)])
def test_data_sets_share_a_connection_unless_several_are_allowed(
    node: NewNode, most: int, connections: int
) -> None:
    network = replace(NETWORK, max_tcp_connections=most)
    one, other = node(network), node(network)
    for subpartition in range(4):
        other.read_from(one, subpartition, data_set=subpartition % 2)
        one.write(subpartition, b"x")
    read: list[tuple[int, bytes]] = []
    drive([one, other], lambda: bool(read.extend(other.read())) or len(read) == 4)
    assert (len(other.clients), len(one.accepted)) == (connections, connections)
    assert sorted(client.references for client in other.clients) == (
        [4] if connections == 1 else [2, 2]
    )


@pytest.mark.row("S077")
def test_whoever_asks_while_a_connection_is_made_shares_it(node: NewNode) -> None:
    one, other = node(), node()
    clients = [other.manager.create_client(other.address_of(one)) for _ in range(16)]
    assert len(set(map(id, clients))) == 1
    assert clients[0].references == 16
    settle([one, other])
    assert len(one.accepted) == 1
    assert other.manager.create_client(other.address_of(one)) is clients[0]
    assert other.clients == clients[:1]


@pytest.mark.row("S046")
@pytest.mark.row("S077")
def test_a_failed_connection_fails_for_all_and_tried_again_by_the_next(node: NewNode) -> None:
    one, other = node(), node()
    listening, one.port = one.port, unused_port()
    refused = one.port
    channels = [other.read_from(one, subpartition) for subpartition in range(3)]
    drive([other], lambda: all(channel.error is not None for channel in channels))
    errors = {str(channel.error) for channel in channels}
    assert len(errors) == 1
    (text,) = errors
    assert text.startswith(f"Connection for partition {partition_id(0)} not reachable: ")
    assert f"tm-0 at {HOST}:{refused} could not be made: Connection refused" in text
    assert text.endswith("Failed channels: 0, 1, 2")
    assert all(isinstance(channel.error, PartitionConnectionError) for channel in channels)
    assert not any(client.is_usable for client in other.clients)
    one.port = listening
    again = other.read_from(one, 3)
    one.write(3, b"well")
    read: list[tuple[int, bytes]] = []
    drive([one, other], lambda: bool(read.extend(each for each in read_good(other))) or bool(read))
    assert read == [(again.index, b"well")]


def read_good(node: Node) -> list[tuple[int, bytes]]:
    """What a gate has behind the errors of channels that failed."""
    while True:
        try:
            return node.read()
        except FlinknetError:
            continue


# Connecting


@pytest.mark.row("S078")
@pytest.mark.parametrize(("retries", "succeeds"), [(0, False), (3, True)])
def test_a_server_that_comes_up_late_is_found_by_trying_again(
    node: NewNode, retries: int, succeeds: bool
) -> None:
    port = unused_port()
    other = node(replace(NETWORK, connect_retries=retries))
    client = other.manager.create_client(ConnectionID(9, (HOST, port)))
    with socket.create_server((HOST, port)):  # after the first attempt was refused
        drive([other], lambda: len(other.loop.transports) == 1 or client.error is not None)
    assert (client.error is None) is succeeds


@pytest.mark.row("S078")
def test_the_attempts_are_counted_and_reported(node: NewNode) -> None:
    other = node(replace(NETWORK, connect_retries=2))
    client = other.manager.create_client(ConnectionID(9, (HOST, unused_port())))
    drive([other], lambda: client.error is not None)
    assert "could not be made in 3 attempts: Connection refused" in str(client.error)


@pytest.mark.row("S065")
def test_the_factory_gives_up_when_the_time_out_has_come(node: NewNode) -> None:
    other = node()
    with socket.create_server((HOST, 0), backlog=0) as full:
        address = full.getsockname()[:2]
        with socket.create_connection(address):
            client = other.manager.create_client(ConnectionID(9, address))
            due_ns = other.manager.next_deadline_ns()
            assert due_ns is not None
            other.manager.handle_deadline(now_ns=due_ns - 1)
            assert client.error is None
            other.manager.handle_deadline(now_ns=due_ns)
    assert "could not be made: no answer within 120 s" in str(client.error)
    assert isinstance(client.error, RemoteTransportError)
    assert other.manager.next_deadline_ns() is None


@pytest.mark.row("S065")
def test_a_fault_of_this_side_is_not_tried_again(
    node: NewNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = node(replace(NETWORK, connect_retries=5))
    attempts = []

    def no_more_files(*_: object) -> socket.socket:
        attempts.append(1)
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "socket", no_more_files)
    client = other.manager.create_client(ConnectionID(9, (HOST, 1)))
    assert isinstance(client.error, LocalTransportError)
    assert "ulimit -n" in str(client.error)
    assert len(attempts) == 1


# Closing


@pytest.mark.row("S078")
@pytest.mark.parametrize("reuse", [True, False])
def test_an_idle_connection_stays_open_only_to_be_used_again(node: NewNode, reuse: bool) -> None:
    one, other = node(), node(replace(NETWORK, reuse_connections=reuse))
    first, second = other.read_from(one, 0), other.read_from(one, 1)
    drive([one, other], lambda: bool(one.accepted) and len(one.accepted[0].queue.readers) == 2)
    first.release()
    settle([one, other])
    assert (len(one.loop.transports), len(other.loop.transports)) == (1, 1)
    second.release()
    settle([one, other])
    assert (len(one.loop.transports), len(other.loop.transports)) == ((1, 1) if reuse else (0, 0))
    assert other.clients[0].error is None
    assert one.accepted[0].loss is None
    third = other.read_from(one, 2)
    one.write(2, b"again")
    read: list[tuple[int, bytes]] = []
    drive([one, other], lambda: bool(read.extend(other.read())) or bool(read))
    assert read == [(third.index, b"again")]
    assert len(one.accepted) == (1 if reuse else 2)
    assert [other.manager.number_of(each) for each in other.clients] == (
        [(0, 0)] if reuse else [(0, 0), (0, 1)]
    )
    for each in (one, other):
        each.manager.forget_closed()
    assert (len(one.accepted), len(other.clients)) == (1, 1)
    assert other.manager.number_of(third.connection) == (0, 0 if reuse else 1)


@pytest.mark.row("S078")
@pytest.mark.parametrize("reuse", [True, False])
def test_the_last_channel_says_close_where_a_connection_is_not_used_again(
    node: NewNode, reuse: bool
) -> None:
    one, other = node(), node(replace(NETWORK, reuse_connections=reuse))
    channels = [other.read_from(one, 0), other.read_from(one, 1)]
    client = other.clients[0]
    decoder = FrameDecoder(Direction.CONSUMER_TO_PRODUCER)

    def said() -> list[type]:
        pieces = client.data_to_send(now_ns=0)
        return [type(message) for message in decoder.feed(b"".join(pieces))]

    assert said() == [PartitionRequest, PartitionRequest]
    channels[0].release()
    assert said() == [CancelPartitionRequest]
    channels[1].release()
    assert said() == [CancelPartitionRequest if reuse else CloseRequest]


# What a message passes


@pytest.mark.row("S073")
def test_bytes_pass_encoder_decoder_and_channel_of_a_client_in_this_order(node: NewNode) -> None:
    other = node()
    response = BufferResponse(
        InputChannelID(bytes([1, 1]) * 8), 0, 0, 0, DataType.DATA_BUFFER, False, b"payload"
    ).encode()
    with socket.create_server((HOST, 0)) as server:
        address = ConnectionID(9, (HOST, server.getsockname()[1]), 0)
        channel = other.channel_to(other, 0)
        other.manager.create_client(address).request_subpartition(channel, now_ns=0)
        settle([other])
        raw, _ = server.accept()
        with raw:
            (request,) = FrameDecoder(Direction.CONSUMER_TO_PRODUCER).feed(raw.recv(1000))
            assert isinstance(request, PartitionRequest)  # it was encoded
            raw.sendall(response[:-1])
            settle([other])
            assert not other.gate.is_available  # the decoder holds what is no frame yet
            raw.sendall(response[-1:])
            drive([other], lambda: other.gate.is_available)  # the handler gave it to its channel
            assert other.read() == [(channel.index, b"payload")]


@pytest.mark.row("S073")
def test_bytes_pass_decoder_handler_and_queue_in_this_order(node: NewNode) -> None:
    one, other = node(), node()
    with socket.create_connection((HOST, one.port)) as raw:
        channel = other.channel_to(one, 0)
        client = ConsumerConnection("tm-0", NullProbe())
        client.request_subpartition(channel, now_ns=0)
        request = b"".join(client.data_to_send(now_ns=0))
        raw.sendall(request[:-1])
        drive([one], lambda: bool(one.accepted))
        settle([one])
        producer = one.accepted[0]
        assert producer.queue.readers == {}  # the decoder holds what is no frame yet
        raw.sendall(request[-1:])
        drive([one], lambda: bool(producer.queue.readers))  # the handler made a reader
        assert len(producer.queue.available) == 0
        one.write(0, b"x")
        settle([one])  # which stood in the queue, and its buffer was encoded
        frame = raw.recv(1000)
        assert struct.unpack(">i", frame[:4]) == (len(frame),)
        assert frame.endswith(b"x")


# Writers and the socket


@pytest.mark.row("S084")
def test_a_writer_never_touches_the_socket(node: NewNode) -> None:
    one, other = node(), node()
    other.read_from(one, 0)
    drive([one, other], lambda: bool(one.accepted) and len(one.accepted[0].queue.readers) == 1)
    settle([one, other])
    (transport,) = one.loop.transports
    (producer,) = one.accepted
    sent_bytes = transport.sent_bytes
    for _ in range(3):
        one.write(0, b"record")
    assert transport.sent_bytes == sent_bytes
    assert len(producer.queue.available) == 0  # it was notified, and nothing else happened
    settle([other], turns=3)
    assert other.read() == []
    one.turn()  # the loop puts the reader in the queue once, and sends
    assert transport.sent_bytes > sent_bytes
    drive([other], lambda: other.read() == [(0, b"record" * 3)])


@pytest.mark.row("S084")
def test_a_reader_that_was_notified_often_stands_in_the_queue_once(node: NewNode) -> None:
    one, other = node(), node()
    for subpartition in range(3):
        other.read_from(one, subpartition, initial_credit=0 if subpartition else 2)
    drive([one, other], lambda: bool(one.accepted) and len(one.accepted[0].queue.readers) == 3)
    (producer,) = one.accepted
    reader = next(iter(producer.queue.readers.values()))
    for _ in range(3):
        reader.subpartition.flush()  # type: ignore[union-attr]
        one.write(0, b"record")
        producer.queue.enqueue(reader)
    assert len(producer.queue.available) == 1


# Broken connections


@pytest.mark.row("S076")
def test_a_request_that_was_not_sent_fails_its_channel_alone_on_this_side(node: NewNode) -> None:
    one, other = node(), node()
    established = other.read_from(one, 0)
    drive([one, other], lambda: bool(one.accepted) and len(one.accepted[0].queue.readers) == 1)
    settle([one, other])
    late = other.read_from(one, 1)
    (transport,) = other.loop.transports
    transport.close(RemoteTransportError("was reset by it"))
    assert isinstance(late.error, LocalTransportError)
    assert "its partition request to tm-0" in str(late.error)
    assert isinstance(established.error, RemoteTransportError)
    assert established.error.channels == (0, 1)
    late.release()
    left = b"".join(other.clients[0].data_to_send(now_ns=0))
    said = FrameDecoder(Direction.CONSUMER_TO_PRODUCER).feed(left)
    assert [type(message) for message in said] == [PartitionRequest]  # it is forgotten: no cancel


@pytest.mark.row("S100")
def test_a_lost_connection_fails_exactly_its_channels_with_the_address(node: NewNode) -> None:
    one, other, reader = node(), node(), node()
    lost = [reader.read_from(one, 0), reader.read_from(one, 1)]
    kept = reader.read_from(other, 0)
    drive(
        [one, other, reader],
        lambda: sum(len(each.queue.readers) for each in (*one.accepted, *other.accepted)) == 3,
    )
    one.close()
    drive([reader], lambda: all(channel.error is not None for channel in lost))
    for channel in lost:
        error = channel.error
        assert isinstance(error, RemoteTransportError)
        assert error.peer == f"tm-0 at {HOST}:{one.port}"
        assert error.channels == (0, 1)
        assert "was closed by it; that task manager may be lost" in str(error)
    assert kept.error is None
    other.write(0, b"alive")
    drive([other, reader], lambda: (kept.index, b"alive") in read_good(reader))
    refused = reader.channel_to(one, 2)
    reader.clients[0].request_subpartition(refused, now_ns=0)
    assert refused.error is lost[0].error  # new registrations are refused


@pytest.mark.row("S100")
def test_a_producer_knows_which_channels_its_lost_consumer_had(node: NewNode) -> None:
    one, other = node(), node()
    channels = [other.read_from(one, subpartition) for subpartition in range(3)]
    drive([one, other], lambda: bool(one.accepted) and len(one.accepted[0].queue.readers) == 3)
    channels[1].release()
    drive([one, other], lambda: len(one.accepted[0].queue.readers) == 2)
    for transport in other.loop.transports:
        transport.close()
    drive([one], lambda: one.accepted[0].loss is not None)
    assert one.accepted[0].lost_channels == [0, 2]
    assert len(one.loop.transports) == 0


@pytest.mark.row("S100")
def test_a_peer_that_breaks_the_protocol_differs_from_one_that_is_lost(node: NewNode) -> None:
    one, other = node(), node()
    other.read_from(one, 0)
    drive([one, other], lambda: bool(one.accepted) and len(one.accepted[0].queue.readers) == 1)
    (transport,) = other.loop.transports
    transport.sock.send(b"garbage that is no message")
    drive([one], lambda: one.accepted[0].loss is not None)
    loss = one.accepted[0].loss
    assert "was closed because of a wrong message" in str(loss)
    assert not isinstance(loss, RemoteTransportError)
    assert one.loop.transports == []


@pytest.mark.row("S081")
def test_task_events_of_a_gate_reach_the_producer_over_a_socket_and_segment_ids_do_no_harm(
    node: NewNode,
) -> None:
    one, other = node(), node()
    channel = other.read_from(one, 0)
    event = OtherEvent("org.example.Terminate", b"body")
    heard: list[OtherEvent] = []
    (partition,) = one.partitions.partitions
    partition.task_events.subscribe(event.class_name, heard.append)
    partition.task_events.register()
    other.gate.send_task_event(event)
    drive([one, other], lambda: channel.connection is not None)
    assert other.gate.send_pending_events()  # nothing has come from there yet
    one.write(0, b"begins")
    drive([one, other], lambda: (channel.index, b"begins") in other.read())
    assert not other.gate.send_pending_events()
    drive([one, other], lambda: heard == [event])
    (transport,) = other.loop.transports
    transport.sock.send(SegmentId(0, 1, channel.receiver_id).encode())
    one.write(0, b"goes on")
    drive([one, other], lambda: (channel.index, b"goes on") in other.read())
    assert len(one.loop.transports) == 1


@pytest.mark.row("S075")
def test_a_range_of_subpartitions_is_served_over_a_socket(node: NewNode) -> None:
    one = node()
    receiver = InputChannelID(bytes(range(16)))
    one.channel_of[receiver] = 0
    request = PartitionRequest(partition_id(0), ResultSubpartitionIndexSet(1, 3), receiver, 9)
    received: list[object] = []
    decoder = FrameDecoder(Direction.PRODUCER_TO_CONSUMER)
    with socket.create_connection((HOST, one.port)) as peer:
        peer.sendall(request.encode())
        for subpartition in range(4):
            one.write(subpartition, b"record")
        one.partition.finish()
        peer.setblocking(False)

        def have_come() -> bool:
            with contextlib.suppress(BlockingIOError):
                received.extend(decoder.feed(peer.recv(1 << 16)))
            return len(received) == 6

        drive([one], have_come)
    buffers = [each for each in received if isinstance(each, BufferResponse)]
    assert [each.subpartition_id for each in buffers] == [1, 1, 2, 2, 3, 3]
    assert [each.sequence_number for each in buffers] == list(range(6))


@pytest.mark.row("S061")
def test_data_for_which_there_is_no_buffer_fails_its_channel_and_no_other(node: NewNode) -> None:
    one, reader = node(), node()
    lost, kept = reader.read_from(one, 0), reader.read_from(one, 1)
    drive([one, reader], lambda: bool(one.accepted) and len(one.accepted[0].queue.readers) == 2)
    one.accepted[0].queue.readers[lost.receiver_id].credits_available += 90  # nobody gave it
    for _ in range(30):
        one.write(0, b"x" * SEGMENT_BYTES)
    drive([one, reader], lambda: lost.error is not None)
    assert isinstance(lost.error, CreditExceededError)
    assert kept.error is None
    one.write(1, b"alive")
    drive([one, reader], lambda: (kept.index, b"alive") in read_good(reader))


@pytest.mark.row("S091")
def test_a_spill_file_that_cannot_be_read_leaves_the_task_manager_and_others_alive(
    node: NewNode, tmp_path: Path
) -> None:
    one, reader, other = node(), node(), node()
    stored = ResultPartitionFactory(
        NetworkBufferPool(50, SEGMENT_BYTES),
        one.partitions,
        exclusive_buffers=2,
        floating_buffers=8,
        max_buffers_per_channel=10,
        max_overdraft_buffers=0,
        storage=BlockingStorage(
            BatchShuffleReadBufferPool(20 * SEGMENT_BYTES, SEGMENT_BYTES),
            lambda of, name: create_spill_file(tmp_path, of, name),
        ),
        sort_shuffle_min_buffers=20,
    ).create(partition_id(7), ResultPartitionType.BLOCKING, 1)
    stored.setup()
    for _ in range(20):
        stored.emit(0, records_of([SEGMENT_BYTES]))
    stored.finish()
    for path in tmp_path.iterdir():
        if path.suffix == ".data":
            os.truncate(path, path.stat().st_size - 1)
    neighbour, bad = reader.read_from(one, 1), reader.channel_to(one, 0)
    bad.partition_id = partition_id(7)
    reader.clients[0].request_subpartition(bad, now_ns=time.monotonic_ns())
    kept = other.read_from(one, 0)
    nodes = [one, reader, other]
    drive(nodes, lambda: read_good(reader) == [] and bad.error is not None)
    assert "spill file" in str(bad.error)
    assert neighbour.error is None  # it is the reading that failed, as in Flink
    one.write(0, b"alive")
    drive(nodes, lambda: (kept.index, b"alive") in other.read())


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_visitor_that_is_gone_before_it_is_looked_at_does_no_harm(
    node: NewNode, is_reset: bool
) -> None:
    one, other = node(), node()
    visitor = socket.create_connection((HOST, one.port))
    if is_reset:
        visitor.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    visitor.close()
    server = one.manager
    drive([one], lambda: server.strangers().connections == 1 and one.loop.transports == [])
    assert one.accepted == []
    channel = other.read_from(one, 0)
    drive([one, other], lambda: bool(one.accepted) and one.accepted[0].queue.readers != {})
    assert channel.error is None


# Water marks


@pytest.mark.row("S070")
@pytest.mark.parametrize("flow_control", ["credit", "tcp"])
def test_what_waits_for_a_full_socket_stays_about_the_high_mark_until_all_is_sent(
    node: NewNode, flow_control: str
) -> None:
    segment_bytes = 32 * 1024
    network = replace(NETWORK, send_receive_buffer_bytes=segment_bytes)
    options = {"flow_control": flow_control, "segment_bytes": segment_bytes}
    one, other = node(network, **options), node(network, **options)
    other.read_from(one, 0, initial_credit=100)
    drive([one, other], lambda: bool(one.accepted) and len(one.accepted[0].queue.readers) == 1)
    (transport,) = one.loop.transports
    marks = one.accepted[0].water_marks
    assert marks.high_bytes == 2 * segment_bytes
    data = b"r" * (40 * segment_bytes)
    one.write(0, data)
    settle([one])  # nobody reads
    assert transport.wants_to_write
    most_bytes = marks.high_bytes + segment_bytes + BUFFER_RESPONSE_HEADER_BYTES
    assert marks.low_bytes <= transport.unsent_bytes <= most_bytes
    assert not marks.is_writable
    read: list[tuple[int, bytes]] = []
    waiting: list[int] = []

    def is_done() -> bool:
        read.extend(other.read())
        waiting.append(transport.unsent_bytes)
        return sum(len(each) for _, each in read) == len(data)

    drive([one, other], is_done)
    assert max(waiting) <= most_bytes
    refilled = [now for before, now in pairwise(waiting) if now > before > 0]
    assert refilled, "the connection was asked for more only when nothing waited"
    assert transport.unsent_bytes == 0
    assert marks.is_writable


# A consumer whose socket is full


def fill_socket_of(reader: Node, *, channel: int = 0) -> TcpTransport:
    """Let a node send announcements of buffer sizes until its peer, who does not read, has no room.
    Returns: the node's end."""
    (transport, *_) = reader.loop.transports
    transport.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEGMENT_BYTES)
    while True:
        unsent_bytes = transport.unsent_bytes
        settle([reader])
        if 0 < unsent_bytes == transport.unsent_bytes:
            return transport
        for size_bytes in range(1, 2000):
            reader.channels[channel].set_buffer_size(size_bytes, now_ns=time.monotonic_ns())


@pytest.mark.row("S155")
def test_credit_gained_while_the_socket_is_full_goes_out_once_for_each_channel_in_their_order(
    node: NewNode,
) -> None:
    one, reader = node(), node()
    channels = [reader.read_from(one, subpartition) for subpartition in range(3)]
    drive([one, reader], lambda: bool(one.accepted) and len(one.accepted[0].queue.readers) == 3)
    transport = fill_socket_of(reader)  # from here on the producer reads nothing
    waiting_bytes = transport.unsent_bytes
    for index in (2, 0, 1, 0, 2, 1):
        channels[index].notify_credit(1)
    channels[0].release()
    settle([reader])
    assert transport.unsent_bytes == waiting_bytes, "messages queued behind a full socket"

    (end,) = one.loop.transports
    decoder, granted = FrameDecoder(Direction.CONSUMER_TO_PRODUCER), []
    while transport.unsent_bytes or not granted:
        settle([reader], 1)
        with contextlib.suppress(BlockingIOError):
            messages = decoder.feed(end.sock.recv(1 << 20))
            granted += [each for each in messages if isinstance(each, AddCredit)]
    assert [(each.receiver_id, each.credit) for each in granted] == [
        (channels[2].receiver_id, 2),
        (channels[1].receiver_id, 2),
    ]


@pytest.mark.row("S156")
@pytest.mark.parametrize("is_reset", [False, True], ids=["unknown message", "failed write"])
def test_what_breaks_a_connection_fails_its_channels_with_the_cause_and_no_others(
    node: NewNode, is_reset: bool
) -> None:
    one, other, reader = node(), node(), node()
    broken = [reader.read_from(one, subpartition) for subpartition in range(2)]
    kept = reader.read_from(other, 0)
    drive(
        [one, other, reader],
        lambda: sum(len(each.queue.readers) for each in (*one.accepted, *other.accepted)) == 3,
    )
    (end,) = one.loop.transports
    if is_reset:
        fill_socket_of(reader)
        end.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.sock.close()
    else:
        frame = bytearray(CloseRequest().encode())
        frame[8] = 99
        end.sock.send(frame)
    drive([reader], lambda: all(each.error is not None for each in broken))
    cause = "was reset by it; that task manager may be lost" if is_reset else "message id 99"
    assert all(cause in str(each.error) for each in broken), broken[0].error
    assert len({id(each.error) for each in broken}) == 1
    other.write(0, b"alive")
    drive([other, reader], lambda: (kept.index, b"alive") in read_good(reader))
    assert kept.error is None


@pytest.mark.row("S158")
def test_a_second_reader_of_a_subpartition_is_refused_and_the_first_goes_on(node: NewNode) -> None:
    one, first, second = node(), node(), node()
    kept = first.read_from(one, 0)
    drive([one, first], lambda: bool(one.accepted) and len(one.accepted[0].queue.readers) == 1)
    refused = second.read_from(one, 0)
    drive([one, second], lambda: refused.error is not None)
    assert "is being (or already has been) consumed" in str(refused.error)
    one.write(0, b"alive")
    drive([one, first], lambda: (kept.index, b"alive") in first.read())
    assert kept.error is None
