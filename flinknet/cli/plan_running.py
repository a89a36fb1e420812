"""`flinknet plan --rest`: network memory of a running job, now and at another parallelism."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinknet.errors import ConfigError
from flinknet.units import counted, human_bytes

from .files import STDOUT, put_json, say_warnings, show

if TYPE_CHECKING:
    from flinknet.capture.rest.answers import RestAnswers
    from flinknet.core.wire.ids import JobVertexID
    from flinknet.graph import PhysicalPlan
    from flinknet.graph.job_config import JobConfig
    from flinknet.graph.running_job import RunningJob, RunningTaskManager, RunningVertex
    from flinknet.report.page_parts import Part, Sentence, View


SCHEMA_VERSION = 1

_BUFFERS = {
    "needed_buffers": "to start",
    "wanted_buffers": "for full speed",
    "most_buffers": "with overdraft",
}
"""Headings of the numbers of buffers that a TaskManager needs, by field of the plan's buffers."""


def show_running_plan(values: Mapping[str, Any], settings: Mapping[str, str]) -> bool:
    """Print the network memory of a running job, and of the job as planned.

    Args:
        values: the options of `plan`.
        settings: Flink's keys of -D and --flink-conf.

    Returns: whether it would start as planned.
    Raises: ConfigError for an unknown job or vertex; RemoteTransportError.
    """
    from flinknet.capture.rest import jobs as ask
    from flinknet.capture.rest.answers import PLAN, SavedJob
    from flinknet.graph import execution_graph_of, physical_plan_of
    from flinknet.graph.placements import placement_bounds, shortage_in
    from flinknet.graph.planning import job_graph_of_running, running_plan

    from .replay_options import answers_of

    rest, save_to, parallelism = values["rest"], values["rest_save"], values["parallelism"]
    task_managers, slots = values["task_managers"], values["slots"]
    parallelisms = _wanted(parallelism)
    answers: RestAnswers
    if Path(rest).is_file():
        answers = SavedJob(Path(rest))
    else:
        answers = answers_of(values, None if save_to is None else Path(save_to))
    chosen = _chosen(ask.read_jobs(answers, may_lack_places=True), values["job_name"])
    if not chosen.vertices:
        raise ConfigError(f"--rest: {chosen.name} has no tasks yet (it is {chosen.state})")
    managers = (
        ask.read_task_managers(answers, with_memory=True) if answers.has("/taskmanagers") else ()
    )
    of_cluster = ask.read_settings(answers) if answers.has("/jobmanager/config") else {}
    config = _config(managers, of_cluster, settings)
    wanted, notes = _scaled(chosen, parallelisms)
    now, planned = None, None
    try:
        now = running_plan(chosen, config, managers)
    except ConfigError as error:
        why = f"{error} (the job is {chosen.state})"
        if not any(each.subtasks for each in chosen.vertices):
            why = "no answer says where its tasks are"
        if chosen.state != PLAN:
            notes.insert(0, f"placed anew, not as it runs: {why}")
    if not managers:
        notes.insert(0, "slots and network memory are assumed; --slots and -D set them")
    if now is None or parallelism is not None or task_managers or slots:
        graph = execution_graph_of(job_graph_of_running(wanted, config))
        slots = slots or max((each.slots for each in managers), default=config.task_slots)
        planned = physical_plan_of(graph, task_managers=task_managers, slots_per_task_manager=slots)
    judged = planned or now
    would_start = judged is None or shortage_in(judged, placement_bounds(judged)) is None
    if values["form"] == "json":
        running = None if now is None else _plan_document(now)
        if running is not None:
            running["task_managers"] = [
                {"name": each.id, "used_buffers": each.network_segments_used, **buffers}
                for each, buffers in zip(managers, running["task_managers"], strict=True)
            ]
        document = {
            "schema_version": SCHEMA_VERSION,
            "job": {"id": chosen.id, "name": chosen.name, "state": chosen.state},
            "running": running,
            "planned": None if planned is None else _plan_document(planned),
            "notes": notes,
        }
        put_json(STDOUT, document)
    else:
        show(_view(chosen, managers, now, planned, notes, would_start))
    return would_start


def _chosen(jobs: Sequence[RunningJob], wanted: str | None) -> RunningJob:
    found = [
        each for each in jobs if wanted is None or each.name == wanted or each.id.startswith(wanted)
    ]
    if len(found) == 1:
        return found[0]
    names = ", ".join(f"{each.name} ({each.id[:8]})" for each in jobs) or "none"
    if not found:
        raise ConfigError(f"--job-name: no such job is running; there are: {names}")
    raise ConfigError(f"{len(found)} jobs are running; choose one with --job-name: {names}")


