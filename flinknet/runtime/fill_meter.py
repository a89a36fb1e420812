"""FillMeter: the fill levels of the six buffering places on one TaskManager, which sees its half of
them; and FillTimeline, which joins the halves.

Bytes that the receiver's kernel has, and has not acknowledged yet, count in both sockets.
"""

from __future__ import annotations

import socket
from collections import Counter
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
        copies, pool = len(partition.subpartitions) if is_shared else 1, partition.pool
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
            sock, segment_bytes = transport.sock, self._segment_size_bytes
            if isinstance(connection, ProducerConnection):
                marks = connection.water_marks
                is_writable = is_writable and marks.is_writable
                levels += FillLevels(
                    netty_outbound_bytes=transport.unsent_bytes,
                    socket_send_bytes=unacknowledged_bytes(sock),
                )
                outbound = marks.high_bytes + segment_bytes + BUFFER_RESPONSE_HEADER_BYTES
                bounds += FillLevels(
                    netty_outbound_bytes=outbound, socket_send_bytes=_size(sock, socket.SO_SNDBUF)
                )
            elif isinstance(connection, ConsumerConnection):
                is_reading = is_reading and connection.wants_data
                levels += FillLevels(
                    socket_receive_bytes=unread_bytes(sock),
                    netty_inbound_bytes=connection.staged_bytes,
                )
                # with credit nothing is staged; else at most one read and one partial message
                inbound = 0 if connection.is_credit_based else RECEIVE_BYTES + segment_bytes
                bounds += FillLevels(
                    socket_receive_bytes=_size(sock, socket.SO_RCVBUF), netty_inbound_bytes=inbound
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
            halves = known.values()
            whole.append(
                FillSample(
                    max(0, number * self._interval_ns),
                    sum((each.levels for each in halves), FillLevels()),
                    all(each.is_reading for each in halves),
                    all(each.is_writable for each in halves),
                    all(each.is_writing for each in halves),
                    _joined(each.channels for each in halves),
                )
            )
        return Buffering(total, tuple(whole[:: 1 + max(0, len(whole) - 1) // SAMPLES_MAX]))


def _joined(halves: Iterable[Sequence[ChannelLevels]]) -> tuple[ChannelLevels, ...]:
    """The channels of all TaskManagers; none for a single one, which has all, and for many."""
    written: Counter[int] = Counter()
    received: Counter[int] = Counter()
    for each in chain.from_iterable(halves):
        written[each.channel] += each.subpartition_bytes
        received[each.channel] += each.input_channel_bytes
    if not 1 < len(written) <= CHANNELS_MAX:
        return ()
    return tuple(ChannelLevels(each, written[each], received[each]) for each in sorted(written))


def _size(sock: socket.socket, option: int) -> int:
    return sock.getsockopt(socket.SOL_SOCKET, option) + _PACKET_BYTES
