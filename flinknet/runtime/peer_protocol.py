"""PeerProtocol: connections to TaskManagers that are not flinknet's."""

from __future__ import annotations

from flinknet.core.consumer import ConsumerConnection
from flinknet.core.producer import ProducerConnection, ResultPartitionManager
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.core.wire.layout_detection import LayoutDetectingDecoder
from flinknet.core.wire.response_decoder import ResponseSink
from flinknet.job.gates import request_backoff_of
from flinknet.job.load.peer import PeerDeployment
from flinknet.trace.recorder import TraceRecorder

from .protocol import DataProtocol


class PeerProtocol(DataProtocol):
    """Connections to strangers: the layout of what comes is found out, and channels are known by
    the ids that their consumers choose.
    """

    decoder: LayoutDetectingDecoder | None = None

    def __init__(
        self,
        deployment: PeerDeployment,
        partitions: ResultPartitionManager,
        recorder: TraceRecorder,
    ) -> None:
        network = deployment.scenario.network
        self._deployment = deployment
        self._partition_manager = partitions
        self._recorder = recorder
        self._timeout_ns = network.partition_request_timeout_ns
        self.channel_of: dict[bytes, int] = {}
        super().__init__(
            deployment.scenario.flow_control,
            partitions,
            recorder,
            self.channel_of,
            partition_request_timeout_ns=self._timeout_ns,
            segment_size_bytes=network.segment_size_bytes,
            request_backoff=request_backoff_of(network),
        )
        if network.is_tls:
            from .tls import create_tls

            self.tls = create_tls(network)

    def server_connection(self) -> ProducerConnection:
        """The producer's end of a connection that was accepted."""
        return ProducerConnection(
            self._partition_manager,
            self._recorder,
            self.channel_of,
            adopt=self._adopt,
            partition_request_timeout_ns=self._timeout_ns,
        )

    def client_connection(self, peer: str) -> ConsumerConnection:
        """The consumer's end of a connection to a stranger."""
        address = peer.rpartition(" at ")[2]
        connection = ConsumerConnection(address, self._recorder, self._create_decoder)
        connection.requests.policy = request_backoff_of(self._deployment.scenario.network)
        return connection

    def _create_decoder(self, sink: ResponseSink) -> LayoutDetectingDecoder:
        self.decoder = LayoutDetectingDecoder(sink)
        return self.decoder

    def _adopt(
        self, partition_id: ResultPartitionID, subpartition: int, receiver_id: bytes
    ) -> None:
        index = self._deployment.find_channel(partition_id, subpartition)
        if index is not None:
            self.channel_of[receiver_id] = index
