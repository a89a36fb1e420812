"""Settings of a cluster and its jobs, as its JobManager reports them.

They come from the configuration of the JobManager, from the TaskManagers (network memory and its
segments), and from each job (its checkpoints). No answer contains other settings that a job's code
makes, such as a buffer timeout.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    """Settings from one origin; a later layer overrides an earlier one.

    Attributes:
        keys: Flink's keys with their values.
    """

    origin: str
    keys: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Stated:
    """Settings of a cluster and its jobs.

    Attributes:
        cluster: settings that the cluster reports.
        given: settings from the user, which override the cluster's.
        jobs: keys of each job, by its id, which override both.
    """

    cluster: tuple[Layer, ...] = ()
    given: tuple[Layer, ...] = ()
    jobs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def put_into(self, manifest: RunManifest) -> RunManifest:
        """The manifest with these settings, and Flink's defaults for all others; unchanged if there
        are none. Of several jobs, only settings with equal values are used.

        Raises: ConfigError if Flink would reject the given settings.
        """
        ids = manifest.scenario.get("job", {}).get("ids", ())
        common = Layer(JOB, _in_common([self.jobs[each] for each in ids if each in self.jobs]))
        layers: Sequence[Layer] = [*self.cluster, *self.given, common]
        if not is_sound(layers):
            layers = self.given
        is_stated = self.cluster or self.given or common.keys
        return _with_layers(manifest, layers) if layers and is_stated else manifest


def is_sound(layers: Iterable[Layer]) -> bool:
    """Whether flinknet accepts all layers together; Flink itself may accept more."""
    try:
        options.network_config(options.merge(*(each.keys for each in layers)))
    except ConfigError:
        return False
    return True


def _in_common(settings: Sequence[Mapping[str, str]]) -> dict[str, str]:
    if not settings:
        return {}
    first, *others = settings
    return {
        key: value for key, value in first.items() if all(each.get(key) == value for each in others)
    }


def _with_layers(manifest: RunManifest, layers: Sequence[Layer]) -> RunManifest:
    keys = options.merge(*(each.keys for each in layers))
    network, _ = options.network_config(keys)
    origins = options.origins_of((each.origin, each.keys) for each in layers)
    effective = dict(options.effective_flink_keys(network))
    known = {key: origins[key] for key in sorted(keys) if key in effective}
    scenario = {**manifest.scenario, SETTINGS_FROM: known}
    if keys.get(options.ADAPTIVE_PARTITIONER, "").lower() == "true":
        scenario[IS_ADAPTIVE] = True
    return replace(manifest, flink_keys=effective, scenario=scenario)


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
        """The settings of the cluster and of some jobs.

        Args:
            jobs: ids of these jobs.

        Raises: RemoteTransportError without an answer about the cluster.
        """
        if self._cluster is None:
            self._cluster = _of_cluster(self._answers)
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
    smallest = min(
        (each for each in managers if each.network_memory_bytes),
        key=lambda each: each.network_memory_bytes or 0,
        default=None,
    )
    if smallest is None:
        return {}
    memory_bytes = smallest.network_memory_bytes or 0
    keys = dict.fromkeys((options.NETWORK_MIN, options.NETWORK_MAX), f"{memory_bytes} b")
    if smallest.network_segments:
        keys[options.SEGMENT_SIZE] = f"{memory_bytes // smallest.network_segments} b"
    return keys


def _of_cluster(answers: RestAnswers) -> tuple[Layer, ...]:
    managers = read_task_managers(answers, with_memory=True)
    layers = (
        Layer(JOB_MANAGER, _in_effect(read_settings(answers), _release(answers))),
        Layer(TASK_MANAGERS, network_memory_keys(managers)),
    )
    return layers if is_sound(layers) else ()


def _in_effect(configured: Mapping[str, str], release: str | None) -> dict[str, str]:
    """The network keys that a release of Flink acts on, without secrets, and without memory, which
    TaskManagers report."""
    found: dict[str, str] = {}
    for key, text in options.network_settings(configured)[0].items():
        try:
            option = options.find_option(key)
            options.network_config({option.key: text})
        except ConfigError:  # no key of Flink's, or not supported by flinknet
            continue
        is_fixed = option.fixed_in_2_x is not None and not (release or "2").startswith("1.")
        is_memory = (
            option.key.startswith("taskmanager.memory.") and option.key not in _SEGMENT_SIZES
        )
        is_of_use = option.is_acted_on or option.key == options.ADAPTIVE_PARTITIONER
        if is_of_use and not (option.is_secret or is_fixed or is_memory):
            found[key] = text
    return found


def _release(answers: RestAnswers) -> str | None:
    try:
        found: Any = answers.get("/config")
    except RemoteTransportError:  # not among saved answers
        return None
    version = found.get("flink-version") if isinstance(found, dict) else None
    return None if version is None else str(version)
