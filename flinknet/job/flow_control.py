"""Flow control: what keeps a producer from flooding its consumer, `credit` (since Flink 1.5) or
`tcp` (before).

With `tcp` there is no credit on the wire. A consumer without a free buffer stops reading its
socket, and the producer writes until the socket takes no more. So one slow channel blocks all
others of its connection.
"""

from __future__ import annotations

from collections.abc import Mapping

from flinknet.config import FLOW_CONTROLS, TCP
from flinknet.core.consumer import ConsumerConnection
from flinknet.core.probe import Probe
from flinknet.core.producer import ProducerConnection, ResultPartitionManager
from flinknet.core.water_marks import WriteWaterMarks
from flinknet.errors import ConfigError


def check_flow_control(flow_control: str) -> None:
    """Raises: ConfigError for an unknown name."""
    if flow_control not in FLOW_CONTROLS:
        raise ConfigError(
            f"flow control {flow_control!r} is not known; choose from {', '.join(FLOW_CONTROLS)}"
        )


def create_producer_connection(
    flow_control: str,
    partitions: ResultPartitionManager,
    probe: Probe,
    channel_of: Mapping[bytes, int],
    *,
    partition_request_timeout_ns: int,
    segment_size_bytes: int,
) -> ProducerConnection:
    """The producer's end of a connection, with Netty's water marks: with `tcp`, those of Flink
    before 1.5.
    """
    return ProducerConnection(
        partitions,
        probe,
        channel_of,
        partition_request_timeout_ns=partition_request_timeout_ns,
        is_credit_based=flow_control != TCP,
        water_marks=WriteWaterMarks.classic(segment_size_bytes) if flow_control == TCP else None,
    )


def create_consumer_connection(flow_control: str, peer: str, probe: Probe) -> ConsumerConnection:
    """The consumer's end of a connection."""
    return ConsumerConnection(peer, probe, is_credit_based=flow_control != TCP)
