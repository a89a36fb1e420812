"""The TaskManagers of one run: their processes, the pipes to them, and the run directory they write
to.

No process outlives the run: TaskManagers watch the control pipe, and whatever happens here,
`Cluster.__exit__` closes the pipes, waits a moment, and kills what is left.
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterable
from dataclasses import asdict
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from flinknet.errors import RunFailedError
from flinknet.job.checkpoint_coordinator import Answer, CheckpointCoordinator, Command
from flinknet.job.load.plan import LoadPlan
from flinknet.plain_values import to_plain
from flinknet.results import Taken
from flinknet.trace.manifest import ProcessInfo
from flinknet.trace.run_directory import RunDirectory

from . import messages as say
from .aftermath import Ending, error_of
from .clock import monotonic_ns, wall_clock_iso
from .control_pipe import ControlPipe, connected_pair
from .host import available_cores, environment
from .manifest import channel_infos, manifest_of
from .metrics_log import MetricsLog
from .signals import interrupts_held, raise_dropped_termination
from .spill_file import create_spill_directory
from .task_manager import main as task_manager_main

EXIT_WAIT_S = 2.0

LAST_WORDS_NS = 2_000_000_000
"""How long the others may take to notice that one is gone."""

_T = TypeVar("_T")


class Cluster:
    """Spawns the processes when it is entered, and ends them when it is left.

    Args:
        trace_dir: where traces and the manifest go; None: nowhere.
        silence_max_s: how long a process may say nothing before it counts as lost.
        sample_interval_ns: how often each process tells where it stands.
    """

    def __init__(
        self,
        load: LoadPlan,
        trace_dir: Path | None,
        silence_max_s: float,
        sample_interval_ns: int,
    ) -> None:
        self.load = load
        self.sample_interval_ns = sample_interval_ns
        self.trace_dir = trace_dir
        self.checkpoints: CheckpointCoordinator | None = None
        self._silence_max_ns = round(silence_max_s * 1e9)
        self._started_at = wall_clock_iso()
        self._host = environment()  # takes some milliseconds, which a run must not be disturbed by
        self._processes: list[BaseProcess] = []
        self._pipes: list[ControlPipe] = []
        self._spill_dir: TemporaryDirectory[str] | None = None
        self._metrics = MetricsLog(trace_dir) if trace_dir is not None else None
        self._run_directory: RunDirectory | None = None
        self._has_begun = False

    def __enter__(self) -> Cluster:
        try:
            self._spawn()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(EXIT_WAIT_S)
            if process.is_alive():
                process.kill()
                process.join()
        if self._spill_dir is not None:
            self._spill_dir.cleanup()
        if self._metrics is not None:
            self._metrics.close()
        if self._run_directory is not None:
            if not self._has_begun:  # nothing is worth a look, and its place can be used again
                self._run_directory.clear(_trace_name(at) for at in range(len(self._pipes)))
            self._run_directory.release()

    def _spawn(self) -> None:
        if self.trace_dir is not None:
            self._run_directory = RunDirectory(self.trace_dir)
        if self.load.scenario.workload.is_blocking:
            self._spill_dir = create_spill_directory()
        context = multiprocessing.get_context("spawn")
        has_own_core = available_cores() >= self.load.scenario.task_managers
        for index in range(self.load.scenario.task_managers):
            raise_dropped_termination()
            ours, theirs = connected_pair()
            path = self.trace_dir / _trace_name(index) if self.trace_dir is not None else None
            spec = say.TaskManagerSpec(
                index,
                self.load.scenario,
                str(path) if path is not None else None,
                has_own_core,
                self.sample_interval_ns,
                self._spill_dir.name if self._spill_dir is not None else None,
            )
            process = context.Process(
                target=task_manager_main,
                args=(theirs, json.dumps(to_plain(spec))),
                name=spec.name,
                daemon=True,
            )
            self._pipes.append(ControlPipe(ours))
            with interrupts_held():
                process.start()
            self._processes.append(process)
            theirs.close()

    def tell(self, message: object) -> None:
        """Say something to every TaskManager. One that has died is noticed when its answer is
        collected.
        """
        for pipe in self._pipes:
            try:
                pipe.send(message)
            except OSError:
                continue

    def collect(
        self, kind: type[_T], other: Callable[[int, object], None] = lambda *_: None
    ) -> list[_T]:
        """Wait until every TaskManager has said something of this kind; also one that has can end.

        Raises: RunFailedError or the error a TaskManager ended with.
        """
        answers: dict[int, _T] = {}
        heard_ns = [monotonic_ns()] * len(self._pipes)
        while len(answers) < len(self._pipes):
            raise_dropped_termination()
            waiting = [index for index in range(len(self._pipes)) if index not in answers]
            self._check_silence(waiting, heard_ns)
            for index in self._ready(range(len(self._pipes)), self._patience_ns()):
                heard_ns[index] = monotonic_ns()
                message = self._receive(index)
                if isinstance(message, kind):
                    answers[index] = message
                elif isinstance(message, Ending):
                    told = self.trace_dir if self._has_begun else None
                    raise error_of(self._last_words(message), told)
                elif isinstance(message, Answer) and self.checkpoints is not None:
                    self._tell_tasks(self.checkpoints.receive(message, now_ns=monotonic_ns()))
                else:
                    other(index, message)
            if self.checkpoints is not None:
                self._tell_tasks(self.checkpoints.advance(now_ns=monotonic_ns()))
        return [answers[index] for index in range(len(self._pipes))]

    def _tell_tasks(self, commands: Iterable[Command]) -> None:
        for command in commands:
            self.tell(command)

    def log_metrics(self, index: int, sample: say.Sample, at_ns: int) -> None:
        """Keep the metrics of a TaskManager in the run directory, if there is one."""
        if self._metrics is not None and sample.tasks:
            self._metrics.add(index, sample, now_ns=at_ns)

    @property
    def metrics_error(self) -> str | None:
        """Why there are metrics that could not be kept."""
        return None if self._metrics is None else self._metrics.error

    def save_manifest(
        self,
        start: say.Start | None,
        measured_to_ns: int | None = None,
        taken: Taken | None = None,
    ) -> None:
        """Write the manifest of the run directory: before the run, again with its measured part,
        and at the end with what was taken of the processors meanwhile.
        """
        if self.trace_dir is None:
            return
        self._has_begun = True
        scenario = self.load.scenario
        manifest_of(
            scenario.to_dict(),
            scenario.network,
            (
                ProcessInfo(f"tm-{index}", _trace_name(index), process.pid or 0)
                for index, process in enumerate(self._processes)
            ),
            sorted(channel_infos(self.load.tasks), key=lambda each: each.index),
            seed=scenario.seed,
            host=self._host | (asdict(taken) if taken is not None else {}),
            started_at=self._started_at,
            measured_from_ns=start.measured_from_ns if start is not None else None,
            measured_to_ns=measured_to_ns,
        ).save(self.trace_dir)

    def _last_words(self, first: Ending) -> list[Ending]:
        """How the others ended after the first one did. If that may be why, they get a moment to
        say so.
        """
        endings = {first.index: first}
        if not (first.is_death or first.is_consequence):
            return [first]
        until_ns = monotonic_ns() + LAST_WORDS_NS
        while len(endings) < len(self._pipes) and (left_ns := until_ns - monotonic_ns()) > 0:
            waiting = [index for index in range(len(self._pipes)) if index not in endings]
            for index in self._ready(waiting, left_ns):
                message = self._receive(index)
                if isinstance(message, Ending):
                    endings[index] = message
        return list(endings.values())

    def _patience_ns(self) -> int:
        """How long to wait for somebody to say something: not beyond the next checkpoint."""
        due_ns = None if self.checkpoints is None else self.checkpoints.next_deadline_ns()
        if due_ns is None:
            return self._silence_max_ns
        return min(max(0, due_ns - monotonic_ns()), self._silence_max_ns)

    def _ready(self, waiting: Iterable[int], timeout_ns: int) -> list[int]:
        """Which of these have said something or ended; waits for it, but not longer."""
        ready = wait([self._pipes[index].connection for index in waiting], timeout_ns / 1e9)
        return [index for index in waiting if self._pipes[index].connection in ready]

    def _check_silence(self, waiting: list[int], heard_ns: list[int]) -> None:
        for index in waiting:
            silent_ns = monotonic_ns() - heard_ns[index]
            if silent_ns >= self._silence_max_ns:
                raise RunFailedError(
                    f"tm-{index} (pid {self._processes[index].pid}) has said nothing for"
                    f" {silent_ns / 1e9:.0f} s and counts as lost; what it had recorded is in the"
                    " run directory"
                )

    def _receive(self, index: int) -> object:
        """What a TaskManager said, or how it ended."""
        process = self._processes[index]
        try:
            message: object = self._pipes[index].receive()
        except (EOFError, OSError):
            process.join(EXIT_WAIT_S)
            return Ending(index, process.pid, exit_code=process.exitcode)
        if isinstance(message, say.Failed):
            return Ending(index, process.pid, failed=message)
        return message


def _trace_name(index: int) -> str:
    return f"tm-{index}.fnt"
