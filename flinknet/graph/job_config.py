"""Settings of a job from Flink's keys, before its program overrides any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from json import loads
from typing import Any

from flinknet.config import CREDIT, NetworkConfig
from flinknet.errors import ConfigError
from flinknet.options import find_option, flow_control_of, heartbeats_of, network_config
from flinknet.options.values import parse_value
from flinknet.results import RunWarning
from flinknet.units import NS_PER_MS, NS_PER_S

MAX_PARALLELISM = 1 << 15
"""Largest number of key groups."""

ALL, ANY = "ALL", "ANY"
INPUT_DEPENDENCY_CONSTRAINTS = (ALL, ANY)
"""Whether a task waits for all of its blocking inputs, or for any one."""

NONE, FIXED_DELAY, EXPONENTIAL_DELAY = "none", "fixed-delay", "exponential-delay"
"""Restart strategies of a job."""

_RESTART_STRATEGIES = {
    **dict.fromkeys(("none", "off", "disable"), NONE),
    **dict.fromkeys(("fixed-delay", "fixeddelay"), FIXED_DELAY),
    **dict.fromkeys(("exponential-delay", "exponentialdelay"), EXPONENTIAL_DELAY),
}

START_CONDITION = "flinknet.start-condition"
"""flinknet's own key for the constraint. Flink has no key; until 1.12 a program could set it."""

RELEASE = "flinknet.release"
"""flinknet's own key for the release of Flink whose settings a job has."""

TASK_TIMEOUTS = "flinknet.task-timeouts"
"""flinknet's own key for the buffer timeouts of tasks, in ns by name as JSON. They replace those
that the program sets with set_buffer_timeout."""


def _flink(key: str, default: Any, *, is_acted_on: bool = True) -> Any:
    """A field with Flink's key for it."""
    return field(default=default, metadata={"key": key, "is_acted_on": is_acted_on})


@dataclass(slots=True)
class JobConfig:
    """Settings of a job, which its program may override (Flink: ExecutionConfig, CheckpointConfig).
    The metadata names the keys that the graphs act on, in addition to NetworkConfig's; and those of
    SavepointRestoreSettings, which the graphs contain: nothing is restored, because checkpoints
    store no state, and a warning says so.

    Attributes:
        cpu_cores, task_heap_bytes: shared by the slots of a TaskManager; None: unlimited.
        max_parallelism: key groups; None: derived from each operator's parallelism.
        releases_partitions: whether results without readers are released before the job ends.
        restart_strategy: NONE, FIXED_DELAY or EXPONENTIAL_DELAY (without limit, after a delay that
            grows from a second to a minute); None: with checkpoints EXPONENTIAL_DELAY, else NONE.
        heartbeat_interval_ns: interval of heartbeats; a TaskManager that has not answered for
            `heartbeat_timeout_ns` is lost.
        input_dependency_constraint: one of INPUT_DEPENDENCY_CONSTRAINTS.
        cancellation_timeout_ns: how long a task may take to cancel before its TaskManager is ended.
        auto_watermark_interval_ns: of periodic watermarks; 0: none.
        has_approximate_local_recovery: whether a failed task restarts alone and loses the records
            that were on their way to it.
        savepoint_path: None: the job begins without state.
        task_timeouts_ns: buffer timeouts of tasks, by name; see TASK_TIMEOUTS.
    """

    parallelism: int = _flink("parallelism.default", 1)
    max_parallelism: int | None = _flink("pipeline.max-parallelism", None)
    is_chaining_enabled: bool = _flink("pipeline.operator-chaining.enabled", True)
    chains_different_max_parallelism: bool = _flink(
        "pipeline.operator-chaining.chain-operators-with-different-max-parallelism", True
    )
    generates_uids: bool = _flink("pipeline.auto-generate-uids", True)
    has_vertex_index_prefix: bool = _flink("pipeline.vertex-name-include-index-prefix", False)
    vertex_description_mode: str = _flink("pipeline.vertex-description-mode", "TREE")
    runtime_mode: str = _flink("execution.runtime-mode", "STREAMING")
    batch_shuffle_mode: str = _flink("execution.batch-shuffle-mode", "ALL_EXCHANGES_BLOCKING")
    attempts_history_size: int = _flink("jobmanager.execution.attempts-history-size", 16)
    task_slots: int = _flink("taskmanager.numberOfTaskSlots", 1)
    cpu_cores: float | None = _flink("taskmanager.cpu.cores", None)
    task_heap_bytes: int | None = _flink("taskmanager.memory.task.heap.size", None)
    load_balance_mode: str = _flink("taskmanager.load-balance.mode", "NONE")
    failover_strategy: str = _flink("jobmanager.execution.failover-strategy", "region")
    releases_partitions: bool = _flink("jobmanager.partition.release-during-job-execution", True)
    restart_strategy: str | None = _flink("restart-strategy.type", None)
    restart_attempts: int = _flink("restart-strategy.fixed-delay.attempts", 1)
    restart_delay_ns: int = _flink("restart-strategy.fixed-delay.delay", NS_PER_S)
    heartbeat_interval_ns: int = 10 * NS_PER_S
    heartbeat_timeout_ns: int = 50 * NS_PER_S
    slot_request_timeout_ns: int = _flink("slot.request.timeout", 300 * NS_PER_S)
    cancellation_timeout_ns: int = _flink("task.cancellation.timeout", 180 * NS_PER_S)
    auto_watermark_interval_ns: int = _flink("pipeline.auto-watermark-interval", 200 * NS_PER_MS)
    has_approximate_local_recovery: bool = _flink(
        "execution.state-recovery.approximate-local-recovery", False
    )
    savepoint_path: str | None = _flink("execution.state-recovery.path", None, is_acted_on=False)
    savepoint_claim_mode: str = _flink(
        "execution.state-recovery.claim-mode", "NO_CLAIM", is_acted_on=False
    )
    ignores_unclaimed_state: bool = _flink(
        "execution.state-recovery.ignore-unclaimed-state", False, is_acted_on=False
    )
    flow_control: str = CREDIT
    input_dependency_constraint: str = ALL
    task_timeouts_ns: Mapping[str, int] = field(default_factory=dict)
    network: NetworkConfig = field(default_factory=NetworkConfig)


