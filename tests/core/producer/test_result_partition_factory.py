"""Types of partitions, and what the factory makes of each."""

from __future__ import annotations

import pytest

from flinknet.config import PARTITION_TYPES
from flinknet.core.buffers import UNLIMITED_BUFFERS, NetworkBufferPool
from flinknet.core.buffers.read_buffer_pool import BatchShuffleReadBufferPool
from flinknet.core.producer import (
    BlockingStorage,
    PipelinedSubpartition,
    ResultPartition,
    ResultPartitionFactory,
    ResultPartitionManager,
    ResultPartitionType,
    partition_type_of,
)
from flinknet.core.producer.approximate_subpartition import PipelinedApproximateSubpartition
from flinknet.core.producer.partition_type import MADE, ConsumingConstraint, ReleaseBy
from flinknet.core.producer.read_scheduler import SortMergeSubpartition
from flinknet.errors import ConfigError, InsufficientBuffersError
from tests.pair import partition_id, records_of
from tests.probes import polled_by_hand

TABLE = """
PIPELINED             | no  | no  | no  | must | upstream  | no  | yes
PIPELINED_BOUNDED     | no  | yes | no  | must | upstream  | no  | yes
PIPELINED_APPROXIMATE | no  | yes | no  | can  | upstream  | no  | no
BLOCKING              | yes | no  | no  | none | scheduler | yes | no
BLOCKING_PERSISTENT   | yes | no  | yes | none | scheduler | yes | no
HYBRID_FULL           | yes | no  | no  | can  | scheduler | yes | no
HYBRID_SELECTIVE      | no  | no  | no  | can  | scheduler | yes | no
"""
"""Type: reconsumable, bounded, persistent, must or can be consumed pipelined, released by,
compression, overdraft."""

ROWS = [[cell.strip() for cell in line.split("|")] for line in TABLE.strip().splitlines()]


def word(flag: bool) -> str:
    return "yes" if flag else "no"


@pytest.mark.row("S016")
@pytest.mark.row("S017")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_flags_of_a_type_are_flinks(row: list[str]) -> None:
    kind = ResultPartitionType[row[0]]
    consumed = {
        ConsumingConstraint.MUST_BE_PIPELINED: "must",
        ConsumingConstraint.CAN_BE_PIPELINED: "can",
        ConsumingConstraint.BLOCKING: "none",
    }
    assert row[1:] == [
        *map(word, (kind.is_reconsumable, kind.is_bounded, kind.is_persistent)),
        consumed[kind.constraint],
        "scheduler" if kind.release_by is ReleaseBy.SCHEDULER else "upstream",
        *map(word, (kind.supports_compression, kind.has_overdraft)),
    ]
    assert kind.must_be_pipelined_consumed == (row[4] == "must")
    assert kind.can_be_pipelined_consumed == (row[4] in ("must", "can"))
    assert kind.is_blocking_or_blocking_persistent == (row[4] == "none")


def test_there_are_no_other_types() -> None:
    assert [kind.name for kind in ResultPartitionType] == [row[0] for row in ROWS]


def test_every_type_that_options_offer_is_made() -> None:
    assert [partition_type_of(label) for label in PARTITION_TYPES] == list(MADE)
    with pytest.raises(ConfigError, match="'hybrid' is not one that flinknet makes"):
        partition_type_of("hybrid")
    for label in ("hybrid-full", "hybrid-selective", "blocking-persistent"):
        with pytest.raises(
            ConfigError, match=rf"{label}, for .* are out of scope; use one of pipe"
        ):
            partition_type_of(label)


def factory_of(
    buffers: int = 64,
    manager: ResultPartitionManager | None = None,
    quota: int = 10,
) -> ResultPartitionFactory:
    return ResultPartitionFactory(
        NetworkBufferPool(buffers, 100),
        manager or ResultPartitionManager(),
        exclusive_buffers=2,
        floating_buffers=8,
        max_buffers_per_channel=quota,
        max_overdraft_buffers=20,
        storage=BlockingStorage(BatchShuffleReadBufferPool(10_000, 100)),
        sort_shuffle_min_buffers=16,
    )


