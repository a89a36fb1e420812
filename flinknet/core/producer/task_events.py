"""TaskEventHandler: events from the readers of a partition to the task that writes it."""

from __future__ import annotations

from collections.abc import Callable

from flinknet.core.wire.events import OtherEvent

TaskEventListener = Callable[[OtherEvent], None]


class TaskEventHandler:
    """Listeners for events from one partition's consumers (Flink: TaskEventHandler, of a partition
    registered at the TaskEventDispatcher). An event without a listener is dropped silently.

    Differs from Flink in that a partition takes events until it is released, not only until its
    task ends: a reader does not fail because its event came too late.
    """

    def __init__(self) -> None:
        self._is_registered = False
        self._listeners: dict[str, list[TaskEventListener]] = {}

    def subscribe(self, class_name: str, listener: TaskEventListener) -> None:
        """Call a listener for each event of a class."""
        self._listeners.setdefault(class_name, []).append(listener)

    def register(self) -> None:
        """Accept events: the task that writes the partition exists (Flink: registerPartition)."""
        self._is_registered = True

    def publish(self, event: OtherEvent) -> bool:
        """Call the listeners. Returns: whether the task exists."""
        if not self._is_registered:
            return False
        for listener in self._listeners.get(event.class_name, ()):
            listener(event)
        return True
