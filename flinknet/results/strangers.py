"""Strangers: connections at the data ports of a run that do not belong to it."""

from __future__ import annotations

from dataclasses import dataclass

from flinknet.units import counted, human_bytes

from .measures import RunWarning

STRANGERS, DISTURBED_BY_STRANGERS = "strangers", "disturbed-by-strangers"
"""Codes of the warnings that strangers came, and that they sent so much that it shows."""

_CONNECTIONS_MANY, _REQUESTS_MANY, _BYTES_MANY = 64, 500, 64 * 1024
"""So many of them take some 10 ms of a TaskManager's time: as much as p99 of a second."""


@dataclass(frozen=True, slots=True)
class Strangers:
    """Connections that requested nothing of the run, what they sent, and the requests over any
    connection for receivers that are not of the run.
    """

    connections: int = 0
    requests: int = 0
    received_bytes: int = 0

    def __add__(self, other: Strangers) -> Strangers:
        return Strangers(
            self.connections + other.connections,
            self.requests + other.requests,
            self.received_bytes + other.received_bytes,
        )

    def since(self, before: Strangers) -> Strangers:
        """Those that were not there before: a connection may since have requested something."""
        return Strangers(
            max(0, self.connections - before.connections),
            max(0, self.requests - before.requests),
            max(0, self.received_bytes - before.received_bytes),
        )

    @property
    def disturb(self) -> bool:
        """Whether serving them took so much time that the figures of a run are doubtful."""
        return (
            self.connections >= _CONNECTIONS_MANY
            or self.requests >= _REQUESTS_MANY
            or self.received_bytes >= _BYTES_MANY
        )

    def warning(self) -> RunWarning | None:
        """The warning about them; None if there were none."""
        if not self.connections and not self.requests:
            return None
        visitors = (
            counted(self.connections, "foreign connection")
            if self.connections
            else counted(self.requests, "foreign request")
        )
        sentence = (
            "the data ports had visitors that do not belong to this run:"
            f" {counted(self.connections, 'connection')},"
            f" {counted(self.requests, 'request')}, {human_bytes(self.received_bytes)} received;"
        )
        if not self.disturb:
            text = f"{sentence} find what connects to taskmanager.data.port."
            return RunWarning(STRANGERS, text, f"data ports had {visitors}")
        return RunWarning(
            DISTURBED_BY_STRANGERS,
            f"{sentence} serving them took time from the run, so throughput may be too low and"
            " latency too high: find what connects to taskmanager.data.port, and run again.",
            f"{visitors} took time from the run",
        )
