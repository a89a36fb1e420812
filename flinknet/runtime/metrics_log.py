"""MetricsLog: the metrics of tasks and TaskManagers over time, as a file of the run directory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from flinknet.trace.metrics import METRICS_NAME


class MetricsLog:
    """Appends a line for each task of a sample, and one for the memory of its TaskManager.

    Never raises: a file that cannot be written is given up, and `error` says why.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / METRICS_NAME
        self._file: IO[str] | None = None
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

    def close(self) -> None:
        """The run is over."""
        if self._file is not None:
            with suppress(OSError):  # of a full disk, which `error` has told
                self._file.close()