def job_config(settings: Mapping[str, str]) -> tuple[JobConfig, tuple[RunWarning, ...]]:
    """Settings of a job from Flink's keys, and warnings about the keys. Raises: ConfigError for a
    value that Flink would reject.
    """
    settings = dict(settings)
    constraint = input_dependency_constraint(settings.pop(START_CONDITION, ALL))
    timeouts_ns = loads(settings.pop(TASK_TIMEOUTS, "{}"))
    network, warnings = network_config(settings, settings.pop(RELEASE, None))
    interval_ns, timeout_ns = heartbeats_of(settings)
    values: dict[str, Any] = {
        "task_timeouts_ns": timeouts_ns,
        "input_dependency_constraint": constraint,
        "network": network,
        "flow_control": flow_control_of(settings),
        "heartbeat_interval_ns": interval_ns,
        "heartbeat_timeout_ns": timeout_ns,
    }
    keyed = [each for each in fields(JobConfig) if "key" in each.metadata]
    for each in keyed:
        if (key := each.metadata["key"]) in settings:
            values[each.name] = parse_value(find_option(key), settings[key])
    if values.get("max_parallelism") == -1:
        values["max_parallelism"] = None
    others: tuple[RunWarning, ...] = ()
    if "restart_strategy" in values:
        values["restart_strategy"], others = _restart_strategy(values["restart_strategy"])
    check_parallelism(values.get("parallelism", 1), "parallelism.default:")
    if (maximum := values.get("max_parallelism")) is not None:
        remedy = "; leave it out or give -1, to have it follow from the parallelism"
        check_max_parallelism(maximum, "pipeline.max-parallelism:", remedy)
    acted_on = tuple(f"{x.metadata['key']}:" for x in keyed if x.metadata["is_acted_on"])
    doubts = tuple(
        each
        for each in warnings
        if not (each.code == "option-not-acted-on" and each.text.startswith(acted_on))
    )
    return JobConfig(**values), (*doubts, *others)


def input_dependency_constraint(text: str) -> str:
    """Parse a constraint. Raises: ConfigError if it is unknown."""
    if text.upper() not in INPUT_DEPENDENCY_CONSTRAINTS:
        known = ", ".join(INPUT_DEPENDENCY_CONSTRAINTS)
        raise ConfigError(f"input dependency constraint {text!r} is not one of {known}")
    return text.upper()


def _restart_strategy(word: str) -> tuple[str, tuple[RunWarning, ...]]:
    """A restart strategy under its only name, and a warning if Flink's is another."""
    if name := _RESTART_STRATEGIES.get(word.lower()):
        return name, ()
    text = f"restart-strategy.type: flinknet restarts as with {EXPONENTIAL_DELAY}, not {word}"
    return EXPONENTIAL_DELAY, (RunWarning("option-not-acted-on", text),)


def check_parallelism(parallelism: int, name: str) -> None:
    """Raises: ConfigError if it is less than 1."""
    if parallelism < 1:
        raise ConfigError(f"{name} {parallelism} is too little; give 1 or more")


def check_max_parallelism(max_parallelism: int, name: str, remedy: str = "") -> None:
    """Raises: ConfigError if it is not in 1 to MAX_PARALLELISM."""
    if not 1 <= max_parallelism <= MAX_PARALLELISM:
        raise ConfigError(f"{name} {max_parallelism} is not in 1 to {MAX_PARALLELISM}{remedy}")
