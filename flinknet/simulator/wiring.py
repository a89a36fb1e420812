"""Wiring: the connections between the TaskManagers of a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from flinknet.core.connection import Connection
from flinknet.core.consumer import ConsumerConnection
from flinknet.core.probe import Probe
from flinknet.core.producer import ProducerConnection
from flinknet.errors import FlinknetError
from flinknet.job.descriptor import InputChannelDescriptor
from flinknet.job.flow_control import create_consumer_connection, create_producer_connection
from flinknet.job.gates import request_backoff_of

from .direction import LinkSettings
from .faults import Faults
from .hosts import SimulatedHosts
from .link import LinkEnd, SendCosts, SimulatedLink
from .simulated_job import SimulatedJob


class Wiring:
    """Opens a connection when its first channel needs it.

    Attributes:
        links: links by TaskManager of the producer, TaskManager of the consumer, and number of the
            connection between the two.
        settings: properties of all links towards consumers.

    Args:
        probes: one for each TaskManager.
        link: bandwidth and capacity; the latency follows from the costs of the job.
        fail: called with an error of a connection.
    """

    def __init__(
        self,
        job: SimulatedJob,
        hosts: SimulatedHosts,
        probes: Sequence[Probe],
        link: LinkSettings,
        faults: Faults,
        fail: Callable[[FlinknetError], None],
    ) -> None:
        costs = job.costs
        latency_ns = max(0, int(costs.transit_ns - costs.send_ns_per_message))
        self.settings = self._settings_back = replace(link, latency_ns=latency_ns)
        if costs.back_ns is not None:
            self._settings_back = replace(link, latency_ns=int(costs.back_ns))
        self.links: dict[tuple[int, int, int], SimulatedLink] = {}
        self.producer_connections: list[ProducerConnection] = []
        self.consumer_connections: list[ConsumerConnection] = []
        self._connections: dict[tuple[int, int, int], ConsumerConnection] = {}
        self._job = job
        self._hosts = hosts
        self._probes = probes
        self._faults = faults
        self._fail = fail
        self._send_costs = SendCosts(costs.send_ns_per_message, costs.send_ns_per_byte)
        self._channel_of: dict[bytes, int] = {
            channel.receiver_id: channel.index
            for subtask in job.subtasks
            for gate in subtask.inputs
            for channel in gate.channels
        }

    def connection_of(self, downstream: int, channel: InputChannelDescriptor) -> ConsumerConnection:
        """The connection for a channel to a TaskManager; opened if needed."""
        key = channel.task_manager, downstream, channel.connection_index
        if key not in self._connections:
            self._connections[key] = self._connect(*key)
        return self._connections[key]

    def _connect(self, upstream: int, downstream: int, index: int) -> ConsumerConnection:
        network, flow_control = self._job.network, self._job.flow_control
        producer = create_producer_connection(
            flow_control,
            self._hosts.partitions[upstream],
            self._probes[upstream],
            self._channel_of,
            partition_request_timeout_ns=network.partition_request_timeout_ns,
            segment_size_bytes=network.segment_size_bytes,
        )
        high_bytes = self.settings.high_water_bytes
        if high_bytes:
            producer.water_marks.set(-(-high_bytes // 2), high_bytes)
        consumer = create_consumer_connection(
            flow_control, f"tm-{upstream}", self._probes[downstream]
        )
        consumer.requests.policy = request_backoff_of(network)
        self.producer_connections.append(producer)
        self.consumer_connections.append(consumer)
        wrap = self._hosts.wrap
        ends = (
            self._create_end(wrap(producer, True), upstream, side=0),
            self._create_end(wrap(consumer, False), downstream, side=1),
        )
        ends[0].join(ends[1])
        self.links[upstream, downstream, index] = SimulatedLink(*ends)
        return consumer

    def _create_end(self, connection: Connection, index: int, *, side: int) -> LinkEnd:
        task_manager = self._hosts.task_managers[index]
        faults = self._faults.link_faults(len(self.links), side, origin_ns=self._job.start_ns)
        settings = self._settings_back if side else self.settings
        costs = SendCosts() if side else self._send_costs
        end = LinkEnd(connection, settings, costs, task_manager.wake, faults)
        end.clock = task_manager.clock
        end.fail = self._fail
        end.seed = self._job.seed
        task_manager.ends.append(end)
        return end
