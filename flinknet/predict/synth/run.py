"""A synthetic run on disk: processes that write its trace files, and the manifest."""

from __future__ import annotations

import json
import multiprocessing as mp
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from ctypes import c_char, c_longlong
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext
from pathlib import Path
from typing import Any

from flinknet import __version__
from flinknet.errors import RunFailedError, TraceError
from flinknet.job.load.plan import LoadPlan
from flinknet.options import effective_flink_keys
from flinknet.plain_values import from_plain, to_plain
from flinknet.runtime.signals import ignore_end_signals, interrupts_held, interrupts_noted
from flinknet.trace import ChannelInfo, ClockInfo, ProcessInfo, RunManifest, TraceWriter
from flinknet.trace.manifest import SYNTHETIC
from flinknet.trace.run_directory import RunDirectory, seal_run

from .plan import START_NS, ChannelEnd, SynthPlan, in_order

BLOCK_EVENTS = 1 << 16

PROCESSES_MAX = 8
"""Processes that write files at the same time."""

SLICE_EVENTS = 1 << 18
"""Events of a file that are made at once, about; more only if there are many channels."""

_SLICE_EVENTS_PER_CHANNEL = 2_000
_MADE_AT = "1970-01-01T00:00:00+00:00"
_LOOK_S = 0.5
_ERROR_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Synthesis:
    """A synthetic run that was written."""

    path: Path
    events: int
    size_bytes: int
    interrupted_by: int | None
    """The signal that ended it early."""


def synthesize(
    found: SynthPlan, directory: Path, on_progress: Callable[[int], None] = lambda _: None
) -> Synthesis:
    """Make a run directory.

    Args:
        directory: new or empty.
        on_progress: takes the number of events written so far, now and then.

    Ctrl-C, SIGTERM and SIGHUP leave whole blocks; the measured part then ends with the shortest
    file.

    Raises: ConfigError for a directory that holds something or that another run writes to,
        TraceError for one that cannot be written to, RunFailedError when a process died. The others
        have ended with it then.
    """
    names = [f"tm-{number}" for number in range(found.load.task_managers)]
    with RunDirectory(directory, must_be_empty=True), interrupts_noted() as interrupts:
        _manifest(found, names, found.end_ns).save(directory)
        workers = _write_files(found, directory, len(names), interrupts, on_progress)
        reached_ns = min(worker.reached_ns for worker in workers)
        if reached_ns < found.end_ns:
            _manifest(found, names, max(reached_ns, found.measured_from_ns + 1)).save(directory)
        seal_run(directory)
    size_bytes = sum((directory / f"{name}.fnt").stat().st_size for name in names)
    events = sum(worker.events for worker in workers)
    return Synthesis(directory, events, size_bytes, interrupts[0] if interrupts else None)


def _write_files(
    found: SynthPlan,
    directory: Path,
    count: int,
    interrupts: Sequence[int],
    on_progress: Callable[[int], None],
) -> list[_Worker]:
    """Write all files, or less of them after an interrupt.

    However it ends, it stops who still writes, and waits for that.
    """
    context = mp.get_context("spawn")
    workers: list[_Worker] = []
    try:
        processes = min(count, PROCESSES_MAX)
        for number in range(processes):
            own = range(number, count, processes)
            workers.append(_Worker(context, found, directory, *own))
        while (
            any(worker.is_alive for worker in workers)
            and not any(worker.has_failed for worker in workers)
            and not interrupts
        ):
            for worker in workers:
                worker.wait(_LOOK_S / processes)
            on_progress(sum(worker.events for worker in workers))
    finally:
        # Who is in the middle of a slice reaches its end; all shall end with the same one.
        reached_ns = max((worker.reached_ns for worker in workers), default=found.end_ns)
        for worker in workers:
            worker.stop(reached_ns + 2 * _slice_ns(found))
        for worker in workers:
            worker.wait(None)
    for worker in workers:
        worker.check()
    return workers


class _Worker:
    """A process that writes one file, or several in turns.

    What it shares with this one is plain memory without locks: each part has one writer, and a
    process that is killed would leave a lock closed.
    """

    def __init__(
        self, context: SpawnContext, found: SynthPlan, directory: Path, *task_managers: int
    ) -> None:
        self._events = context.RawValue(c_longlong, 0)
        self._reached_ns = context.RawValue(c_longlong, found.first_record_ns)
        self._stop_ns = context.RawValue(c_longlong, found.end_ns)
        self._error = context.RawArray(c_char, _ERROR_BYTES)
        self._process = context.Process(
            target=_write_files_of,
            args=(
                json.dumps(to_plain(found)),
                str(directory),
                task_managers,
                (self._events, self._reached_ns, self._stop_ns),
                self._error,
            ),
        )
        self._name = f"tm-{task_managers[0]}"
        resource_tracker.ensure_running()  # the first start would lift the mask
        with interrupts_held(and_terminations=True):
            self._process.start()

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    @property
    def has_failed(self) -> bool:
        return bool(self._process.exitcode)

    @property
    def events(self) -> int:
        return self._events.value

    @property
    def reached_ns(self) -> int:
        return self._reached_ns.value

    def wait(self, timeout_s: float | None) -> None:
        self._process.join(timeout_s)

    def stop(self, at_ns: int) -> None:
        self._stop_ns.value = at_ns

    def check(self) -> None:
        """Raises: TraceError as the process did, RunFailedError if it died."""
        if not self.has_failed:
            return
        if self._error.value:
            raise TraceError(self._error.value.decode(errors="replace"))
        raise RunFailedError(
            f"the process that made {self._name} ended with {self._process.exitcode}"
        )


