"""HostedJob: the state of one job on a TaskManager besides its attempts (Flink: JobTable.Job)."""

from __future__ import annotations

import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

from flinknet.core.wire.ids import ExecutionAttemptID
from flinknet.errors import TraceError
from flinknet.job.gates import blocking_storage
from flinknet.results import Strangers

from ..clock import wall_clock_iso
from ..shuffle_environment import ShuffleEnvironment
from ..spill_file import create_spill_file
from . import control_messages as messages
from .load_run import LoadRun
from .reports import Report
from .sampling import Sampler, report_of
from .task_factory import factory_of
from .task_io import ProcessIO


class HostedJob:
    """One job on one TaskManager.

    Args:
        index: index of the TaskManager.

    Attributes:
        id: id of the job, shared by all its attempts.
        factory: creates its tasks.
        network: its network settings.
        trace: records the events of its channels.
        storage: storage of its blocking partitions.
        io: output of its tasks.
        load: follows its tasks while they generate a load.
        readers: receiver ids of the channels on other TaskManagers that read its partitions.

    Raises: ConfigError for an invalid program; TraceError if the trace cannot be written.
    """

    def __init__(
        self, message: messages.InitializeJob, environment: ShuffleEnvironment, index: int
    ) -> None:
        self.id = message.job
        self.factory = factory_of(message.submission)
        self.network = self.factory.network
        trace_dir = None if message.trace_dir is None else Path(message.trace_dir)
        self.trace = environment.open_trace(trace_dir)
        self._spill_dir = None if message.spill_dir is None else Path(message.spill_dir)
        self.storage = blocking_storage(self.network, partial(create_spill_file, self._spill_dir))
        self._out: IO[str] | None = None
        run_dir = getattr(message.submission, "run_dir", "")
        self._log = Path(run_dir) / f"tm-{index}.log" if run_dir else None
        if message.out_dir is not None:
            with suppress(OSError):  # then lines go to standard output
                path = Path(message.out_dir) / f"tm-{index}.out"
                self._out = open(path, "a", encoding="utf-8")  # noqa: SIM115 - until close
        self.io = ProcessIO(self._out)
        self.sampler = Sampler(environment.connections, environment.pool)
        self.load: LoadRun | None = None
        self.readers: list[bytes] = []
        self._environment = environment
        self._strangers_before: Strangers = environment.connections.strangers()

    def owns(self, attempt_id: ExecutionAttemptID) -> bool:
        """Whether an attempt is one of the job's."""
        return attempt_id.execution_graph_id == self.id

    def log(self, text: str, details: str) -> str:
        """Log a failure in the run directory. Returns: where, to be added to its line."""
        if self._log is None:
            return ""
        try:
            with open(self._log, "a", encoding="utf-8", errors="replace") as file:
                file.write(f"{wall_clock_iso()} {text}\n{details}")
        except OSError as error:
            return f" (its traceback cannot be saved: {error})"
        return f" (traceback: {self._log})"

    def report(self) -> Report:
        """Close the trace and return the final report."""
        error = None
        try:
            self._environment.close_trace(self.trace)
        except TraceError as fault:
            error = str(fault)
        strangers = self._environment.connections.strangers().since(self._strangers_before)
        if self.load is not None:
            return self.load.report(strangers, error)
        return report_of(self.trace.statistics, strangers, error)

    def close(self) -> None:
        """Write the last printed lines and close their file."""
        self.io.flush()
        if self._out is not None:
            self._out.close()

    def remove_stored(self) -> None:
        """Delete its stored partitions, in case no other process is left to do it."""
        if self._spill_dir is not None:
            shutil.rmtree(self._spill_dir, ignore_errors=True)
