"""FillMeter: the fill levels of the six buffering places on one TaskManager, which sees its half of
them; and FillTimeline, which joins the halves.

Bytes that the receiver's kernel has, and has not acknowledged yet, count in both sockets.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from dataclasses import astuple
from itertools import chain

from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.connection import RECEIVE_BYTES
from flinknet.core.consumer import ConsumerConnection, RemoteInputChannel, SingleInputGate
from flinknet.core.producer import ProducerConnection, ResultPartition
from flinknet.core.wire.layout import BUFFER_RESPONSE_HEADER_BYTES
from flinknet.results import Buffering, ChannelLevels, FillLevels, FillSample

from .event_loop import Task
from .sockets import unacknowledged_bytes, unread_bytes
from .transport import TcpTransport


def subpartition_bytes(partitions: Iterable[ResultPartition]) -> int:
    """Bytes written and not yet sent; a shared buffer counts in each subpartition."""
    return sum(each.queued_bytes for partition in partitions for each in partition.subpartitions)


def subpartition_bytes_max(
    partitions: Iterable[ResultPartition], total_buffers: int, *, is_shared: bool
) -> int:
    """Capacity of these partitions' pools, overdraft included. An unlimited pool has the buffers of
    the TaskManager; broadcast subpartitions share theirs.
    """
    most = 0
    for partition in partitions:
        copies = len(partition.subpartitions) if is_shared else 1
        pool = partition.pool
        buffers = min(pool.max_buffers + pool.max_overdraft_buffers, total_buffers)
        most += copies * buffers * pool.segment_size_bytes
    return most


def input_channel_bytes(gates: Iterable[SingleInputGate]) -> int:
    """Bytes that have arrived over connections and that no task has taken."""
    return sum(_received_bytes(each) for gate in gates for each in gate.remote_channels)


def input_channel_bytes_max(gates: Iterable[SingleInputGate]) -> int:
    """Capacity of the exclusive buffers and pools of these gates."""
    channels = [each for gate in gates for each in gate.remote_channels]
    pools = {id(each.buffers.pool): each.buffers.pool for each in channels}
    floating = sum(each.max_buffers * each.segment_size_bytes for each in pools.values())
    return floating + sum(
        each.initial_credit * each.buffers.pool.segment_size_bytes for each in channels
    )


def netty_inbound_bytes(connections: Iterable[ConsumerConnection]) -> int:
    """Bytes read and staged for lack of a buffer; always 0 with credit."""
    return sum(each.snapshot(now_ns=0).staged_bytes for each in connections)


def netty_inbound_bytes_max(
    connections: Iterable[ConsumerConnection], *, receive_bytes: int, segment_size_bytes: int
) -> int:
    """The most that one read and one partly received message leave staged."""
    without_credit = sum(not each.is_credit_based for each in connections)
    return without_credit * (receive_bytes + segment_size_bytes)


def _received_bytes(channel: RemoteInputChannel) -> int:
    return sum(buffer.size_bytes for buffer, _ in channel.received if buffer.data_type in IS_BUFFER)


SAMPLES_MAX = 600
"""A longer timeline is thinned out evenly: a screen shows no more samples."""

CHANNELS_MAX = 4
"""In runs of more channels what lies in the places is not split by channel."""

_PACKET_BYTES = 64 * 1024
"""The kernel accepts a whole packet while any of a socket's buffer is free."""


