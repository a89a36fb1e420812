"""Runs in virtual time that something holds up, and what the verdict on each must be."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flinknet.config import NetworkConfig, SlowConsumer
from flinknet.graph import StreamExecutionEnvironment, StreamGraph
from flinknet.replay.ledger import ledger_of
from flinknet.replay.observe.observed import observe_here
from flinknet.replay.read import open_runs
from flinknet.results import Bottleneck, Cause
from flinknet.results.verdict import verdict
from flinknet.simulator.cost_model import TYPICAL_COSTS, Preemptions
from flinknet.simulator.link import LinkSettings
from flinknet.trace import RunManifest
from flinknet.trace.manifest import RESULT_NAME
from flinknet.trace.metrics import METRICS_NAME
from tests.simulated_job import COSTS
from tests.simulation import MS, US, scenario
from tests.traced_run import trace_job, trace_load

LENGTH_NS = 300 * MS
SETTINGS = {"taskmanager.memory.segment-size": "4kb", "execution.buffer-timeout.interval": "5 ms"}

Judge = Callable[[Bottleneck | None], object]
Make = Callable[[Path, Judge], Path]


@dataclass(frozen=True)
class Case:
    """A run, and its verdict: cause, tasks by name, and place where it is one."""

    name: str
    make: Make
    cause: Cause
    tasks: tuple[str, ...] = ()
    place: str | None = None


def same(record: tuple[int, bytes]) -> tuple[int, bytes]:
    return record


def key_of(record: tuple[int, bytes]) -> int:
    return record[0]


def stages(
    *,
    enrich: str = "1us",
    score: str = "1us",
    sink: str = "1us",
    skew: float = 0.0,
    rate: str = "4k/s",
    checkpoint: str | None = None,
    parallelism: int = 2,
    settings: dict[str, str] | None = None,
) -> StreamGraph:
    """Source, Enrich, Score, Sink, all to all; delays are for each record."""
    env = StreamExecutionEnvironment(SETTINGS | (settings or {}))
    env.set_parallelism(parallelism)
    if checkpoint is not None:
        env.enable_checkpointing(checkpoint)
    records = env.generate(rate=rate, record_size="400b", key_skew=skew)
    enriched = records.rebalance().map(same).name("Enrich").delay(enrich)
    scored = enriched.key_by(key_of).map(same).name("Score").delay(score)
    scored.rebalance().measure_latency().name("Out").delay(sink)
    return env.execute("Stages")


def job(graph: StreamGraph, **options: Any) -> Make:
    return lambda path, judge: trace_job(path, graph, for_ns=LENGTH_NS, judge=judge, **options)


def stops(period_ns: int, length_ns: int) -> Preemptions:
    """A host that stands still for so long of each period."""
    starts_ns = np.arange(period_ns // 2, 20 * LENGTH_NS, period_ns, dtype=np.int64)
    return Preemptions(starts_ns, np.full(len(starts_ns), length_ns))


def both(name: str) -> tuple[str, ...]:
    return (f"{name} (1/2)", f"{name} (2/2)")


def load(
    *, costs: Any = TYPICAL_COSTS, options: dict[str, Any] | None = None, **given: Any
) -> Make:
    network = NetworkConfig(segment_size_bytes=4096, **given.pop("network", {}))
    flow_control = given.pop("flow_control", "credit")
    found = scenario(5 * MS, network=network, size_bytes=400, **given)
    found = replace(
        found,
        task_managers=2 + given.get("relays", 0),
        network=replace(network, buffer_timeout_ns=5 * MS),
        flow_control=flow_control,
    )
    return lambda path, judge: trace_load(
        path, found, costs, for_ns=LENGTH_NS, judge=judge, **(options or {})
    )


def burst_branch() -> StreamGraph:
    """A steady source and a branch that works off bursts: its barriers are late at their sink."""
    env = StreamExecutionEnvironment(SETTINGS)
    env.set_parallelism(1)
    env.enable_checkpointing("20ms")
    steady = env.generate(rate="20k/s", record_size="400b").name("Steady")
    bursts = env.generate(rate="1k/s", record_size="400b", arrivals="bursts").name("Bursts")
    worked = bursts.rebalance().map(same).name("Work").set_parallelism(2).delay("1ms")
    steady.rebalance().union(worked.rebalance()).measure_latency().name("Out").set_parallelism(2)
    return env.execute("Branches")


SKEWED = ("Score (2/2)",)
SLOW_LINK = replace(COSTS, transit_ns=20 * MS)
NARROW = LinkSettings(bandwidth_bytes_per_s=400_000)
FEW = {
    "taskmanager.network.memory.buffers-per-channel": "1",
    "taskmanager.network.memory.floating-buffers-per-gate": "0",
}
STOPPED = {"preemptions": {1: stops(50 * MS, 30 * MS)}}

FEW_OF_LOAD = {"exclusive_buffers": 1, "floating_buffers": 0}

ENRICH, SCORE, OUT = both("Enrich"), both("Score"), both("Sink: Out")
FOUR = tuple(f"Score ({number}/4)" for number in range(1, 5))
PAIRS = {"producers": 2, "consumers": 2, "records": 100_000}
ONE_SLOW = {"producers": 2, "consumers": 4, "rate_per_s": 4000.0, "records": 100_000}
ONE_SLOW["slow_consumers"] = (SlowConsumer(3, MS),)
RELAYED = PAIRS | {"relays": 1, "relay_delay_ns_per_record": (400 * US,), "rate_per_s": 4000.0}
BOTH_SLOW = PAIRS | {"slow_consumers": tuple(SlowConsumer(each, 100 * US) for each in range(2))}
WAY_OF_400_US = replace(TYPICAL_COSTS, transit_ns=400 * US)
WAY_OF_20_MS = replace(TYPICAL_COSTS, transit_ns=20 * MS)
AT_ONCE = {"execution.buffer-timeout.interval": "0 ms"}

CASES = [
    Case("slow first", job(stages(enrich="400us")), Cause.SLOW_TASKS, ENRICH),
    Case("slow middle", job(stages(score="400us")), Cause.SLOW_TASKS, SCORE),
    Case("slow last", job(stages(sink="400us")), Cause.SLOW_TASKS, OUT),
    Case("half busy, then slow", job(stages(score="200us", sink="400us")), Cause.SLOW_TASKS, OUT),
    Case(
        "slow, then half busy", job(stages(enrich="400us", sink="200us")), Cause.SLOW_TASKS, ENRICH
    ),
    Case(
        "four slow ones", job(stages(score="400us", parallelism=4), slots=2), Cause.SLOW_TASKS, FOUR
    ),
    Case("slow relay", load(**RELAYED), Cause.SLOW_TASKS),
    Case("slow at the highest rate", load(**BOTH_SLOW), Cause.SLOW_TASKS),
    Case("skew", job(stages(score="180us", skew=2.0)), Cause.SKEW, SKEWED),
    Case(
        "skew before a half busy one",
        job(stages(score="180us", sink="100us", skew=2.0)),
        Cause.SKEW,
        SKEWED,
    ),
    Case("one slow consumer", load(**ONE_SLOW), Cause.SLOW_SUBTASK, ("consumer 3 of 4",)),
    Case(
        "one slow consumer, tcp",
        load(**ONE_SLOW, flow_control="tcp"),
        Cause.SLOW_SUBTASK,
        ("consumer 3 of 4",),
    ),
    Case(
        "host stops",
        job(stages(score="150us", enrich="150us", rate="5k/s"), **STOPPED),
        Cause.SLOW_HOST,
        place="tm-1",
    ),
    Case(
        "host stops, tasks wait",
        job(stages(rate="8k/s"), preemptions={0: stops(60 * MS, 50 * MS)}),
        Cause.SLOW_HOST,
        place="tm-0",
    ),
    Case("half busy", job(stages(enrich="150us", rate="3k/s")), Cause.BUFFER_TIMEOUT),
    Case(
        "host stops, last stage works",
        job(stages(sink="150us", rate="5k/s"), **STOPPED),
        Cause.SLOW_HOST,
        place="tm-1",
    ),
    Case(
        "few buffers",
        load(network=FEW_OF_LOAD, costs=WAY_OF_400_US, records=100_000),
        Cause.FEW_BUFFERS,
    ),
    Case(
        "few buffers in a job",
        job(stages(rate="20k/s", settings=FEW), costs=replace(COSTS, transit_ns=400 * US)),
        Cause.FEW_BUFFERS,
    ),
    Case("alignment", job(burst_branch()), Cause.ALIGNMENT),
    Case("network latency", job(stages(rate="20k/s"), costs=SLOW_LINK), Cause.NETWORK),
    Case("network latency, little load", job(stages(rate="1k/s"), costs=SLOW_LINK), Cause.NETWORK),
    Case(
        "network latency of a load",
        load(records=100_000, rate_per_s=20_000.0, costs=WAY_OF_20_MS),
        Cause.NETWORK,
    ),
    Case("bandwidth", job(stages(), link=NARROW), Cause.NETWORK),
    Case("nothing", job(stages(rate="500/s", settings=AT_ONCE)), Cause.NONE),
    Case("buffer timeout", job(stages()), Cause.BUFFER_TIMEOUT),
    Case("buffer timeout of a load", load(**PAIRS, rate_per_s=2000.0), Cause.BUFFER_TIMEOUT),
]


IN_EVENTS = frozenset((Cause.NETWORK, Cause.SLOW_HOST, Cause.ALIGNMENT))
"""Causes that show in the events of a trace alone."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bench_and_job_run_say_of_a_run_what_its_replay_says(case: Case, tmp_path: Path) -> None:
    live = list[Bottleneck | None]()
    path = case.make(tmp_path, live.append)
    found = verdict(ledger_of(observe_here(open_runs([path]))))
    assert found.cause is case.cause, found.text
    if case.tasks:
        assert set(found.tasks) == set(case.tasks)
    if case.place is not None:
        assert found.place == case.place
    (own,) = live
    if case.cause in IN_EVENTS:
        return
    if found.is_healthy and own.cause is Cause.NONE:  # a job knows nothing of its flusher
        return
    assert (own.cause, set(own.tasks)) == (found.cause, set(found.tasks)), own.text
    assert (own.vertex, own.edge) == (found.vertex, found.edge)


