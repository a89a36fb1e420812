"""`flinknet plan --rest`: network memory that a running job takes, and would need at another
parallelism."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flinknet.errors import ConfigError
from flinknet.units import human_bytes

if TYPE_CHECKING:
    from flinknet.core.wire.ids import JobVertexID
    from flinknet.graph import PhysicalPlan
    from flinknet.graph.job_config import JobConfig
    from flinknet.graph.running_job import RunningJob, RunningTaskManager, RunningVertex

SCHEMA_VERSION = 1

_BUFFERS = {
    "needed_buffers": "to start",
    "wanted_buffers": "for full speed",
    "most_buffers": "with overdraft",
}
"""What a TaskManager needs of its buffers -> heading."""


def show_running_plan(
    rest: str,
    token_file: str | None,
    save_to: str | None,
    *,
    job: str | None,
    parallelism: str | None,
    task_managers: int | None,
    slots: int | None,
    settings: Mapping[str, str],
    as_json: bool,
) -> bool:
    """Print both. Returns: whether the job would start at that parallelism.

    Raises: ConfigError for a job or vertex that is not there; RemoteTransportError.
    """
    from flinknet.capture.rest import jobs as ask
    from flinknet.graph.running_plan import other_plan, running_plan

    from .rest_options import answers_of

    wanted_of = _wanted(parallelism)
    if wanted_of is None and (task_managers is not None or slots is not None):
        raise ConfigError("with --rest, --task-managers and --slots need --parallelism")
    answers = answers_of(rest, token_file, None if save_to is None else Path(save_to))
    chosen = _chosen(ask.read_jobs(answers), job)
    managers = ask.read_task_managers(answers, with_memory=True)
    config = _config(managers, ask.read_settings(answers), settings)
    now = running_plan(chosen, config, managers)
    planned = None
    if wanted_of is not None:
        wanted = chosen.with_parallelism(_parallelism(chosen, wanted_of))
        planned = other_plan(
            wanted,
            config,
            task_managers=task_managers,
            slots_per_task_manager=slots or now.slots_per_task_manager,
        )
    if as_json:
        from flinknet.report.export import dump

        click.echo(dump(_document(chosen, managers, now, planned)), nl=False)
    else:
        click.echo("\n".join(_lines(chosen, managers, now, planned)))
    return planned is None or planned.shortage() is None


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
    managers: Sequence[RunningTaskManager],
    of_cluster: Mapping[str, str],
    given: Mapping[str, str],
) -> JobConfig:
    """The cluster's settings, as far as plans depend on them, with what was given; network memory
    is what TaskManagers report."""
    from flinknet import options as flink
    from flinknet.capture.rest.settings import network_memory_keys
    from flinknet.graph.job_config import job_config

    known, warnings = flink.network_settings(of_cluster)
    for warning in warnings:
        click.echo(f"flinknet: {warning.text}", err=True)
    merged = known | dict(given)
    memory = network_memory_keys(managers)
    if memory and not any(key.startswith("taskmanager.memory.") for key in given):
        merged = {k: v for k, v in merged.items() if not k.startswith("taskmanager.memory.")}
        merged |= memory
    return job_config(merged)[0]


def _wanted(text: str | None) -> list[tuple[str | None, int]] | None:
    """What --parallelism says: names of vertices, None for those with the highest, each with a
    number; None if it is not given."""
    if text is None:
        return None
    found: list[tuple[str | None, int]] = []
    for part in text.split(","):
        name, equals, number = part.rpartition("=")
        if not number.strip().isdecimal() or not int(number):
            raise ConfigError(
                f"--parallelism: {part.strip()!r} is not a number of subtasks; write 8, or NAME=8"
            )
        found.append((name.strip() if equals else None, int(number)))
    return found


def _parallelism(
    job: RunningJob, wanted: Sequence[tuple[str | None, int]]
) -> dict[JobVertexID, int]:
    """New parallelism by vertex, where it changes."""
    highest = max(each.parallelism for each in job.vertices)
    found: dict[JobVertexID, int] = {}
    for name, number in wanted:
        if name is not None:
            vertices = _named(job, name)
        else:
            vertices = [each for each in job.vertices if each.parallelism == highest]
        found |= {each.id: number for each in vertices}
    return found


def _named(job: RunningJob, name: str) -> list[RunningVertex]:
    found = [each for each in job.vertices if name in (each.name, str(each.id))]
    if not found:
        names = ", ".join(each.name for each in job.vertices)
        raise ConfigError(f"--parallelism: the job has no vertex {name!r}; it has {names}")
    return found


def _lines(
    job: RunningJob,
    managers: Sequence[RunningTaskManager],
    now: PhysicalPlan,
    planned: PhysicalPlan | None,
) -> list[str]:
    size = now.network.segment_size_bytes
    lines = [
        f"{job.name} ({job.state}, {job.id[:8]}): {_vertices(job)}; {_channels(now)}",
        "",
        f"network buffers of {human_bytes(size)} as it runs",
        f"  {'TaskManager':<24}{'in all':>9}{'in use':>9}"
        + "".join(f"{each:>16}" for each in _BUFFERS.values()),
    ]
    for manager, buffers in zip(managers, now.buffers(), strict=True):
        used = manager.network_segments_used
        lines.append(
            f"  {manager.id:<24}{buffers.total_buffers:>9,}"
            f"{'unknown' if used is None else f'{used:,}':>9}"
            + "".join(f"{getattr(buffers, each):>16,}" for each in _BUFFERS)
        )
    lines.append(f"  {buffers_in_words(now, placement_bounds(now))}")
    if planned is not None:
        lines += [
            "",
            f"planned: {_vertices(planned)} on {planned.task_managers} TaskManagers with"
            f" {planned.slots_per_task_manager} slots each; {_channels(planned)}",
            f"  {planned.buffers_in_words()}",
            f"  {planned.verdict()}",
        ]
    lines.append("in use: by all jobs, while they run; a pool takes its buffers when it needs them")
    return lines


def _vertices(of: RunningJob | PhysicalPlan) -> str:
    return ", ".join(f"{each.name} x {each.parallelism}" for each in of.vertices)


def _channels(plan: PhysicalPlan) -> str:
    return f"{plan.channels_total:,} channels, {plan.local_channels:,} of them local"


def _document(
    job: RunningJob,
    managers: Sequence[RunningTaskManager],
    now: PhysicalPlan,
    planned: PhysicalPlan | None,
) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "job": {
            "id": job.id,
            "name": job.name,
            "state": job.state,
        },
        "running": _plan_document(now)
        | {
            "task_managers": [
                {"name": each.id, "used_buffers": each.network_segments_used, **buffers}
                for each, buffers in zip(
                    managers, _plan_document(now)["task_managers"], strict=True
                )
            ]
        },
        "planned": None if planned is None else _plan_document(planned),
    }


def _plan_document(plan: PhysicalPlan) -> dict[str, Any]:
    return {
        "segment_size_bytes": plan.network.segment_size_bytes,
        "vertices": [
            {"name": each.name, "parallelism": each.parallelism} for each in plan.vertices
        ],
        "channels": plan.channels_total,
        "local_channels": plan.local_channels,
        "slots_per_task_manager": plan.slots_per_task_manager,
        "would_start": plan.shortage() is None,
        "verdict": plan.verdict(),
        "task_managers": [
            {"total_buffers": each.total_buffers} | {name: getattr(each, name) for name in _BUFFERS}
            for each in plan.buffers()
        ],
    }
