# mypyc
"""PreparedAttempt: an attempt without a task. Its gates wait for memory and then, with a load, for
the start of the run.

AttemptChannels: the channels that the attempts of a TaskManager read, and their readers on other
TaskManagers: how they connect, which are open, which have failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from flinknet.core.consumer import ConsumerConnection, RemoteInputChannel, SingleInputGate
from flinknet.core.producer import ResultPartition
from flinknet.core.wire.ids import ExecutionAttemptID
from flinknet.errors import PartitionConnectionError
from flinknet.job.descriptor import InputChannelDescriptor
from flinknet.job.gates import GateSetup, create_partitions

from ..clock import monotonic_ns
from ..protocol import ConnectionID
from ..shuffle_environment import ShuffleEnvironment
from .control_messages import SubmitTask
from .hosted_job import HostedJob
from .reports import UsedConnection
from .running_task import RunningTask, error_text


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

    def used(self, tasks: Iterable[RunningTask]) -> tuple[UsedConnection, ...]:
        """The connections that the open channels of these tasks use, in order."""
        counts: Counter[tuple[int, int]] = Counter(
            self._connections.number_of(channel.connection)
            for each in tasks
            for gate in each.task.gates
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


class PreparedAttempt:
    """An attempt whose partitions exist, and whose gates wait for memory that others will return.

    Attributes:
        start: the instants of its run; None: it starts with the load.
        gates: open, with its channels; empty before that.
        unread: input edges that are not readable yet; also while its task runs.

    Raises: the error that prevents it.
    """

    def __init__(
        self,
        job: HostedJob,
        message: SubmitTask,
        environment: ShuffleEnvironment,
        channels: AttemptChannels,
        *,
        now_ns: int,
    ) -> None:
        self.job = job
        self.descriptor = descriptor = message.task
        self.attempt_id = descriptor.attempt_id
        self.start = message.start
        self.gates: tuple[SingleInputGate, ...] = ()
        self.is_open = False
        self.unread = {each.edge for each in descriptor.inputs if not each.is_consumable}
        self._addresses = message.addresses
        self._environment = environment
        self._channels = channels
        own = [channel.index for gate in descriptor.inputs for channel in gate.channels]
        written = [channel for output in descriptor.outputs for channel in output.channels]
        environment.traces.claim(job.trace, (*own, *written))
        self.partitions = create_partitions(
            descriptor, job.network, environment.pool, environment.partitions, storage=job.storage
        )
        try:
            self._setup = GateSetup(descriptor, job.network, environment.pool, now_ns=now_ns)
        except BaseException as error:
            for partition in self.partitions:
                partition.fail(error_text(error))
            raise

    def try_open(
        self,
        check_producer: Callable[[ExecutionAttemptID, RemoteInputChannel, int], None],
        *,
        now_ns: int,
    ) -> bool:
        """Open its gates if they can have their memory now; each requests its readable partitions
        once the recovered state of its channels has been read.

        Args:
            check_producer: called with an attempt and its channel if the producer does not have the
                partition.

        Returns: whether they are open. Raises: the error that prevents it.
        """
        if not self._setup.is_complete(now_ns=now_ns):
            return False
        self.gates = self._setup.gates(
            partitions=self._environment.partitions,
            connect=partial(self._channels.connect, self._addresses),
            probe=self._environment.recorder,
        )
        self.is_open = True
        for channel in [each for gate in self.gates for each in gate.remote_channels]:
            channel.check_producer = partial(check_producer, self.attempt_id)
        for each, gate in zip(self.descriptor.inputs, self.gates, strict=True):
            if self.start is not None:  # its task reads the recovered state, then requests
                gate.finish_read_recovered_state()
            gate.state_listener = partial(self._request, each.edge)
            if gate.is_state_consumed:
                self._request(each.edge, gate)
        return True

    def cancel(self, cause: str) -> None:
        """Drop the attempt; readers of its partitions receive the cause."""
        if not self.is_open:
            self._setup.cancel()
        for partition in self.partitions:
            partition.fail(cause)
        for gate in self.gates:
            gate.close()

    def _request(self, edge: int, gate: SingleInputGate) -> None:
        if edge not in self.unread:
            self._channels.request([gate], now_ns=monotonic_ns())