def _config(
    managers: Sequence[RunningTaskManager], of_cluster: Mapping[str, str], given: Mapping[str, str]
) -> JobConfig:
    """The cluster's settings for plans, overridden by the given ones. Network memory comes from
    TaskManagers' reports unless a taskmanager.memory key is given."""
    from flinknet import options as flink
    from flinknet.capture.rest.settings import network_memory_keys
    from flinknet.graph.job_config import job_config

    known, warnings = flink.network_settings(of_cluster)
    say_warnings(warnings)
    merged = known | dict(given)
    memory = network_memory_keys(managers)
    if memory and not any(key.startswith("taskmanager.memory.") for key in given):
        merged = {k: v for k, v in merged.items() if not k.startswith("taskmanager.memory.")}
        merged |= memory
    config, doubts = job_config(merged)
    say_warnings(each for each in doubts if each.text.startswith(flink.ADAPTIVE_PARTITIONER))
    return config


def _wanted(text: str | None) -> list[tuple[str | None, int]] | None:
    """Parse --parallelism: pairs of a vertex's name and a number; the name is None for a number
    that applies to all vertices. None without the option."""
    if text is None:
        return None
    found: list[tuple[str | None, int]] = []
    for part in text.split(","):
        name, equals, number = part.rpartition("=")
        if not number.strip().isdecimal() or not int(number):
            raise ConfigError(
                f"--parallelism: {part.strip()!r} is not a number of subtasks; write 8, or NAME=8,"
                " where NAME is a part of a vertex's name without commas"
            )
        found.append((name.strip() if equals else None, int(number)))
    return found


def _scaled(
    job: RunningJob, wanted: Sequence[tuple[str | None, int]] | None
) -> tuple[RunningJob, list[str]]:
    """The job at another parallelism, and notes on vertices that keep theirs and on exchanges that
    change.

    Raises: ConfigError for an unknown vertex, and above a vertex's maximum parallelism.
    """
    from flinknet.core.producer.channel_selector import default_max_parallelism

    highest = max(each.parallelism for each in job.vertices)
    named = [name for name, _ in wanted or () if name is not None]
    found: dict[JobVertexID, int] = {}
    notes = []
    for name, number in sorted(wanted or (), key=lambda each: each[0] is not None):
        for each in job.vertices if name is None else _named(job, name):
            is_given = 0 < each.max_parallelism != default_max_parallelism(each.parallelism)
            if is_given and number > each.max_parallelism:
                why = f"its maximum parallelism is {each.max_parallelism}"
                if name is not None:
                    raise ConfigError(f"--parallelism: {each.name} cannot have {number}: {why}")
            elif name is None and each.parallelism == 1 < highest:
                why = (
                    f"it has one subtask; --parallelism '{number},{each.name}={number}' changes it"
                )
            else:
                found[each.id] = number
                if 0 < each.max_parallelism < number:
                    notes.append(
                        f"{each.name} exceeds its maximum parallelism of {each.max_parallelism}:"
                        " the job starts with more only without its state"
                    )
                continue
            if not any(each in _named(job, other) for other in named):
                notes.append(f"{each.name} stays at {each.parallelism}: {why}")
    scaled = job.with_parallelism(found)
    for (source, target, before), (_, _, after) in zip(job.edges(), scaled.edges(), strict=True):
        if before != after:
            notes.append(
                f"{source.name} -> {target.name} becomes a rebalance: a forward exchange needs"
                " equal parallelisms"
            )
    return scaled, notes


def _named(job: RunningJob, name: str) -> list[RunningVertex]:
    """The vertices with a name or an id, or the one vertex with this part in its name."""
    found = [each for each in job.vertices if name in (each.name, str(each.id))]
    if not found:
        part = name.lower()
        found = [each for each in job.vertices if part in each.name.lower()]
        starts = [each for each in found if each.name.lower().startswith(part)]
        found = starts if len(starts) == 1 else found
        if len(found) != 1:
            names = ", ".join(each.name for each in job.vertices)
            what = (
                f"several vertices match {name!r}" if found else f"the job has no vertex {name!r}"
            )
            raise ConfigError(f"--parallelism: {what}; it has {names}")
    return found


