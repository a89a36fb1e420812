"""back-pressure: the last of a chain of tasks becomes slow, and the buffers before it fill up, one
pool after another, until the source waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flinknet.config import WorkloadConfig
from flinknet.results import TaskProgress
from flinknet.units import MISSING, human_count, human_duration

from ..bench_page import task_bars
from ..page_parts import COLORS, Head, OverTime, Row, Span, Table, TimeSeries
from .shown import DemoRun, DemoShown, doubts_of

FULL = 0.9
"""From this usage on a pool counts as full."""

BUSY, WAITING = 0.8, 0.3
"""Shares of the time of the sink and of the source from which the demo has shown its effect."""


def back_pressure(runs: Sequence[DemoRun], workload: WorkloadConfig) -> DemoShown:
    """From the one run of the chain."""
    (run,) = runs
    tasks = list(run.result.metrics.tasks) if run.result.metrics is not None else []
    shares = {name: _shares(run, name) for name in tasks}
    pools = _pools(run, tasks)
    full_ns = {each.name: _full_after_ns(each, run.measured_from_ns) for each in pools}
    table = Table(
        [
            Head("task"),
            *(Head(name) for name in ("busy", "back-pressured", "idle")),
            Head("output full after", "Since the sink became slow."),
            Head("input full after", "Since the sink became slow."),
        ],
        [
            Row(
                [
                    name,
                    *(_percent(each) for each in shares[name]),
                    human_duration(full_ns.get(f"{name}, output")),
                    human_duration(full_ns.get(f"{name}, input")),
                ]
            )
            for name in tasks
        ],
    )
    charts = [
        OverTime(
            "Buffers in use",
            pools,
            unit="share",
            meaning="Of each pool, from the sink upstream to the source.",
            spans=[Span("slow sink", run.measured_from_ns, run.measured_to_ns)],
        ),
    ]
    bars = [task_bars("Share of the time", run.result.metrics.tasks)] if run.result.metrics else []
    taken = run.result.channels[-1].taken_records_per_s if run.result.channels else None
    return DemoShown(
        "back-pressure",
        "Pressure travels upstream",
        f"{' → '.join(tasks)}, {human_count(workload.rate_per_s)} records/s; after the warm-up the"
        " sink needs longer for a record than the source for the next one.",
        table,
        [*charts, *bars],
        _lesson(shares, full_ns, taken, workload.rate_per_s),
        doubts_of([run.result]),
        {
            "tasks": {
                name: dict(zip(("busy", "back_pressured", "idle"), shares[name], strict=True))
                for name in tasks
            },
            "full_after_ns": full_ns,
            "sink_records_per_s": taken,
        },
    )


def _shares(run: DemoRun, name: str) -> tuple[float, float, float]:
    """Busy, back-pressured and idle, over the measured part."""
    assert run.result.metrics is not None
    values = run.result.metrics.tasks[name]
    busy, waiting, idle = (
        float(values[f"{each}TimeMsPerSecond"]) / 1000 for each in ("busy", "backPressured", "idle")
    )
    return busy, waiting, idle


def _pools(run: DemoRun, tasks: Sequence[str]) -> list[TimeSeries]:
    """How full each pool was over time, from the sink upstream."""
    read: dict[str, Callable[[TaskProgress], float | None]] = {
        "output": lambda task: task.out_pool_usage,
        "input": lambda task: task.in_pool_usage,
    }
    found: list[TimeSeries] = []
    for name in reversed(tasks):
        for end, usage in read.items():
            known = [
                (sample.elapsed_ns, value)
                for sample in run.samples
                for task in sample.tasks
                if task.name == name and (value := usage(task)) is not None
            ]
            if known:
                at_ns, values = zip(*known, strict=True)
                color = COLORS[len(found) % len(COLORS)]
                found.append(TimeSeries(f"{name}, {end}", at_ns, values, color))
    return found


def _full_after_ns(pool: TimeSeries, from_ns: int) -> int | None:
    """How long after an instant the pool was full for the first time; None if it never was."""
    pairs = zip(pool.at_ns, pool.values, strict=True)
    at_ns = (at for at, value in pairs if at >= from_ns and value is not None and value >= FULL)
    first = next(at_ns, None)
    return None if first is None else first - from_ns


def _lesson(
    shares: dict[str, tuple[float, float, float]],
    full_ns: dict[str, int | None],
    taken_per_s: float | None,
    rate_per_s: float,
) -> list[str]:
    names = list(shares)
    if not names or shares[names[-1]][0] < BUSY or shares[names[0]][1] < WAITING:
        return [
            "Unexpected: the sink should be busy and the source back-pressured. Try a quiet machine"
            " or a higher --rate."
        ]
    source, sink = names[0], names[-1]
    waits = full_ns.get(f"{source}, output")
    rate = MISSING if taken_per_s is None else human_count(taken_per_s)
    return [
        f"The sink takes {rate} of {human_count(rate_per_s)} records/s. The buffers before it fill"
        f" up, then those before the relays; after {human_duration(waits)} the source has none left"
        " and waits.",
        f"The source was back-pressured {_percent(shares[source][1])} of the time and {sink} busy"
        f" {_percent(shares[sink][0])}: the bottleneck is the first busy task after the"
        " back-pressured ones.",
    ]


def _percent(share: float) -> str:
    return f"{share:.0%}"
