"""Peers: channels of partitions that others have named."""

from __future__ import annotations

import pytest

from flinknet.config import Scenario, WorkloadConfig
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.errors import ConfigError
from flinknet.runtime.cluster.peer import consumer_plan, producers_plan

FIRST, SECOND = (ResultPartitionID.decode(bytes(19) + bytes([i]) + bytes(40)) for i in (1, 2))


def test_a_consumer_reads_each_subpartition_of_each_partition() -> None:
    load = consumer_plan(Scenario(), [FIRST, SECOND], [4, 0])
    (sink,) = load.sinks
    channels = sink.inputs[0].channels
    read = [(each.partition_id, each.subpartition) for each in channels]
    assert read == [(FIRST, 4), (FIRST, 0), (SECOND, 4), (SECOND, 0)]
    assert [each.index for each in channels] == [0, 1, 2, 3]
    assert len({each.receiver_id for each in channels}) == 4
    assert not any(each.is_local for each in channels)
    assert sink.inputs[0].pool.max_buffers == 8


def test_a_producer_has_a_subpartition_for_each_consumer() -> None:
    scenario = Scenario(workload=WorkloadConfig(producers=2, consumers=3, partitioner="rescale"))
    load = producers_plan(scenario, [FIRST, SECOND])
    output = load.sources[1].outputs[0]
    assert (output.partition_id, output.channels) == (SECOND, (3, 4, 5))
    assert output.partitioner == "rescale"
    assert output.pool.max_buffers == 3 * 2 + 8
    found = load.channels[5]
    assert (found.partition_id, found.subpartition) == (SECOND, 2)


def test_what_is_named_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--partition: .* is given twice"):
        producers_plan(Scenario(), [FIRST, FIRST])
    with pytest.raises(ConfigError, match="--subpartition: 3 is given twice"):
        consumer_plan(Scenario(), [FIRST], [3, 3])
