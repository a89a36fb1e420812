"""What a setting costs; numbers computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from flinknet import results
from flinknet.replay import price
from flinknet.trace.metrics import Series
from tests.made_results import NO_LATENCY, measured

S = 1_000_000_000
COST = results.CpuCost(50_000.0, "assumed", is_learnt=False)
MEASURED = measured(
    records=1000,
    bytes=100_000,
    buffers=100,
    duration_ns=S,
    throughput_records_per_s=1000.0,
    credits=results.CreditSummary(announced=100, messages=50, starved_ns=0),
)
MESSAGES = (
    results.MessageCount("ADD_CREDIT", 50, 0),
    results.MessageCount("DATA_BUFFER", 100, 200_000),
)


def point(
    buffers_per_s: float | None, *, records_per_s: float = 1000.0, is_recorded: bool = False
) -> results.TradeOffPoint:
    return results.TradeOffPoint(
        config={},
        throughput_records_per_s=records_per_s,
        latency_ns=NO_LATENCY,
        backlog_buffers=results.BacklogSummary(None, None),
        buffers_per_s=buffers_per_s,
        is_recorded=is_recorded,
    )


def test_messages_packets_and_bytes_are_those_of_buffers_and_their_credit() -> None:
    recorded, shorter = price.priced(
        (point(100.0, is_recorded=True), point(1000.0)), MEASURED, MESSAGES, COST
    )
    # 200 bytes a record: 2000 in a buffer of 10 records, 0 to 4094 in 1, 2 or 3 packets; 200 in one
    # of 1, 1 packet
    packets = (1448 * 1 + 1448 * 2 + (4094 - 2896) * 3) / 4094
    assert recorded.price.messages_per_s == 150
    assert recorded.price.packets_per_s == pytest.approx(100 * packets + 50)
    headers = 100 * price.BUFFER_RESPONSE_BYTES + 50 * price.ADD_CREDIT_BYTES
    headers += (100 * packets + 50) * price.PACKET_HEADER_BYTES
    assert recorded.price.bytes_per_s == pytest.approx(200_000 + headers)
    assert shorter.price.packets_per_s == 1000 + 500
    assert (recorded.price.messages_per_s_change, recorded.price.cpu_cores_change) == (0, 0)
    assert shorter.price.messages_per_s_change == 1350
    assert shorter.price.cpu_cores_change == pytest.approx(900 * 50e-6)


def test_fewer_buffers_never_take_more_packets() -> None:
    points = [point(float(each), is_recorded=each == 1000) for each in range(1000, 10, -10)]
    found = [each.price for each in price.priced(points, MEASURED, MESSAGES, COST)]
    packets = [each.packets_per_s for each in found if each is not None]
    assert len(packets) == len(points)
    assert packets == sorted(packets, reverse=True)


def test_cpu_is_unknown_where_the_work_is_another() -> None:
    points = price.priced(
        (point(100.0, is_recorded=True), point(200.0, records_per_s=2000.0), point(None)),
        MEASURED,
        MESSAGES,
        COST,
    )
    assert points[1].price.cpu_cores_change is None
    assert points[1].price.messages_per_s == 300
    assert points[2].price is None


def counters(messages: list[int], records: list[int], ns_per_message: float) -> list[Series]:
    """A task and its TaskManager, which needs 10% of a core, 500 ns a record, and the messages."""
    at_ns = np.arange(len(messages) + 1) * S
    sent, read = (np.r_[0, np.cumsum(each)].astype(float) for each in (messages, records))
    cpu_ns = at_ns * 0.1 + read * 500 + sent * ns_per_message
    values = {"numBuffersInRemote": sent, "numRecordsIn": read}
    return [
        Series("sink (1/1)", "x", None, None, at_ns, values),
        Series(None, "x", None, None, at_ns, {"JVM.CPU.Time": cpu_ns}),
    ]


def test_a_load_that_changes_shows_what_a_message_costs() -> None:
    messages = [100, 900, 300, 700, 100, 500] * 4
    records = [5000, 5000, 9000, 1000, 2000, 8000] * 4
    assert price.learnt_ns_per_message(counters(messages, records, 80_000.0)) == pytest.approx(
        80_000
    )


@pytest.mark.parametrize(
    ("messages", "records"),
    [
        ([500] * 24, [5000] * 24),  # an even load
        ([100, 200, 300] * 8, [1000, 2000, 3000] * 8),  # together
        ([100, 900, 300], [5000, 1000, 2000]),  # too short
    ],
)
def test_other_loads_do_not(messages: list[int], records: list[int]) -> None:
    assert price.learnt_ns_per_message(counters(messages, records, 80_000.0)) is None


def test_what_the_jvm_does_now_and_then_is_no_cost_of_messages() -> None:
    messages = [100, 900, 300, 700, 100, 500] * 4
    records = [5000, 5000, 9000, 1000, 2000, 8000] * 4
    found = counters(messages, records, 80_000.0)
    cpu_ns = found[1].values["JVM.CPU.Time"]
    random = np.random.default_rng(1)
    cpu_ns += np.cumsum(random.normal(0, 1e6, len(cpu_ns)))
    for at, share in ((1, 0.6), (2, 0.4), (9, 0.3)):  # of a core, for a second
        cpu_ns[at:] += share * S
    assert price.learnt_ns_per_message(found) == pytest.approx(80_000, rel=0.05)


def test_without_counters_nothing_is_learnt() -> None:
    assert price.learnt_ns_per_message([]) is None
