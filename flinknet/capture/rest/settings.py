"""Settings of a cluster and its jobs, as its JobManager reports them.

Three places have them: the configuration of the JobManager, the TaskManagers (network memory and
its segments), and each job (its checkpoints). What the code of a job sets beyond that, such as a
buffer timeout, no answer contains.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from flinknet import options
from flinknet.errors import ConfigError, RemoteTransportError
from flinknet.graph.running_job import RunningTaskManager
from flinknet.trace.manifest import JOB_MANAGER

from ..stated import Layer, Stated, is_sound
from .answers import NOT_AS_FLINK, RestAnswers
from .jobs import read_settings, read_task_managers

TASK_MANAGERS: Final = "TaskManagers"
"""Who reported a setting, besides JOB_MANAGER and JOB."""

_CHECKPOINTING = "execution.checkpointing."

_DURATIONS = {
    "timeout": f"{_CHECKPOINTING}timeout",
    "aligned_checkpoint_timeout": f"{_CHECKPOINTING}aligned-checkpoint-timeout",
}
_SWITCHES = {
    "unaligned_checkpoints": f"{_CHECKPOINTING}unaligned.enabled",
    "checkpoints_after_tasks_finish": f"{_CHECKPOINTING}checkpoints-after-tasks-finish",
}
"""Of the answer about a job's checkpoints -> the key."""

_OFF_FROM_MS = 1 << 62
"""The interval of checkpoints that are taken on demand only."""

_SEGMENT_SIZES = (options.MIN_SEGMENT_SIZE, options.STARTING_SEGMENT_SIZE)


class ReportedSettings:
    """Asks a cluster once for its own settings, and each job once for its checkpoints."""

    def __init__(self, answers: RestAnswers) -> None:
        self._answers = answers
        self._cluster: tuple[Layer, ...] | None = None
        self._jobs: dict[str, Mapping[str, str]] = {}

    def of(self, jobs: Iterable[str]) -> Stated:
        """What is set.

        Args:
            jobs: ids of those that count.

        Raises: RemoteTransportError without an answer about the cluster.
        """
        if self._cluster is None:
            self._cluster = _of_cluster(self._answers)
        for each in jobs:
            if each not in self._jobs:
                self._jobs[each] = checkpoint_settings(self._answers, each)
        return Stated(self._cluster, jobs=dict(self._jobs))


def checkpoint_settings(answers: RestAnswers, job_id: str) -> dict[str, str]:
    """How a job takes checkpoints, as keys; none if it takes none."""
    try:
        found = answers.get(f"/jobs/{job_id}/checkpoints/config")
    except RemoteTransportError:  # they are off
        return {}
    try:
        interval_ms = int(found["interval"])
        if not 0 < interval_ms < _OFF_FROM_MS:
            return {}
        keys = {options.CHECKPOINT_INTERVAL: f"{interval_ms} ms"}
        keys |= {key: f"{int(found[name])} ms" for name, key in _DURATIONS.items() if name in found}
        keys |= {key: str(found[name]).lower() for name, key in _SWITCHES.items() if name in found}
        return keys | {f"{_CHECKPOINTING}mode": str(found["mode"]).upper()}
    except NOT_AS_FLINK:
        return {}


def network_memory_keys(managers: Sequence[RunningTaskManager]) -> dict[str, str]:
    """Network memory and segment size of the smallest TaskManager, as keys; none if they do not
    report them."""
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
    """The network keys that a release of Flink acts on, but for secrets and memory, which
    TaskManagers report."""
    found: dict[str, str] = {}
    for key, text in options.network_settings(configured)[0].items():
        try:
            option = options.find_option(key)
            options.network_config({option.key: text})
        except ConfigError:  # no key of Flink's, or more than flinknet can do
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
    """The version of Flink; None if it is not reported."""
    try:
        found: Any = answers.get("/config")
    except RemoteTransportError:  # not among saved answers
        return None
    version = found.get("flink-version") if isinstance(found, dict) else None
    return None if version is None else str(version)