def _write_files_of(
    plan_json: str,
    directory: str,
    task_managers: Sequence[int],
    counters: Sequence[Any],
    error_text: Any,
) -> None:
    """Runs in a process of its own; signals are the parent's, which says when to stop."""
    ignore_end_signals()
    found: SynthPlan = from_plain(SynthPlan, json.loads(plan_json))
    try:
        write_files(found, Path(directory), task_managers, *counters)
    except TraceError as error:
        error_text.value = str(error).encode()[:_ERROR_BYTES]
        sys.exit(error.exit_code)


def write_file(
    found: SynthPlan, directory: Path, task_manager: int, events: Any, reached_ns: Any, stop_ns: Any
) -> None:
    """Write the file of one TaskManager; see `write_files`."""
    write_files(found, directory, [task_manager], events, reached_ns, stop_ns)


def write_files(
    found: SynthPlan,
    directory: Path,
    task_managers: Sequence[int],
    events: Any,
    reached_ns: Any,
    stop_ns: Any,
) -> None:
    """Write the files of some TaskManagers, slice by slice in turns.

    Args:
        events: counter of what is written.
        reached_ns: goes with it: up to when.
        stop_ns: of the run, where to end early.
    """
    load = found.load
    sides = [channel_ends(found, load, number) for number in task_managers]
    with ExitStack() as stack:
        writers = []
        for number in task_managers:
            process = ProcessInfo(f"tm-{number}", f"tm-{number}.fnt", 0)
            writer = stack.enter_context(TraceWriter(directory / process.file, process))
            writer.write_meta({"synthetic": True, "seed": found.scenario.seed})
            writers.append(writer)
        until_ns, slice_ns = found.first_record_ns, _slice_ns(found)
        while until_ns < min(found.end_ns, stop_ns.value) and _has_parent():
            until_ns = min(until_ns + slice_ns, found.end_ns)
            is_last = until_ns >= found.end_ns
            for ends, writer in zip(sides, writers, strict=True):
                rows = in_order(
                    [end.end(until_ns) if is_last else end.until(until_ns) for end in ends]
                )
                for start in range(0, len(rows), BLOCK_EVENTS):
                    writer.write_events(rows[start : start + BLOCK_EVENTS])
            events.value = sum(writer.events for writer in writers)
            reached_ns.value = until_ns


def _has_parent() -> bool:
    """One that was killed cannot say when to stop."""
    parent = mp.parent_process()
    return parent is None or parent.is_alive()


def channel_ends(found: SynthPlan, load: LoadPlan, task_manager: int) -> list[ChannelEnd]:
    """The ends of channels that a TaskManager has.

    Args:
        load: of the plan.
    """
    sources, sinks = load.sources, load.sinks
    ends = []
    for law, channel in zip(found.laws, load.channels, strict=True):
        is_producer = channel.producer_task_manager == task_manager
        if not is_producer and channel.consumer_task_manager != task_manager:
            continue
        if is_producer:
            pool = sources[channel.producer].outputs[0].pool
        else:
            pool = sinks[channel.consumer].inputs[0].pool
        ends.append(
            ChannelEnd(
                law,
                is_producer=is_producer,
                opened_ns=START_NS,
                pool_buffers=pool.max_buffers,
            )
        )
    return ends


def _slice_ns(found: SynthPlan) -> int:
    """Both ends of a channel must be sliced alike, so it depends on all of them."""
    wanted = max(SLICE_EVENTS, _SLICE_EVENTS_PER_CHANNEL * len(found.laws))
    return max(1, round(wanted / max(found.events_per_s / 2, 1e-9) * 1e9))


def _manifest(found: SynthPlan, names: Sequence[str], end_ns: int) -> RunManifest:
    """Of the whole run; nothing in it depends on when and where it was made."""
    scenario = found.scenario
    return RunManifest(
        scenario=scenario.to_dict(),
        flink_keys=dict(effective_flink_keys(scenario.network)),
        host={SYNTHETIC: True, "skew": found.skew},
        versions={"flinknet": __version__},
        seed=scenario.seed,
        clock=ClockInfo(name="synthetic"),
        started_at=_MADE_AT,
        measured_from_ns=found.measured_from_ns,
        measured_to_ns=end_ns,
        processes=tuple(ProcessInfo(name, f"{name}.fnt", 0) for name in names),
        channels=tuple(
            ChannelInfo(
                index=channel.index,
                receiver_id=channel.receiver_id.hex(),
                producer=channel.producer,
                consumer=channel.consumer,
                producer_process=f"tm-{channel.producer_task_manager}",
                consumer_process=f"tm-{channel.consumer_task_manager}",
                connection=channel.connection,
                subpartition=channel.subpartition,
                partition=channel.partition_id.encode().hex(),
                is_local=False,
            )
            for channel in found.load.channels
        ),
    )
