"""Views of jobs: a result; a job and a cluster while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from operator import itemgetter
from typing import Any

from rich.console import Console

from flinknet import results
from flinknet.plain_values import to_plain
from flinknet.results.figures import BACK_PRESSURED, BUSY, FIGURES, IDLE, Figure, named
from flinknet.units import counted, human_count, human_duration

from . import page_parts
from .console import LivePanel
from .live import LINE_EVERY_NS
from .observed_tables import TASK_PARTS, share_bars
from .warning_lines import doubts_of_runs, trust_words

FAILED_LINES_MAX = 16
"""Failed attempts that are listed."""


def job_view(result: Mapping[str, Any], next_step: str = "") -> page_parts.View:
    """The view of a result as `result.json` has it, with a command that goes on from here."""
    reason, vertices = result["reason"], result["vertices"]
    warnings = [("", [results.RunWarning(**each) for each in result["warnings"]])]
    doubts = doubts_of_runs(warnings)
    rate = max((each["throughput_records_per_s"] or 0 for each in result["edges"]), default=0)
    ran = [heading_of(result), *([f"{human_count(rate)} records/s"] if rate else [])]
    if result["checkpoints"] is not None:
        ran.append(checkpoints_line(result["checkpoints"]))
    verdict = [f"{reason};"] if reason and reason != f"it was {result['state']}" else []
    if result["limited_by"]:
        found = result.get("verdict")
        verdict += [f"{results.state_of(found['cause'])}:"] if found else []
        verdict += page_parts.clauses_of(result["limited_by"])
    following = [*([next_step] if next_step else []), "--details shows edges and attempts"]
    trust = trust_words(doubts, good="the run has no warning")
    is_measured = result["state"] != "failed" or bool(doubts)
    shares = {x["name"]: {part.key: x[part.key] for part in TASK_PARTS} for x in vertices}
    keys = {key: str(to_plain(value)) for key, value in result["config"].items()}
    return page_parts.View(
        [
            page_parts.Sentence("ran", ran),
            page_parts.Sentence("verdict", verdict, " ", takes_rest=True),
            page_parts.Sentence("trust", trust if vertices and is_measured else []),
            page_parts.Sentence("next", following if vertices else []),
        ],
        [vertex_table(vertices)] if vertices else [],
        [
            *_job_details(result),
            page_parts.Lines(doubts_of_runs(warnings, is_explained=True), is_doubt=True),
            page_parts.Pairs("Flink's keys", keys),
        ],
        share_bars(TASK_PARTS, shares, "Share of the time"),
        name="job",
        title=heading_of(result),
        lead="Latency counts from the instant at which a record was due.",
    )


def _job_details(result: Mapping[str, Any]) -> Iterator[page_parts.Part]:
    tasks = [task for vertex in result["vertices"] for task in vertex["tasks"]]
    prior = [
        results.PriorAttempt(**each) for task in tasks for each in task.get("prior_attempts", ())
    ]
    edges = result["edges"]
    columns: dict[str, page_parts.Column] = {
        "edge": lambda x: f"{x['edge_number']} {x['source']} -{x['partitioner']}-> {x['target']}",
        **page_parts.columns_of(_EDGE),
    }
    if edges:
        connections = result["connections"].items()
        shared = [f"{name}: {counted(n, 'channel')} on one connection" for name, n in connections]
        yield page_parts.table_of(edges, columns, notes=shared, unknown="")
    yield page_parts.Lines(list(failed_lines([each for each in prior if each.failure])))


def heading_of(result: Mapping[str, Any]) -> str:
    began = result["duration_ns"] > 0
    when = f"after {human_duration(result['duration_ns'])}" if began else "before it began"
    heading = f"{result['name']}: {result['state']} {when}"
    if result["restarts"]:
        heading += f", {counted(result['restarts'], 'restart')}"
    return heading


def some(name: str) -> Callable[[Mapping[str, Any]], float | None]:
    """Reads a field; 0 is as good as unknown."""
    return lambda row: row[name] or None


PRESSED = replace(BACK_PRESSURED, name="pressed")
"""Back pressure under a short heading."""

RECORDS_IN: Figure[Any] = Figure("", "records in", some("records_in"))

RECORDS_OUT: Figure[Any] = Figure("", "records out", some("records_out"))

_VERTEX = (
    *(RECORDS_IN, RECORDS_OUT, BUSY, IDLE, PRESSED),
    *(replace(FIGURES[f"latency_{each}_ns"], group="") for each in ("p50", "p99")),
)

_EDGE: Sequence[Figure[Any]] = (
    Figure("", "channels", itemgetter("channels")),
    Figure("", "local", itemgetter("local_channels"), "count", "",
           "Channels between tasks of one TaskManager: no socket and no credit."),
    Figure("", "records", itemgetter("records")),
    *named(["throughput_records_per_s", "throughput_bytes_per_s"]),
    Figure("", "buffers", some("buffers")),
    replace(FIGURES["backlog_mean_buffers"], name="backlog", group=""),
    replace(FIGURES["backlog_max_buffers"], group=""),
    Figure("", "no credit", itemgetter("starved_ns"), "ns", "",
           "Time with a backlog and without credit, of all channels together."),
)  # fmt: skip


_TASKS = {"tasks": "parallelism"}
_ATTEMPTS = {"tasks": "parallelism", "state": "state", "attempt": "attempt"}


def vertex_table(
    vertices: Sequence[Mapping[str, Any]],
    fields: Mapping[str, str] = _TASKS,
    figures: Sequence[Figure[Any]] = _VERTEX,
) -> page_parts.Table:
    """Some fields by heading, and figures, of each vertex; with the time from the first deployment
    to its own, where not all were deployed at once."""

    def deployed(vertex: Mapping[str, Any]) -> str:
        at_ns = (vertex.get("times") or {}).get("deployed_ns")
        return "" if at_ns is None else f"+{human_duration(at_ns)}" if at_ns else "at once"

    columns: dict[str, page_parts.Column] = {"vertex": "name", **fields}
    columns |= page_parts.columns_of(figures)
    if len(set(map(deployed, vertices))) > 1:
        columns["deployed"] = deployed
    return page_parts.table_of(vertices, columns, unknown="")


def failed_lines(attempts: Sequence[results.PriorAttempt]) -> Iterator[str]:
    """The attempts that failed before the current ones; of many only the last."""
    hidden = len(attempts) - FAILED_LINES_MAX
    if hidden > 0:
        yield f"  {counted(hidden, 'earlier failed attempt')} in result.json"
    for each in attempts[-FAILED_LINES_MAX:]:
        where = f" on {each.task_manager}" if each.task_manager else ""
        yield f"  {each.task} attempt {each.attempt} failed{where}: {each.failure}"


def checkpoints_line(summary: Mapping[str, Any]) -> str:
    text = f"{summary['completed']} of {counted(summary['triggered'], 'checkpoint')} completed"
    took_ns = summary["duration_ns"]
    name = "mean" if took_ns["p50"] is None else "p50"
    text += "" if took_ns[name] is None else f", {name} {human_duration(took_ns[name])}"
    return text + (f", {summary['aborted']} aborted" if summary["aborted"] else "")


_STATUS = (RECORDS_IN, Figure("", "/s", some("records_in_per_s")), *(RECORDS_OUT, BUSY, PRESSED))


class JobView(LivePanel):
    """Follows a job: in place on a terminal, else a line every few seconds if it has changed."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, LINE_EVERY_NS)
        self._printed_state = ""
        self._line = ""

    def update(self, status: results.JobStatus) -> None:
        """Show where the job stands; changes of its state are printed at once."""
        if self.is_live:
            self.draw(status_view(status))
            return
        state = f"{status.state} {status.restarts} {status.reason}"
        if self.is_due(status.elapsed_ns, is_urgent=state != self._printed_state):
            self._printed_state = state
            if (line := status_line(status)) != self._line:
                self._line = line
                self.print(line)


