"""What a remote channel asks of its connection in the course of its life, in which order."""

from __future__ import annotations

import pytest

from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.consumer import RemoteInputChannel, SingleInputGate
from tests.pair import RECEIVER, partition_id


class RecordingClient:
    """Stands for the connection: notes what it is asked, and for which channel."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.channels: set[int] = set()

    def request_subpartition(self, channel: RemoteInputChannel, *, now_ns: int) -> None:
        self.calls.append("add and request")
        self.channels.add(channel.index)
        channel.connection = self

    def notify_credit_available(self, channel: RemoteInputChannel) -> None:
        self.calls.append(f"credit {channel.take_unannounced_credit()}")

    def resume_consumption(self, channel: RemoteInputChannel) -> None:
        self.calls.append("resume")

    def acknowledge_all_records_processed(self, channel: RemoteInputChannel) -> None:
        self.calls.append("acknowledge")

    def close_channel(self, channel: RemoteInputChannel) -> None:
        self.calls.append("cancel and remove")
        self.channels.discard(channel.index)


@pytest.mark.row("S096")
def test_a_channel_is_added_first_and_removed_last() -> None:
    memory = NetworkBufferPool(20, 100)
    client = RecordingClient()
    channel = RemoteInputChannel(
        0,
        RECEIVER,
        partition_id(),
        0,
        SingleInputGate(),
        0,
        memory,
        memory.create_buffer_pool(1, 8),
        2,
        connect=lambda: client,
    )
    assert client.calls == []
    channel.request_subpartition(now_ns=0)
    channel.request_subpartition(now_ns=0)  # asked for already
    assert client.channels == {0}
    channel.receive_backlog(3)
    channel.resume_consumption()
    channel.acknowledge_all_records_processed()
    channel.release()
    channel.release()
    assert client.calls == [
        "add and request",
        "credit 3",
        "resume",
        "acknowledge",
        "cancel and remove",
    ]
    assert client.channels == set()
