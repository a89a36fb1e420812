# mypyc
"""The chains of load tasks: move runs of records from a task's input to its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..context import ProcessingContext
from ..latency_meter import LatencyMeter
from ..task_chain import TaskChain
from .outputs import ForwardedOutput, GeneratedOutput

PORTION_NS = 1_000_000
"""Work after which a slow relay emits its records, rather than after a whole buffer."""


class Generate(TaskChain):
    """Passes records of a LoadGenerator to the output; its batches are (count, instants)."""

    def __init__(self, output: GeneratedOutput, context: ProcessingContext) -> None:
        super().__init__()
        self._output = output
        self._context = context

    def add_generated(self, operator_id: str, values: Any, instants: Any) -> None:
        """Queue due records: their number and instants."""
        self.batches.append((values, instants))

    def process_portion(self, began_ns: int) -> None:
        """Pass a batch to the output."""
        count, instants = self.batches.popleft()
        self._context.now_ns, self._context.work_ns = began_ns, 0
        self.processed_records += count
        self._output.collect(count, instants)


class Forward(TaskChain):
    """An identity map; its batches are runs of records.

    Args:
        delay_ns_per_record: time per record.
    """

    def __init__(
        self, output: ForwardedOutput, context: ProcessingContext, *, delay_ns_per_record: int
    ) -> None:
        super().__init__()
        self.record_ns = delay_ns_per_record
        self._output = output
        self._context = context
        self._portion_records = max(1, PORTION_NS // max(1, delay_ns_per_record))

    def process_portion(self, began_ns: int) -> None:
        """Pass a run, or one portion of it, to the output."""
        memory, offset, count, record_bytes = self.batches.popleft()
        taken = count
        if self.record_ns and count > self._portion_records:
            taken = self._portion_records
            rest = memory, offset + taken * record_bytes, count - taken, record_bytes
            self.batches.appendleft(rest)
        self._context.now_ns, self._context.work_ns = began_ns, taken * self.record_ns
        self.processed_records += taken
        self._output.collect((memory, offset, taken, record_bytes))


class Measure(TaskChain):
    """The end of a load, whose records were counted and timed as they were read. Its batches are
    the instants at which the task is done with them.

    Args:
        sinks: count and time the records.
    """

    def __init__(self, context: ProcessingContext, sinks: Sequence[LatencyMeter]) -> None:
        super().__init__()
        self._sinks = sinks
        self._context = context

    @property
    def latency_meters(self) -> Sequence[LatencyMeter]:
        """The sink of each channel."""
        return self._sinks

    def process_portion(self, began_ns: int) -> None:
        """Be busy until the records read are done."""
        done_ns = self.batches.popleft()
        self._context.now_ns, self._context.work_ns = began_ns, done_ns - began_ns
