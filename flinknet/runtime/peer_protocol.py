"""PeerProtocol: connections to TaskManagers that are not flinknet's."""

from __future__ import annotations

from flinknet.core.consumer import ConsumerConnection
from flinknet.core.producer import ResultPartitionManager
from flinknet.core.producer.adopting_connection import AdoptingProducerConnection
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.core.wire.layout_detection import LayoutDetectingDecoder
from flinknet.core.wire.response_decoder import ResponseSink
from flinknet.job.gates import request_backoff_of
from flinknet.job.load.plan import LoadPlan
from flinknet.trace.recorder import TraceRecorder

from .protocol import DataProtocol


class PeerProtocol(DataProtocol):
    """Connections to strangers: the layout of what comes is found out, and channels are known by
    the ids that their consumers choose.
    """

    decoder: LayoutDetectingDecoder | None = None

    def __init__(
        self,
        load: LoadPlan,
        partitions: ResultPartitionManager,
        recorder: TraceRecorder,
    ) -> None:
        network = load.scenario.network
        self._request_backoff = request_backoff_of(network)
        self._index_of = {
            (each.partition_id, each.subpartition): each.index for each in load.channels
        }
        self._partition_manager = partitions
        self._recorder = recorder
        self._timeout_ns = network.partition_request_timeout_ns
        self.channel_of: dict[bytes, int] = {}
        super().__init__(
            load.scenario.flow_control,
            partitions,
            recorder,
            self.channel_of,
            partition_request_timeout_ns=self._timeout_ns,
            segment_size_bytes=network.segment_size_bytes,
            request_backoff=self._request_backoff,
        )
        if network.is_tls:
            from .tls import create_tls

            self.tls = create_tls(network)

    def server_connection(self) -> AdoptingProducerConnection:
        """The producer's end of a connection that was accepted."""
        return AdoptingProducerConnection(
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
        connection.requests.policy = self._request_backoff
        return connection

    def _create_decoder(self, sink: ResponseSink) -> LayoutDetectingDecoder:
        self.decoder = LayoutDetectingDecoder(sink)
        return self.decoder

    def _adopt(
        self, partition_id: ResultPartitionID, subpartition: int, receiver_id: bytes
    ) -> None:
        index = self._index_of.get((partition_id, subpartition))
        if index is not None:
            self.channel_of[receiver_id] = index
