"""A probe that keeps events, and a listener that does nothing."""

from __future__ import annotations


class ListProbe:
    """Keeps every event."""

    def __init__(self) -> None:
        self.events: list[tuple[int, ...]] = []

    def record(self, *values: int) -> None:
        self.events.append(values)

    def at(self, point: int) -> list[tuple[int, ...]]:
        return [event for event in self.events if event[2] == point]


def polled_by_hand() -> None:
    """The listener of a reader that polls by hand."""
