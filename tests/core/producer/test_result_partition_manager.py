"""The partitions of a TaskManager: who finds them, who waits for them, when they go."""

from __future__ import annotations

import pytest

from flinknet.core.producer import PipelinedResultPartition, ResultPartitionManager
from flinknet.core.producer.result_partition import PartitionRequestListener
from tests.pair import OTHER_RECEIVER, RECEIVER, partition_id, partition_of, records_of
from tests.probes import polled_by_hand


class Request:
    """A request that notes what it is told."""

    def __init__(self) -> None:
        self.found: list[PipelinedResultPartition] = []
        self.refusals = 0
        self.listener = PartitionRequestListener(self.found.append, self._refuse)

    def _refuse(self) -> None:
        self.refusals += 1


def test_a_partition_is_registered_once() -> None:
    manager = ResultPartitionManager()
    partition, _ = partition_of()
    manager.register(partition)
    with pytest.raises(RuntimeError, match="already registered"):
        manager.register(partition)
    assert manager.find(partition.partition_id) is partition
    assert manager.partitions == (partition,)


@pytest.mark.row("S038")
def test_every_request_that_waits_is_served_once_at_registration() -> None:
    manager = ResultPartitionManager()
    early, other, elsewhere = Request(), Request(), Request()
    manager.wait_for(partition_id(), RECEIVER, early.listener)
    manager.wait_for(partition_id(), OTHER_RECEIVER, other.listener)
    manager.wait_for(partition_id(1), RECEIVER, elsewhere.listener)
    partition, _ = partition_of()
    manager.register(partition)
    assert (early.found, other.found, elsewhere.found) == ([partition], [partition], [])
    manager.release(partition)
    assert (early.refusals, other.refusals, elsewhere.refusals) == (0, 0, 0)


def test_a_receiver_waits_once() -> None:
    manager = ResultPartitionManager()
    manager.wait_for(partition_id(), RECEIVER, Request().listener)
    with pytest.raises(RuntimeError, match=r"waits for .* already"):
        manager.wait_for(partition_id(), RECEIVER, Request().listener)
    assert manager.stop_waiting(partition_id(), RECEIVER)
    assert not manager.stop_waiting(partition_id(), RECEIVER)
    manager.wait_for(partition_id(), RECEIVER, Request().listener)


def test_shutting_down_releases_everything_and_refuses_who_waits() -> None:
    manager = ResultPartitionManager()
    partition, memory = partition_of()
    manager.register(partition)
    request = Request()
    manager.wait_for(partition_id(1), RECEIVER, request.listener)
    manager.shut_down()
    assert partition.is_released
    assert memory.available_buffers == memory.total_buffers
    assert request.refusals == 1
    late, _ = partition_of(identity=partition_id(2))
    with pytest.raises(RuntimeError, match="shut down"):
        manager.register(late)


@pytest.mark.parametrize("closes_first", [True, False])
def test_a_pipelined_partition_goes_with_its_last_user(closes_first: bool) -> None:
    manager = ResultPartitionManager()
    partition, memory = partition_of(2)
    manager.register(partition)
    views = [each.create_read_view(polled_by_hand) for each in partition.subpartitions]
    assert partition.users == 3
    ends = [views[0].release, views[0].release, views[1].release]
    ends.insert(0 if closes_first else 3, partition.finish)
    for end in ends[:-1]:
        end()
        assert manager.find(partition.partition_id) is partition
        assert not partition.is_released
    ends[-1]()
    assert partition.users == 0
    assert partition.is_released
    assert manager.find(partition.partition_id) is None
    assert memory.available_buffers == memory.total_buffers


def test_data_outlives_the_producer_until_it_is_read() -> None:
    partition, memory = partition_of()
    ResultPartitionManager().register(partition)
    partition.emit(0, records_of([100] * 3))
    partition.finish()
    assert memory.pools == ()
    assert memory.available_buffers == memory.total_buffers - 3
    view = partition.subpartitions[0].create_read_view(polled_by_hand)
    sizes = []
    while (piece := view.poll()) is not None:
        sizes.append(piece.size_bytes)
        piece.recycle()
    assert sizes == [100, 100, 100, 4]
    assert memory.available_buffers == memory.total_buffers


def test_fewer_than_no_users_is_an_error() -> None:
    partition, _ = partition_of()
    partition.users = 0
    with pytest.raises(RuntimeError, match="fewer than no users"):
        partition.close()


def test_a_consumed_partition_that_somebody_waits_for_is_an_error() -> None:
    manager = ResultPartitionManager()
    partition, _ = partition_of()
    manager.wait_for(partition.partition_id, RECEIVER, Request().listener)
    with pytest.raises(RuntimeError, match="a request waits for it"):
        manager.handle_consumed(partition)
