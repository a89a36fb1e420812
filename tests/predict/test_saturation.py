"""What a run at the highest rate tells, from rows whose costs are known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flinknet.arrays import IntArray
from flinknet.config import NetworkConfig
from flinknet.core.probe import TracePoint
from flinknet.predict.exchange import work_ratio
from flinknet.predict.fit.costs import at_recorded_rate, fit_costs, fit_saturation, preempted
from flinknet.predict.fit.window_rows import ExchangeRows
from flinknet.predict.intervals import Intervals
from flinknet.predict.recorded import RecordedExchange
from flinknet.predict.what_if import simulate
from flinknet.simulator.cost_model import CostModel
from flinknet.trace import RunManifest, open_run
from tests.recorded_exchange import steady
from tests.recorded_run import write_run

MS = 1_000_000
US = 1_000


def rows(at_ns: np.ndarray, **columns: object) -> dict[str, np.ndarray]:
    names = ("channel", "sequence_number", "records", "point", "value", "payload_bytes")
    given = {name: np.broadcast_to(columns.get(name, 0), at_ns.shape) for name in names}
    return given | {"at_ns": at_ns}


@pytest.fixture
def manifest(tmp_path: Path) -> RunManifest:
    found = open_run(write_run(tmp_path / "run", channels=1, buffers=20)).manifest
    assert found is not None
    return found


def test_a_consumer_that_works_long_on_each_buffer_is_slow_and_not_kept_from_its_work(
    manifest: RunManifest,
) -> None:
    """It takes 12 ms for a buffer, in which its process sends credit and receives buffers."""
    count, buffer_ns = 200, 12 * MS
    number = np.arange(count)
    consumed_ns = (number + 1) * buffer_ns
    sent_ns = np.maximum(consumed_ns - 10 * buffer_ns, 0)
    credit_ns = consumed_ns + 50 * US
    none = rows(np.zeros(0, np.int64))
    exchange = ExchangeRows(
        sent=rows(sent_ns, sequence_number=number, records=300),
        received=rows(sent_ns + 30 * US, sequence_number=number),
        consumed=rows(consumed_ns, sequence_number=number, records=300),
        credit_sent=rows(credit_ns, value=1),
        credit_received=rows(credit_ns + 9 * US, value=1),
        waits=none,
    )
    found = fit_saturation(exchange, manifest, 0, int(consumed_ns[-1]))
    assert found.slow_consumers == {0}
    assert not len(found.preemptions["tm-1"].starts_ns)
    costs, _ = fit_costs(exchange, manifest, 1_000.0)
    record_ns = costs.consume_ns_per_record[0] + costs.receive_ns_per_message / 300
    assert record_ns == pytest.approx(buffer_ns / 300, rel=0.02)
    assert fit_costs(exchange, manifest, 1_000.0, work_ratio=0.5)[0] == costs


def test_a_quick_consumer_that_was_kept_from_its_work_is_not_slow(manifest: RunManifest) -> None:
    """It takes 20 us for a buffer and always has one, and 8 ms instead for every twentieth."""
    number = np.arange(400)
    lengths_ns = np.where(number % 20, 20 * US, 8 * MS)
    consumed_ns = np.cumsum(lengths_ns)
    sent_ns = np.zeros(400, np.int64)
    none = rows(np.zeros(0, np.int64))
    exchange = ExchangeRows(
        sent=rows(sent_ns, sequence_number=number, records=300),
        received=rows(sent_ns + 30 * US, sequence_number=number),
        consumed=rows(consumed_ns, sequence_number=number, records=300),
        credit_sent=none,
        credit_received=none,
        waits=none,
    )
    found = fit_saturation(exchange, manifest, 0, int(consumed_ns[-1]))
    assert not found.slow_consumers
    assert found.preemptions["tm-1"].lengths_ns.tolist() == [pytest.approx(8 * MS, rel=0.01)] * 20
    costs, _ = fit_costs(exchange, manifest, 1.0, work_ratio=0.5)
    consumed_ns = 300 * costs.consume_ns_per_record[0] + costs.receive_ns_per_message
    produced_ns = 300 * costs.emit_ns_per_record + costs.send_ns_per_message
    assert produced_ns == pytest.approx(consumed_ns / 2)


@pytest.mark.parametrize(
    ("processors", "ratio"),
    [
        ({"busy_share": {"tm-0": 0.9, "tm-1": 0.5}, "lacked_share": {"tm-0": 0.1, "tm-1": 0}}, 1.6),
        ({"busy_share": {"tm-0": 0.9}, "lacked_share": {"tm-0": 0.1}}, None),
        ({"busy_share": {"tm-0": 0.9, "tm-1": 5}, "lacked_share": {"tm-0": 0, "tm-1": 0}}, None),
        ({"busy_share": {"tm-0": 0.9, "tm-1": "x"}, "lacked_share": {"tm-0": 0, "tm-1": 0}}, None),
        ({"busy_share": 3, "lacked_share": None}, None),
        (None, None),
    ],
)
def test_the_result_of_a_run_says_how_much_more_its_producers_worked(
    tmp_path: Path, manifest: RunManifest, processors: object, ratio: float | None
) -> None:
    run = open_run(tmp_path / "run")
    (tmp_path / "run" / "result.json").write_text(json.dumps({"processors": processors}))
    assert work_ratio(run, manifest) == (None if ratio is None else pytest.approx(ratio))
    in_one = replace(manifest.channels[0], producer_process="tm-1")
    assert work_ratio(run, replace(manifest, channels=(in_one,))) is None


def test_without_credit_a_slow_consumer_hides_the_work_of_others_in_its_process(
    manifest: RunManifest,
) -> None:
    """Buffers of the quick consumer wait until a buffer of the slow one was read."""
    count, slow_ns = 100, 12 * MS
    number = np.arange(count)
    slow_done_ns = (number + 1) * slow_ns
    quick_done_ns = slow_done_ns + 9 * MS
    columns = {"sequence_number": np.tile(number, 2), "channel": np.repeat([0, 1], count)}
    consumed_ns = np.r_[slow_done_ns, quick_done_ns]
    received_ns = np.r_[slow_done_ns - slow_ns, quick_done_ns - 9 * MS]
    none = rows(np.zeros(0, np.int64))
    exchange = ExchangeRows(
        sent=rows(np.tile(number * US, 2), records=300, **columns),
        received=rows(received_ns, **columns),
        consumed=rows(consumed_ns, records=300, **columns),
        credit_sent=none,
        credit_received=none,
        waits=none,
    )
    quick = replace(manifest.channels[0], index=1, consumer=1)
    scenario = {**manifest.scenario, "flow_control": "tcp"}
    both = replace(manifest, scenario=scenario, channels=(manifest.channels[0], quick))
    found = fit_saturation(exchange, both, 0, int(consumed_ns.max()) + MS)
    assert found.slow_consumers == {0}
    assert not len(found.preemptions["tm-1"].starts_ns)
    costs, _ = fit_costs(exchange, both, 1_000.0)
    assert costs.consume_ns_per_record[1] < 1_000


def test_ways_and_preemptions_are_told_apart(manifest: RunManifest) -> None:
    """A buffer each 50 µs, 30 µs on its way, 40 µs of work; at buffer 500 the consumer stops for
    5 ms. A record takes its producer 2 µs, ten make a buffer."""
    count = 1000
    number = np.arange(count)
    sent_ns = number * 50 * US
    sent_ns[501:] += 5 * MS
    consumed_ns = sent_ns + 70 * US
    consumed_ns[500] += 5 * MS
    received_ns = sent_ns + 30 * US
    waits_ns = np.r_[sent_ns + 20 * US, sent_ns]
    waits_points = np.repeat([TracePoint.WRITER_WAITS, TracePoint.WRITER_RESUMES], count)
    credit_ns = consumed_ns + US
    found = fit_saturation(
        ExchangeRows(
            sent=rows(sent_ns, sequence_number=number, records=10),
            received=rows(received_ns, sequence_number=number),
            consumed=rows(consumed_ns, sequence_number=number, records=10),
            credit_sent=rows(credit_ns, value=number % 7),
            credit_received=rows(credit_ns[:-1] + 9 * US, value=(number % 7)[:-1]),
            waits=rows(waits_ns, point=waits_points),
        ),
        manifest,
        0,
        int(consumed_ns[-1]) + MS,
    )
    assert found.transit_ns == 30 * US
    preemptions = found.preemptions["tm-1"]
    assert preemptions.starts_ns.tolist() == [pytest.approx(500 * 50 * US + 30 * US, abs=50 * US)]
    assert preemptions.lengths_ns.tolist() == [pytest.approx(5 * MS, rel=0.02)]
    assert not len(found.preemptions["tm-0"].starts_ns)


def throughput(exchange: RecordedExchange, network: NetworkConfig | None = None) -> float:
    """Records per second of virtual time."""
    found = simulate(exchange, network or exchange.network).throughput_records_per_s
    assert found is not None
    return found


@pytest.mark.parametrize("factor", [0.6, 1.7])
def test_work_that_is_fitted_too_long_or_short_is_scaled_to_the_recorded_rate(
    factor: float,
) -> None:
    """Then the rate under other settings is right, too."""
    network = NetworkConfig(buffer_timeout_ns=MS)
    exchange = steady(500_000.0, 1.0, is_max_rate=True, network=network)
    seconds = exchange.records / throughput(exchange)
    recorded = replace(exchange, measured_to_ns=exchange.measured_from_ns + round(seconds * 1e9))
    costs = recorded.costs
    off = replace(
        recorded,
        costs=replace(
            costs,
            send_ns_per_message=factor * costs.send_ns_per_message,
            receive_ns_per_message=factor * costs.receive_ns_per_message,
            emit_ns_per_record=factor * costs.emit_ns_per_record,
            consume_ns_per_record=(factor * costs.consume_ns_per_record[0],),
        ),
    )
    found = at_recorded_rate(off, throughput)
    assert found is not None
    assert throughput(found) == pytest.approx(throughput(recorded), rel=0.01)
    small = replace(network, segment_size_bytes=4096)
    assert throughput(found, small) == pytest.approx(throughput(recorded, small), rel=0.05)
    assert abs(throughput(off, small) / throughput(recorded, small) - 1) > 0.2


@pytest.mark.parametrize("knee", [1.5, 2.8, 12.0])
def test_the_recorded_rate_is_found_where_work_hardly_matters_until_it_takes_longer_than_all_else(
    knee: float,
) -> None:
    """Up to some factor the event loop has time to spare, from there on work alone decides."""
    exchange = steady(500_000.0, 1.0, is_max_rate=True)
    recorded_per_s = exchange.records * 1e9 / exchange.duration_ns

    def throughput_of(each: RecordedExchange) -> float:
        factor = each.costs.emit_ns_per_record / exchange.costs.emit_ns_per_record
        return 1.4 * recorded_per_s / (factor**0.05 + (factor / knee) ** 8)

    found = at_recorded_rate(exchange, throughput_of)
    assert found is not None
    assert throughput_of(found) == pytest.approx(recorded_per_s, rel=0.006)


def test_a_rate_that_no_factor_leads_to_is_left_as_it_is_predicted() -> None:
    exchange = steady(500_000.0, 1.0, is_max_rate=True)
    tenfold = replace(exchange, measured_to_ns=exchange.measured_from_ns + 1000)
    assert at_recorded_rate(tenfold, throughput) is None


@pytest.mark.parametrize("flow_control", ["credit", "tcp"])
def test_at_the_highest_rate_records_find_full_queues_from_the_first_on(flow_control: str) -> None:
    """A slow consumer takes seconds for the queues before it, longer than the window."""
    costs = CostModel(12_000.0, 0.15, 50_000.0, 12_000.0, 100.0, (200_000.0,))
    slow = steady(1000.0, 1.0, is_max_rate=True, costs=costs, flow_control=flow_control)
    found = simulate(slow, slow.network)
    latency = found.latency.summary()
    assert latency.p50 is not None
    assert found.latency.min > 0.7 * latency.p50 > 500 * MS
    assert found.throughput_records_per_s == pytest.approx(5000, rel=0.03)


STEPS_NS = np.arange(100) * 20 * US
END_NS = int(STEPS_NS[-1])


@pytest.mark.parametrize(
    ("work_ns", "progress_ns", "found_ns"),
    [
        pytest.param(
            [(0, END_NS + 4 * MS)],
            np.r_[STEPS_NS[:50], STEPS_NS[50:] + 4 * MS],
            [(int(STEPS_NS[49]), int(STEPS_NS[49]) + 4 * MS)],
            id="a stop in the middle of work, whose time is no cost",
        ),
        pytest.param(
            [(0, END_NS), (45 * MS, END_NS + 50 * MS)],
            np.r_[STEPS_NS, STEPS_NS + 50 * MS],
            [(45 * MS, 50 * MS - 20 * US)],
            id="a late beginning counts from when there was work",
        ),
        pytest.param(
            [(0, END_NS), (50 * MS, END_NS + 50 * MS)],
            np.r_[STEPS_NS, STEPS_NS + 50 * MS],
            [],
            id="time without work",
        ),
        pytest.param(
            [(0, 150 * END_NS)], 150 * STEPS_NS, [], id="a process that always takes long"
        ),
    ],
)
def test_work_without_progress_that_lasts_far_longer_than_usual_is_a_preemption(
    work_ns: list[tuple[int, int]], progress_ns: IntArray, found_ns: list[tuple[int, int]]
) -> None:
    found = preempted(Intervals(*np.array(work_ns, np.int64).T), progress_ns)
    assert list(zip(found.starts_ns.tolist(), found.ends_ns.tolist(), strict=True)) == found_ns


def test_a_delay_of_a_third_of_a_millisecond_is_a_preemption() -> None:
    """Where a buffer takes 12 us, such delays are what one record in a hundred waits for."""
    progress_ns = np.concatenate([np.arange(0, MS, 12 * US), MS + np.arange(300 * US, MS, 12 * US)])
    found = preempted(Intervals(np.array([0]), np.array([2 * MS])), progress_ns)
    (length_ns,) = found.ends_ns - found.starts_ns
    assert 250 * US < length_ns < 300 * US
