"""MetricsLog: the metrics of tasks and TaskManagers over time, in a file of the run directory."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from flinknet.trace.metrics import METRICS_NAME, instant_of
from flinknet.whole_files import close_file, whole_file


class MetricsLog:
    """Appends a line for each task of a sample, and one for the memory of its TaskManager. Never
    raises: if the file cannot be written, it is given up, and `error` says why.

    Args:
        keep_ns: how much of the past `drop_old` keeps; None: all of it.
    """

    def __init__(self, directory: Path, *, keep_ns: int | None = None) -> None:
        self._path = directory / METRICS_NAME
        self._file: IO[str] | None = None
        self._keep_ns = keep_ns
        self._kept: list[tuple[int, int]] = []  # ascending, without overlaps
        self._dropped_at_ns = 0
        self.error: str | None = None

    def add(
        self,
        index: int,
        tasks: Mapping[str, Mapping[str, float]],
        memory: Mapping[str, float],
        *,
        now_ns: int,
    ) -> None:
        """Write a sample of one TaskManager: metrics of its tasks by name, and of its memory."""
        manager = {"at_ns": now_ns, "task_manager": f"tm-{index}"}
        lines = [{**manager, "task": name, **found} for name, found in tasks.items()]
        self.write([*lines, {**manager, **memory}])

    def write(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Append lines."""
        if self.error is not None:
            return
        try:
            if self._file is None:
                self._file = self._path.open("w", encoding="utf-8")
            self._file.writelines(json.dumps(line) + "\n" for line in lines)
            self._file.flush()
        except OSError as error:
            self.error = f"{self._path}: cannot be written ({error.strerror})"

    def keep_around(self, at_ns: int) -> None:
        """Let `drop_old` keep the lines from `keep_ns` before an instant to half of that after."""
        if self._keep_ns is None:
            return
        from_ns, to_ns = at_ns - self._keep_ns, at_ns + self._keep_ns // 2
        while self._kept and self._kept[-1][1] >= from_ns:
            first_ns, last_ns = self._kept.pop()
            from_ns, to_ns = min(from_ns, first_ns), max(to_ns, last_ns)
        self._kept.append((from_ns, to_ns))

    def drop_old(self, now_ns: int) -> None:
        """Drop lines that are too old; call this regularly, it rarely has to rewrite the file."""
        keep_ns = self._keep_ns
        if keep_ns is None or self._file is None or now_ns < self._dropped_at_ns + keep_ns:
            return
        self._dropped_at_ns = now_ns
        starts_ns = [first_ns for first_ns, _ in self._kept]
        try:
            with self._path.open(encoding="utf-8") as file, whole_file(self._path) as kept:
                for line in file:
                    at_ns = instant_of(line)
                    if at_ns is None:
                        continue
                    place = bisect_right(starts_ns, at_ns)
                    is_kept = place > 0 and at_ns < self._kept[place - 1][1]
                    if is_kept or now_ns - keep_ns <= at_ns <= now_ns:
                        kept.write(line.encode())
            close_file(self._file)
            self._file = self._path.open("a", encoding="utf-8")
        except OSError as error:
            self.error = f"{self._path}: cannot be written ({error.strerror})"

    def close(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # the disk is full, as `error` says
                self._file.close()
