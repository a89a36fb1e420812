# mypyc
"""ChainRunner: hands batches of records to the operators of a chain, a portion at a time; what a
function of the program raises becomes one line that names the operator, the record and the place.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from flinknet.errors import FlinknetError, TaskFailedError
from flinknet.graph.operator_chain import OperatorChain
from flinknet.graph.operators import StreamOperator, TaskEvent, as_list

from .channel_input import RecordBatch
from .context import ProcessingContext
from .latency_meter import LatencyMeter
from .operators import delay_of, plain
from .sinks import LatencyOperator
from .task_chain import PORTION_RECORDS, TaskChain

MADE = -1
"""In place of an input number: the records were made by the operator, a source."""

PORTION_NS = 1_000_000
"""Work that is done before what it put out is written."""


class ChainRunner(TaskChain):
    """Hands values to the operators of a program (Flink: OperatorChain's main input, called by the
    mailbox loop's default action).

    Args:
        task: its name, for error messages.
        names: of the operators, by the operator's id().
        batched: ids of operators that take batches, as all that is chained behind them does.
    """

    def __init__(
        self,
        task: str,
        chain: OperatorChain,
        names: Mapping[int, str],
        batched: frozenset[str],
        context: ProcessingContext,
    ) -> None:
        super().__init__()
        self._task = task
        self._chain = chain
        self._names = names
        self._batched = batched
        self._context = context
        self.sent_events = chain.sent_events

    @property
    def listens_to(self) -> frozenset[str]:
        """What the operators listen to."""
        return self._chain.listens_to

    def add_task_event(self, event: TaskEvent) -> None:
        """Take an event, behind the records that were taken before it."""
        self.batches.append(event)

    @property
    def latency_meters(self) -> Sequence[LatencyMeter]:
        """Those of the sinks of the chain."""
        operators = plain(list(self._chain.operators.values()))
        return [each.meter for each in operators if isinstance(each, LatencyOperator)]

    def open(self) -> None:
        """Open the operators. Raises: TaskFailedError."""
        self._guarded(self._chain.open)

    def finish(self) -> None:
        """There will be no more records: operators tell what they kept. Raises: TaskFailedError."""
        self._guarded(self._chain.finish)

    def close(self) -> None:
        """Close the operators. Raises: TaskFailedError."""
        self._guarded(self._chain.close)

    def cancel(self) -> None:
        """Close the operators; what counts is why the task was cancelled."""
        with suppress(Exception, SystemExit):
            self._chain.close()

    def add_made(self, operator_id: str, values: Any, instants: Any) -> None:
        """Take records that a source of the chain has made."""
        self.batches.append(RecordBatch(operator_id, MADE, values, instants))

    def process_portion(self, began_ns: int) -> None:
        """Hand records of the first batch to their operator, until a portion is done.

        Args:
            began_ns: when the task begins with it.

        Raises: TaskFailedError.
        """
        context, batch = self._context, self.batches[0]
        context.now_ns, context.work_ns = began_ns, 0
        if isinstance(batch, TaskEvent):
            self._guarded(self._chain.receive_task_event, batch)
            self.batches.popleft()
            return
        count = len(batch.instants)
        if batch.operator_id in self._batched:
            context.instants = batch.instants
            context.instant_ns = int(batch.instants.min())
            self._guarded(self._process_batch, batch)
            context.instants = None
            self.processed_records += count
            self.batches.popleft()
            return
        if not isinstance(batch.values, list):
            batch.values = as_list(batch.values)
        self._guarded(self._process_one_by_one, batch)
        if batch.position == count:
            self.batches.popleft()

    def _process_batch(self, batch: RecordBatch) -> None:
        if batch.input_number == MADE:
            self._chain.emit_batch(batch.values, batch.operator_id)
        else:
            self._chain.process_batch(batch.values, batch.operator_id, batch.input_number)

    def _process_one_by_one(self, batch: RecordBatch) -> None:
        context, values, number = self._context, batch.values, batch.input_number
        operator, output = self._chain.entry(batch.operator_id)
        is_made, delay_ns = number == MADE, delay_of(operator)
        process, collect = operator.process, output.collect
        instants = batch.instants.tolist()
        for position in range(batch.position, len(values)):
            context.instant_ns = instants[position]
            self.processed_records += 1
            batch.position = position + 1
            if is_made:
                context.work_ns += delay_ns
                collect(values[position])
            else:
                process(values[position], output, number)
            if context.work_ns >= PORTION_NS or context.pending_records >= PORTION_RECORDS:
                return
            if self.is_asked_back:
                return

    def _guarded(self, call: Callable[..., None], *arguments: RecordBatch | TaskEvent) -> None:
        """Call into the operators."""
        try:
            call(*arguments)
        except FlinknetError:
            raise
        except Exception as error:
            where = self._place(error, call == self._process_batch, *arguments)
            raise TaskFailedError(f"{where}: {type(error).__name__}: {error}") from error

    def _place(self, error: Exception, is_batch: bool, *arguments: RecordBatch | TaskEvent) -> str:
        """Which operator raised, at which record of the task, and where in the program."""
        operator = None
        for frame, _ in traceback.walk_tb(error.__traceback__):
            found = frame.f_locals.get("self")
            if isinstance(found, StreamOperator) and id(found) in self._names:
                operator = self._names[id(found)]
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{self._task}: {operator or self._chain.config.operator_name} failed"
        taken = arguments[0] if arguments else None
        if isinstance(taken, TaskEvent):
            text += f" at the event {taken.class_name}"
        elif taken is not None and is_batch:
            first = self.processed_records + 1
            text += f" at records {first} to {first + len(taken.instants) - 1}"
        elif taken is not None:
            text += f" at record {self.processed_records}"
        return f"{text} ({Path(last.filename).name}:{last.lineno})"
