"""The result of a job on a terminal: a table of its vertices, one of its edges, what limited it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from flinknet.results import (
    ClusterStatus,
    GateDump,
    JobDump,
    JobStatus,
    PartitionDump,
    PriorAttempt,
    TaskManagerStatus,
)
from flinknet.units import NS_PER_MS, counted, human_bytes, human_count, human_duration

from .console import print_line
from .number_table import print_table

AGREES_WITHIN = 0.1
AGREES_WITHIN_MS = 2.0
"""Two roundings to whole ms."""

WHY = (
    "A marker is stamped in whole ms when its source gets to send it, and passes functions and"
    " delays by; a record counts from when it was due until its operator is done with it."
)

LINE_EVERY_NS = 5_000_000_000
DUMPED_CHANNELS_MAX = 16
"""Channels of a gate that are listed."""

FAILED_LINES_MAX = 16
"""Failed attempts that are listed."""


def print_job(console: Console, result: Mapping[str, Any]) -> None:
    """The tables of a result as `result.json` has it, and its doubts."""
    state, reason = result["state"], result["reason"]
    print_line(console, Text(heading_of(result), style="bold"))
    if reason and reason != f"it was {state}":
        print_line(console, reason)
    tasks = [task for vertex in result["vertices"] for task in vertex["tasks"]]
    prior = (PriorAttempt(**each) for task in tasks for each in task.get("prior_attempts", ()))
    _print_failed(console, [each for each in prior if each.failure])
    if not result["vertices"]:
        return
    print_table(console, vertex_table(result["vertices"]))
    if result["edges"]:
        print_table(console, edge_table(result["edges"]))
    for name, channels in result["connections"].items():
        console.print(Text(f"  {name}: {counted(channels, 'channel')} on one connection", "dim"))
    checkpoints = result["checkpoints"]
    if checkpoints is not None:
        console.print(Text(checkpoints_line(checkpoints)))
    if result["latency_markers"] is not None:
        print_latency_markers(console, result["latency_markers"])
    if result["limited_by"]:
        print_line(console, f"Bottleneck: {result['limited_by']}")
    for warning in result["warnings"]:
        print_line(console, Text.assemble(("Warning", "yellow"), f": {warning['text']}"))


def heading_of(result: Mapping[str, Any]) -> str:
    """How a job ended, and when."""
    began = result["duration_ns"] > 0
    when = f"after {human_duration(result['duration_ns'])}" if began else "before it began"
    heading = f"{result['name']}: {result['state']} {when}"
    if result["restarts"]:
        heading += f", {counted(result['restarts'], 'restart')}"
    return heading


def vertex_table(vertices: Sequence[Mapping[str, Any]]) -> Table:
    """Records, times and latency of each vertex."""
    table = _table("vertex", "tasks", "records in", "records out", "busy", "idle", "pressed")
    for name in ("p50", "p99"):
        table.add_column(name, justify="right", no_wrap=True)
    deployed_ns = [(each.get("times") or {}).get("deployed_ns") for each in vertices]
    if is_staged := len({at_ns for at_ns in deployed_ns if at_ns is not None}) > 1:
        table.add_column("deployed", justify="right", no_wrap=True)
    for each, at_ns in zip(vertices, deployed_ns, strict=True):
        latency = each["latency_ns"]
        table.add_row(
            escape(each["name"]),
            str(each["parallelism"]),
            human_count(each["records_in"]) if each["records_in"] else "",
            human_count(each["records_out"]) if each["records_out"] else "",
            *(_share(each[name]) for name in ("busy", "idle", "back_pressured")),
            human_duration(latency["p50"]) if latency else "",
            human_duration(latency["p99"]) if latency else "",
            *([_after(at_ns)] if is_staged else []),
        )
    return table


def _after(at_ns: int | None) -> str:
    """How long after the first deployment."""
    return "" if at_ns is None else f"+{human_duration(at_ns)}" if at_ns else "at once"


def edge_table(edges: Sequence[Mapping[str, Any]]) -> Table:
    """Records and buffers of each edge."""
    columns = {
        "edge": [
            escape(f"{each['index']} {each['source']} -{each['partitioner']}-> {each['target']}")
            for each in edges
        ],
        "channels": [str(each["channels"]) for each in edges],
        "local": [str(each["local_channels"]) for each in edges],
        "records": [human_count(each["records"]) for each in edges],
        "records/s": [human_count(each["throughput_records_per_s"]) for each in edges],
        "bytes/s": [human_bytes(each["throughput_bytes_per_s"]) for each in edges],
        "buffers": [human_count(each["buffers"]) if each["buffers"] else "" for each in edges],
        "backlog": [_mean(each["backlog_buffers"]["mean"]) for each in edges],
        "max": [_known(each["backlog_buffers"]["max"]) for each in edges],
        "no credit": [
            "" if each["starved_ns"] is None else human_duration(each["starved_ns"])
            for each in edges
        ],
    }
    table = _table(*columns)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    return table


class JobView:
    """Follows a job: in place on a terminal, else a line every few seconds if it has changed."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = (
            Live(console=console, transient=True, refresh_per_second=8)
            if console.is_terminal
            else None
        )
        self._next_line_ns = 0
        self._printed_state = ""
        self._line = ""

    def __enter__(self) -> JobView:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, status: JobStatus) -> None:
        """Show where the job stands; changes of its state are printed at once."""
        if self._live is not None:
            self._live.update(status_panel(status))
            return
        state = f"{status.state} {status.restarts} {status.reason}"
        if state != self._printed_state or status.elapsed_ns >= self._next_line_ns:
            self._printed_state = state
            self._next_line_ns = status.elapsed_ns + LINE_EVERY_NS
            if (line := status_line(status)) != self._line:
                self._line = line
                print_line(self._console, line)


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


