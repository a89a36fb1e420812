# mypyc
"""ChainRunner: passes batches of records to the operators of a chain, a portion at a time. An
exception of a program's function becomes one line with operator, record and source line.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from flinknet.core.wire.records import InternalWatermark, Watermark, WatermarkStatus
from flinknet.errors import FlinknetError, TaskFailedError
from flinknet.graph.operator_chain import OperatorChain
from flinknet.graph.operators import StreamOperator, as_list
from flinknet.graph.user_functions import NoSuchCallError, shown
from flinknet.graph.watermarks import MAX_WATERMARK_MS, MIN_WATERMARK_MS, TaskEvent

from .channel_input import ElementBatch, RecordBatch
from .context import ProcessingContext, record_text, task_failed
from .elements import NO_TIMESTAMP
from .event_time import Passed, Timer
from .task_chain import NEVER_NS, PORTION_RECORDS, LatencyMeter, TaskChain
from .task_operators import LatencyOperator

GENERATED = -1
"""Input number of records that a source of the chain generated."""

PORTION_NS = 1_000_000
"""Work done before its output is written."""


class ChainRunner(TaskChain):
    """Passes values to the operators of a program (Flink: OperatorChain's main input, called by the
    mailbox loop's default action).

    Args:
        names: operator names, by the operator's id().
        batched: ids of operators that take batches; all operators chained after them do, too.
    """

    def __init__(
        self,
        task: str,
        chain: OperatorChain,
        names: Mapping[int, str],
        batched: frozenset[str],
        context: ProcessingContext,
        *,
        sources: Sequence[str] = (),
        timers: Sequence[Timer] = (),
    ) -> None:
        super().__init__()
        self._task = task
        self._chain = chain
        self._names = names
        self._batched = batched
        self._context = context
        self._sources = tuple(sources)
        self._timers = tuple(timers)
        self._watermarks_ms: dict[tuple[str, int], int] = {}  # the last of each input
        self._set_timer()
        self.sent_events = chain.sent_events

    @property
    def listens_to(self) -> frozenset[str]:
        return self._chain.listens_to

    def add_task_event(self, event: TaskEvent) -> None:
        self.batches.append(event)

    @property
    def latency_meters(self) -> Sequence[LatencyMeter]:
        operators = self._chain.operators.values()
        return [each.meter for each in operators if isinstance(each, LatencyOperator)]

    def open(self) -> None:
        self._guarded(self._chain.open)

    @property
    def current_watermark_ms(self) -> int:
        return min(self._watermarks_ms.values(), default=MIN_WATERMARK_MS)

    def finish(self) -> None:
        """Emit the final watermark of the sources, and what operators still hold (Flink:
        StreamTask.endData)."""
        for operator_id in self._sources:
            self._guarded(self._chain.entry(operator_id)[1].emit_watermark, MAX_WATERMARK_MS)
        self._guarded(self._chain.finish)

    def fire_timers(self, now_ns: int) -> None:
        context = self._context
        context.now_ns, context.work_ns = now_ns, 0
        context.instant_ns = context.timestamp_ms = NO_TIMESTAMP
        for timer in self._timers:
            self._guarded(timer.fire, now_ns)
        self._set_timer()

    def close(self) -> None:
        self._guarded(self._chain.close)

    def cancel(self) -> None:
        with suppress(Exception, SystemExit):
            self._guarded(self._chain.close)

    def add_generated(self, operator_id: str, values: Any, instants: Any) -> None:
        self.batches.append(RecordBatch(operator_id, GENERATED, values, instants))

    def process_portion(self, began_ns: int) -> None:
        context, batch = self._context, self.batches[0]
        context.now_ns, context.work_ns = began_ns, 0
        if isinstance(batch, ElementBatch):
            self.batches.popleft()
            self._guarded(self._process_element, batch)
            return
        if isinstance(batch, TaskEvent):
            self._guarded(self._chain.receive_task_event, batch)
            self.batches.popleft()
            return
        count = len(batch.instants)
        if batch.operator_id in self._batched:
            context.instants = batch.instants
            context.instant_ns = int(batch.instants.min())
            if batch.timestamps is not None:
                context.timestamps = batch.timestamps
                context.timestamp_ms = int(batch.timestamps.min())
            self._guarded(self._process_batch, batch)
            context.instants = context.timestamps = None
            context.timestamp_ms = NO_TIMESTAMP
            self.processed_records += count
            self.batches.popleft()
            return
        if not isinstance(batch.values, list):
            batch.values = as_list(batch.values)
        self._guarded(self._process_one_by_one, batch)
        if batch.position == count:
            self.batches.popleft()

    def _process_batch(self, batch: RecordBatch) -> None:
        operator, output = self._chain.entry(batch.operator_id)
        if batch.input_number == GENERATED:
            output.collect_batch(batch.values)
        else:
            operator.process_batch(batch.values, output, batch.input_number)

    def _process_one_by_one(self, batch: RecordBatch) -> None:
        context, values, number = self._context, batch.values, batch.input_number
        operator, output = self._chain.entry(batch.operator_id)
        is_generated, delay_ns = number == GENERATED, operator.delay_ns
        process, collect = operator.process, output.collect
        instants = batch.instants.tolist()
        timestamps = None if batch.timestamps is None else batch.timestamps.tolist()
        context.timestamp_ms = NO_TIMESTAMP
        for position in range(batch.position, len(values)):
            context.instant_ns = instants[position]
            if timestamps is not None:
                context.timestamp_ms = timestamps[position]
            self.processed_records += 1
            batch.position = position + 1
            if is_generated:
                context.work_ns += delay_ns
                collect(values[position])
            else:
                process(values[position], output, number)
            if context.work_ns >= PORTION_NS or context.pending_records >= PORTION_RECORDS:
                return
            if self.is_recalled:
                return

    def _process_element(self, batch: ElementBatch) -> None:
        element, number = batch.element, batch.input_number
        operator, output = self._chain.entry(batch.operator_id)
        passed: Sequence[Passed] = ()
        self._context.instant_ns = self._context.timestamp_ms = NO_TIMESTAMP
        if isinstance(element, Watermark | InternalWatermark):
            passed = batch.valve.input_watermark(element.timestamp_ms, batch.channel)
        elif isinstance(element, WatermarkStatus):
            is_idle = element.status == WatermarkStatus.IDLE
            passed = batch.valve.input_watermark_status(is_idle, batch.channel)
        for each in passed:
            if isinstance(each, Watermark):
                self._watermarks_ms[batch.operator_id, number] = each.timestamp_ms
                operator.process_watermark(each.timestamp_ms, output, number)
            else:
                is_idle = each.status == WatermarkStatus.IDLE
                operator.process_watermark_status(is_idle, output, number)

    def _set_timer(self) -> None:
        self.timer_ns = min((each.next_ns for each in self._timers), default=NEVER_NS)

    def _guarded(self, call: Callable[..., None], *arguments: Any) -> None:
        try:
            call(*arguments)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # asyncio's CancelledError, too, ends only the task
            if isinstance(error, FlinknetError) and not isinstance(error, NoSuchCallError):
                raise
            is_batch = call == self._process_batch
            raise self._failure(error, is_batch, *arguments) from error

    def _failure(self, error: BaseException, is_batch: bool, *arguments: Any) -> TaskFailedError:
        """The error for an exception of an operator, with the task's record and its value."""
        name, value, record = self._chain.config.operator_name, None, None
        for frame, _ in traceback.walk_tb(error.__traceback__):
            found = frame.f_locals.get("self")
            if isinstance(found, StreamOperator) and id(found) in self._names:
                name, value = self._names[id(found)], frame.f_locals.get("value")
        text = f"{self._task}: {name} failed"
        taken = arguments[0] if arguments else None
        if isinstance(taken, TaskEvent):
            text += f" at the event {taken.class_name}"
        elif isinstance(taken, RecordBatch) and is_batch:
            first, record = self.processed_records + 1, taken.values
            text += f" at records {first} to {first + len(taken.instants) - 1}"
        elif isinstance(taken, RecordBatch):
            record = taken.values[taken.position - 1]
            text += f" at its {record_text(self.processed_records, record)}"
            if value is not None and value is not record:
                text += f", which reached {name} as {shown(value)}"
        return task_failed(text, error, record if value is None else value)
