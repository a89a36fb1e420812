"""Output of an operator: records, side outputs, watermarks, and events for upstream tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class OutputTag:
    """Name and type of a side output (Flink: OutputTag)."""

    id: str
    output_type: Any = object

    def __str__(self) -> str:
        return self.id


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """An event that a task sends to the tasks upstream of it (Flink: TaskEvent).

    Attributes:
        class_name: name that listeners subscribe to; a Java class if that task is one of Flink's.
        body: serialised content of the event.
    """

    class_name: str
    body: bytes = b""


class Output(Protocol):
    """Receives the results of an operator (Flink: Output)."""

    def collect(self, value: Any) -> None:
        """Emit a record."""

    def collect_batch(self, values: Sequence[Any]) -> None:
        """Emit several records, in order."""

    def collect_side(self, tag: OutputTag, value: Any) -> None:
        """Emit a record to a side output."""

    def emit_watermark(self, timestamp_ms: int) -> None:
        """Emit a watermark to all outputs: no record with this timestamp or an earlier
        one follows.
        """

    def emit_watermark_status(self, is_idle: bool) -> None:
        """Emit that the stream is idle, or active again."""

    def send_task_event(self, event: TaskEvent) -> None:
        """Send an event to the upstream tasks."""