def print_status(console: Console, status: JobStatus) -> None:
    """State of a job, in full."""
    print_line(console, status_line(status))
    _print_failed(console, status.failed_attempts)
    for table in _status_tables(status):
        print_table(console, table)
    for line in _sharing_lines(status):
        print_line(console, Text(line, "dim"))


def print_cluster(console: Console, status: ClusterStatus) -> None:
    """A cluster, its jobs, and its TaskManagers, once."""
    alive = [each for each in status.task_managers if each.state in ("registered", "ready")]
    free = sum(each.slots - each.slots_in_use for each in alive)
    heading = (
        f"cluster: {counted(len(alive), 'TaskManager')}, {counted(len(status.jobs), 'job')},"
        f" {free} of {counted(sum(each.slots for each in alive), 'slot')} free"
    )
    print_line(console, heading)
    if status.jobs:
        jobs = _table("job", "id", "state", "slots")
        jobs.add_column("directory", overflow="fold")
        for each in status.jobs:
            state, slots = each.state.lower(), str(each.slots)
            jobs.add_row(escape(each.name), each.job_id, state, slots, escape(each.run_dir))
        print_table(console, jobs)
    print_table(console, _manager_table(status.task_managers))


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


def _print_failed(console: Console, attempts: Sequence[PriorAttempt]) -> None:
    """The attempts that failed before the current ones; of many only the last."""
    hidden = len(attempts) - FAILED_LINES_MAX
    if hidden > 0:
        console.print(Text(f"  {counted(hidden, 'earlier failed attempt')} in result.json", "dim"))
    for each in attempts[-FAILED_LINES_MAX:]:
        where = f" on {each.task_manager}" if each.task_manager else ""
        text = f"  {each.task} attempt {each.attempt} failed{where}: {each.failure}"
        print_line(console, Text(text, "dim"))


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


def status_panel(status: JobStatus) -> RenderableType:
    """State of a job for a view that follows it."""
    return Group(Text(status_line(status)), *_status_tables(status))


def _status_tables(status: JobStatus) -> list[Table]:
    """One of the vertices, if they are known, and one of the TaskManagers."""
    vertices = _table(
        *("vertex", "tasks", "state", "attempt", "records in", "/s", "records out"),
        *("busy", "pressed"),
    )
    instants = [None if each.times is None else each.times.deployed_ns for each in status.vertices]
    if is_staged := len(set(instants)) > 1:
        vertices.add_column("deployed", justify="right", no_wrap=True)
    for each, at_ns in zip(status.vertices, instants, strict=True):
        vertices.add_row(
            escape(each.name),
            str(each.parallelism),
            each.state,
            str(each.attempt),
            human_count(each.records_in) if each.records_in else "",
            human_count(each.records_in_per_s) if each.records_in_per_s else "",
            human_count(each.records_out) if each.records_out else "",
            _share(each.busy),
            _share(each.back_pressured),
            *([_after(at_ns)] if is_staged else []),
        )
    return ([vertices] if status.vertices else []) + [_manager_table(status.task_managers)]


