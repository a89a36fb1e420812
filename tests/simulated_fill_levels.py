"""The six places between two operators in a simulated cluster, at any moment."""

from __future__ import annotations

from flinknet.core.connection import RECEIVE_BYTES
from flinknet.results import FillLevels, FillSample
from flinknet.runtime import fill_meter as fill_levels
from flinknet.simulator.cluster import START_NS, Cluster


def receive_window_bytes(cluster: Cluster) -> int:
    """The part of both sockets' buffers in the receiver's: TCP's receive window."""
    return cluster.channels.settings.capacity_bytes // 2


def fill_sample(cluster: Cluster) -> FillSample:
    """Where bytes lie now, over all links and tasks."""
    senders = [link.producer_end for link in cluster.links.values()]
    window_bytes = receive_window_bytes(cluster)
    taken = [end.in_flight_bytes - end.unsent_bytes for end in senders]
    return FillSample(
        at_ns=cluster.now_ns - START_NS,
        levels=FillLevels(
            subpartition_bytes=fill_levels.subpartition_bytes(cluster.partitions),
            netty_outbound_bytes=sum(end.unsent_bytes for end in senders),
            socket_send_bytes=sum(max(0, each - window_bytes) for each in taken),
            socket_receive_bytes=sum(min(each, window_bytes) for each in taken),
            netty_inbound_bytes=sum(
                each.staged_bytes for each in cluster.channels.consumer_connections
            ),
            input_channel_bytes=fill_levels.input_channel_bytes(cluster.gates),
        ),
        is_reading=all(each.wants_data for each in cluster.channels.consumer_connections),
        is_writable=all(
            each.water_marks.is_writable for each in cluster.channels.producer_connections
        ),
        is_writing=not any(source.is_blocked for source in cluster.sources),
    )


def fill_bounds(cluster: Cluster) -> FillLevels:
    """The most that each place can hold."""
    segment_bytes = cluster.network.segment_size_bytes
    outputs = [each for subtask in cluster.job.subtasks for each in subtask.outputs]
    links = len(cluster.links)
    window_bytes = receive_window_bytes(cluster)
    return FillLevels(
        subpartition_bytes=fill_levels.subpartition_bytes_max(
            cluster.partitions,
            max(each.memory.total_buffers for each in cluster.task_managers),
            is_shared=any(each.partitioner == "broadcast" for each in outputs),
        ),
        netty_outbound_bytes=sum(
            each.water_marks.high_bytes + 2 * segment_bytes
            for each in cluster.channels.producer_connections
        ),
        socket_send_bytes=links * window_bytes,
        socket_receive_bytes=links * window_bytes,
        netty_inbound_bytes=sum(
            2 * RECEIVE_BYTES + segment_bytes
            for each in cluster.channels.consumer_connections
            if not each.is_credit_based
        ),
        input_channel_bytes=fill_levels.input_channel_bytes_max(cluster.gates),
    )