def _view(
    job: RunningJob,
    managers: Sequence[RunningTaskManager],
    now: PhysicalPlan | None,
    planned: PhysicalPlan | None,
    notes: Sequence[str],
    would_start: bool,
) -> View:
    """A job as it runs and as planned, each if known, with notes on the plan; whether it would
    start as planned or, without a plan, as it runs; and its network memory."""
    from flinknet.capture.rest.answers import PLAN
    from flinknet.report.page_parts import Lines, Row, Sentence, Table, View, heads

    of_cluster = "" if job.state == PLAN else f" ({job.state}, {job.id[:8]})"
    runs = [f"{job.name}{of_cluster}: {_vertices(job)}"]
    parts: list[Part] = []
    if now is not None:
        runs.append(_channels(now))
        rows = []
        for manager, buffers in zip(managers, now.buffers(), strict=True):
            used = manager.network_segments_used
            numbers = [buffers.total_buffers, *(getattr(buffers, each) for each in _BUFFERS)]
            total, *needed = (f"{each:,}" for each in numbers)
            in_use = "unknown" if used is None else f"{used:,}"
            rows.append(Row([manager.id, total, in_use, *needed]))
        size = human_bytes(now.network.segment_size_bytes)
        names = heads("TaskManager", "in all", "in use", *_BUFFERS.values())
        note = "in use: by all jobs, while they run; a pool takes its buffers when it needs them"
        parts.append(Table(names, rows, f"network buffers of {size} as it runs", [note]))
    to_plan = []
    if planned is not None:
        slots = counted(planned.slots_per_task_manager, "slot")
        where = f"{counted(planned.task_managers, 'TaskManager')} with {slots} each"
        to_plan = [f"{_vertices(planned)} on {where}", _channels(planned)]
    elif now is not None and not would_start:
        to_plan = ["started again as it runs"]
    judged = planned or now
    grade = "fair" if notes or now is None else "good"
    reason = "" if now is None else "network memory and slots as the TaskManagers report them"
    trust = [each for each in (*notes[:1], reason) if each]
    step = "--parallelism 16 plans it at another parallelism"
    if planned is not None:
        step = "nothing to change: the network memory suffices"
    graded = [f"{grade}: {trust[0]}", *trust[1:]] if trust else []
    return View(
        [
            Sentence("runs", runs, "; "),
            Sentence("planned", to_plan, "; "),
            *(memory_sentences(judged, step, graded) if judged is not None else ()),
        ],
        [*parts, Lines(notes)],
    )


def memory_sentences(
    plan: PhysicalPlan, next_step: str, trust: Sequence[str] = ()
) -> list[Sentence]:
    """Whether a job would start as planned, the network memory that it needs, and what to do.

    Args:
        next_step: where there is enough memory.
        trust: clauses about the plan; none: nothing is in doubt.
    """
    from flinknet.graph.placements import placement_bounds, verdict
    from flinknet.report.page_parts import Sentence

    bounds = placement_bounds(plan)
    judged, _, remedy = verdict(plan, bounds).partition("; ")
    least = bounds.worst.needed_buffers
    size = human_bytes(least * plan.network.segment_size_bytes)
    memory = [
        f"each needs {least} ({size}) of its {bounds.worst.total_buffers} buffers",
        f"{bounds.fastest.wanted_buffers} for full speed, {bounds.most_buffers} with overdraft",
        *([f"{bounds.best_buffers} in the best placement"] if bounds.best_buffers < least else []),
    ]
    following = remedy.split(", ") if remedy else [next_step]
    return [
        Sentence("verdict", [judged], takes_rest=True),
        Sentence("memory", [] if remedy else memory, "; "),
        Sentence("trust", trust, "; "),
        Sentence("next", following, ", "),
    ]


def _vertices(of: RunningJob | PhysicalPlan) -> str:
    return ", ".join(f"{each.name} x {each.parallelism}" for each in of.vertices)


def _channels(plan: PhysicalPlan) -> str:
    return f"{counted(plan.channels_total, 'channel')}, {plan.local_channels:,} of them local"


def _plan_document(plan: PhysicalPlan) -> dict[str, Any]:
    from flinknet.graph.documents import placements_document
    from flinknet.graph.placements import placement_bounds, shortage_in, verdict

    bounds = placement_bounds(plan)
    return {
        "segment_size_bytes": plan.network.segment_size_bytes,
        "vertices": [
            {"name": each.name, "parallelism": each.parallelism} for each in plan.vertices
        ],
        "channels": plan.channels_total,
        "local_channels": plan.local_channels,
        "slots_per_task_manager": plan.slots_per_task_manager,
        "placements": placements_document(bounds),
        "would_start": shortage_in(plan, bounds) is None,
        "verdict": verdict(plan, bounds),
        "task_managers": [
            {"total_buffers": each.total_buffers} | {name: getattr(each, name) for name in _BUFFERS}
            for each in plan.buffers()
        ],
    }