class FillMeter:
    """Reads the fill levels of one TaskManager on request; no counting in between."""

    def __init__(self, *, total_buffers: int, segment_size_bytes: int, is_broadcast: bool) -> None:
        self._partitions: list[ResultPartition] = []
        self._gates: list[SingleInputGate] = []
        self._bounds = FillLevels()
        self._total_buffers = total_buffers
        self._segment_size_bytes = segment_size_bytes
        self._is_broadcast = is_broadcast
        self._sockets_max = FillLevels()
        self._channels: list[Sequence[int]] = []

    def add(
        self,
        partitions: Sequence[ResultPartition],
        gates: Sequence[SingleInputGate],
        channels: Sequence[Sequence[int]],
    ) -> None:
        """Add the partitions, with the channels of their subpartitions, and gates of a task."""
        self._partitions += partitions
        self._gates += gates
        self._channels += channels
        self._bounds += FillLevels(
            subpartition_bytes=subpartition_bytes_max(
                partitions, self._total_buffers, is_shared=self._is_broadcast
            ),
            input_channel_bytes=input_channel_bytes_max(gates),
        )

    def sample(
        self, transports: Sequence[TcpTransport], sources: Iterable[Task], *, now_ns: int
    ) -> FillSample:
        """Return the current fill levels on this side. A source whose buffers have come back does
        not wait: it goes on in its next step.
        """
        is_writing = not any(each.is_blocked and not each.is_ready for each in sources)
        levels = FillLevels(
            subpartition_bytes=subpartition_bytes(self._partitions),
            input_channel_bytes=input_channel_bytes(self._gates),
        )
        bounds = FillLevels()
        is_reading = is_writable = True
        for transport in transports:
            connection = getattr(transport.connection, "inner", transport.connection)  # of TLS
            if isinstance(connection, ProducerConnection):
                is_writable = is_writable and connection.water_marks.is_writable
                levels += FillLevels(
                    netty_outbound_bytes=transport.unsent_bytes,
                    socket_send_bytes=unacknowledged_bytes(transport.sock),
                )
                bounds += FillLevels(
                    netty_outbound_bytes=connection.water_marks.high_bytes
                    + self._segment_size_bytes
                    + BUFFER_RESPONSE_HEADER_BYTES,
                    socket_send_bytes=_size(transport.sock, socket.SO_SNDBUF),
                )
            elif isinstance(connection, ConsumerConnection):
                is_reading = is_reading and connection.wants_data
                levels += FillLevels(
                    socket_receive_bytes=unread_bytes(transport.sock),
                    netty_inbound_bytes=netty_inbound_bytes([connection]),
                )
                bounds += FillLevels(
                    socket_receive_bytes=_size(transport.sock, socket.SO_RCVBUF),
                    netty_inbound_bytes=netty_inbound_bytes_max(
                        [connection],
                        receive_bytes=RECEIVE_BYTES,
                        segment_size_bytes=self._segment_size_bytes,
                    ),
                )
        self._sockets_max = FillLevels(*map(max, astuple(self._sockets_max), astuple(bounds)))
        return FillSample(
            now_ns, levels, is_reading, is_writable, is_writing, self._levels_by_channel()
        )

    def bounds(self) -> FillLevels:
        """The capacity of each place here; for sockets, which grow with use, the largest so far."""
        return self._bounds + self._sockets_max

    def _levels_by_channel(self) -> tuple[ChannelLevels, ...]:
        """What lies here by channel; empty if there are many."""
        if sum(map(len, self._channels)) + sum(len(x.channels) for x in self._gates) > CHANNELS_MAX:
            return ()
        written = {
            channel: subpartition.queued_bytes
            for partition, own in zip(self._partitions, self._channels, strict=True)
            for subpartition, channel in zip(partition.subpartitions, own, strict=True)
        }
        received = {x.index: _received_bytes(x) for g in self._gates for x in g.remote_channels}
        return tuple(
            ChannelLevels(channel, written.get(channel, 0), received.get(channel, 0))
            for channel in sorted({*written, *received})
        )


class FillTimeline:
    """Samples of all TaskManagers, joined by intervals from the latest sample of each half."""

    def __init__(self, interval_ns: int) -> None:
        self._interval_ns = interval_ns
        self._halves: dict[int, list[FillSample]] = {}

    def add(self, index: int, sample: FillSample) -> None:
        self._halves.setdefault(index, []).append(sample)

    def buffering(self, start_ns: int, bounds: Sequence[FillLevels]) -> Buffering:
        """The fill levels over the run, with the capacity of all TaskManagers."""
        total = sum(bounds, FillLevels())
        by_interval: dict[int, dict[int, FillSample]] = {}
        for index, samples in self._halves.items():
            for sample in samples:
                number = (sample.at_ns - start_ns) // self._interval_ns
                by_interval.setdefault(number, {})[index] = sample
        known: dict[int, FillSample] = {}
        whole = []
        for number in sorted(by_interval):
            known |= by_interval[number]
            whole.append(
                FillSample(
                    at_ns=max(0, number * self._interval_ns),
                    levels=sum((each.levels for each in known.values()), FillLevels()),
                    is_reading=all(each.is_reading for each in known.values()),
                    is_writable=all(each.is_writable for each in known.values()),
                    is_writing=all(each.is_writing for each in known.values()),
                    channels=_joined(each.channels for each in known.values()),
                )
            )
        return Buffering(total, tuple(whole[:: 1 + max(0, len(whole) - 1) // SAMPLES_MAX]))


def _joined(halves: Iterable[Sequence[ChannelLevels]]) -> tuple[ChannelLevels, ...]:
    """The channels of all TaskManagers; none for a single one, which has all, and for many."""
    joined: dict[int, ChannelLevels] = {}
    for each in chain.from_iterable(halves):
        before = joined.get(each.channel, ChannelLevels(each.channel))
        joined[each.channel] = ChannelLevels(
            each.channel,
            before.subpartition_bytes + each.subpartition_bytes,
            before.input_channel_bytes + each.input_channel_bytes,
        )
    if not 1 < len(joined) <= CHANNELS_MAX:
        return ()
    return tuple(joined[channel] for channel in sorted(joined))


def _size(sock: socket.socket, option: int) -> int:
    """The current size of a socket's buffer plus a packet, in bytes."""
    return sock.getsockopt(socket.SOL_SOCKET, option) + _PACKET_BYTES
