# mypyc
"""AttemptChannels: the channels that the attempts of a TaskManager read, and their readers on other
TaskManagers: how they connect, which are open, which have failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from flinknet.core.consumer import ConsumerConnection, SingleInputGate
from flinknet.core.producer import ResultPartition
from flinknet.errors import PartitionConnectionError
from flinknet.job.descriptor import InputChannelDescriptor

from ..protocol import ConnectionID
from ..shuffle_environment import ShuffleEnvironment
from .attempt import Attempt
from .hosted_job import HostedJob
from .reports import UsedConnection


class AttemptChannels:
    """The channels of all attempts of one process."""

    def __init__(self, environment: ShuffleEnvironment) -> None:
        self._connections = environment.connections
        self._traces = environment.traces
        self._channel_of = environment.channel_of
        self._reader_names: dict[int, str] = {}
        self._deadline_ns: int | None = None

    def connect(
        self, addresses: Mapping[int, tuple[str, int]], channel: InputChannelDescriptor
    ) -> ConsumerConnection:
        """Return the shared client that requests a channel; the first request connects it."""
        address = addresses[channel.task_manager]
        connection_id = ConnectionID(channel.task_manager, address, channel.connection_index)
        client: ConsumerConnection = self._connections.create_client(connection_id)
        return client

    def expect(self, job: HostedJob, readers: Mapping[str, tuple[int, int]]) -> None:
        """Register the channels of a job that will be requested, so that its trace names them."""
        for receiver_id, (channel, task_manager) in readers.items():
            receiver = bytes.fromhex(receiver_id)
            self._channel_of[receiver] = channel
            self._reader_names[channel] = f"tm-{task_manager}"
            job.readers.append(receiver)
        self._traces.claim(job.trace, (channel for channel, _ in readers.values()))

    def forget(self, job: HostedJob) -> None:
        """Forget the channels of a job that is over, and the connections that ended with them."""
        for receiver in job.readers:
            self._reader_names.pop(self._channel_of.pop(receiver, -1), None)
        self._connections.forget_closed()

    def used(self, tasks: Iterable[Attempt]) -> tuple[UsedConnection, ...]:
        """The connections that the open channels of these tasks use, in order."""
        counts: Counter[tuple[int, int]] = Counter(
            self._connections.number_of(channel.connection)
            for each in tasks
            for gate in each.gates
            for channel in gate.remote_channels
            if channel.connection is not None
            if channel.error is None and not channel.is_released  # else it may be forgotten
        )
        return tuple(UsedConnection(*key, count) for key, count in sorted(counts.items()))

    def request(self, gates: Iterable[SingleInputGate], *, now_ns: int) -> None:
        """Request the partitions of these gates."""
        for gate in gates:
            gate.request_partitions(now_ns=now_ns)
            deadline_ns = gate.next_deadline_ns()
            if deadline_ns is not None:
                self._deadline_ns = min(deadline_ns, self._deadline_ns or deadline_ns)

    def next_deadline_ns(self) -> int | None:
        """When local channels request again a partition that was missing; None for never."""
        return self._deadline_ns

    def handle_deadline(self, gates: Iterable[SingleInputGate], *, now_ns: int) -> None:
        """Repeat the requests that are due.

        Args:
            gates: the gates of all attempts.
        """
        due: list[int] = []
        for gate in gates:
            gate.handle_deadline(now_ns=now_ns)
            deadline_ns = gate.next_deadline_ns()
            if deadline_ns is not None:
                due.append(deadline_ns)
        self._deadline_ns = min(due, default=None)

    def check(self, gates: Sequence[SingleInputGate]) -> None:
        """Raises: the first error that prevents the tasks behind these gates from starting."""
        self._connections.check_accepting()
        channels = [channel.error for gate in gates for channel in gate.channels]
        errors = [client.error for client in self._connections.clients] + channels
        # an error that names the partition first: its client's does not
        errors.sort(key=lambda error: not isinstance(error, PartitionConnectionError))
        for error in errors:
            if error is not None:
                raise error
        self.check_readers()

    def check_readers(self) -> None:
        """Raises: TransportError if a reader disconnected while its channels were open."""
        for accepted in self._connections.accepted:
            if accepted.connection.loss is not None:
                raise accepted.loss_error(self._reader_names)


def have_readers(partitions: Iterable[ResultPartition]) -> bool:
    return all(each.has_view for partition in partitions for each in partition.subpartitions)
