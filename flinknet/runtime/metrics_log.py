"""MetricsLog: the metrics of tasks and TaskManagers over time, as a file of the run directory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from flinknet.trace.metrics import METRICS_NAME, is_within
from flinknet.whole_files import whole_file


class MetricsLog:
    """Appends a line for each task of a sample, and one for the memory of its TaskManager.

    Never raises: a file that cannot be written is given up, and `error` says why.

    Args:
        keep_ns: how much of the past `drop_old` leaves; None: all of it.
    """

    def __init__(self, directory: Path, *, keep_ns: int | None = None) -> None:
        self._path = directory / METRICS_NAME
        self._file: IO[str] | None = None
        self._keep_ns = keep_ns
        self._kept: list[tuple[int, int]] = []
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
        """Write what one TaskManager told at an instant: of its tasks by name, of its memory."""
        manager = {"at_ns": now_ns, "task_manager": f"tm-{index}"}
        lines = [{**manager, "task": name, **found} for name, found in tasks.items()]
        self.write([*lines, {**manager, **memory}])

    def write(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Write lines as they are."""
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
        """Do not drop what is around an instant: as much before it as is kept, and half of that
        after it.
        """
        if self._keep_ns is not None:
            self._kept.append((at_ns - self._keep_ns, at_ns + self._keep_ns // 2))

    def drop_old(self, now_ns: int) -> None:
        """Drop lines that are too old; to be called now and then, it seldom does anything."""
        keep_ns = self._keep_ns
        if keep_ns is None or self._file is None or now_ns < self._dropped_at_ns + keep_ns:
            return
        self._dropped_at_ns = now_ns
        spans = [*self._kept, (now_ns - keep_ns, now_ns + 1)]
        try:
            with self._path.open(encoding="utf-8") as file, whole_file(self._path) as kept:
                for line in file:
                    if any(is_within(line, *span) for span in spans):
                        kept.write(line.encode())
            self._file.close()
            self._file = self._path.open("a", encoding="utf-8")
        except OSError as error:
            self.error = f"{self._path}: cannot be written ({error.strerror})"

    def close(self) -> None:
        """The run is over."""
        if self._file is not None:
            with suppress(OSError):  # of a full disk, which `error` has told
                self._file.close()