@pytest.mark.row("S016")
@pytest.mark.parametrize(
    ("kind", "subpartition", "pool", "overdraft"),
    [
        (ResultPartitionType.PIPELINED, PipelinedSubpartition, (4, UNLIMITED_BUFFERS), 20),
        (ResultPartitionType.PIPELINED_BOUNDED, PipelinedSubpartition, (4, 14), 20),
        (ResultPartitionType.PIPELINED_APPROXIMATE, PipelinedApproximateSubpartition, (4, 14), 0),
        (ResultPartitionType.BLOCKING, SortMergeSubpartition, (16, 16), 0),
    ],
    ids=str,
)
def test_each_type_has_its_subpartitions_and_its_pool(
    kind: ResultPartitionType, subpartition: type, pool: tuple[int, int], overdraft: int
) -> None:
    partition = factory_of().create(partition_id(), kind, 3)
    assert partition.partition_type is kind
    assert [type(each) for each in partition.subpartitions] == [subpartition] * 3
    assert [each.index for each in partition.subpartitions] == [0, 1, 2]
    partition.setup()
    assert (partition.pool.required_buffers, partition.pool.max_buffers) == pool
    assert (partition.pool.max_buffers_per_channel, partition.pool.max_overdraft_buffers) == (
        10,
        overdraft,
    )


@pytest.mark.parametrize("kind", [kind for kind in ResultPartitionType if kind not in MADE])
def test_other_types_are_refused(kind: ResultPartitionType) -> None:
    with pytest.raises(ValueError, match=kind.label):
        factory_of().create(partition_id(), kind, 1)


@pytest.mark.row("S015")
def test_a_partition_has_its_properties_before_setup_and_its_pool_afterwards() -> None:
    manager = ResultPartitionManager()
    factory = factory_of(manager=manager)
    kind = ResultPartitionType.PIPELINED_BOUNDED
    partitions = [
        factory.create(partition_id(producer), kind, 4, target_key_groups=256)
        for producer in range(2)
    ]
    for partition in partitions:
        assert partition.partition_type is kind
        assert partition.manager is manager
        assert len(partition.subpartitions) == 4
        assert partition.target_key_groups == 256
        assert partition.pool is None
        assert manager.find(partition.partition_id) is None
    assert factory.memory.pools == ()
    for partition in partitions:
        partition.setup()
        assert manager.find(partition.partition_id) is partition
    assert factory.memory.pools == tuple(partition.pool for partition in partitions)
    assert [pool.max_buffers for pool in factory.memory.pools] == [16, 16]


@pytest.mark.row("S015")
def test_a_partition_is_set_up_and_registered_once() -> None:
    factory = factory_of()
    kind = ResultPartitionType.PIPELINED_BOUNDED
    partition = factory.create(partition_id(), kind, 1)
    partition.setup()
    with pytest.raises(RuntimeError, match="set up already"):
        partition.setup()
    twin = factory.create(partition_id(), kind, 1)
    with pytest.raises(RuntimeError, match="already registered"):
        twin.setup()


def test_a_pool_that_cannot_be_had_is_told_at_setup() -> None:
    partition = factory_of(buffers=4).create(
        partition_id(), ResultPartitionType.PIPELINED_BOUNDED, 4
    )
    with pytest.raises(InsufficientBuffersError, match="required 5, but only 4 of 4"):
        partition.setup()


def read_all(partition: ResultPartition) -> bytes:
    """The data that a reader of subpartition 0 gets now."""
    view = partition.subpartitions[0].create_read_view(polled_by_hand)
    data = bytearray()
    while (piece := view.poll()) is not None:
        if piece.data_type == 1:
            data += piece.view
        piece.recycle()
    return bytes(data)


@pytest.mark.row("S017")
@pytest.mark.parametrize("kind", MADE, ids=str)
def test_data_is_visible_before_the_end_where_the_type_says_so(kind: ResultPartitionType) -> None:
    partition = factory_of().create(partition_id(), kind, 1)
    partition.setup()
    records = records_of([30] * 7)
    partition.emit(0, records)
    partition.flush_all()
    if kind.can_be_pipelined_consumed:
        assert read_all(partition) == bytes(records.data)
        return
    with pytest.raises(RuntimeError, match="not finished"):
        read_all(partition)
    partition.finish()
    assert read_all(partition) == bytes(records.data)
    assert read_all(partition) == bytes(records.data)


@pytest.mark.row("S017")
def test_bounded_partitions_take_so_much_memory_and_unbounded_ones_all_there_is() -> None:
    taken = {}
    for kind in MADE:
        partition = factory_of(buffers=64, quota=1000).create(partition_id(), kind, 2)
        partition.setup()
        partition.emit(0, records_of([100] * 60))
        partition.emit(1, records_of([100] * 60))
        taken[kind] = partition.pool.used_buffers
        is_limited = kind.is_bounded or kind is ResultPartitionType.BLOCKING
        assert (partition.pool.max_buffers < UNLIMITED_BUFFERS) == is_limited
    assert taken == {
        ResultPartitionType.PIPELINED: 64,
        ResultPartitionType.PIPELINED_BOUNDED: 12,
        ResultPartitionType.PIPELINED_APPROXIMATE: 12,
        # written away whenever these are full
        ResultPartitionType.BLOCKING: 16,
    }
