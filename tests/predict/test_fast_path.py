"""The compiled kernel gives the numbers of the simulator that runs the real core.

The bound: records, messages, credit and backlog are equal; the mean lies within 2 ns, what rounding
comes to; each percentile lies within a bucket (1%) of those one and a half records around it: the
kernel moves a record by a bucket at most (`kernel.times`), and its counts are rounded.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from flinknet.config import AT_LEAST_ONCE, CREDIT, EXACTLY_ONCE, TCP, NetworkConfig
from flinknet.histogram import LogLinearHistogram, bucket_index
from flinknet.options.what_if import Setting
from flinknet.predict.fast_path import FastOutcome, run_fast
from flinknet.predict.kernel_edge import KernelEdge
from flinknet.predict.ramps import Ramps
from flinknet.predict.recorded import RecordedChannel, RecordedExchange
from flinknet.predict.what_if import simulate, simulate_in_full
from flinknet.simulator.cost_model import CostModel, Preemptions
from tests.comparisons import compares, compares_in
from tests.recorded_exchange import FROM_NS, steady
from tests.simulation import MS, NEVER, US, S

EXCHANGES = int(os.environ.get("FLINKNET_EXCHANGES", 45))
"""Random exchanges in which the kernel is compared; `make exchanges` takes a thousand."""

QUANTILES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)


def channels_of_eight_by_eight(arrivals: Callable[[int], Ramps]) -> tuple[RecordedChannel, ...]:
    """64 channels, with the arrivals of each by its number."""
    return tuple(
        RecordedChannel(number, number // 8, number % 8, number, arrivals(number), 1024.0)
        for number in range(64)
    )


def bursts(count: int, gap_ns: int, per_burst: int, seed: int) -> Ramps:
    """Records in ramps of uneven length and distance, also of single records."""
    random = np.random.default_rng(seed)
    records = random.integers(1, 2 * per_burst, count)
    lengths_ns = random.integers(0, gap_ns, count)
    pauses_ns = random.integers(1, 2 * gap_ns, count)
    first_ns = FROM_NS + np.cumsum(pauses_ns + lengths_ns) - lengths_ns
    return Ramps(records, first_ns, first_ns + lengths_ns)


SOCKET_BYTES = st.sampled_from([4 << 20, 4 << 20, 100_000, 20_000])
"""What the sockets of a connection hold: four megabytes usually, or little."""


@st.composite
def preemptions(draw: st.DrawFn) -> Preemptions:
    """When a process is kept from its work."""
    random, count = np.random.default_rng(draw(st.integers(0, 1000))), draw(st.integers(0, 5))
    starts_ns = np.sort(random.integers(0, 20 * MS, count))
    return Preemptions(starts_ns, random.integers(1, 3 * MS, count))


@st.composite
def disturbed(draw: st.DrawFn, exchange: RecordedExchange) -> RecordedExchange:
    """The exchange with processes that are kept from their work, or without."""
    kept = tuple(
        draw(st.tuples(*[preemptions()] * tasks))
        for tasks in (exchange.producers, exchange.consumers)
    )
    return replace(exchange, preemptions=draw(st.sampled_from([((), ()), kept])))


@st.composite
def at_full_speed(draw: st.DrawFn, exchange: RecordedExchange) -> RecordedExchange:
    """The exchange with the same records, written as fast as they are taken."""
    back_ns = draw(st.sampled_from([None, 0.0, 20_000.0, 1e6]))
    exchange = replace(exchange, is_max_rate=True, costs=replace(exchange.costs, back_ns=back_ns))
    return draw(disturbed(exchange))


@st.composite
def places(
    draw: st.DrawFn, producers: int, consumers: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """TaskManagers of producers and consumers: theirs alone by their connections, or shared."""
    if draw(st.booleans()):
        return (), ()
    count = draw(st.integers(1, 3))
    anywhere = st.integers(0, count - 1)
    found = draw(st.tuples(*[anywhere] * producers)), draw(st.tuples(*[anywhere] * consumers))
    used = sorted({*found[0], *found[1]})
    return tuple(map(used.index, found[0])), tuple(map(used.index, found[1]))


@st.composite
def exchanges(draw: st.DrawFn) -> RecordedExchange:
    flow_control = draw(st.sampled_from([CREDIT, TCP, CREDIT]))
    consume_ns = [0.0, 20.0, 5_000.0]
    if flow_control == TCP:
        consume_ns = [50_000.0, 200_000.0, *consume_ns]
    producers, consumers = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    gap_ns = draw(st.sampled_from([20 * US, 200 * US, 2 * MS]))
    per_burst = draw(st.sampled_from([1, 3, 40]))
    seed = draw(st.integers(0, 1000))
    routes = [(p, c) for p in range(producers) for c in range(consumers)]
    bursts_max = max(120 // len(routes), 5)
    channels = tuple(
        RecordedChannel(
            number,
            producer,
            consumer,
            draw(st.integers(0, 1)),
            bursts(draw(st.integers(1, bursts_max)), gap_ns, per_burst, seed + number),
            float(draw(st.sampled_from([105, 1024]))),
        )
        for number, (producer, consumer) in enumerate(routes)
    )
    last_ns = max(int(each.arrivals.last_ns[-1]) for each in channels)
    return RecordedExchange(
        producers,
        consumers,
        channels,
        NetworkConfig(),
        False,
        FROM_NS,
        last_ns + MS,
        seed,
        CostModel(
            send_ns_per_message=draw(st.sampled_from([0.0, 12_000.0])),
            send_ns_per_byte=draw(st.sampled_from([0.0, 0.15])),
            transit_ns=draw(st.sampled_from([5_000.0, 15_000.0, 50_000.0, 2e6])),
            receive_ns_per_message=draw(st.sampled_from([0.0, 9_000.0])),
            emit_ns_per_record=draw(st.sampled_from([0.0, 100.0])),
            consume_ns_per_record=(draw(st.sampled_from(consume_ns)),) * consumers,
            wake_ns=draw(st.sampled_from([0.0, 0.0, 33_000.0])),
        ),
        flush_overhead_ns=draw(st.sampled_from([0, 70 * US])),
        ends_its_data=draw(st.booleans()),
        task_managers=draw(places(producers, consumers)),
        flow_control=flow_control,
        socket_bytes=draw(SOCKET_BYTES),
    )


networks = st.builds(
    NetworkConfig,
    buffer_timeout_ns=st.sampled_from([0, 130 * US, MS, 10 * MS, 100 * MS, NEVER]),
    segment_size_bytes=st.sampled_from([4096, 32768]),
    exclusive_buffers=st.integers(1, 4),
    floating_buffers=st.integers(1, 8),
    checkpoint_interval_ns=st.sampled_from([None, None, MS, 7 * MS, 50 * MS]),
    unaligned_checkpoints=st.booleans(),
    aligned_checkpoint_timeout_ns=st.sampled_from([0, 0, MS, 3 * MS]),
    checkpoint_mode=st.sampled_from([EXACTLY_ONCE, EXACTLY_ONCE, AT_LEAST_ONCE]),
    debloating_enabled=st.sampled_from([False, False, True]),
    debloating_period_ns=st.sampled_from([MS, 3 * MS, 20 * MS]),
    debloating_target_ns=st.sampled_from([MS, 10 * MS, S]),
    starting_segment_size_bytes=st.sampled_from([1024, 4096]),
)


@st.composite
def networks_of(draw: st.DrawFn, exchange: RecordedExchange) -> NetworkConfig:
    """Settings of an exchange: only with credit it can debloat buffers."""
    network = draw(networks)
    if exchange.flow_control == TCP:
        return replace(network, debloating_enabled=False)
    return network


def run_if_covered(exchange: RecordedExchange, network: NetworkConfig) -> FastOutcome | None:
    """What the kernel gives; None if it does not cover the exchange."""
    return run_fast(KernelEdge.of(exchange, network))


def assert_alike(
    fast: FastOutcome | None, exchange: RecordedExchange, network: NetworkConfig
) -> None:
    """The kernel covered the exchange, and agrees with the core within the bound."""
    assert fast is not None
    full = simulate_in_full(exchange, network)
    assert fast.records == full.records
    assert fast.latency.count == full.latency.count
    assert fast.messages == full.messages
    assert fast.credits == full.credits
    assert fast.backlog_max == full.backlog_buffers.max
    assert fast.backlog_total / fast.messages == pytest.approx(full.backlog_buffers.mean)
    assert fast.latency.mean == pytest.approx(full.latency.mean, rel=0, abs=2)
    assert_percentiles_alike(fast.latency, full.latency)
    summaries = [each.checkpoints and each.checkpoints.summary() for each in (fast, full)]
    assert summaries[0] == summaries[1]


def assert_percentiles_alike(fast: LogLinearHistogram, full: LogLinearHistogram) -> None:
    slack = 1.5 / full.count
    for q in QUANTILES:
        low, ours, high = (
            int(bucket_index(np.array([int(each or 0)]))[0])
            for each in (
                full.percentile(max(q - slack, 0.0)),
                fast.percentile(q),
                full.percentile(min(q + slack, 1.0)),
            )
        )
        assert low - 1 <= ours <= high + 1, q


@st.composite
def cases(draw: st.DrawFn) -> tuple[RecordedExchange, NetworkConfig]:
    """An exchange and its settings. In two of four with credit the writers get rid of what comes;
    in the others they may have to wait for buffers, in one of these as they write at the highest
    rate.
    """
    exchange = draw(exchanges())
    network = draw(networks_of(exchange))
    kinds = ["sendable", "sendable", "pressed", "at full speed"]
    if exchange.flow_control == TCP:
        kinds = ["pressed", "pressed", "at full speed"]
    kind = draw(st.sampled_from(kinds))
    if kind == "at full speed":
        exchange = draw(at_full_speed(exchange))
    if kind == "sendable":
        few = max(FEWEST_BUFFERS - network.exclusive_buffers, network.floating_buffers)
        if network.debloating_enabled:  # of the smallest size as many as take what comes
            few = max(few, DEBLOATED_BUFFERS)
            network = replace(network, max_buffers_per_channel=2 * DEBLOATED_BUFFERS)
        network = replace(network, floating_buffers=few)
        return sendable(exchange, network), network
    pools = {
        "max_buffers_per_channel": draw(st.sampled_from([10, 10, 2, 3])),
        "max_overdraft_buffers": draw(st.sampled_from([20, 20, 0, 1])),
    }
    return exchange, replace(network, **pools)


DEBLOATED_BUFFERS = 40

FEWEST_BUFFERS = 4
"""Exclusive and floating ones of a channel, with which a writer does not wait for the open one."""


def sendable(exchange: RecordedExchange, network: NetworkConfig) -> RecordedExchange:
    """The exchange with bursts that fit into the exclusive buffers of their channels, and as long
    between them, on average, as it takes until the credit for the last one is back.
    """
    costs, channels, busy_ns, gaps_ns = exchange.costs, [], 0.0, []
    segment_bytes = network.segment_size_bytes
    if network.debloating_enabled:
        segment_bytes = network.starting_segment_size_bytes
    for each in exchange.channels:
        room_bytes = segment_bytes * max(network.exclusive_buffers - 1, 0.3)
        most = max(int(room_bytes / each.record_wire_bytes), 1)
        records = np.minimum(each.arrivals.records, most)
        first_ns = each.arrivals.first_ns
        last_ns = np.where(records > 1, each.arrivals.last_ns, first_ns)
        channels.append(replace(each, arrivals=Ramps(records, first_ns, last_ns)))
        gaps_ns.append(float(np.diff(first_ns).mean()) if len(records) > 1 else float(S))
        record_ns = costs.consume_ns_per_record[each.consumer] + costs.emit_ns_per_record
        record_ns += costs.send_ns_per_byte * each.record_wire_bytes
        message_ns = costs.receive_ns_per_message + costs.send_ns_per_message
        messages = most if network.buffer_timeout_ns == 0 else 2
        busy_ns += min(most, records.max()) * record_ns + min(messages, records.max()) * message_ns
    slower = max((2 * costs.transit_ns + busy_ns + 100 * US) / min(gaps_ns), 1.0)
    exchange = replace(exchange, channels=tuple(channels))
    return exchange.under(Setting(network, rate_factor=1 / slower))


def features_of(
    fast: FastOutcome | None, exchange: RecordedExchange, network: NetworkConfig
) -> list[str]:
    """What is worth counting."""
    if fast is None:
        return []
    found = fast.checkpoints
    features = ["debloated buffers"] if network.debloating_enabled else []
    features += ["writers that waited"] if fast.resumed_ns else []
    features += ["flow control tcp"] if exchange.flow_control == TCP else []
    features += ["connections that were not read"] if fast.stops else []
    features += ["the highest rate"] if exchange.is_max_rate else []
    features += ["sockets that filled"] if fast.full_sockets else []
    if found is None or not found.completed:
        return features
    if network.checkpoint_mode == AT_LEAST_ONCE:
        return [*features, "checkpoints at least once"]
    if network.unaligned_checkpoints and network.aligned_checkpoint_timeout_ns:
        came = "that timed out" if found.unaligned else "that did not time out"
        return [*features, f"alignments {came}"]
    return [*features, "unaligned checkpoints" if found.unaligned else "aligned checkpoints"]


def compare(exchange: RecordedExchange, network: NetworkConfig) -> None:
    """The kernel's figures are those of the real core, if it knows the exchange; what is drawn
    counts with its features.
    """
    fast = run_if_covered(exchange, network)
    assume(compares(fast is not None, *features_of(fast, exchange, network)))
    assert_alike(fast, exchange, network)


@compares_in(0.9)
@settings(max_examples=EXCHANGES)
@given(case=cases())
def test_the_kernel_gives_the_numbers_of_the_real_core(
    case: tuple[RecordedExchange, NetworkConfig],
) -> None:
    compare(*case)


@compares_in(0.9)
@settings(max_examples=15)
@given(exchange=exchanges(), data=st.data())
def test_longer_bursts_and_their_backlog_are_those_of_the_real_core(
    exchange: RecordedExchange, data: st.DataObject
) -> None:
    """Bursts that do not fit into exclusive buffers: buffers wait, and at times the writer."""
    network = data.draw(networks_of(exchange))
    fast = run_if_covered(exchange, network)
    assume(compares(fast is not None))
    assert_alike(fast, exchange, network)


AT_ONCE = NetworkConfig(buffer_timeout_ns=0)


def test_latencies_that_lie_apart_are_counted_where_they_lie() -> None:
    arrivals = Ramps(
        np.array([38, 41, 60, 76, 3]),
        FROM_NS + np.array([3_476_101, 5_457_726, 8_196_291, 13_404_399, 14_930_824]),
        FROM_NS + np.array([3_764_420, 7_103_613, 10_093_589, 13_902_856, 15_554_486]),
    )
    exchange = steady(costs=CostModel(0.0, 0.0, 15_000.0, 0.0, 0.0, (0.0,)))
    exchange = replace(
        exchange,
        channels=(replace(exchange.channels[0], arrivals=arrivals),),
        measured_to_ns=FROM_NS + 16_554_486,
        seed=1,
    )
    network = NetworkConfig(buffer_timeout_ns=MS, segment_size_bytes=4096)
    assert_alike(run_if_covered(exchange, network), exchange, network)


def test_a_source_ends_when_its_data_was_acknowledged_while_another_still_sends() -> None:
    """The EndOfPartition of the first goes out between buffers of the second."""
    at_ns = FROM_NS + np.arange(100, dtype=np.int64) * US
    channels = (
        RecordedChannel(0, 0, 0, 0, Ramps.of(at_ns[:3]), 1024.0),
        RecordedChannel(1, 1, 0, 0, Ramps.of(at_ns), 1024.0),
    )
    exchange = steady(
        producers=2,
        channels=channels,
        measured_to_ns=FROM_NS + MS,
        costs=CostModel(12_000.0, 0.0, 2e6, 9_000.0, 0.0, (0.0,)),
    )
    network = NetworkConfig(buffer_timeout_ns=0, exclusive_buffers=1, floating_buffers=6)
    assert_alike(run_if_covered(exchange, network), exchange, network)


@pytest.mark.parametrize(
    "task_managers",
    [
        pytest.param(((0,) * 8, (1,) * 8), id="one connection"),
        pytest.param((tuple(range(8)), tuple(range(8))), id="slots shared, eight channels local"),
        pytest.param(
            (tuple(each % 5 for each in range(8)), tuple(5 + each % 4 for each in range(8))),
            id="nine TaskManagers, which is far from a power of two",
        ),
    ],
)
def test_many_channels_are_covered(task_managers: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    exchange = steady(
        producers=8,
        consumers=8,
        channels=channels_of_eight_by_eight(lambda number: bursts(5, 2 * MS, 30, number)),
        measured_to_ns=FROM_NS + 30 * MS,
        task_managers=task_managers,
    )
    exchange = replace(exchange, costs=replace(exchange.costs, consume_ns_per_record=(20.0,) * 8))
    network = NetworkConfig(buffer_timeout_ns=5 * MS)
    assert_alike(run_if_covered(exchange, network), exchange, network)


@pytest.mark.parametrize(
    "exchange",
    [
        pytest.param(steady(4000.0, 2.0), id="smooth"),
        pytest.param(
            steady(4000.0, 2.0, costs=CostModel(0.0, 0.0, 50_000.0, 0.0, 0.0, (900_000.0,))),
            id="with a writer that waits",
        ),
    ],
)
def test_a_long_run_is_computed_by_the_kernel(exchange: RecordedExchange) -> None:
    quick, full = simulate(exchange, AT_ONCE), simulate_in_full(exchange, AT_ONCE)
    assert (quick.method, full.method) == ("kernel", "simulator")
    assert (quick.records, quick.messages, quick.duration_ns, quick.memory_bytes) == (
        full.records,
        full.messages,
        full.duration_ns,
        full.memory_bytes,
    )
    assert quick.backlog_buffers == full.backlog_buffers
    assert (quick.latency.min, quick.latency.max) == (full.latency.min, full.latency.max)
    assert quick.latency.total == pytest.approx(full.latency.total, rel=1e-6)


def test_ramps_of_many_records_have_the_latencies_of_each_of_them() -> None:
    exchange = steady(50_000.0, 0.2)
    network = NetworkConfig(buffer_timeout_ns=MS)
    apart = replace(
        exchange,
        channels=tuple(
            replace(each, arrivals=Ramps.of(each.arrivals_ns)) for each in exchange.channels
        ),
    )
    ramps, single = (run_fast(KernelEdge.of(each, network)) for each in (exchange, apart))
    assert ramps is not None
    assert single is not None
    assert (ramps.messages, ramps.last_ns) == (single.messages, single.last_ns)
    difference = np.cumsum(ramps.latency.counts - single.latency.counts)
    assert np.abs(difference).max() <= 0.004 * exchange.records
