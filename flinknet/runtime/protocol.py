"""DataProtocol: the handlers of the data port, for either end of a connection.

Flink: NettyProtocol. From the socket inwards: TLS if it is on, then a connection of the core. The
producer's has the frame decoder, the handlers of messages, and the queue of readers; the consumer's
has the decoder that writes payload into buffers, and the channels with credit to announce.
Messages encode themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from flinknet.core.connection import Connection
from flinknet.core.consumer import ConsumerConnection
from flinknet.core.consumer.request_backoff import RequestBackoffPolicy
from flinknet.core.probe import Probe
from flinknet.core.producer import ProducerConnection, ResultPartitionManager
from flinknet.job.flow_control import (
    create_consumer_connection,
    create_producer_connection,
)

if TYPE_CHECKING:
    from .tls import Tls


class DataProtocol:
    """Creates the connections of one TaskManager.

    Args:
        flow_control: one of `tasks.flow_control`; without credit, the classic water marks apply.
        channel_of: index of each channel in the run, by receiver id.
    """

    def __init__(
        self,
        flow_control: str,
        partitions: ResultPartitionManager,
        probe: Probe,
        channel_of: Mapping[bytes, int],
        *,
        partition_request_timeout_ns: int,
        segment_size_bytes: int,
        request_backoff: RequestBackoffPolicy | None = None,
    ) -> None:
        self._flow_control = flow_control
        self._partitions = partitions
        self._probe = probe
        self._channel_of = channel_of
        self._partition_request_timeout_ns = partition_request_timeout_ns
        self._segment_size_bytes = segment_size_bytes
        self._request_backoff = request_backoff or RequestBackoffPolicy()
        self.tls: Tls | None = None

    def server_connection(self) -> ProducerConnection:
        """Create the producer's end of an accepted connection."""
        return create_producer_connection(
            self._flow_control,
            self._partitions,
            self._probe,
            self._channel_of,
            partition_request_timeout_ns=self._partition_request_timeout_ns,
            segment_size_bytes=self._segment_size_bytes,
        )

    def client_connection(self, peer: str) -> ConsumerConnection:
        """Create the consumer's end of a connection to `peer`."""
        connection = create_consumer_connection(self._flow_control, peer, self._probe)
        connection.requests.policy = self._request_backoff
        return connection

    def outermost(self, connection: Connection, *, is_server: bool) -> Connection:
        """The connection for the driver: the given one, or TLS around it."""
        if self.tls is None:
            return connection
        return self.tls.around(connection, is_server=is_server)
