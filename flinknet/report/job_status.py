"""A job and a cluster while they run, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rich.console import Console

from flinknet.results import (
    ClusterStatus,
    GateDump,
    JobDump,
    JobStatus,
    PartitionDump,
    TaskManagerStatus,
)
from flinknet.results.figures import Figure
from flinknet.units import counted, human_count, human_duration

from .console import LivePanel, print_line
from .job_console import RECORDS_IN, RECORDS_OUT, SHARES, after_text, cells_of, failed_lines, some
from .page_parts import (
    Lines,
    Row,
    Sentence,
    Table,
    View,
    heads,
    heads_of,
)

LINE_EVERY_NS = 5_000_000_000


DUMPED_CHANNELS_MAX = 16
"""Channels of a gate that are listed."""


_STATUS = (
    RECORDS_IN,
    Figure("", "/s", some("records_in_per_s")),
    RECORDS_OUT,
    SHARES[0],
    SHARES[2],
)


class JobView(LivePanel):
    """Follows a job: in place on a terminal, else a line every few seconds if it has changed."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._next_line_ns = 0
        self._printed_state = ""
        self._line = ""

    def update(self, status: JobStatus) -> None:
        """Show where the job stands; changes of its state are printed at once."""
        if self.is_live:
            self.draw(status_view(status))
            return
        state = f"{status.state} {status.restarts} {status.reason}"
        if state != self._printed_state or status.elapsed_ns >= self._next_line_ns:
            self._printed_state = state
            self._next_line_ns = status.elapsed_ns + LINE_EVERY_NS
            if (line := status_line(status)) != self._line:
                self._line = line
                print_line(self.console, line)


def status_line(status: JobStatus) -> str:
    """State of a job, in one line."""
    parts = [f"{status.name or 'job'}: {status.state.lower()}"]
    if status.restarts:
        parts.append(counted(status.restarts, "restart"))
    rate = max((each.records_in_per_s for each in status.vertices), default=0.0)
    if rate:
        parts.append(f"{human_count(rate)} records/s")
    if status.latency_ns_p99 is not None:
        parts.append(f"p99 {human_duration(status.latency_ns_p99)}")
    if status.checkpoints:
        parts.append(counted(status.checkpoints, "checkpoint"))
    if status.reason:
        parts.append(status.reason)
    return ", ".join(parts)


def status_view(status: JobStatus) -> View:
    """State of a job, in full."""
    lines = [*failed_lines(status.failed_attempts), *_sharing_lines(status)]
    return View(
        [Sentence("job", [status_line(status)], takes_rest=True)],
        [*_status_tables(status), Lines(lines)],
    )


def cluster_view(status: ClusterStatus) -> View:
    """A cluster, its jobs, and its TaskManagers, once."""
    alive = [each for each in status.task_managers if each.state in ("registered", "ready")]
    free = sum(each.slots - each.slots_in_use for each in alive)
    heading = (
        f"{counted(len(alive), 'TaskManager')}, {counted(len(status.jobs), 'job')},"
        f" {free} of {counted(sum(each.slots for each in alive), 'slot')} free"
    )
    rows = [
        Row([each.name, each.job_id, each.state.lower(), str(each.slots), each.run_dir])
        for each in status.jobs
    ]
    names = ("id", "state", "slots", "directory")
    jobs = [Table(heads("job", *names, texts=["directory"]), rows)] if rows else []
    return View([Sentence("cluster", [heading])], [*jobs, _manager_table(status.task_managers)])


def _sharing_lines(status: JobStatus) -> Iterator[str]:
    """The connections that a job uses, and whom it shares them and its TaskManagers with."""
    for each in status.connections:
        line = f"  {each.name}: {counted(each.channels, 'channel')} on one connection"
        if each.shared_with:
            line += f", shared with {' and '.join(each.shared_with)}"
        elif status.other_jobs:
            line += " of its own"
        if each.jobs_before:
            line += f"; {counted(each.jobs_before, 'job')} that ended had it before"
        yield line
    for other in status.other_jobs:
        slots = counted(other.slots, "slot")
        yield f"  shares with: {other.name}, {other.state.lower()}, {slots}, {other.run_dir}"


def dump_lines(job: JobDump) -> list[str]:
    """Tasks of a running job by TaskManager and slot, with their records written and read."""
    tasks = [task for each in job.task_managers for task in each.tasks]
    channels = [channel for task in tasks for gate in task.gates for channel in gate.channels]
    local = sum(is_local for _, _, is_local in channels)
    lines = [
        f'"{job.name}" as it runs: {counted(len(tasks), "task")},'
        f" {counted(len(channels), 'channel')}"
        f" ({local} local, {len(channels) - local} remote)"
    ]
    for manager in job.task_managers:
        for task in sorted(manager.tasks, key=lambda each: each.slot):
            lines.append(f"  tm-{manager.index} slot {task.slot}: {task.name}")
            lines += [f"    writes {_partition_line(each)}" for each in task.partitions]
            lines += [
                f"    reads edge {gate.edge}: {_channels_line(gate)}"
                f"; {counted(gate.exclusive_buffers, 'exclusive buffer')}"
                for gate in task.gates
            ]
        lines += [
            f"  tm-{manager.index} keeps {_partition_line(each)}"
            for each in manager.kept_partitions
        ]
    return lines


def _partition_line(partition: PartitionDump) -> str:
    count = counted(partition.subpartitions, "subpartition")
    return f"{partition.id.partition('@')[0]}: {partition.type}, {count}"


def _channels_line(gate: GateDump) -> str:
    shown = [
        f"p{partition}/{subpartition}{' local' if is_local else ''}"
        for partition, subpartition, is_local in gate.channels[:DUMPED_CHANNELS_MAX]
    ]
    hidden = len(gate.channels) - len(shown)
    return ", ".join(shown) + (f" … and {hidden} more" if hidden else "")


def _status_tables(status: JobStatus) -> list[Table]:
    """One of the vertices, if they are known, and one of the TaskManagers."""
    instants = [None if each.times is None else each.times.deployed_ns for each in status.vertices]
    is_staged = len(set(instants)) > 1
    rows = []
    for each, at_ns in zip(status.vertices, instants, strict=True):
        cells = [each.name, str(each.parallelism), each.state, str(each.attempt)]
        cells += [*cells_of(asdict(each), _STATUS), *([after_text(at_ns)] if is_staged else [])]
        rows.append(Row(cells))
    staged = heads("deployed") if is_staged else []
    names = heads("vertex", "tasks", "state", "attempt")
    vertices = Table([*names, *heads_of(_STATUS), *staged], rows)
    return ([vertices] if rows else []) + [_manager_table(status.task_managers)]


def _manager_table(task_managers: Sequence[TaskManagerStatus]) -> Table:
    rows = [
        Row(
            [
                f"tm-{each.index}",
                str(each.pid),
                each.state,
                f"{each.slots_in_use} of {each.slots}",
                str(each.heartbeats),
            ]
        )
        for each in task_managers
    ]
    return Table(heads("TaskManager", "pid", "state", "slots in use", "heartbeats"), rows)
