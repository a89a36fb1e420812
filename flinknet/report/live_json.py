"""LiveJson: what happens while a bench runs, as a line of JSON for each event (NDJSON)."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import IO, Any

from flinknet.results import Progress, RunResult

from .export import SCHEMA_VERSION
from .live import ForwardingView, LineView


class LiveJson(ForwardingView):
    """Writes a line when a run starts, some times a second while it goes on, and when it has ended;
    passes all on to another view.

    Every line has `schema_version`, `event` (started, progress, finished), the number of the run,
    how many `runs` there are, and the `setting`. A line of progress has the fields of `Progress`
    in addition; the last line of a run has its figures.
    """

    def __init__(self, view: LineView, stream: IO[str]) -> None:
        super().__init__(view)
        self._stream = stream
        self._run: dict[str, Any] = {}

    def start_run(self, number: int, total: int, name: str) -> None:
        """Begin a run."""
        self._run = {"run": number, "runs": total, "setting": name}
        self._write("started", {})
        super().start_run(number, total, name)

    def update(self, progress: Progress) -> None:
        """Write where the run stands."""
        self._write("progress", asdict(progress))
        super().update(progress)

    def finish_run(self, result: RunResult) -> None:
        """Write what a run measured."""
        document = result.to_dict()
        names = ("validity", "measured", "limited_by", "warnings", "trace")
        self._write("finished", {name: document[name] for name in names})
        super().finish_run(result)

    def _write(self, event: str, values: dict[str, Any]) -> None:
        line = {"schema_version": SCHEMA_VERSION, "event": event, **self._run, **values}
        self._stream.write(json.dumps(line) + "\n")
        self._stream.flush()