def test_a_source_that_its_own_metrics_call_busy_holds_its_job_up(tmp_path: Path) -> None:
    path = job(stages())(tmp_path, lambda _: None)
    manifest = RunManifest.load(path)
    names = manifest.scenario["job"]["vertices"][0]["tasks"]
    lines = [
        {
            "at_ns": manifest.measured_from_ns + at_ms * MS,
            "task_manager": "tm-0",
            "task": name,
            "accumulateBusyTimeMs": at_ms,
        }
        for name in names
        for at_ms in (10, 200)
    ]
    text = "".join(json.dumps(each) + "\n" for each in lines)
    (path / METRICS_NAME).write_text(text, encoding="utf-8")
    found = verdict(ledger_of(observe_here(open_runs([path]))))
    assert (found.cause, set(found.tasks)) == (Cause.SLOW_TASKS, set(names))


def test_late_buffers_show_nothing_on_a_machine_that_others_use(tmp_path: Path) -> None:
    case = next(each for each in CASES if each.name == "network latency of a load")
    path = case.make(tmp_path, lambda _: None)
    processors = {"busy_share": {}, "lacked_share": {}, "outside_share": 1.2, "cores": 2}
    (path / RESULT_NAME).write_text(json.dumps({"processors": processors}), encoding="utf-8")
    found = verdict(ledger_of(observe_here(open_runs([path]))))
    assert found.cause is not Cause.NETWORK
