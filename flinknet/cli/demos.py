"""The demos of `bench demo`: their runs, and the output made from their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flinknet import options as flink
from flinknet.config import CREDIT, TCP, Scenario, SlowConsumer, WorkloadConfig
from flinknet.units import format_duration_ns

if TYPE_CHECKING:
    from rich.console import Console

    from flinknet.report.demos.shown import DemoRun, DemoShown
    from flinknet.report.page_parts import Page

DEBLOATING = "taskmanager.network.memory.buffer-debloat.enabled"
UNALIGNED = "execution.checkpointing.unaligned.enabled"
TIMEOUTS_NS = tuple(ms * 1_000_000 for ms in (0, 1, 5, 20, 100))


@dataclass(frozen=True, slots=True)
class Shown:
    """The output of a demo: a JSON document, a printer, and a maker of its page."""

    document: Mapping[str, Any]
    print: Callable[[Console], None]
    page: Callable[[], Page]


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
        show: makes the output from the runs and the workload of the common scenario.
    """

    summary: str
    load: Mapping[str, str]
    runs: Callable[[Scenario], Sequence[tuple[str, Scenario]]]
    show: Callable[[Sequence[DemoRun], WorkloadConfig], Shown]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    network: Mapping[str, str] = field(default_factory=dict)
    sets: tuple[str, ...] = ()
    is_overloaded: bool = True


def _head_of_line_runs(scenario: Scenario) -> list[tuple[str, Scenario]]:
    """Two runs in each mode: the neighbour alone, and next to a consumer that pauses."""
    from flinknet.report.demo_console import PAUSED

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


def _head_of_line(runs: Sequence[DemoRun], workload: WorkloadConfig) -> Shown:
    from flinknet.report.demo_console import HeadOfLine, head_of_line_document, print_head_of_line
    from flinknet.report.demos.head_of_line import head_of_line_page

    modes = [
        HeadOfLine.of(mode, solo, shared)
        for mode, solo, shared in zip((TCP, CREDIT), runs[::2], runs[1::2], strict=True)
    ]
    pause = {"pause_from_ns": workload.warmup_ns, "pause_ns": workload.duration_ns or 0}
    return Shown(
        head_of_line_document(modes),
        lambda console: print_head_of_line(console, modes, **pause),
        lambda: head_of_line_page(modes, **pause),
    )


def _back_pressure_runs(scenario: Scenario) -> list[tuple[str, Scenario]]:
    from flinknet.report.demos.back_pressure import SLOWER

    return [("chain", _overloaded(scenario, times=SLOWER))]


def _overloaded(scenario: Scenario, *, times: int) -> Scenario:
    """Slow the consumer down so that records come `times` as fast as it can take them, during the
    measured part."""
    workload = scenario.workload
    delay_ns = round(times * 1e9 / (workload.rate_per_s * workload.producers))
    slow = SlowConsumer(0, delay_ns, slow_ns=workload.duration_ns)
    return replace(scenario, workload=replace(workload, slow_consumers=(slow,)))


def _unaligned_runs(scenario: Scenario) -> list[tuple[str, Scenario]]:
    from flinknet.report.demos.unaligned import ALIGNED, UNALIGNED

    slow = _overloaded(scenario, times=2)
    return [
        (name, replace(slow, network=replace(slow.network, unaligned_checkpoints=is_unaligned)))
        for name, is_unaligned in ((ALIGNED, False), (UNALIGNED, True))
    ]


def _debloating_runs(scenario: Scenario) -> list[tuple[str, Scenario]]:
    from flinknet.report.demos.debloating import OFF, ON, SLOWER

    slow = _overloaded(scenario, times=SLOWER)
    return [
        (name, replace(slow, network=replace(slow.network, debloating_enabled=is_on)))
        for name, is_on in ((OFF, False), (ON, True))
    ]


def _timeout_runs(scenario: Scenario) -> list[tuple[str, Scenario]]:
    return [
        (
            format_duration_ns(each),
            replace(scenario, network=replace(scenario.network, buffer_timeout_ns=each)),
        )
        for each in TIMEOUTS_NS
    ]


def _shown_by(module: str, function: str) -> Callable[..., Shown]:
    """A `Demo.show` that calls a function of a module of report.demos."""

    def show(runs: Sequence[DemoRun], workload: WorkloadConfig) -> Shown:
        from importlib import import_module

        from flinknet.report.demo_console import print_demo
        from flinknet.report.demos.shown import measured_document, over_time_document

        make = getattr(import_module(f"flinknet.report.demos.{module}"), function)
        shown: DemoShown = make(runs, workload)
        document = {
            "demo": shown.name,
            "lesson": list(shown.lesson),
            "warnings": list(shown.doubts),
            "runs": shown.figures,
            "measured": {each.name: measured_document(each.result) for each in runs},
            "over_time": over_time_document(shown.charts),
        }
        return Shown(document, lambda console: print_demo(console, shown), lambda: shown.page)

    return show


DEMOS: Mapping[str, Demo] = {
    "head-of-line": Demo(
        "why there is credit: a paused consumer and its neighbour on the same connection",
        {"rate": "10k/s", "record-size": "1kb", "duration": "3s"},
        _head_of_line_runs,
        _head_of_line,
        fixed={"producers": "2", "consumers": "2", "partitioner": "forward"},
        sets=(flink.CREDIT_MODEL,),
    ),
    "back-pressure": Demo(
        "a slow sink fills the buffers of a chain, one after another, up to the source",
        {"rate": "10k/s", "record-size": "200b", "duration": "4s"},
        _back_pressure_runs,
        _shown_by("back_pressure", "back_pressure"),
        fixed={"relays": "2"},
    ),
    "unaligned": Demo(
        "a checkpoint barrier waits behind full buffers, or overtakes them",
        {"rate": "10k/s", "record-size": "200b", "duration": "4s"},
        _unaligned_runs,
        _shown_by("unaligned", "unaligned"),
        fixed={"producers": "2"},
        network={"execution.checkpointing.interval": "200ms"},
        sets=(UNALIGNED,),
    ),
    "debloating": Demo(
        "smaller buffers, so that no more is in flight than the consumer can take in the target"
        " time",
        {"rate": "10k/s", "record-size": "200b", "duration": "4s"},
        _debloating_runs,
        _shown_by("debloating", "debloating"),
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
        _shown_by("timeout", "timeout"),
        sets=(flink.BUFFER_TIMEOUT, flink.BUFFER_TIMEOUT_ENABLED),
        is_overloaded=False,
    ),
}
