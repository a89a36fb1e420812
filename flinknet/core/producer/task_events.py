"""TaskEventHandler: events from the tasks that read a partition to the task that writes it."""

from __future__ import annotations

from collections.abc import Callable

from flinknet.core.wire.events import OtherEvent

TaskEventListener = Callable[[OtherEvent], None]


class TaskEventHandler:
    """Who listens to which events of one partition's consumers (Flink: TaskEventHandler). One that
    nobody listens to is lost without a word.
    """

    def __init__(self) -> None:
        self._listeners: dict[str, list[TaskEventListener]] = {}

    def subscribe(self, class_name: str, listener: TaskEventListener) -> None:
        """Call a listener with each event of a class."""
        self._listeners.setdefault(class_name, []).append(listener)

    def publish(self, event: OtherEvent) -> None:
        """Call who listens."""
        for listener in self._listeners.get(event.class_name, ()):
            listener(event)
