# mypyc
"""Attempt: an attempt at a subtask, which the event loop steps once it has a task. An exception of
the task ends the attempt, not the process.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from flinknet.config import NetworkConfig
from flinknet.core.consumer import ConsumerConnection, RemoteInputChannel, SingleInputGate
from flinknet.core.producer import BlockingStorage, ResultPartition
from flinknet.core.wire.ids import ExecutionAttemptID
from flinknet.errors import FlinknetError, GateClosedError, PartitionError, TransportError
from flinknet.graph.execution_graph import ExecutionState
from flinknet.job.context import details_of
from flinknet.job.debloating import BufferDebloating, debloated_gates
from flinknet.job.descriptor import InputChannelDescriptor
from flinknet.job.gates import GateSetup, create_partitions
from flinknet.job.stream_task import StreamTask
from flinknet.job.task_metrics import TaskMetrics
from flinknet.job.times import TaskTimes

from ..connection_manager import ConnectionID
from ..shuffle_environment import ShuffleEnvironment
from .control_messages import SubmitTask, TaskStateChanged
from .task_io import TextReader

_CONSEQUENCES = (PartitionError, TransportError, GateClosedError)


class Attempt:
    """One attempt, from its submission to its end (Flink: Task). Its gates wait for memory that
    others will return and then, with a load, for the start of the run; from then on it has a task.

    Attributes:
        gates: empty until `is_open`.
        unread: input edges that are not readable yet.
        task, metrics: from `begin` on.
        failure: the report of its failure; `details`: traceback and record of a failed function.
        is_reported_running: whether the JobManager knows that its operators are open.

    Raises: the error that prevents it.
    """

    task: StreamTask
    metrics: TaskMetrics

    def __init__(
        self,
        message: SubmitTask,
        network: NetworkConfig,
        storage: BlockingStorage,
        environment: ShuffleEnvironment,
        *,
        now_ns: int,
    ) -> None:
        self.descriptor = descriptor = message.task
        self.attempt_id = descriptor.attempt_id
        self.start = message.start
        self.gates: tuple[SingleInputGate, ...] = ()
        self.is_open = False
        self.unread = {each.edge for each in descriptor.inputs if not each.is_consumable}
        self.debloating: BufferDebloating | None = None
        self.failure: TaskStateChanged | None = None
        self.details = ""
        self.is_reported_running = False
        self._addresses = message.addresses
        self._environment = environment
        self._network = network
        self._readers: tuple[TextReader, ...] = ()
        self._waits_for_readers = self._is_begun = self._is_canceled = False
        self.partitions = tuple(
            create_partitions(
                descriptor, network, environment.pool, environment.partitions, storage=storage
            )
        )
        try:
            self._setup = GateSetup(descriptor, network, environment.pool, now_ns=now_ns)
        except BaseException as error:
            for partition in self.partitions:
                partition.fail(error_text(error))
            raise

    def try_open(
        self,
        request: Callable[[SingleInputGate], None],
        check_producer: Callable[[ExecutionAttemptID, RemoteInputChannel, int], None],
        *,
        now_ns: int,
    ) -> bool:
        """Open its gates if they can have their memory now; each makes requests for its readable
        partitions once the recovered state of its channels has been read. `check_producer` is
        called with an attempt and its channel if the producer does not have the partition. Returns:
        whether they are open. Raises: the error that prevents it.
        """
        if not self._setup.is_complete(now_ns=now_ns):
            return False
        self.gates = self._setup.gates(
            partitions=self._environment.partitions,
            connect=self._connect,
            probe=self._environment.recorder,
        )
        self.is_open = True
        for channel in [each for gate in self.gates for each in gate.remote_channels]:
            channel.check_producer = partial(check_producer, self.attempt_id)
        for each, gate in zip(self.descriptor.inputs, self.gates, strict=True):
            if self.start is not None:  # its task reads the recovered state, then requests
                gate.finish_read_recovered_state()
            gate.state_listener = partial(self._request, request, each.edge)
            if gate.is_state_consumed:
                self._request(request, each.edge, gate)
        return True

    def _connect(self, channel: InputChannelDescriptor) -> ConsumerConnection:
        """Return the shared client that requests a channel; the first request connects it."""
        at = channel.producer_task_manager
        return self._environment.connections.create_client(
            ConnectionID(at, self._addresses[at], channel.connection_index)
        )

    def _request(
        self, request: Callable[[SingleInputGate], None], edge: int, gate: SingleInputGate
    ) -> None:
        if edge not in self.unread:
            request(gate)

    def begin(
        self,
        task: StreamTask,
        readers: Sequence[TextReader],
        *,
        start_ns: int,
        waits_for_readers: bool,
    ) -> None:
        """Begin to run a task between its gates and partitions, with the readers of its text; it
        ends only when its pipelined partitions have been read, if it `waits_for_readers`.
        """
        self.task = task
        self._is_begun = True
        self._readers = tuple(readers)
        self._waits_for_readers = waits_for_readers
        network = self._network
        debloated = debloated_gates([task], network, now_ns=start_ns)
        if debloated:
            self.debloating = BufferDebloating(
                debloated, network.debloating_period_ns, start_ns=start_ns
            )
        task.times.start_window(now_ns=start_ns)
        self.metrics = TaskMetrics(
            task, now_ns=start_ns, is_detailed=network.detailed_metrics, debloating=debloated
        )

    @property
    def has_ended(self) -> bool:
        if self.failure is not None or not self.task.is_finished:
            return self.failure is not None
        pipelined = (x for x in self.partitions if x.partition_type.can_be_pipelined_consumed)
        return not self._waits_for_readers or all(each.is_consumed for each in pipelined)

    @property
    def has_unreported_change(self) -> bool:
        """Whether it has opened or ended and the JobManager has not been informed."""
        return self.has_ended or (not self.is_reported_running and self.task.is_open)

    @property
    def is_blocked(self) -> bool:
        return self.failure is None and self.task.is_blocked

    @property
    def is_ready(self) -> bool:
        return self.failure is None and self.task.is_ready

    @property
    def times(self) -> TaskTimes:
        return self.task.times

    def rest(self, *, now_ns: int) -> None:
        if self.failure is None:
            self.task.rest(now_ns=now_ns)

    def step(self, *, now_ns: int) -> int | None:
        """Do a bounded piece of work; see StreamTask. Errors of the task end the attempt."""
        if self.failure is not None:
            return None
        try:
            if self.debloating is not None:
                self.debloating.handle_deadline(now_ns=now_ns)
            for reader in self._readers:
                reader.pump()
            next_ns = self.task.step(now_ns=now_ns)
            for reader in self._readers:
                if reader.is_waiting:
                    return now_ns
            return next_ns
        except (Exception, SystemExit) as error:
            self.fail(error)
            return None

    def fail(self, error: BaseException) -> None:
        """End the attempt with an error of its own or of its input."""
        self.details = details_of(error)
        self.failure = failure_of(self.attempt_id, error, self.task.name)

    def check_channels(self) -> None:
        """Fail if a channel has failed, even while nothing is read."""
        for gate in self.gates:
            for channel in gate.channels:
                if channel.error is not None and self.failure is None:
                    self.fail(channel.error)

    def release(self, cause: str | None) -> None:
        """Release everything but what a running function still uses; see `try_cancel`. The readers
        of its partitions receive the cause; without one it finished, and they can still be read.
        """
        for reader in self._readers:
            reader.close()
        if not self.is_open:
            self._setup.cancel()
        if cause is not None:
            if self._is_begun:
                self.try_cancel()
            for partition in self.partitions:
                partition.fail(cause)
        for gate in self.gates:
            gate.close()

    def try_cancel(self) -> bool:
        """Cancel the task. Returns: whether no function of it runs; else call again later."""
        if not self._is_canceled:
            try:
                self.task.cancel()
                self._is_canceled = not self.task.is_handed_over
            except Exception:  # a task that failed may fail at this, too
                self._is_canceled = True
        return self._is_canceled

    def next_deadline_ns(self) -> int | None:
        """When it needs a step even if no data moves, to debloat its gates; None for never."""
        return None if self.debloating is None else self.debloating.next_deadline_ns()


def failure_of(
    attempt_id: ExecutionAttemptID, error: BaseException, task_name: str = ""
) -> TaskStateChanged:
    """The report of a failure, without the name of the task if it was running."""
    return TaskStateChanged(
        attempt_id,
        ExecutionState.FAILED,
        error_text(error).removeprefix(f"{task_name}: "),
        bool(task_name) and isinstance(error, _CONSEQUENCES),
        type(error).__name__ if isinstance(error, FlinknetError) else "",
    )


def error_text(error: BaseException) -> str:
    """An error as one line; a bug with the place where it happened."""
    if isinstance(error, FlinknetError):
        return str(error)
    if isinstance(error, SystemExit):
        return "the program ends itself (SystemExit); let its functions return"
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" ({frame.filename}:{frame.lineno})" for frame in last)
    return f"{type(error).__name__}: {error}{where}"


def have_readers(partitions: Iterable[ResultPartition]) -> bool:
    return all(each.has_view for partition in partitions for each in partition.subpartitions)
