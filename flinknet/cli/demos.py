"""The demos of `bench demo`: their runs, and the output made from their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from flinknet import options as flink
from flinknet.config import CREDIT, TCP, Scenario, SlowConsumer, WorkloadConfig
from flinknet.units import format_duration_ns

if TYPE_CHECKING:
    from flinknet.report.demos.shown import DemoRun, DemoShown

DEBLOATING = "taskmanager.network.memory.buffer-debloat.enabled"
UNALIGNED = "execution.checkpointing.unaligned.enabled"
_Runs = list[tuple[str, Scenario]]

TIMEOUTS_NS = tuple(ms * 1_000_000 for ms in (0, 1, 5, 20, 100))


@dataclass(frozen=True, slots=True)
class Demo:
    """One demo.

    Attributes:
        summary: one line about the demo.
        load: workload options that a user may change, with their defaults.
        fixed: workload options that the demo sets itself.
        network: the demo's defaults of Flink's keys.
        sets: Flink's keys that the demo sets itself.
        is_overloaded: its consumers do not keep up with the rate.
        runs: makes the name and the scenario of each run from the common scenario.
        made_by: module and function of report.demos that make the output.
    """

    summary: str
    load: Mapping[str, str]
    runs: Callable[[Scenario], _Runs]
    made_by: tuple[str, str]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    network: Mapping[str, str] = field(default_factory=dict)
    sets: tuple[str, ...] = ()
    is_overloaded: bool = True

    def show(self, runs: Sequence[DemoRun], workload: WorkloadConfig) -> DemoShown:
        """Make the output from the runs and the workload of the common scenario."""
        module, function = self.made_by
        make = getattr(import_module(f"flinknet.report.demos.{module}"), function)
        shown: DemoShown = make(runs, workload)
        return shown


def _head_of_line_runs(scenario: Scenario) -> _Runs:
    """Two runs in each mode: the neighbour alone, and next to a consumer that pauses."""
    from flinknet.report.demos.head_of_line import PAUSED

    workload = scenario.workload
    alone = replace(workload, producers=1, consumers=1)
    pause = SlowConsumer(PAUSED, -1, slow_ns=workload.duration_ns)
    paused = replace(workload, slow_consumers=(pause,))
    return [
        (f"{mode}, {name}", replace(scenario, flow_control=mode, workload=flows))
        for mode in (TCP, CREDIT)
        for name, flows in (
            ("neighbour alone", alone),
            ("neighbour with a paused consumer", paused),
        )
    ]


def _overloaded(scenario: Scenario, module: str) -> Scenario:
    """Slow the consumer down during the measured part, so that a record takes it as long as SLOWER
    of a module of report.demos says."""
    times = import_module(f"flinknet.report.demos.{module}").SLOWER
    workload = scenario.workload
    delay_ns = round(times * 1e9 / (workload.rate_per_s * workload.producers))
    slow = SlowConsumer(0, delay_ns, slow_ns=workload.duration_ns)
    return replace(scenario, workload=replace(workload, slow_consumers=(slow,)))


def _without_and_with(option: str, names: tuple[str, str], scenario: Scenario) -> _Runs:
    """Two runs whose consumer cannot keep up, one without an option of the network."""
    slow = _overloaded(scenario, "checkpoints")
    changed: list[dict[str, Any]] = [{option: False}, {option: True}]
    return [
        (name, replace(slow, network=replace(slow.network, **each)))
        for name, each in zip(names, changed, strict=True)
    ]


def _timeout_runs(scenario: Scenario) -> _Runs:
    return [
        (
            format_duration_ns(each),
            replace(scenario, network=replace(scenario.network, buffer_timeout_ns=each)),
        )
        for each in TIMEOUTS_NS
    ]


DEMOS: Mapping[str, Demo] = {
    "head-of-line": Demo(
        "why there is credit: a paused consumer and its neighbour on the same connection",
        {"rate": "10k/s", "record-size": "1kb", "duration": "3s"},
        _head_of_line_runs,
        ("head_of_line", "head_of_line"),
        fixed={"producers": "2", "consumers": "2", "partitioner": "forward"},
        sets=(flink.CREDIT_MODEL,),
    ),
    "back-pressure": Demo(
        "a slow sink fills the buffers of a chain, one after another, up to the source",
        {"rate": "10k/s", "record-size": "200b", "duration": "4s"},
        lambda scenario: [("chain", _overloaded(scenario, "back_pressure"))],
        ("back_pressure", "back_pressure"),
        fixed={"relays": "2"},
    ),
    "unaligned": Demo(
        "a checkpoint barrier waits behind full buffers, or overtakes them",
        {"rate": "10k/s", "record-size": "200b", "duration": "4s"},
        partial(_without_and_with, "unaligned_checkpoints", ("aligned", "unaligned")),
        ("checkpoints", "unaligned"),
        fixed={"producers": "2"},
        network={"execution.checkpointing.interval": "200ms"},
        sets=(UNALIGNED,),
    ),
    "debloating": Demo(
        "smaller buffers, so that no more is in flight than the consumer can take in the target"
        " time",
        {"rate": "10k/s", "record-size": "200b", "duration": "4s"},
        partial(_without_and_with, "debloating_enabled", ("off", "on")),
        ("checkpoints", "debloating"),
        network={
            "execution.checkpointing.interval": "200ms",
            "taskmanager.network.memory.buffer-debloat.target": "100ms",
            "taskmanager.network.memory.buffer-debloat.period": "50ms",
        },
        sets=(DEBLOATING,),
    ),
    "timeout": Demo(
        "latency against messages: what a shorter buffer timeout costs",
        {"rate": "2k/s", "arrivals": "poisson", "duration": "1200ms", "warmup": "200ms"},
        _timeout_runs,
        ("timeout", "timeout"),
        sets=(flink.BUFFER_TIMEOUT, flink.BUFFER_TIMEOUT_ENABLED),
        is_overloaded=False,
    ),
}
