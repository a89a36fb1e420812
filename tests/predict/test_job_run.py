"""Jobs end to end: exchanges joined by the compiled kernel, held to the simulator that runs the
whole job on the real core.

The bound: records are equal; messages of each edge lie within 1% and 3, for the last buffers of a
task behind another leave as its inputs end; p50 and p99 lie within two buckets (2%) of those one
and a half records around them, and 40 us for each edge: the kernel, exchange by exchange, does not
see that a task reads and writes on one loop. One job in twenty may miss it: a record that comes
with a beat leaves with that or with the next one.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from flinknet.config import NetworkConfig, RecordSize, Scenario, WorkloadConfig
from flinknet.options.what_if import Setting
from flinknet.predict.fit.arrivals import UNKNOWN_PATTERN, Unseen
from flinknet.predict.fit.delays import Delays
from flinknet.predict.intervals import Intervals
from flinknet.predict.job import (
    Departures,
    JobEdge,
    Passage,
    RecordedJob,
    _outputs_per_input,
    falls_behind,
    passed_on,
)
from flinknet.predict.job_run import JobRun, simulate_job
from flinknet.predict.loading import _follows, checked
from flinknet.predict.outcome import Outcome
from flinknet.predict.ramps import Ramps
from flinknet.predict.recorded import RecordedChannel, RecordedExchange
from flinknet.predict.what_if import leaves_barriers_out
from flinknet.simulator.cluster import START_NS
from tests.simulated_chain import COSTS, Simulated, edge, simulated, steady
from tests.simulation import MS, US

CHAINS = 12

SLACK_NS = 40 * US
"""Of a percentile, for each edge."""


def recorded(run: Simulated) -> RecordedJob:
    """The job as its trace shows it: the instants of records are those at which they came to it."""
    scenario = run.load.scenario
    relays, delays_ns = scenario.workload.relays, [*scenario.workload.relay_delays_ns, 0]
    arrivals: dict[int, list[tuple[int, int, int]]] = {}
    for row in run.rows.buffers():
        if row.records > 0:
            own = row.records, row.first_record_ns, row.last_record_ns
            arrivals.setdefault(row.channel, []).append(own)
    outputs = (output for task in run.load.tasks for output in task.outputs)
    partitioners = {output.edge: output.partitioner for output in outputs}
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
        consume_ns = float(delays_ns[number])
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
            partitioner=partitioners[number],
        )
        edges.append(JobEdge(edge(number, number + 1), exchange, has_own_instants=number == 0))
    return RecordedJob(edges)


def chain(seed: int) -> tuple[Scenario, Scenario]:
    """A source, one or two relays and a sink of up to three subtasks each, recorded with timeout 0;
    and with another timeout, two in three with checkpoints, aligned or not or
    until a timeout."""
    chance = random.Random(seed)
    relays, size = chance.randint(1, 2), chance.choice([100, 700])
    scenario = Scenario(
        network=NetworkConfig(segment_size_bytes=chance.choice([4096, 32768]), buffer_timeout_ns=0),
        workload=WorkloadConfig(
            producers=chance.randint(1, 3),
            consumers=chance.randint(1, 3),
            relays=relays,
            rate_per_s=chance.choice([600.0, 2_000.0]),
            records=150,
            arrivals=chance.choice(["constant", "poisson"]),
            partitioner=chance.choice(["rebalance", "hash", "shuffle"]),
            record_size=RecordSize(size, size),
            relay_delay_ns_per_record=(chance.choice([0, 2_000]),),
        ),
        task_managers=relays + 2,
        seed=seed,
    )
    timeout_ns = chance.choice([0, MS, 5 * MS, 10 * MS])
    network = replace(
        scenario.network,
        buffer_timeout_ns=timeout_ns,
        checkpoint_interval_ns=chance.choice([None, 13 * MS, 40 * MS]),
        unaligned_checkpoints=chance.choice([False, True]),
        aligned_checkpoint_timeout_ns=chance.choice([0, MS, 3 * MS]),
    )
    return scenario, replace(scenario, network=network)


def under(scenario: Scenario, timeout_ns: int) -> Scenario:
    return replace(scenario, network=replace(scenario.network, buffer_timeout_ns=timeout_ns))


def predicted(job: RecordedJob, *settings: Setting) -> Outcome:
    """With the phases that the simulator has."""
    return JobRun(job, settings * (len(job.edges) if len(settings) == 1 else 1), 0).outcome


def is_within_the_bound(
    job: RecordedJob,
    found: Outcome,
    real: Simulated,
    *,
    messages: tuple[float, int] = (0.01, 3),
    percentiles: Mapping[float, float] = MappingProxyType({0.5: 0.02, 0.99: 0.02}),
) -> bool:
    """Whether the messages of each edge are right within a share, or so many, and percentiles of
    the job's latency within a share and SLACK_NS for each edge.
    """
    assert found.latency.count == real.latency.count == real.records
    slack, slack_ns = 1.5 / real.latency.count, len(job.edges) * SLACK_NS
    for number, hop in enumerate(found.edges):
        if hop.messages != pytest.approx(real.messages(number), rel=messages[0], abs=messages[1]):
            return False
    for q, share in percentiles.items():
        ours = found.latency.percentile(q) or 0
        low, high = (real.latency.percentile(each) or 0 for each in (q - slack, min(q + slack, 1)))
        if not low * (1 - share) - slack_ns <= ours <= high * (1 + share) + slack_ns:
            return False
    return True


def test_jobs_from_end_to_end_have_the_figures_of_the_real_core() -> None:
    within = []
    for seed in range(CHAINS):
        scenario, then = chain(seed)
        job = recorded(simulated(scenario))
        found = predicted(job, Setting(then.network))
        if found.why_unknown is None:
            within.append(is_within_the_bound(job, found, simulated(then)))
    assert len(within) >= 0.9 * CHAINS
    assert sum(within) >= 0.95 * len(within)


def timeouts(job: RecordedJob, *timeouts_ns: int) -> list[Setting]:
    networks = (each.exchange.network for each in job.edges)
    return [
        Setting(replace(network, buffer_timeout_ns=timeout_ns))
        for network, timeout_ns in zip(networks, timeouts_ns, strict=True)
    ]


def test_each_edge_may_have_a_timeout_of_its_own() -> None:
    job = recorded(simulated(steady()))
    both = simulate_job(job, timeouts(job, 20 * MS, 20 * MS))
    first = simulate_job(job, timeouts(job, 20 * MS, 0))
    assert first.edges[0].latency.to_bytes() == both.edges[0].latency.to_bytes()
    assert (first.edges[1].latency.max or 0) < MS < 5 * MS < (both.edges[1].latency.mean or 0)
    assert first.latency.mean == pytest.approx(
        sum(each.latency.mean or 0 for each in first.edges), rel=0.001
    )


def test_producers_of_a_tapped_job_may_flush_each_record() -> None:
    """They start apart, and there is no beat."""
    job = recorded(simulated(steady()))
    edges = [
        replace(each, exchange=replace(each.exchange, has_instants=False, flush_overhead_ns=0))
        for each in job.edges
    ]
    found = simulate_job(RecordedJob(edges), timeouts(job, 0, 0))
    assert all((each.latency.max or 0) < MS for each in found.edges)


def test_phases_show_how_beats_lie_to_each_other() -> None:
    """A record that left with a beat waits for the next one, for as long in all of a run."""
    job = recorded(simulated(steady()))
    found = simulate_job(job, timeouts(job, 20 * MS, 20 * MS))
    means_ns = [each.latency.mean or 0 for each in found.phases]
    assert max(means_ns) - min(means_ns) > 5 * MS
    assert max(means_ns) < 31 * MS
    assert len({each.latency.to_bytes() for each in found.phases}) == len(means_ns)


def with_checkpoints(setting: Setting, **more: Any) -> Setting:
    network = replace(setting.network, checkpoint_interval_ns=1_000 * MS, **more)
    return replace(setting, network=network)


def test_rare_barriers_that_the_kernel_does_not_know_are_left_out() -> None:
    job = recorded(simulated(steady()))

    def timing_out(timeout_ns: int) -> list[Setting]:
        return [
            with_checkpoints(each, checkpoints_after_tasks_finish=False)
            for each in timeouts(job, timeout_ns, timeout_ns)
        ]

    without = simulate_job(job, timeouts(job, 20 * MS, 20 * MS))
    rare = simulate_job(job, timing_out(20 * MS))
    assert rare.latency.to_bytes() == without.latency.to_bytes()
    assert all(leaves_barriers_out(each) for each in timing_out(100 * MS))
    often = simulate_job(job, timing_out(101 * MS))
    assert "no checkpoint" in (often.why_unknown or "")
    aligned = [with_checkpoints(each) for each in timeouts(job, 20 * MS, 20 * MS)]
    assert not any(leaves_barriers_out(each) for each in aligned)


def test_a_task_without_records_passes_barriers_on_with_the_first_of_the_others() -> None:
    rows = ([[30, 1, 0], [70, 9, 0]], [[20, 1, 1], [90, 9, 1], [110, 100, 0]])
    barriers = dict(enumerate([*map(np.array, rows), np.zeros((0, 3), np.int64)]))
    found = passed_on(barriers, 4)
    assert [each.tolist() for each in found[:3]] == [*rows, []]
    assert found[3].tolist() == [[20, 1, 1], [70, 9, 0], [110, 100, 0]]
    assert [each.tolist() for each in passed_on({0: barriers[2]}, 2)] == [[], []]


def test_a_saturated_edge_holds_the_job_up() -> None:
    job = recorded(simulated(steady(relays=2, size_bytes=8000)))
    slow = replace(
        job.edges[1].exchange,
        costs=replace(job.edges[1].exchange.costs, consume_ns_per_record=(2.0 * MS,)),
    )
    edges = [job.edges[0], replace(job.edges[1], exchange=slow), job.edges[2]]
    found = simulate_job(RecordedJob(edges), timeouts(job, 0, 0, 0))
    assert "saturated: it can carry only 25% of the load" in (found.why_unknown or "")
    assert found.throughput_records_per_s == pytest.approx(500, rel=0.03)
    assert (found.latency.count, found.buffers_per_s) == (0, None)
    assert [each.throughput_records_per_s for each in found.edges] == pytest.approx(
        [500] * 3, rel=0.03
    )
    assert "another edge of the job" in (found.edges[0].why_unknown or "")
    assert "the edge before it" in (found.edges[2].why_unknown or "")


def test_a_task_with_two_inputs_is_unknown_and_what_is_behind_it() -> None:
    first, second, third = recorded(simulated(steady(relays=2))).edges
    job = RecordedJob([first, replace(first, edge=edge(7, 1)), second, third])
    found = simulate_job(job, timeouts(job, 0, 0, 0, 0))
    whys = [each.why_unknown for each in found.edges]
    assert whys[:2] == [None, None]
    assert "has 2 inputs" in (whys[2] or "")
    assert whys[3] is not None


def test_records_that_do_not_follow_those_before_are_found() -> None:
    """A window emits what it held at its end."""
    first, second = recorded(simulated(steady())).edges
    (channel,) = second.exchange.channels
    lasts_ns = second.exchange.duration_ns
    together = Ramps.of(np.full(channel.records, START_NS + lasts_ns, np.int64))
    window = replace(second.exchange, channels=(replace(channel, arrivals=together),))
    follows = RecordedJob([first, replace(second, has_own_instants=True)])
    waits = RecordedJob([first, replace(second, exchange=window, has_own_instants=True)])
    assert checked(follows).whys_unknown == (None, None)
    assert "do not follow its task's input" in (checked(waits).whys_unknown[1] or "")
    costs = replace(window.costs, consume_ns_per_record=(lasts_ns / channel.records,))
    late = replace(second, exchange=replace(window, costs=costs), has_own_instants=True)
    held_up, why = checked(RecordedJob([first, late])).whys_unknown
    assert why is not None
    assert why.startswith("saturated: a consumer is busy 100% of the time")
    assert held_up == "another edge of the job is saturated and holds this one up"


def test_each_draw_has_its_own_delays_of_the_machine() -> None:
    job = recorded(simulated(steady()))
    first, second = job.edges
    unseen = Unseen({}, UNKNOWN_PATTERN, START_NS, START_NS, None)
    delays = Delays(np.full(500, 5 * MS))
    exchange = replace(first.exchange, unseen=unseen, delays=delays)
    drawn = RecordedJob([replace(first, exchange=exchange), second])
    found = simulate_job(drawn, timeouts(job, 0, 0))
    means_ns = [each.latency.mean or 0 for each in found.phases]
    assert max(means_ns) - min(means_ns) > MS


def test_the_range_reaches_from_none_of_the_pauses_of_a_taskmanager_to_all_of_them() -> None:
    """A record in several exchanges waits for the same pause once."""
    job = recorded(simulated(steady()))
    starts_ns = START_NS + np.arange(4) * 40 * MS
    pauses = Intervals(starts_ns, starts_ns + 10 * MS)
    edges = [replace(e, exchange=replace(e.exchange, pauses={0: pauses})) for e in job.edges]
    settings = timeouts(job, 1 * MS, 1 * MS)
    calm, paused = (simulate_job(each, settings) for each in (job, RecordedJob(edges)))
    calm_ns, paused_ns = (
        sorted(each.latency.summary().p95 or 0 for each in found.phases) for found in (calm, paused)
    )
    assert paused_ns[0] < 1.5 * calm_ns[0] < 5 * MS < paused_ns[-1]
    assert max(each.latency.max or 0 for each in paused.phases) < 10 * MS + 2 * max(calm_ns)


@pytest.mark.parametrize("outputs", [0.25, 1.0, 3.0])
def test_a_task_may_emit_fewer_or_more_records_than_it_takes(outputs: float) -> None:
    departures = Departures(np.arange(400) * MS, np.arange(400) * MS - 7)
    passage = Passage(outputs, np.array([4, 5]))
    came = dict(passage.through(departures))
    assert sum(len(each.at_ns) for each in came.values()) == 400 * outputs
    assert set(came) == {4, 5}
    for each in came.values():
        assert (np.diff(each.at_ns) >= 0).all()
        assert (each.at_ns - each.origins_ns == 7).all()


def test_a_producer_that_is_known_to_send_in_turn_does_so() -> None:
    chain = steady()
    job = recorded(
        simulated(replace(chain, workload=replace(chain.workload, consumers=2), task_managers=3))
    )
    first, second = job.edges
    clumped = [
        replace(each, arrivals=Ramps.of(np.sort(np.tile(START_NS + at * 50 * MS, each.records))))
        for at, each in enumerate(second.exchange.channels)
    ]
    second = replace(second, exchange=replace(second.exchange, channels=tuple(clumped)))
    for is_in_turn, changes in ((False, 1), (True, 299)):
        own = RecordedJob([first, replace(second, is_in_turn=is_in_turn)])
        routes = np.resize(own.passages[1][0].routes, 300)
        assert np.count_nonzero(np.diff(routes)) == changes


def test_records_under_way_as_the_window_begins_and_ends_are_no_output_too_many() -> None:
    """A slow task works off bursts: 400 of its outputs belong to inputs before the window."""
    bursts_ns = np.sort(np.tile(np.arange(10) * 1000 * MS, 1000))
    outputs_ns = np.arange(10_400) * 10_000 * MS // 10_400
    assert _outputs_per_input(bursts_ns, outputs_ns) == 1.0
    evenly_ns = np.arange(10_000) * MS
    assert _outputs_per_input(evenly_ns, outputs_ns) == pytest.approx(1.04)


def test_records_that_follow_may_be_counted_from_another_one_on() -> None:
    """As the window begins, a burst from before it leaves the task: all ranks are off by that."""
    (channel,) = recorded(simulated(steady())).edges[1].exchange.channels
    bursts_ns = np.sort(np.tile(START_NS + np.arange(1, 9) * 1000 * MS, 500))
    earlier_ns = np.concatenate([np.full(500, START_NS), bursts_ns + MS])
    exchange = replace(
        recorded(simulated(steady())).edges[1].exchange,
        channels=(replace(channel, arrivals=Ramps.of(earlier_ns)),),
    )
    assert _follows(exchange, [replace(channel, arrivals=Ramps.of(bursts_ns))])
    evenly_ns = START_NS + np.arange(4000) * 2 * MS
    assert not _follows(exchange, [replace(channel, arrivals=Ramps.of(evenly_ns))])


S = 1_000 * MS


@pytest.mark.parametrize(
    ("rate", "falls"), [(0.5, True), (0.9, True), (1.0, False)], ids=["half", "most", "all"]
)
@pytest.mark.parametrize("window_ns", [S, 6 * S])
def test_sources_may_end_long_before_the_window(rate: float, falls: bool, window_ns: int) -> None:
    origins_ns = S + np.arange(0, S, 1_000_000)
    at_ns = S + ((origins_ns - S) / rate).astype(np.int64) + 5_000_000
    assert falls_behind([Departures(at_ns, origins_ns)], S, window_ns, 10_000_000) is falls


def test_many_consumers_with_few_late_records_each_are_looked_at_together() -> None:
    """30 records each, which are taken half as fast as they come."""
    origins_ns = S + np.arange(30) * (S // 30)
    departed = Departures(2 * origins_ns - S, origins_ns)
    assert not falls_behind([departed], S, S, 10_000_000)
    assert falls_behind([departed] * 100, S, S, 10_000_000)


@pytest.mark.parametrize(("late", "falls"), [(9, False), (10, True)])
def test_few_late_records_say_nothing(late: int, falls: bool) -> None:
    """They come with one burst, and wait for each other."""
    origins_ns = np.append(S + np.arange(0, S // 2, 1_000_000), np.full(late, S + 900_000_000))
    ages_ns = np.append(np.full(500, 5_000_000), np.full(late, 80_000_000))
    departed = Departures(origins_ns + ages_ns, origins_ns)
    assert falls_behind([departed], S, S, 10_000_000) is falls