def status_line(status: results.JobStatus) -> str:
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


def status_view(status: results.JobStatus) -> page_parts.View:
    lines = [*failed_lines(status.failed_attempts), *_sharing_lines(status)]
    vertices = [asdict(each) for each in status.vertices]
    return page_parts.View(
        [page_parts.Sentence("job", [status_line(status)], takes_rest=True)],
        [
            *([vertex_table(vertices, _ATTEMPTS, _STATUS)] if vertices else []),
            _manager_table(status.task_managers),
            page_parts.Lines(lines),
        ],
    )


def cluster_view(status: results.ClusterStatus) -> page_parts.View:
    alive = [each for each in status.task_managers if each.state in ("registered", "ready")]
    free = sum(each.slots - each.slots_in_use for each in alive)
    heading = (
        f"{counted(len(alive), 'TaskManager')}, {counted(len(status.jobs), 'job')},"
        f" {free} of {counted(sum(each.slots for each in alive), 'slot')} free"
    )
    columns: Mapping[str, page_parts.Column] = {
        **{"job": "name", "id": "job_id"},
        "state": lambda each: each.state.lower(),
        **{"slots": "slots", "directory": "run_dir"},
    }
    jobs = [page_parts.table_of(status.jobs, columns, texts=["directory"])] if status.jobs else []
    return page_parts.View(
        [page_parts.Sentence("cluster", [heading])], [*jobs, _manager_table(status.task_managers)]
    )


def _sharing_lines(status: results.JobStatus) -> Iterator[str]:
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


def _manager_table(task_managers: Sequence[results.TaskManagerStatus]) -> page_parts.Table:
    columns: Mapping[str, page_parts.Column] = {
        "TaskManager": lambda each: f"tm-{each.index}",
        "pid": lambda each: str(each.pid),
        "state": "state",
        "slots in use": lambda each: f"{each.slots_in_use} of {each.slots}",
        "heartbeats": "heartbeats",
    }
    return page_parts.table_of(task_managers, columns)
