"""What an operator puts out: records, side outputs, watermarks, and events for earlier tasks."""

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
    """What a task tells the tasks that write what it reads (Flink: TaskEvent).

    Attributes:
        class_name: by which it is listened to; a class of Java, where that task is one of Flink's.
        body: what such a class writes.
    """

    class_name: str
    body: bytes = b""


class Output(Protocol):
    """Where an operator puts its results (Flink: Output)."""

    def collect(self, value: Any) -> None:
        """Take a record."""

    def collect_batch(self, values: Sequence[Any]) -> None:
        """Take several records, in order."""

    def collect_side(self, tag: OutputTag, value: Any) -> None:
        """Take a record of a side output."""

    def emit_watermark(self, timestamp_ms: int) -> None:
        """No record of this timestamp or before follows, in any output."""

    def emit_watermark_status(self, is_idle: bool) -> None:
        """Watermarks do not count from now on, or count again."""

    def send_task_event(self, event: TaskEvent) -> None:
        """Tell the tasks that write what this task reads."""
