"""PrintedLines: the lines that tasks print, from the growing files of their TaskManagers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

READ_BYTES = 1 << 20


class PrintedLines:
    """Reads new lines of the files; half a line waits for its end."""

    def __init__(self, run_dir: Path, task_managers: int) -> None:
        self._positions = {run_dir / f"tm-{index}.out": 0 for index in range(task_managers)}

    def new_lines(self) -> Iterator[str]:
        """Lines since the last call, file by file."""
        for path, position in self._positions.items():
            try:
                with path.open("rb") as file:
                    file.seek(position)
                    while data := file.read(READ_BYTES):
                        end = data.rfind(b"\n") + 1
                        if not end:
                            break
                        position += end
                        file.seek(position)
                        yield from data[: end - 1].decode("utf-8", "replace").split("\n")
            except OSError:  # it is not there yet
                continue
            finally:
                self._positions[path] = position
