"""Jobs end to end: exchanges joined by the compiled kernel, held to the simulator that runs the
whole job on the real core.

The bound: records are equal, messages of each edge lie within 2 % and 3, p50 and p99 of the job and
of its edges within two buckets (2 %) and what the tasks of a TaskManager cost each other, which the
kernel, exchange by exchange, does not see.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from flinknet.config import NetworkConfig, RecordSize, Scenario, WorkloadConfig
from flinknet.histogram import LogLinearHistogram
from flinknet.job.load.plan import LoadPlan, load_plan_of
from flinknet.predict.job_run import JobOutcome, simulate_job
from flinknet.predict.recorded import Ramps, RecordedChannel, RecordedExchange, Setting
from flinknet.predict.recorded_job import JobEdge, RecordedJob
from flinknet.simulator.cluster import START_NS, Cluster
from flinknet.simulator.cost_model import CostModel
from flinknet.simulator.source_plan import plan_sources
from tests.comparisons import compares, compares_in
from tests.simulation import MS, NEVER, US, Rows

COSTS = CostModel(12_000.0, 0.15, 50_000.0, 9_000.0, 100.0, ())
SLACK_NS = 150 * US
"""Of a percentile, for each edge."""


@dataclass(frozen=True)
class Simulated:
    """A job as the simulator ran it."""

    load: LoadPlan
    rows: Rows
    latency: LogLinearHistogram
    records: int

    def messages(self, edge: int) -> int:
        own = {each.index for each in self.load.channels if each.edge == edge}
        return sum(row.channel in own for row in self.rows.buffers())


def simulated(scenario: Scenario) -> Simulated:
    load, rows = load_plan_of(scenario), Rows()
    plans = [
        replace(each, end_ns=each.end_ns + max(scenario.network.buffer_timeout_ns, 0))
        for each in plan_sources(load, start_ns=START_NS)
    ]
    cluster = Cluster.of_load(load, plans, COSTS, probes=(rows,) * load.task_managers)
    cluster.run_until_idle()
    assert cluster.error is None
    latency, records = LogLinearHistogram(), 0
    for task in cluster.sinks:
        for sink in task.receivers:
            sink.settle()
            latency.merge(sink.latency)
            records += sink.records
    return Simulated(load, rows, latency, records)


def recorded(run: Simulated) -> RecordedJob:
    """The job as its trace shows it: the instants of records are those at which they came to it."""
    scenario = run.load.scenario
    relays, delay_ns = scenario.workload.relays, scenario.workload.relay_delay_ns_per_record
    arrivals: dict[int, list[tuple[int, int, int]]] = {}
    for row in run.rows.buffers():
        if row.records > 0:
            own = row.records, row.first_record_ns, row.last_record_ns
            arrivals.setdefault(row.channel, []).append(own)
    last_ns = max(row.last_record_ns for row in run.rows.buffers())
    edges = []
    for number in range(relays + 1):
        channels = tuple(
            RecordedChannel(
                each.index,
                each.producer,
                each.consumer,
                each.producer_task_manager * 100 + each.consumer_task_manager,
                Ramps(*np.array(sorted(arrivals[each.index], key=lambda own: own[1])).T),
                scenario.workload.record_size.low_bytes + 5.0,
            )
            for each in run.load.channels
            if each.edge == number and each.index in arrivals
        )
        consumers = 1 + max(each.consumer for each in channels)
        consume_ns = float(delay_ns) if number < relays else 0.0
        exchange = RecordedExchange(
            1 + max(each.producer for each in channels),
            consumers,
            channels,
            scenario.network,
            False,
            START_NS,
            last_ns + 1,
            scenario.seed,
            replace(COSTS, consume_ns_per_record=(consume_ns,) * consumers),
        )
        edges.append(JobEdge(number, number + 1, exchange, has_own_instants=number == 0))
    return RecordedJob(edges)


@st.composite
def chains(draw: st.DrawFn) -> Scenario:
    """A source, one or two relays and a sink; up to three subtasks each."""
    relays = draw(st.integers(1, 2))
    rate = draw(st.sampled_from([300.0, 2_000.0, 10_000.0]))
    size = draw(st.sampled_from([100, 700]))
    return Scenario(
        network=NetworkConfig(segment_size_bytes=draw(st.sampled_from([4096, 32768]))),
        workload=WorkloadConfig(
            producers=draw(st.integers(1, 3)),
            consumers=draw(st.integers(1, 3)),
            relays=relays,
            rate_per_s=rate,
            records=int(rate * draw(st.sampled_from([0.3, 0.6]))),
            arrivals=draw(st.sampled_from(["constant", "poisson"])),
            partitioner=draw(st.sampled_from(["rebalance", "hash", "shuffle"])),
            record_size=RecordSize(size, size),
            relay_delay_ns_per_record=draw(st.sampled_from([0, 2_000])),
        ),
        task_managers=relays + 2,
        seed=draw(st.integers(0, 1000)),
    )


timeouts_ns = st.sampled_from([0, MS, 5 * MS, 20 * MS, 100 * MS, NEVER])


def under(scenario: Scenario, timeout_ns: int) -> Scenario:
    return replace(scenario, network=replace(scenario.network, buffer_timeout_ns=timeout_ns))


def predicted(job: RecordedJob, *settings: Setting) -> JobOutcome:
    """With the phases that the simulator has."""
    return simulate_job(job, settings * (len(job.edges) if len(settings) == 1 else 1), phases=1)


@compares_in(0.5)
@settings(max_examples=25)
@given(scenario=chains(), before_ns=timeouts_ns, after_ns=timeouts_ns)
def test_a_job_recorded_at_one_timeout_is_predicted_at_another(
    scenario: Scenario, before_ns: int, after_ns: int
) -> None:
    job = recorded(simulated(under(scenario, before_ns)))
    then = under(scenario, after_ns)
    found = predicted(job, Setting(then.network))
    assume(compares(found.why_unknown is None))
    real = simulated(then)
    assert found.latency.count == real.latency.count == real.records
    edges = len(job.edges)
    for number, hop in enumerate(found.hops):
        assert hop.messages == pytest.approx(real.messages(number), rel=0.02, abs=3)
    slack = 1.5 / real.latency.count
    for q in (0.5, 0.99):
        low, high = (
            real.latency.percentile(min(max(each, 0.0), 1.0)) for each in (q - slack, q + slack)
        )
        assert low is not None
        assert high is not None
        assert low * 0.98 - edges * SLACK_NS <= (found.latency.percentile(q) or 0)
        assert (found.latency.percentile(q) or 0) <= high * 1.02 + edges * SLACK_NS
