"""TaskEventHandler: events from the tasks that read a partition to the task that writes it."""

from __future__ import annotations

from collections.abc import Callable

from flinknet.core.wire.events import OtherEvent

TaskEventListener = Callable[[OtherEvent], None]


class TaskEventHandler:
    """Who listens to which events of one partition's consumers (Flink: TaskEventHandler, of a
    partition that is registered at the TaskEventDispatcher). An event that nobody listens to is
    lost without a word.

    Differs from Flink in that a partition hears its readers until it is released, not only until
    its task ends: a reader does not fail for an event that came too late.
    """

    def __init__(self) -> None:
        self._is_registered = False
        self._listeners: dict[str, list[TaskEventListener]] = {}

    def subscribe(self, class_name: str, listener: TaskEventListener) -> None:
        """Call a listener with each event of a class."""
        self._listeners.setdefault(class_name, []).append(listener)

    def register(self) -> None:
        """The task that writes the partition is there (Flink: registerPartition)."""
        self._is_registered = True

    def publish(self, event: OtherEvent) -> bool:
        """Call who listens. Returns: whether the task is there."""
        if not self._is_registered:
            return False
        for listener in self._listeners.get(event.class_name, ()):
            listener(event)
        return True
