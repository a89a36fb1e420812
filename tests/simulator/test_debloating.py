"""Buffer debloating in virtual time: in flight is what is consumed in the target."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean

import pytest

from flinknet.config import TCP, Scenario, SlowConsumer
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.core.producer.subpartition import UNLIMITED_BYTES
from flinknet.errors import ConfigError
from flinknet.simulator.cluster import START_NS, Cluster
from tests.checkers import check_memory, check_records
from tests.driving import run_until, set_delay
from tests.protocol_checker import ProtocolChecker
from tests.simulated_fill_levels import fill_sample
from tests.simulated_scenario import cluster_of
from tests.simulation import MS, US, Rows, S, finished, scenario

RECORD_BYTES = 1000
TARGET_NS = 40 * MS


def debloated(*, placement: str = "split", **changes: object) -> Scenario:
    """A consumer that takes 5000 records a second and a producer that would make four times as
    many.
    """
    asked = scenario(
        10 * MS,
        rate_per_s=20_000.0,
        records=40_000,
        size_bytes=RECORD_BYTES,
        slow_consumers=(SlowConsumer(0, 200 * US),),
    )
    network = replace(
        asked.network,
        debloating_enabled=True,
        debloating_target_ns=TARGET_NS,
        debloating_period_ns=20 * MS,
    )
    return replace(asked, network=replace(network, **changes), placement=placement)


def in_flight_bytes(cluster: Cluster, from_ns: int, to_ns: int) -> float:
    """What lies in the six places, on average over a part of the run."""
    found = []
    for at_ns in range(START_NS + from_ns, START_NS + to_ns, 50 * MS):
        run_until(cluster, at_ns)
        found.append(fill_sample(cluster).levels.total_bytes)
    return mean(found)


@pytest.mark.parametrize("placement", ["split", "spread"])
def test_in_flight_is_what_is_consumed_in_the_target(placement: str) -> None:
    cluster = cluster_of(debloated(placement=placement))
    consumed_per_s = 5000 * RECORD_BYTES
    found = in_flight_bytes(cluster, 3 * S, 5 * S)
    # sizes that are less than a quarter off are not announced
    assert found == pytest.approx(consumed_per_s * TARGET_NS / S, rel=0.25)
    (gate,) = cluster.debloated_gates
    assert gate.samples[-1].time_to_consume_ns == pytest.approx(TARGET_NS, rel=0.15)
    finished(cluster)
    check_records(cluster)
    check_memory(cluster)


def test_without_it_in_flight_is_what_the_buffers_hold() -> None:
    cluster = cluster_of(debloated(debloating_enabled=False))
    assert in_flight_bytes(cluster, 3 * S, 5 * S) > 2.5 * 5000 * RECORD_BYTES * TARGET_NS / S
    assert cluster.debloated_gates == []


def test_a_consumer_that_becomes_slower_gets_smaller_buffers() -> None:
    cluster = cluster_of(debloated())
    run_until(cluster, START_NS + 3 * S)
    (gate,) = cluster.debloated_gates
    before = gate.debloater.announced_bytes
    set_delay(cluster, 0, 800 * US)
    found = in_flight_bytes(cluster, 6 * S, 8 * S)
    assert found == pytest.approx(1250 * RECORD_BYTES * TARGET_NS / S, rel=0.25)
    assert gate.debloater.announced_bytes < before / 2


def test_subpartitions_begin_with_the_starting_size_or_without_a_limit() -> None:
    for is_on, size in ((True, 1024), (False, UNLIMITED_BYTES)):
        cluster = cluster_of(debloated(debloating_enabled=is_on))
        (partition,) = cluster.partitions
        assert [each.buffer_size_bytes for each in partition.subpartitions] == [size]


def test_buffers_are_no_larger_than_was_asked_for_when_they_were_opened() -> None:
    """Also where the consumer keeps up, and buffers leave one by one."""
    rows = Rows()
    asked = debloated()
    workload = replace(asked.workload, slow_consumers=(), rate_per_s=5000.0, records=10_000)
    finished(cluster_of(replace(asked, workload=workload), probes=(rows, rows)))
    size, before, sent = 1024, 1024, 0
    for row in rows.rows:
        if row.kind == MessageKind.NEW_BUFFER_SIZE and row.point == TracePoint.RECEIVED:
            before, size = size, row.value
        elif row.kind == MessageKind.BUFFER_RESPONSE and row.point == TracePoint.SENT:
            # one that was opened before the last message, or holds one record, may be larger
            assert row.payload_bytes <= max(size, before, RECORD_BYTES + 5)
            sent += 1
    assert sent > 1000
    assert size > 4096


def test_the_messages_break_no_rule_of_the_protocol() -> None:
    checker = ProtocolChecker(1)
    cluster = cluster_of(debloated(), probes=(checker, checker))
    finished(cluster)
    check_records(cluster)


def test_without_credit_it_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"buffer-debloat.enabled: .* flow control is tcp"):
        cluster_of(replace(debloated(), flow_control=TCP))
