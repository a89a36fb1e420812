"""Settings of a cluster and its jobs, as its JobManager reports them: its configuration, network
memory of the TaskManagers, and checkpoints of each job. No answer contains other settings that a
job's code makes, such as a buffer timeout.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Final

from flinknet import options
from flinknet.errors import ConfigError, RemoteTransportError
from flinknet.graph.running_job import RunningTaskManager
from flinknet.trace import RunManifest
from flinknet.trace.manifest import IS_ADAPTIVE, JOB_MANAGER, SETTINGS_FROM

from .answers import NOT_AS_FLINK, RestAnswers
from .jobs import read_settings, read_task_managers

JOB: Final = "job"
"""Origin of settings that a job itself reports."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Settings from one origin; a later layer overrides an earlier one."""

    origin: str
    keys: Mapping[str, str]  # Flink's


@dataclass(frozen=True, slots=True)
class Stated:
    """Settings of a cluster and its jobs; each field overrides those before it."""

    cluster: tuple[Layer, ...] = ()  # as it reports
    given: tuple[Layer, ...] = ()  # by the user
    jobs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # keys by id

    def put_into(self, manifest: RunManifest) -> RunManifest:
        """The manifest with these settings, and Flink's defaults for all others; unchanged if there
        are none. Of several jobs, only settings with equal values are used. Raises: ConfigError if
        Flink would reject the given settings."""
        ids = manifest.scenario.get("job", {}).get("ids", ())
        of_jobs = [self.jobs[each].items() for each in ids if each in self.jobs]
        common = {
            key: value
            for key, value in (of_jobs[0] if of_jobs else ())
            if all((key, value) in each for each in of_jobs)
        }
        layers: Sequence[Layer] = [*self.cluster, *self.given, Layer(JOB, common)]
        if not is_sound(layers):
            layers = self.given
        if not layers or not (self.cluster or self.given or common):
            return manifest
        keys = options.merge(*(each.keys for each in layers))
        network, _ = options.network_config(keys)
        origins = options.origins_of((each.origin, each.keys) for each in layers)
        effective = dict(options.effective_flink_keys(network))
        known = {key: origins[key] for key in sorted(keys) if key in effective}
        scenario = {**manifest.scenario, SETTINGS_FROM: known}
        if keys.get(options.ADAPTIVE_PARTITIONER, "").lower() == "true":
            scenario[IS_ADAPTIVE] = True
        return replace(manifest, flink_keys=effective, scenario=scenario)


def is_sound(layers: Iterable[Layer]) -> bool:
    """Whether flinknet accepts all layers together; Flink itself may accept more."""
    try:
        options.network_config(options.merge(*(each.keys for each in layers)))
    except ConfigError:
        return False
    return True


TASK_MANAGERS: Final = "TaskManagers"
"""Origin of settings that TaskManagers reported; the others are JOB_MANAGER and JOB."""

_CHECKPOINTING = "execution.checkpointing."

_DURATIONS = {
    "timeout": f"{_CHECKPOINTING}timeout",
    "aligned_checkpoint_timeout": f"{_CHECKPOINTING}aligned-checkpoint-timeout",
}
_SWITCHES = {
    "unaligned_checkpoints": f"{_CHECKPOINTING}unaligned.enabled",
    "checkpoints_after_tasks_finish": f"{_CHECKPOINTING}checkpoints-after-tasks-finish",
}
"""Fields of the answer about a job's checkpoints, with the key of each; so is _DURATIONS."""

_ON_DEMAND_MS = 1 << 62
"""Shortest interval, in ms, that stands for checkpoints on demand only."""

_SEGMENT_SIZES = (options.MIN_SEGMENT_SIZE, options.STARTING_SEGMENT_SIZE)


class ReportedSettings:
    """Queries a cluster once for its settings, and each job once for those of its checkpoints."""

    def __init__(self, answers: RestAnswers) -> None:
        self._answers = answers
        self._cluster: tuple[Layer, ...] | None = None
        self._jobs: dict[str, Mapping[str, str]] = {}

    def of(self, jobs: Iterable[str]) -> Stated:
        """The settings of the cluster and of the jobs with these ids. Raises: RemoteTransportError
        without an answer about the cluster."""
        if self._cluster is None:
            managers = read_task_managers(self._answers, with_memory=True)
            configured = read_settings(self._answers)
            release: Any = None
            with suppress(RemoteTransportError):  # it may not be among saved answers
                release = self._answers.get("/config")
            release = release.get("flink-version") if isinstance(release, dict) else None
            layers = (
                Layer(JOB_MANAGER, _in_effect(configured, str(release or "2"))),
                Layer(TASK_MANAGERS, network_memory_keys(managers)),
            )
            self._cluster = layers if is_sound(layers) else ()
        for each in jobs:
            if each not in self._jobs:
                self._jobs[each] = checkpoint_settings(self._answers, each)
        return Stated(self._cluster, jobs=dict(self._jobs))


def checkpoint_settings(answers: RestAnswers, job_id: str) -> dict[str, str]:
    """Flink's keys for a job's checkpoints; empty if it takes none."""
    try:
        found = answers.get(f"/jobs/{job_id}/checkpoints/config")
    except RemoteTransportError:  # checkpoints are off
        return {}
    try:
        interval_ms = int(found["interval"])
        if not 0 < interval_ms < _ON_DEMAND_MS:
            return {}
        keys = {options.CHECKPOINT_INTERVAL: f"{interval_ms} ms"}
        keys |= {key: f"{int(found[name])} ms" for name, key in _DURATIONS.items() if name in found}
        keys |= {key: str(found[name]).lower() for name, key in _SWITCHES.items() if name in found}
        return keys | {f"{_CHECKPOINTING}mode": str(found["mode"]).upper()}
    except NOT_AS_FLINK:
        return {}


def network_memory_keys(managers: Sequence[RunningTaskManager]) -> dict[str, str]:
    """Flink's keys for the network memory and segment size of the smallest TaskManager; empty if
    none reports its memory."""
    known = [(size, each) for each in managers if (size := each.network_memory_bytes)]
    if not known:
        return {}
    memory_bytes, smallest = min(known, key=itemgetter(0))
    keys = dict.fromkeys((options.NETWORK_MIN, options.NETWORK_MAX), f"{memory_bytes} b")
    if smallest.network_segments:
        keys[options.SEGMENT_SIZE] = f"{memory_bytes // smallest.network_segments} b"
    return keys


def _in_effect(configured: Mapping[str, str], release: str) -> dict[str, str]:
    """The network keys that a release of Flink acts on, without secrets, and without memory, which
    TaskManagers report."""
    found: dict[str, str] = {}
    for key, text in options.network_settings(configured)[0].items():
        try:
            option = options.find_option(key)
            options.network_config({option.key: text})
        except ConfigError:  # no key of Flink's, or not supported by flinknet
            continue
        is_fixed = option.fixed_in_2_x is not None and not release.startswith("1.")
        is_memory = (
            option.key.startswith("taskmanager.memory.") and option.key not in _SEGMENT_SIZES
        )
        is_of_use = option.is_acted_on or option.key == options.ADAPTIVE_PARTITIONER
        if is_of_use and not (option.is_secret or is_fixed or is_memory):
            found[key] = text
    return found
