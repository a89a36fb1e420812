# mypyc
"""RunningTask: an attempt on this TaskManager, as the event loop steps it: what a task raises ends
the attempt, not the process (Flink: Task).
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence

from flinknet.core.producer import ResultPartition
from flinknet.errors import (
    FlinknetError,
    GateClosedError,
    PartitionError,
    TransportError,
)
from flinknet.job.debloating import BufferDebloating
from flinknet.job.descriptor import TaskDeploymentDescriptor
from flinknet.job.stream_task import StreamTask
from flinknet.job.task_metrics import Metrics, TaskMetrics
from flinknet.job.times import TaskTimes

from .task_io import TextReader

_CONSEQUENCES = (PartitionError, TransportError, GateClosedError)


class RunningTask:
    """One attempt.

    Args:
        partitions: that it writes.
        readers: that bring it text.
        debloating: of its gates; None where that is off, or there are none.
        is_detailed: see TaskMetrics.
        waits_for_readers: it has not ended before what it wrote for others to read meanwhile was
            read.

    Attributes:
        error: why it failed, None while it has not; `kind`, the name of that error, empty for one
            that is not flinknet's; `is_consequence` where another task failed first.
        is_told_running: whether the JobManager knows that its operators are open.
    """

    def __init__(
        self,
        task: StreamTask,
        descriptor: TaskDeploymentDescriptor,
        partitions: Sequence[ResultPartition],
        readers: Sequence[TextReader],
        *,
        start_ns: int,
        debloating: BufferDebloating | None = None,
        is_detailed: bool = False,
        waits_for_readers: bool = False,
    ) -> None:
        self.task = task
        self.descriptor = descriptor
        self.attempt_id = descriptor.attempt_id
        self.partitions = tuple(partitions)
        self.error: str | None = None
        self.kind = ""
        self.is_consequence = False
        self.debloating = debloating
        self._readers = tuple(readers)
        self._waits_for_readers = waits_for_readers
        self.is_told_running = False
        self._has_let_go = False
        task.times.start_window(now_ns=start_ns)
        self._metrics = TaskMetrics(
            task,
            now_ns=start_ns,
            is_detailed=is_detailed,
            debloating=() if debloating is None else debloating.gates,
        )

    @property
    def has_ended(self) -> bool:
        """Whether it has finished or failed."""
        if self.error is not None:
            return True
        if not self.task.is_finished:
            return False
        return not self._waits_for_readers or all(
            each.is_consumed
            for each in self.partitions
            if each.partition_type.can_be_pipelined_consumed
        )

    @property
    def has_news(self) -> bool:
        """Whether it has ended, or begun to run, which nobody was told."""
        return self.has_ended or (not self.is_told_running and self.task.is_open)

    @property
    def is_blocked(self) -> bool:
        """Whether it waits for buffers that sending gives back."""
        return self.error is None and self.task.is_blocked

    @property
    def is_ready(self) -> bool:
        """Whether a step would do something now that another task of the turn made possible."""
        return self.error is None and self.task.is_ready

    @property
    def times(self) -> TaskTimes:
        """How it spends its time."""
        return self.task.times

    @property
    def wants_text(self) -> bool:
        """Whether there is text of a file to be brought at once."""
        for reader in self._readers:  # noqa: SIM110 - in each step; a generator takes longer
            if reader.is_waiting:
                return True
        return False

    def rest(self, *, now_ns: int) -> None:
        """There is nothing to step it for at once."""
        if self.error is None:
            self.task.rest(now_ns=now_ns)

    def step(self, *, now_ns: int) -> int | None:
        """Do a bounded piece of work; see StreamTask. Never raises what the task raises."""
        if self.error is not None:
            return None
        try:
            if self.debloating is not None:
                self.debloating.handle_deadline(now_ns=now_ns)
            for reader in self._readers:
                reader.pump()
            next_ns = self.task.step(now_ns=now_ns)
            return now_ns if self.wants_text else next_ns
        except (Exception, SystemExit) as error:
            self.fail(error)
            return None

    def fail(self, error: BaseException) -> None:
        """The attempt is over, for an error of its own or of what it reads."""
        self.is_consequence = isinstance(error, _CONSEQUENCES)
        self.kind = type(error).__name__ if isinstance(error, FlinknetError) else ""
        self.error = told(error).removeprefix(f"{self.task.name}: ")  # who tells it, says of whom

    def check_channels(self) -> None:
        """Fail for a channel that has failed, also while nothing is read."""
        for gate in self.task.gates:
            for channel in gate.channels:
                if channel.error is not None and self.error is None:
                    self.fail(channel.error)

    def release(self, cause: str | None) -> None:
        """Let go of everything but what a function that has not returned works on; see `let_go`.

        Args:
            cause: why it ended early, which readers of its partitions are told; None: it finished,
                and what it wrote can still be read.
        """
        for reader in self._readers:
            reader.close()
        if cause is not None:
            self.let_go()
            for partition in self.partitions:
                partition.fail(cause)
        for gate in self.task.gates:
            gate.close()

    def let_go(self) -> bool:
        """Cancel what is left of a task that ends early. Returns: whether nothing of it is in work
        any more; if not, to be called again.
        """
        if not self._has_let_go:
            try:
                self.task.cancel()
                self._has_let_go = not self.task.is_handed_over
            except Exception:  # a task that failed may fail at this, too
                self._has_let_go = True
        return self._has_let_go

    def next_deadline_ns(self) -> int | None:
        """When it wants to be stepped even if nothing moves, for its gates to be debloated."""
        return None if self.debloating is None else self.debloating.next_deadline_ns()

    def start_window(self, *, now_ns: int) -> None:
        """The measured part begins."""
        self._metrics.start_window(now_ns=now_ns)

    def metrics(self, *, now_ns: int) -> Metrics:
        """Its metrics under Flink's names."""
        return self._metrics.sample(now_ns=now_ns)

    def final_metrics(self, *, now_ns: int, is_drained: bool) -> Metrics:
        """The same at the end of the measured part; see TaskMetrics."""
        return self._metrics.sample_end(now_ns=now_ns, is_drained=is_drained)


def told(error: BaseException) -> str:
    """An error as one line; that of a bug with the place where it happened."""
    if isinstance(error, FlinknetError):
        return str(error)
    if isinstance(error, SystemExit):
        return "the program ends itself (SystemExit); let its functions return"
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" ({frame.filename}:{frame.lineno})" for frame in last)
    return f"{type(error).__name__}: {error}{where}"
