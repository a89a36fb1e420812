"""OperatorChain: the operators of one task, connected by plain calls (Flink: OperatorChain)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from flinknet.errors import ConfigError

from .job_graph import StreamConfig
from .operators import OperatorFactory, StreamOperator, as_list
from .watermarks import Output, OutputTag, TaskEvent

Emit = Callable[[Any], None]


class OperatorChain:
    """Operators built from the configuration of a vertex. Records pass from operator to operator
    without being serialised, and leave through one writer per output of the vertex. The task takes
    and sends `sent_events`, to the upstream tasks.
    """

    def __init__(
        self,
        config: StreamConfig,
        factories: Mapping[str, OperatorFactory],
        writers: Mapping[str, Emit],
        *,
        create: Callable[[OperatorFactory, StreamConfig], StreamOperator],
    ) -> None:
        """Build the chain, its end first.

        Args:
            config: configuration of the head.
            writers: record writer of each output, by edge id. It receives whole batches if it has
                `collect_batch`, and watermarks if it has `emit_watermark` and
                `emit_watermark_status`.
            create: creates each operator.

        Raises: ConfigError if the program lacks an operator of the configuration.
        """
        self.config = config
        if missing := config.all.keys() - factories.keys():
            names = sorted(config.all[each].operator_name for each in missing)
            raise ConfigError(
                f"the program has no operator {names[0]} as the job was deployed with; it has"
                " changed since, or does not build the same graph twice"
            )
        in_order = sorted(config.all.values(), key=lambda each: each.chain_index)
        self.operators: dict[str, StreamOperator] = {
            each.operator_id: create(factories[each.operator_id], each) for each in in_order
        }
        self._writers = writers
        self.sent_events: list[TaskEvent] = []
        self._outputs: dict[str, _ChainingOutput] = {}
        for each in reversed(in_order):
            self._outputs[each.operator_id] = self._output_of(each)

    @property
    def listens_to(self) -> frozenset[str]:
        """Classes of the events that the operators want from downstream tasks."""
        return frozenset(name for each in self.operators.values() for name in each.listens_to)

    def receive_task_event(self, event: TaskEvent) -> None:
        for operator_id, operator in self.operators.items():
            if event.class_name in operator.listens_to:
                operator.receive_task_event(event, self._outputs[operator_id])

    def open(self) -> None:
        """Open the operators, last to first, so that downstream operators are open before."""
        for operator in reversed(self.operators.values()):
            operator.open()

    def entry(self, operator_id: str) -> tuple[StreamOperator, Output]:
        return self.operators[operator_id], self._outputs[operator_id]

    def finish(self) -> None:
        """Finish every operator, first to last: each emits what it still holds."""
        for operator_id, operator in self.operators.items():
            operator.finish(self._outputs[operator_id])

    def close(self) -> None:
        """Close every operator, last to first, even if some fail."""
        with ExitStack() as closing:  # calls back in reverse
            for operator in self.operators.values():
                closing.callback(operator.close)

    def _output_of(self, config: StreamConfig) -> _ChainingOutput:
        targets: list[tuple[str | None, Output | None, Any, int]] = []
        for chained in config.chained_outputs:
            target = self.operators[chained.operator_id]
            output = self._outputs[chained.operator_id]
            targets.append((chained.output_tag, output, target, chained.input_number))
        for leaving in self.config.outputs:
            if leaving.operator_id == config.operator_id:
                writer = self._writers[leaving.edge_id]
                targets.append((leaving.output_tag, None, writer, 0))
        return _ChainingOutput(targets, self.sent_events)


class _ChainingOutput:
    """The outputs of an operator: chained operators and writers (Flink: ChainingOutput,
    BroadcastingOutputCollector).
    """

    def __init__(
        self,
        targets: list[tuple[str | None, Output | None, Any, int]],
        sent_events: list[TaskEvent],
    ) -> None:
        self._all = [tuple(target) for _, *target in targets]
        self._is_idle = False
        self._sent_events = sent_events
        self._main = [each[1:] for each in targets if each[0] is None]
        self._sides: dict[str, list[tuple[Output | None, Any, int]]] = {}
        for tag, *target in targets:
            if tag is not None:
                self._sides.setdefault(tag, []).append(tuple(target))

    def collect(self, value: Any) -> None:
        self._put(self._main, value)

    def collect_batch(self, values: Sequence[Any]) -> None:
        for output, target, input_number in self._main:
            if output is None:
                collect_batch = getattr(target, "collect_batch", None)
                if collect_batch is not None:
                    collect_batch(values)
                    continue
                for value in as_list(values):
                    target(value)
            else:
                target.process_batch(values, output, input_number)

    def send_task_event(self, event: TaskEvent) -> None:
        self._sent_events.append(event)

    def collect_side(self, tag: OutputTag, value: Any) -> None:
        self._put(self._sides.get(tag.id, ()), value)

    def emit_watermark(self, timestamp_ms: int) -> None:
        """Emit to all outputs, side outputs included, unless idle."""
        if self._is_idle:
            return
        for output, target, input_number in self._all:
            if output is not None:
                target.process_watermark(timestamp_ms, output, input_number)
            elif hasattr(target, "emit_watermark"):
                target.emit_watermark(timestamp_ms)

    def emit_watermark_status(self, is_idle: bool) -> None:
        if is_idle == self._is_idle:
            return
        self._is_idle = is_idle
        for output, target, input_number in self._all:
            if output is not None:
                target.process_watermark_status(is_idle, output, input_number)
            elif hasattr(target, "emit_watermark_status"):
                target.emit_watermark_status(is_idle)

    @staticmethod
    def _put(targets: Sequence[tuple[Output | None, Any, int]], value: Any) -> None:
        for output, target, input_number in targets:
            if output is None:
                target(value)
            else:
                target.process(value, output, input_number)
