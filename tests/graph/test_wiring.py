"""Which subpartition each consumer reads: golden tables of the real classes, and laws."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.wiring import DistributionPattern, Wiring

POINTWISE, ALL_TO_ALL = DistributionPattern.POINTWISE, DistributionPattern.ALL_TO_ALL

TABLES = {
    (5, 2): ["p0/0 p1/0", "p2/0 p3/0 p4/0"],
    (2, 5): ["p0/0", "p0/1", "p0/2", "p1/1", "p1/0"],
    (3, 5): ["p0/0", "p0/1", "p1/0", "p1/1", "p2/0"],
    (3, 7): ["p0/0", "p0/1", "p0/2", "p1/1", "p1/0", "p2/1", "p2/0"],
    (4, 6): ["p0/0", "p0/1", "p1/0", "p2/1", "p2/0", "p3/0"],
}
"""Producers and consumers -> what each consumer reads, pointwise."""

subtasks = st.integers(1, 40)
wirings = st.builds(Wiring, st.sampled_from(DistributionPattern), subtasks, subtasks)


@pytest.mark.row("S143")
@pytest.mark.parametrize(("numbers", "table"), TABLES.items())
def test_pointwise_tables(numbers: tuple[int, int], table: list[str]) -> None:
    wiring = Wiring(POINTWISE, *numbers)
    actual = [
        " ".join(f"p{p}/{wiring.subpartition(p, consumer)}" for p in wiring.partitions_of(consumer))
        for consumer in range(numbers[1])
    ]
    assert actual == table


@pytest.mark.row("S143")
def test_all_to_all_reads_its_own_subpartition_of_every_partition() -> None:
    wiring = Wiring(ALL_TO_ALL, 2, 3)
    assert list(wiring) == [(0, 0, 0), (0, 1, 1), (0, 2, 2), (1, 0, 0), (1, 1, 1), (1, 2, 2)]
    assert wiring.channels == 6


@given(wirings)
def test_both_sides_show_the_same_channels(wiring: Wiring) -> None:
    from_producers = {(p, c) for p, c, _ in wiring}
    from_consumers = {(p, c) for c in range(wiring.consumers) for p in wiring.partitions_of(c)}
    assert from_producers == from_consumers
    assert len(from_producers) == wiring.channels


@given(wirings)
def test_every_subpartition_is_read_once_and_nobody_is_left_out(wiring: Wiring) -> None:
    read: dict[int, list[int]] = {producer: [] for producer in range(wiring.producers)}
    for producer, _, subpartition in wiring:
        read[producer].append(subpartition)
    for producer, subpartitions in read.items():
        assert sorted(subpartitions) == list(range(wiring.subpartitions(producer)))
    assert {consumer for _, consumer, _ in wiring} == set(range(wiring.consumers))


@given(subtasks, subtasks)
def test_pointwise_is_balanced(producers: int, consumers: int) -> None:
    wiring = Wiring(POINTWISE, producers, consumers)
    read = [len(wiring.partitions_of(each)) for each in range(consumers)]
    fed = [len(wiring.consumers_of(each)) for each in range(producers)]
    assert max(read) - min(read) <= 1
    assert max(fed) - min(fed) <= 1
