"""Gauges after scripted steps; each expected value is computed by hand from Flink's formula."""

import pytest

from flinknet.config import NetworkConfig
from flinknet.core.buffers import UNLIMITED_BUFFERS, NetworkBufferPool
from flinknet.job.task_metrics import input_metrics, memory_metrics, output_metrics, queue_metrics
from tests.pair import Consumer, Pair, partition_of, records_of

NETWORK = NetworkConfig(segment_size_bytes=100, exclusive_buffers=2, floating_buffers=3)


def test_outputs_count_what_is_queued_and_what_the_pool_gave() -> None:
    partition, _ = partition_of(2, pool_buffers=10)
    partition.emit(0, records_of([50, 50, 50]))
    partition.emit(1, records_of([30]))
    assert output_metrics([partition]) == {
        "outputQueueLength": 3,
        "outputQueueSize": 180,
        "outPoolUsage": 0.3,
    }
    first = partition.subpartitions[0].poll()
    assert first is not None
    assert output_metrics([partition])["outputQueueLength"] == 2
    assert output_metrics([partition])["outputQueueSize"] == 80
    assert output_metrics([partition])["outPoolUsage"] == 0.3  # it is not recycled yet
    first.recycle()
    assert output_metrics([partition])["outPoolUsage"] == 0.2


def test_overdraft_takes_the_pool_beyond_its_size() -> None:
    partition, _ = partition_of(1, pool_buffers=2, max_overdraft_buffers=4)
    partition.emit(0, records_of([450]))
    assert output_metrics([partition])["outPoolUsage"] == 2.5


def test_an_output_without_memory_uses_none_of_it() -> None:
    assert output_metrics([])["outPoolUsage"] == 0


@pytest.mark.row("S007")
def test_inputs_tell_exclusive_from_floating_buffers() -> None:
    pair = Pair(NETWORK)
    pair.partition.emit(0, records_of([100] * 6))
    pair.partition.flush(0)
    pair.drive()
    queued = pair.channels[0].queued_elements
    found = input_metrics([pair.gate])
    assert queued == 5  # two exclusive and three floating buffers, all taken
    assert found == {
        "inputQueueLength": 5,
        "inputQueueSize": 500,
        "inputExclusiveBuffersUsage": 1.0,
        "inputFloatingBuffersUsage": 1.0,
        "inPoolUsage": 1.0,
    }
    pair.input.consume()
    pair.drive()
    pair.input.consume()
    pair.drive()
    found = input_metrics([pair.gate])
    assert found["inputQueueLength"] == 0
    assert found["inputExclusiveBuffersUsage"] == 0
    assert found["inputFloatingBuffersUsage"] == 0


def test_an_idle_gate_uses_nothing() -> None:
    consumer = Consumer(channels=2)
    assert set(input_metrics([consumer.gate]).values()) == {0}
    assert set(input_metrics([]).values()) == {0}


def test_memory_of_a_task_manager() -> None:
    memory = NetworkBufferPool(100, 32)
    memory.create_buffer_pool(5, 16)
    memory.create_buffer_pool(3, UNLIMITED_BUFFERS)
    found = memory_metrics(memory)
    assert found["TotalMemorySegments"] == 100
    assert found["TotalMemory"] == 3200
    assert found["RequestedMemoryUsage"] == 22
    used = found["UsedMemorySegments"]
    assert found["AvailableMemorySegments"] == 100 - used
    assert found["UsedMemory"] == 32 * used


def test_pools_may_wish_for_more_than_there_is() -> None:
    memory = NetworkBufferPool(10, 32)
    memory.create_buffer_pool(2, 16)
    assert memory_metrics(memory)["RequestedMemoryUsage"] == 160


def test_queue_lengths_of_one_gate() -> None:
    assert queue_metrics([1, 4, 1]) == {
        "totalQueueLen": 6,
        "minQueueLen": 1,
        "maxQueueLen": 4,
        "avgQueueLen": 2.0,
    }
    assert queue_metrics([])["avgQueueLen"] == 0
