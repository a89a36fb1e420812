"""The files in the run directory of a job: the contact of its JobManager, manifest, result, and
printed lines; and its status for clients."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from flinknet.config import Scenario
from flinknet.errors import ConfigError, FlinknetError
from flinknet.graph.job_config import RELEASE
from flinknet.graph.physical_plan import PhysicalPlan
from flinknet.plain_values import from_plain, to_plain
from flinknet.results import EdgeMeasured, PriorAttempt, RunWarning, VertexMeasured, few_flushes
from flinknet.units import counted, format_duration_ns

from ..host import environment
from . import control_messages as messages
from .cluster_process import TaskManagerProcess
from .collected import manifest_of
from .host_clock import ClockOfHost
from .job_master import JobMaster
from .job_measurements import Measurements, prior_attempts
from .job_state import JobState

CONTACT_NAME = "jobmanager.json"


def spill_directory(run_dir: Path) -> Path:
    return run_dir / "spill"


def copy_to_cache(artifacts: Mapping[str, str], run_dir: Path) -> dict[str, Path]:
    """Copy the cached files of a job. Returns: the copies, by their path in the cache; of a
    directory, all files. Raises: ConfigError if one cannot be read.
    """
    cache = spill_directory(run_dir) / messages.CACHED
    for name, path in artifacts.items():
        copy = cache / quote(name, safe="")
        try:
            copy.parent.mkdir(exist_ok=True)
            shutil.copytree(path, copy) if Path(path).is_dir() else shutil.copy2(path, copy)
        except (OSError, shutil.Error) as error:
            raise ConfigError(f"the cached file {name!r} cannot be copied: {error}") from None
    return {str(each.relative_to(cache)): each for each in cache.rglob("*") if each.is_file()}


@dataclass(frozen=True, slots=True)
class Contact:
    """The address of a job's JobManager. Job and name are empty for a session cluster, whose
    processes have their logs in `cluster_dir`.
    """

    host: str
    port: int
    pid: int
    token: str
    job_id: str
    name: str
    cluster_dir: str = ""

    @property
    def log(self) -> str:
        return str(Path(self.cluster_dir) / "jobmanager.log")

    def save(self, run_dir: Path) -> None:
        path = run_dir / CONTACT_NAME
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(to_plain(self), file)

    @classmethod
    def load(cls, run_dir: Path) -> Contact | None:
        """The contact in a run directory, if a JobManager runs there. Raises: ConfigError."""
        path = run_dir / CONTACT_NAME
        try:
            found = from_plain(cls, json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, FlinknetError) as error:
            raise ConfigError(f"{path}: it cannot be read ({error})") from None
        assert isinstance(found, Contact)
        return found


def save_manifest(
    run_dir: Path,
    submission: messages.SubmitJob,
    master: JobMaster,
    measurements: Measurements,
    task_managers: Iterable[TaskManagerProcess],
    clocks: Sequence[ClockOfHost] = (),
) -> None:
    """Write the manifest of a deployed job, again when more is known. Raises: TraceError."""
    config = master.graph.job.config
    from_ns, to_ns = measurements.measured_part
    manifest_of(
        {
            "network": Scenario(network=config.network).to_dict()["network"],  # without secrets
            "flow_control": config.flow_control,
            "seed": submission.seed,
            "workload": {},
            "flink_release": submission.settings.get(RELEASE),
            "job": _job_document(submission, master, measurements.plan),
        },
        config.network,
        (each.info for each in task_managers),
        measurements.channels,
        seed=submission.seed,
        host=environment(),
        started_at=measurements.started_at,
        measured_from_ns=from_ns,
        measured_to_ns=None if to_ns is None else max(to_ns, from_ns + 1),
        clocks=clocks,
    ).save(run_dir)


def warnings_of(
    state: JobState, measurements: Measurements, has_run: bool, is_joining: bool
) -> Iterator[RunWarning]:
    """Warnings about a job that is over. Idle TaskManagers are none of a job that joined: it does
    not decide the size of the cluster."""
    plan = measurements.plan
    has_rates = has_run and state is not JobState.FAILED
    if has_rates and measurements.ended_in_warm_up:
        is_over = (measurements.ended_ns or 0) <= measurements.measured_from_ns
        who = "the job" if is_over else "the job's sources"
        text = f"{who} ended during its warm-up, so rates include it; use a shorter --warmup"
        yield RunWarning("no-measured-part", text)
    if plan is None:
        return
    from_ns, _ = measurements.measured_part
    if has_rates and not plan.graph.job.is_batch:
        length_ns = (measurements.ended_ns or 0) - from_ns
        timeout_ns = max((each.edge.result.buffer_timeout_ns for each in plan.edges), default=0)
        more = "give its sources more records, or a longer --duration"
        yield from few_flushes(length_ns, timeout_ns, more)
    used = {each for vertex in plan.vertices for each in vertex.task_managers}
    idle = [f"tm-{each}" for each in range(plan.task_managers) if each not in used]
    if idle and not is_joining:
        slots = plan.slots_per_task_manager
        yield RunWarning(
            "idle-task-manager",
            f"{', '.join(idle)} had no task, because the others have slots for all of them; to"
            f" spread them give fewer --slots than {slots}, or -D"
            " taskmanager.load-balance.mode=SLOTS",
        )


def lost_records(
    master: JobMaster, vertices: Iterable[VertexMeasured], edges: Sequence[EdgeMeasured]
) -> Iterator[RunWarning]:
    """Warnings about records that were on their way to tasks that restarted alone. What a task read
    after its last report counts as lost, so the numbers are upper limits.
    """
    is_approximate = master.graph.job.config.has_approximate_local_recovery
    if not (is_approximate and master.restarts and master.state is JobState.FINISHED):
        return
    for vertex in vertices:
        read = [each.records for each in edges if each.source == vertex.name]
        if read and vertex.records_out > sum(read):
            text = (
                f"approximate local recovery: of {vertex.records_out} records of {vertex.name}, at"
                f" most {vertex.records_out - sum(read)} were lost in {master.restarts} restarts"
            )
            yield RunWarning("records-lost", text)


def _job_document(
    submission: messages.SubmitJob, master: JobMaster, plan: PhysicalPlan | None
) -> dict[str, Any]:
    """The names of vertices, tasks and edges, for readers of the trace."""
    return {
        "name": master.graph.job.name,
        "path": submission.path,
        "arguments": list(submission.arguments),
        "vertices": [
            {name: getattr(vertex, name) for name in ("index", "name", "parallelism")}
            | {
                "tasks": [each.name for each in vertex.vertex.task_vertices],
                "task_managers": [f"tm-{each}" for each in vertex.task_managers],
            }
            for vertex in (() if plan is None else plan.vertices)
        ],
        "edges": [
            {name: getattr(edge, name) for name in ("index", "source", "target", "partitioner")}
            | {
                "partition_type": edge.partition_type.label,
                "buffer_timeout_ns": edge.edge.result.buffer_timeout_ns,
            }
            for edge in (() if plan is None else plan.edges)
        ],
    }


CLUSTER_KEY_PREFIXES = ("taskmanager.", "jobmanager.", "security.", "heartbeat.", "slot.")
"""Prefixes of the keys that processes are started with; a job cannot change them, as in Flink."""


def joined_settings(cluster: Mapping[str, str], job: Mapping[str, str]) -> dict[str, str]:
    """Merge the settings of a job into those of its running cluster. Raises: ConfigError if the job
    sets a key of the cluster to another value.
    """
    for key, text in job.items():
        if key.startswith(CLUSTER_KEY_PREFIXES) and cluster.get(key) != text:
            known = cluster.get(key)
            there = "has its default" if known is None else f"has {known}"
            raise ConfigError(
                f"{key}: the cluster {there}, and a job that joins it cannot change that; leave it"
                " out, or start a cluster with it"
            )
    return {**cluster, **job}


class PrintedLines:
    """Reads new lines of the files; half a line waits for its end."""

    def __init__(self, run_dir: Path, task_managers: int) -> None:
        self._positions = {run_dir / f"tm-{index}.out": 0 for index in range(task_managers)}

    def new_lines(self) -> Iterator[str]:
        """Lines since the last call, file by file."""
        for path in self._positions:
            with suppress(OSError), path.open("rb") as file:  # it may not be there yet
                file.seek(self._positions[path])
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # its rest may come at any time
                    self._positions[path] += len(line)
                    yield line[:-1].decode("utf-8", "replace")


FAILED_ATTEMPTS_MAX = 16
"""The most failed attempts in a status; result.json has all that are kept."""


def canceling(master: JobMaster) -> str:
    """The tasks that a cancelled job waits for, and how long, in words; empty if there are none."""
    attempts = list(master.canceling_since_ns)
    if not attempts:
        return ""
    first = master.graph.subtask(attempts[0].execution_vertex_id).name
    more = f" and {counted(len(attempts) - 1, 'other task')}" if len(attempts) > 1 else ""
    waits = format_duration_ns(master.cancellation_timeout_ns)
    return f"waits up to {waits} (task.cancellation.timeout) for {first}{more} to return"


def failed_attempts(master: JobMaster) -> tuple[PriorAttempt, ...]:
    prior = (attempt for subtask in master.graph.subtasks() for attempt in prior_attempts(subtask))
    failed = sorted((each for each in prior if each.failure), key=lambda each: each.attempt)
    return tuple(failed[-FAILED_ATTEMPTS_MAX:])
