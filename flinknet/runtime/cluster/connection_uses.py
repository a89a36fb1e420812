"""ConnectionUses: which jobs of a cluster share which TCP connections, as TaskManagers report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from flinknet.results import ConnectionStatus

from .reports import UsedConnection

_Key = tuple[int, int, int]
"""The producers' TaskManager, the consumers' TaskManager, and the connection's number."""


class ConnectionUses:
    """The connections of all jobs of a cluster."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._now: dict[str, dict[_Key, int]] = {}
        self._ever: dict[str, set[_Key]] = {}
        self._before: Counter[_Key] = Counter()

    def begin(self, job_id: str, name: str) -> None:
        """Add a job."""
        self._names[job_id] = name
        self._now[job_id] = {}
        self._ever[job_id] = set()

    def update(self, job_id: str, task_manager: int, used: Iterable[UsedConnection]) -> None:
        """Set the connections that the tasks of a job have open on one TaskManager."""
        now = self._now[job_id]
        for key in [each for each in now if each[1] == task_manager]:
            del now[key]
        for each in used:
            now[each.task_manager, task_manager, each.number] = each.channels
        self._ever[job_id].update(now)

    def end(self, job_id: str) -> None:
        """Remove a job that has ended."""
        del self._names[job_id], self._now[job_id]
        self._before.update(self._ever.pop(job_id))

    def lose(self, task_manager: int) -> None:
        """Remove the connections of a lost TaskManager."""
        for uses in (*self._now.values(), self._before):
            for key in [each for each in uses if task_manager in each[:2]]:
                del uses[key]

    def of(self, job_id: str) -> tuple[ConnectionStatus, ...]:
        """The connections that a job uses now."""
        return tuple(
            ConnectionStatus(
                f"tm-{key[0]}->tm-{key[1]}" + (f"#{key[2]}" if key[2] else ""),
                channels,
                tuple(
                    name
                    for other, name in self._names.items()
                    if other != job_id and key in self._now[other]
                ),
                self._before[key],
            )
            for key, channels in sorted(self._now[job_id].items())
        )