def _manager_table(task_managers: Sequence[TaskManagerStatus]) -> Table:
    managers = _table("TaskManager", "pid", "state", "slots in use", "heartbeats")
    for manager in task_managers:
        managers.add_row(
            f"tm-{manager.index}",
            str(manager.pid),
            manager.state,
            f"{manager.slots_in_use} of {manager.slots}",
            str(manager.heartbeats),
        )
    return managers


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _mean(buffers: float | None) -> str:
    return "" if buffers is None else f"{buffers:.1f}"


def _known(count: int | None) -> str:
    return "" if count is None else str(count)


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def checkpoints_line(summary: Mapping[str, Any]) -> str:
    """How many there were, and how long they took."""
    text = f"{summary['completed']} of {counted(summary['triggered'], 'checkpoint')} completed"
    if summary["duration_ns"]["p50"] is not None:
        text += f", p50 {human_duration(summary['duration_ns']['p50'])}"
    elif summary["duration_ns"]["mean"] is not None:
        text += f", mean {human_duration(summary['duration_ns']['mean'])}"
    if summary["aborted"]:
        text += f", {summary['aborted']} aborted"
    return text


def print_latency_markers(console: Console, measured: Mapping[str, Any]) -> None:
    """A table of the operators, and how far to trust it."""
    interval, history = human_duration(measured["interval_ns"]), measured["history"]
    heading = f"Latency markers every {interval}; each subtask keeps the last {history}"
    if not measured["operators"]:
        print_line(console, f"{heading}. None came to an operator.")
        return
    print_line(console, f"{heading}:")
    console.print(_table_of_markers(measured))
    print_line(console, trust_of(measured))


def trust_of(measured: Mapping[str, Any]) -> str:
    """Lines on how well the markers show the age of records, where that was measured."""
    sources = {each["source"] for each in measured["operators"]}
    found = []
    for each in measured["operators"]:
        records = each["records_ns"]
        name = next((n for n in ("p99", "p50") if records and records[n] is not None), None)
        if name is None:
            continue
        compared = _compared(each["latency_ms"][name], records[name] / NS_PER_MS)
        source = f", from {each['source']}" if len(sources) > 1 and each["source"] else ""
        found.append(f"at {each['operator']}{source} their {name} is {compared}")
    if not found:
        return (
            f"To see how far to trust them, measure the true latency with measure_latency(). {WHY}"
        )
    return f"How far to trust them: {'; '.join(found)}. {WHY}"


def _compared(marker_ms: float, record_ms: float) -> str:
    if abs(marker_ms - record_ms) <= max(AGREES_WITHIN_MS, AGREES_WITHIN * record_ms):
        return "near that of the records"
    if marker_ms < record_ms:
        return f"{marker_ms / record_ms:.1%} of that of the records"
    return f"{marker_ms / record_ms:.1f} times that of the records"


def _table_of_markers(measured: Mapping[str, Any]) -> Table:
    """A line for each operator and source; columns that nothing is known for are left out."""
    has_sources = any(each["source"] for each in measured["operators"])
    has_records = any(each["records_ns"] for each in measured["operators"])
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("operator", overflow="fold")
    if has_sources:
        table.add_column("markers from", overflow="fold")
    numbers = ["markers", "p50", "p99", "max"]
    numbers += ["records p50", "records p99"] if has_records else []
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    for each in measured["operators"]:
        latency, records = each["latency_ms"], each["records_ns"]
        cells = [escape(each["operator"])]
        if has_sources:
            cells.append(escape(each["source"]))
        cells.append(human_count(each["markers"]))
        cells += [human_duration(latency[name] * NS_PER_MS) for name in ("p50", "p99", "max")]
        if has_records:
            cells += [human_duration(records[name]) if records else "" for name in ("p50", "p99")]
        table.add_row(*cells)
    return table
