"""What-if: recorded arrivals under other settings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flinknet.config import NetworkConfig
from flinknet.histogram import bucket_index
from flinknet.options.what_if import Setting
from flinknet.predict.kernel_edge import KernelEdge
from flinknet.predict.outcome import Outcome
from flinknet.predict.ramps import Ramps
from flinknet.predict.recorded import RecordedChannel, RecordedExchange
from flinknet.predict.what_if import simulate, simulate_in_full
from flinknet.results import CheckpointSummary
from flinknet.simulator.cost_model import Preemptions
from tests.recorded_exchange import FROM_NS, steady
from tests.simulation import MS, NEVER, US, S

WIRE_BYTES = 105.0


def exchange_of(
    routes: dict[tuple[int, int], int],
    *,
    rate_per_s: float = 5000.0,
    records: int = 10_000,
    is_max_rate: bool = False,
    consume_ns: tuple[float, ...] = (20.0, 20.0, 20.0),
    connection: dict[tuple[int, int], int] | None = None,
) -> RecordedExchange:
    """Evenly spaced records on each channel; `routes` counts them by (producer, consumer)."""
    channels = tuple(
        RecordedChannel(
            channel=number,
            producer=producer,
            consumer=consumer,
            connection=(connection or {}).get((producer, consumer), 0),
            arrivals=Ramps.of(FROM_NS + np.arange(count, dtype=np.int64) * int(S / rate_per_s)),
            record_wire_bytes=WIRE_BYTES,
        )
        for number, ((producer, consumer), count) in enumerate(routes.items())
    )
    exchange = steady(
        producers=3,
        consumers=3,
        channels=channels,
        is_max_rate=is_max_rate,
        measured_to_ns=FROM_NS + int(records / rate_per_s * S),
    )
    return replace(exchange, costs=replace(exchange.costs, consume_ns_per_record=consume_ns))


def with_timeout(timeout_ns: int) -> NetworkConfig:
    return NetworkConfig(buffer_timeout_ns=timeout_ns)


@pytest.mark.row("S030")
def test_shorter_timeouts_buy_latency_with_messages() -> None:
    exchange = exchange_of({(0, 0): 10_000})
    timeouts_ns = (1130 * US, 5170 * US, 51_300 * US)  # out of step with the records
    outcomes = [
        simulate(exchange, with_timeout(timeout_ns)) for timeout_ns in (0, *timeouts_ns, NEVER)
    ]
    means = [outcome.latency.mean for outcome in outcomes]
    tails = [outcome.latency.percentile(0.99) for outcome in outcomes]
    messages = [outcome.messages or 0 for outcome in outcomes]
    assert means == sorted(means)  # type: ignore[type-var]
    assert tails == sorted(tails)  # type: ignore[type-var]
    assert messages == sorted(messages, reverse=True)
    assert {outcome.records for outcome in outcomes} == {10_000}
    fill_ns = 32_768 / (WIRE_BYTES * 5000) * S
    for outcome, timeout_ns in zip(outcomes[1:4], timeouts_ns, strict=True):
        a, b = sorted((timeout_ns, fill_ns))
        assert outcome.latency.mean == pytest.approx(a / 2 - a * a / (6 * b) + 65 * US, rel=0.05)
        assert outcome.messages == pytest.approx(2 * S / timeout_ns + 2 * S / fill_ns, rel=0.03)


def test_no_timeout_holds_records_longer_than_their_segment_takes_to_fill() -> None:
    exchange = replace(exchange_of({(0, 0): 9_900}), ends_its_data=True)
    fill_ns = 32_768 / (WIRE_BYTES * 5000) * S
    for timeout_ns in (300 * MS, S, NEVER):
        outcome = simulate(exchange, with_timeout(timeout_ns))
        assert outcome.records == 9_900
        assert (outcome.latency.max or 0) < 1.1 * fill_ns
    endless = simulate(replace(exchange, ends_its_data=False), with_timeout(300 * MS))
    assert (endless.latency.max or 0) > 2 * fill_ns  # the last ones wait for the beat


@pytest.mark.row("S030")
def test_an_unsaturated_run_keeps_its_rate_whatever_the_timeout() -> None:
    exchange = exchange_of({(0, 0): 10_000})
    for timeout_ns in (0, 100 * MS, NEVER):
        outcome = simulate(exchange, with_timeout(timeout_ns))
        assert outcome.throughput_records_per_s == pytest.approx(5000, rel=0.001)


@pytest.mark.parametrize("rate_per_s", [5000.0, 50_000.0])
def test_a_saturated_run_is_no_faster_with_a_long_timeout(rate_per_s: float) -> None:
    exchange = exchange_of(
        {(0, 0): 10_000}, rate_per_s=rate_per_s, consume_ns=(250_000.0, 20.0, 20.0)
    )
    for timeout_ns in (MS, 100 * MS, S, NEVER):
        outcome = simulate(exchange, with_timeout(timeout_ns))
        assert outcome.throughput_records_per_s == pytest.approx(4000, rel=0.03)


def test_a_way_that_saturates_is_no_wider_with_a_long_timeout() -> None:
    exchange = exchange_of({(0, 0): 100_000}, rate_per_s=1e6, records=100_000)
    far = replace(exchange, costs=replace(exchange.costs, transit_ns=20 * MS))
    short, long = (
        simulate(far, with_timeout(timeout_ns)).throughput_records_per_s
        for timeout_ns in (10 * MS, S)
    )
    assert long == pytest.approx(short, rel=0.15)


def test_the_same_exchange_gives_the_same_outcome() -> None:
    exchange = exchange_of({(0, 0): 3000, (1, 0): 3000})
    first, second = (simulate(exchange, with_timeout(5 * MS)) for _ in range(2))
    assert first.latency.to_bytes() == second.latency.to_bytes()
    assert (first.messages, first.duration_ns) == (second.messages, second.duration_ns)
    other = simulate(replace(exchange, seed=8), with_timeout(5 * MS))
    assert first.latency.to_bytes() != other.latency.to_bytes()


def test_records_go_where_they_went() -> None:
    exchange = exchange_of({(0, 0): 5000, (0, 1): 100, (1, 1): 2500})
    outcome = simulate(exchange, with_timeout(NEVER))
    assert outcome.records == 7600
    # 312 records and a bit fill a segment; the last one of each channel leaves with the end
    assert outcome.messages == 5000 // 312.08 + 1 + 1 + 2500 // 312.08 + 1


def test_a_slow_consumer_bounds_the_rate_and_fills_the_backlog() -> None:
    exchange = exchange_of({(0, 0): 10_000}, consume_ns=(400.0 * US, 20.0, 20.0))
    outcome = simulate(exchange, with_timeout(MS))
    assert outcome.throughput_records_per_s == pytest.approx(2500, rel=0.01)
    assert outcome.backlog_buffers.max is not None
    assert outcome.backlog_buffers.max >= 5
    assert outcome.latency.max is not None
    assert outcome.latency.max > S


def test_at_maximum_rate_costs_and_pressure_set_the_pace() -> None:
    exchange = exchange_of({(0, 0): 100_000}, is_max_rate=True, records=100_000)
    outcome = simulate(exchange, with_timeout(100 * MS))
    assert outcome.records == 100_000
    bound = S / (100 + 105 * 0.15 + 12_000 / 312)  # what its producer can do
    assert bound * 0.8 < (outcome.throughput_records_per_s or 0) < bound
    slow = replace(exchange, costs=replace(exchange.costs, emit_ns_per_record=1000.0))
    outcome = simulate(slow, with_timeout(100 * MS))
    assert outcome.throughput_records_per_s == pytest.approx(
        1e9 / (1000 + 105 * 0.15 + 40), rel=0.1
    )


def test_more_credit_takes_more_of_a_long_way() -> None:
    exchange = exchange_of({(0, 0): 50_000}, is_max_rate=True)
    far = replace(exchange, costs=replace(exchange.costs, transit_ns=5e6))
    network = with_timeout(100 * MS)
    little, much = (
        simulate(far, replace(network, floating_buffers=floating)).throughput_records_per_s
        for floating in (2, 8)
    )
    assert much is not None
    assert little is not None
    assert much > 1.8 * little


def test_tasks_whose_channels_share_a_connection_share_task_managers() -> None:
    exchange = exchange_of(
        {(0, 0): 10, (1, 0): 10, (2, 1): 10, (2, 2): 10},
        connection={(0, 0): 0, (1, 0): 0, (2, 1): 1, (2, 2): 2},
    )
    edge = KernelEdge.of(exchange, NetworkConfig())
    assert [each.task_manager for each in edge.sources] == [0, 0, 1]
    assert [each.task_manager for each in edge.sinks] == [2, 3, 4]


def test_tasks_without_records_are_left_out() -> None:
    exchange = exchange_of({(0, 0): 0, (2, 1): 500}, consume_ns=(9e9, 20.0, 9e9))
    assert simulate(exchange, with_timeout(MS)).records == 500


def test_an_exchange_without_records_has_an_empty_outcome() -> None:
    outcome = simulate(exchange_of({(0, 0): 0}), with_timeout(MS))
    assert (outcome.records, outcome.messages, outcome.latency.count) == (0, 0, 0)
    assert outcome.backlog_buffers.max is None


def test_what_was_local_is_predicted_without_the_way_through_the_network() -> None:
    apart = exchange_of({(0, 0): 10_000})
    together = replace(apart, task_managers=((0, 0, 0), (0, 0, 0)))
    network = with_timeout(0)
    far, near = simulate(apart, network), simulate(together, network)
    assert (far.records, near.records) == (10_000, 10_000)
    assert (far.latency.percentile(0.5) or 0) > 50 * US
    assert (near.latency.percentile(0.5) or 0) < 40 * US


NONE = np.zeros(0, np.int64)


def test_a_preemption_of_a_process_holds_up_what_came_in_it() -> None:
    exchange = exchange_of({(0, 0): 10_000})
    none = Preemptions(NONE, NONE)
    once = Preemptions(np.array([1 * S]), np.array([300 * MS]))
    hampered = replace(exchange, preemptions=((none,) * 3, (once,) * 3))
    free, held = (simulate(each, with_timeout(MS)).latency for each in (exchange, hampered))
    assert held.percentile(0.5) == pytest.approx(free.percentile(0.5), rel=0.05)
    assert held.max == pytest.approx(300 * MS, rel=0.05)
    late = held.counts[int(bucket_index(np.array([2 * MS]))[0]) :].sum()
    assert late == pytest.approx(0.3 * 5000, rel=0.05)


def test_credit_that_comes_back_sooner_lets_more_through() -> None:
    exchange = exchange_of({(0, 0): 50_000}, is_max_rate=True)
    far = replace(exchange.costs, transit_ns=2e6)
    network = NetworkConfig(floating_buffers=1)
    both, one = (
        simulate(replace(exchange, costs=costs), network).throughput_records_per_s or 0.0
        for costs in (far, replace(far, back_ns=10_000.0))
    )
    assert one == pytest.approx(2 * both, rel=0.1)


@pytest.mark.parametrize(("buffers", "share"), [((10, 1), (0.9, 1.05)), ((2, 8), (0.55, 0.85))])
def test_few_floating_buffers_carry_less_over_a_long_way(
    buffers: tuple[int, int], share: tuple[float, float]
) -> None:
    """Credit for a backlog and that for its records come together or apart, as loops wake: the rate
    is between that of either, and below what as many exclusive buffers carry."""
    exclusive, floating = buffers
    network = NetworkConfig(exclusive_buffers=exclusive, floating_buffers=floating)
    exchange = exchange_of({(0, 0): 200_000}, is_max_rate=True)
    setting = Setting(network, round_trip_ns=10 * MS)
    found = simulate(exchange.under(setting), network).throughput_records_per_s or 0.0
    allowed = sum(buffers) * network.segment_size_bytes / WIRE_BYTES * (S // setting.round_trip_ns)
    assert share[0] < found / allowed < share[1]


def debloated(timeout_ns: int) -> NetworkConfig:
    return NetworkConfig(buffer_timeout_ns=timeout_ns, debloating_enabled=True)


def test_debloated_buffers_are_smaller_and_leave_sooner() -> None:
    exchange = exchange_of({(0, 0): 10_000}, consume_ns=(20_000.0, 20.0, 20.0))
    plain = simulate(exchange, with_timeout(100 * MS))
    small = simulate(exchange, debloated(100 * MS))
    assert small.messages > 2 * plain.messages
    assert (small.latency.percentile(0.5) or 0) < (plain.latency.percentile(0.5) or 0)


def test_debloating_goes_on_from_the_size_that_was_announced() -> None:
    exchange = exchange_of({(0, 0): 3_000}, records=3_000)
    anew = simulate(exchange, debloated(100 * MS))
    on = simulate(replace(exchange, buffer_size_bytes=16 * 1024), debloated(100 * MS))
    assert on.messages < anew.messages
    ignored = simulate(replace(exchange, buffer_size_bytes=16 * 1024), with_timeout(100 * MS))
    assert ignored.messages == simulate(exchange, with_timeout(100 * MS)).messages


@pytest.mark.parametrize(
    ("announced_bytes", "starting_bytes"),
    [(None, 1024), (16_384, 16_384), (1, 256), (1 << 20, 32_768)],
)
def test_an_edge_of_a_job_goes_on_from_the_size_that_was_announced_too(
    announced_bytes: int | None, starting_bytes: int
) -> None:
    exchange = replace(exchange_of({(0, 0): 10}), buffer_size_bytes=announced_bytes)
    network = KernelEdge.of(exchange, debloated(100 * MS)).network
    assert network.starting_segment_size_bytes == starting_bytes


def test_buffers_leave_when_full_also_where_barriers_have_ended_one_early() -> None:
    exchange = exchange_of({(0, 0): 5_000}, rate_per_s=5_000.0, records=5_000)
    network = NetworkConfig(buffer_timeout_ns=200 * MS, checkpoint_interval_ns=130 * MS)
    outcome = simulate(exchange, network)
    fill_ns = 32 * 1024 / WIRE_BYTES / 5_000.0 * S
    assert (outcome.latency.percentile(0.99) or 0) < 1.05 * fill_ns


def _checkpoints_of(outcome: Outcome) -> CheckpointSummary:
    assert outcome.checkpoints is not None
    return outcome.checkpoints.summary()


def test_checkpoints_wait_for_a_slow_channel_or_overtake_its_data() -> None:
    """One of two consumers cannot keep up; barriers wait behind its data, unless they overtake."""
    exchange = exchange_of(
        {(0, 0): 5_000, (1, 0): 5_000},
        rate_per_s=5_000.0,
        records=5_000,
        consume_ns=(110_000.0, 20.0, 20.0),
    )
    network = NetworkConfig(buffer_timeout_ns=10 * MS, checkpoint_interval_ns=200 * MS)
    unaligned = replace(network, unaligned_checkpoints=True)
    in_between = replace(unaligned, aligned_checkpoint_timeout_ns=20 * MS)
    aligned, timed, overtaking = (
        _checkpoints_of(simulate(exchange, each)) for each in (network, in_between, unaligned)
    )
    assert min(each.completed for each in (aligned, timed, overtaking)) >= 3
    assert (aligned.unaligned, aligned.overtaken_bytes_max) == (0, 0)
    assert overtaking.unaligned == overtaking.completed
    assert (overtaking.overtaken_bytes_mean or 0) > 0
    travels = [each.travel_ns.max or 0 for each in (overtaking, timed, aligned)]
    assert travels == sorted(travels)
    assert travels[0] < 10 * MS < travels[1]


def test_who_waits_for_an_alignment_takes_buffers_meanwhile() -> None:
    """An aligned timeout that never passes changes nothing of what records meet."""
    exchange = exchange_of({(0, 0): 2_000, (1, 0): 500}, rate_per_s=10_000.0, records=2_000)
    exchange = replace(exchange, task_managers=((0, 1, 2), (3, 4, 5)))
    network = NetworkConfig(buffer_timeout_ns=MS, checkpoint_interval_ns=10 * MS)
    waiting = replace(network, unaligned_checkpoints=True, aligned_checkpoint_timeout_ns=10 * S)
    aligned, timed = (simulate_in_full(exchange, each) for each in (network, waiting))
    assert timed.messages == aligned.messages
    assert timed.latency.counts.tolist() == aligned.latency.counts.tolist()
    assert _checkpoints_of(timed).alignment_ns == _checkpoints_of(aligned).alignment_ns
