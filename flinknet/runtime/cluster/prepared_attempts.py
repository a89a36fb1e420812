# mypyc
"""PreparedAttempts: attempts that have no task yet: their gates wait for memory and then, with a
load, for the start of the run.

AttemptChannels: the channels that the attempts of a TaskManager read, and their readers on other
TaskManagers: how they connect, which are open, which have failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from flinknet.core.consumer import ConsumerConnection, RemoteInputChannel, SingleInputGate
from flinknet.core.producer import ResultPartition
from flinknet.core.wire.ids import ExecutionAttemptID
from flinknet.errors import PartitionConnectionError
from flinknet.job.descriptor import InputChannelDescriptor, TaskDeploymentDescriptor
from flinknet.job.gates import GateSetup, create_partitions

from ..clock import monotonic_ns
from ..protocol import ConnectionID
from ..shuffle_environment import ShuffleEnvironment
from .control_messages import Start, SubmitTask
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
    """Whether every subpartition has a reader."""
    return all(each.has_view for partition in partitions for each in partition.subpartitions)


@dataclass(frozen=True, slots=True)
class _Setup:
    """An attempt whose gates wait for memory that others will return."""

    job: HostedJob
    descriptor: TaskDeploymentDescriptor
    addresses: Mapping[int, tuple[str, int]]
    start: Start | None
    partitions: tuple[ResultPartition, ...]
    gates: GateSetup

    def cancel(self, cause: str) -> None:
        """Drop the attempt; readers of its partitions receive the cause."""
        self.gates.cancel()
        for partition in self.partitions:
            partition.fail(cause)


@dataclass(frozen=True, slots=True)
class OpenedAttempt:
    """An attempt that has everything its task needs.

    Attributes:
        start: the instants of its run; None: it starts with the load.
    """

    job: HostedJob
    descriptor: TaskDeploymentDescriptor
    start: Start | None
    partitions: tuple[ResultPartition, ...]
    gates: tuple[SingleInputGate, ...]

    def cancel(self, cause: str) -> None:
        """Drop the attempt; readers of its partitions receive the cause."""
        for partition in self.partitions:
            partition.fail(cause)
        for gate in self.gates:
            gate.close()


class PreparedAttempts:
    """The prepared attempts of one process.

    Args:
        check_producer: called with an attempt and its channel if the producer does not have the
            partition.
    """

    def __init__(
        self,
        environment: ShuffleEnvironment,
        channels: AttemptChannels,
        check_producer: Callable[[ExecutionAttemptID, RemoteInputChannel, int], None],
    ) -> None:
        self._environment = environment
        self._channels = channels
        self._check_producer = check_producer
        self._setups: list[_Setup] = []
        self._waiting: list[OpenedAttempt] = []
        self._unread: dict[ExecutionAttemptID, set[int]] = {}

    @property
    def has_setups(self) -> bool:
        """Whether there are attempts whose gates wait for memory."""
        return bool(self._setups)

    @property
    def has_waiting(self) -> bool:
        """Whether there are attempts that wait for the start of the run."""
        return bool(self._waiting)

    @property
    def gates(self) -> list[SingleInputGate]:
        """The gates of attempts that wait for the start of the run."""
        return [gate for each in self._waiting for gate in each.gates]

    @property
    def are_channels_open(self) -> bool:
        """Whether every channel that waiting attempts write has its reader."""
        return not self._setups and have_readers(
            partition for each in self._waiting for partition in each.partitions
        )

    def set_up(self, job: HostedJob, message: SubmitTask, *, now_ns: int) -> None:
        """Create the partitions of an attempt, and allocate memory for its gates as it is
        available.

        Raises: the error that prevents it.
        """
        descriptor, environment = message.task, self._environment
        own = [channel.index for gate in descriptor.inputs for channel in gate.channels]
        written = [channel for output in descriptor.outputs for channel in output.channels]
        environment.traces.claim(job.trace, (*own, *written))
        partitions = create_partitions(
            descriptor,
            job.network,
            environment.pool,
            environment.partitions,
            storage=job.storage,
        )
        try:
            gates = GateSetup(descriptor, job.network, environment.pool, now_ns=now_ns)
        except BaseException as error:
            for partition in partitions:
                partition.fail(error_text(error))
            raise
        if unread := {each.edge for each in descriptor.inputs if not each.is_consumable}:
            self._unread[descriptor.attempt_id] = unread
        self._setups.append(
            _Setup(job, descriptor, message.addresses, message.start, partitions, gates)
        )

    def advance(
        self, *, now_ns: int
    ) -> Iterator[tuple[ExecutionAttemptID, OpenedAttempt | BaseException]]:
        """Continue with attempts whose gates can have their memory now.

        Yields: each of them with its gates open, or its error.
        """
        setups, self._setups = self._setups, []
        for setup in setups:
            found: OpenedAttempt | BaseException
            try:
                if not setup.gates.is_complete(now_ns=now_ns):
                    self._setups.append(setup)
                    continue
                found = self._open(setup)
            except (Exception, SystemExit) as error:
                setup.cancel(error_text(error))
                found = error
            yield setup.descriptor.attempt_id, found

    def wait(self, opened: OpenedAttempt) -> None:
        """Let an attempt wait for the start of the run."""
        self._waiting.append(opened)

    def begin(self) -> list[OpenedAttempt]:
        """Return the attempts that waited for the start of the run."""
        begun, self._waiting = self._waiting, []
        return begun

    def note_readable(self, attempt_id: ExecutionAttemptID, edges: Iterable[int]) -> None:
        """Note that these input edges of an attempt are readable."""
        self._unread.get(attempt_id, set()).difference_update(edges)

    def cancel(self, attempt_id: ExecutionAttemptID) -> bool:
        """Cancel an attempt without a task. Returns: whether it was here."""
        self.end(attempt_id)
        setups = [each for each in self._setups if each.descriptor.attempt_id == attempt_id]
        for setup in setups:
            self._setups.remove(setup)
            setup.cancel("it was canceled")
        waiting = [each for each in self._waiting if each.descriptor.attempt_id == attempt_id]
        for opened in waiting:
            self._waiting.remove(opened)
            opened.cancel("it was canceled")
        return bool(setups or waiting)

    def end(self, attempt_id: ExecutionAttemptID) -> None:
        """Forget an attempt that is over, with or without a task."""
        self._unread.pop(attempt_id, None)

    def forget(self, job: HostedJob) -> None:
        """Drop the attempts of a job that is over."""
        for setup in [each for each in self._setups if each.job is job]:
            self._setups.remove(setup)
            setup.cancel("its job is over")
        for opened in [each for each in self._waiting if each.job is job]:
            self._waiting.remove(opened)
            opened.cancel("its job is over")
        for attempt_id in [each for each in self._unread if job.owns(each)]:
            del self._unread[attempt_id]

    def release(self, cause: str) -> None:
        """Drop all attempts when the process ends."""
        for setup in self._setups:
            setup.cancel(cause)
        for opened in self._waiting:
            opened.cancel(cause)

    def _open(self, setup: _Setup) -> OpenedAttempt:
        """Open the gates of an attempt; each requests its readable partitions once the recovered
        state of its channels has been read.
        """
        environment, descriptor = self._environment, setup.descriptor
        gates = setup.gates.gates(
            partitions=environment.partitions,
            connect=partial(self._channels.connect, setup.addresses),
            probe=environment.recorder,
        )
        for channel in [each for gate in gates for each in gate.remote_channels]:
            channel.check_producer = partial(self._check_producer, descriptor.attempt_id)
        for each, gate in zip(descriptor.inputs, gates, strict=True):
            if setup.start is not None:  # its task reads the recovered state, then requests
                gate.finish_read_recovered_state()
            gate.state_listener = partial(self._request, descriptor.attempt_id, each.edge)
            if gate.is_state_consumed:
                self._request(descriptor.attempt_id, each.edge, gate)
        return OpenedAttempt(setup.job, descriptor, setup.start, setup.partitions, gates)

    def _request(self, attempt_id: ExecutionAttemptID, edge: int, gate: SingleInputGate) -> None:
        if edge not in self._unread.get(attempt_id, ()):
            self._channels.request([gate], now_ns=monotonic_ns())
