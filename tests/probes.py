"""A probe that keeps events, and a reader that polls by hand."""

from __future__ import annotations


class ListProbe:
    """Keeps every event."""

    def __init__(self) -> None:
        self.events: list[tuple[int, ...]] = []

    def record(self, *values: int) -> None:
        self.events.append(values)

    def at(self, point: int) -> list[tuple[int, ...]]:
        return [event for event in self.events if event[2] == point]


class PollingReader:
    """A reader that polls by hand."""

    def notify_data_available(self) -> None:
        """Nothing to do."""
