"""PeerDeployment: channels of partitions that others have named."""

from __future__ import annotations

import pytest

from flinknet.config import Scenario, WorkloadConfig
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.errors import ConfigError
from flinknet.job.load.peer import deploy_consumer, deploy_producers

FIRST, SECOND = (ResultPartitionID.decode(bytes(19) + bytes([i]) + bytes(40)) for i in (1, 2))


def test_a_consumer_reads_each_subpartition_of_each_partition() -> None:
    deployment = deploy_consumer(Scenario(), [FIRST, SECOND], [4, 0])
    channels = deployment.channels_of_consumer(0)
    read = [(deployment.partition_id(each.producer), each.subpartition) for each in channels]
    assert read == [(FIRST, 4), (FIRST, 0), (SECOND, 4), (SECOND, 0)]
    assert [channel.index for channel in channels] == [0, 1, 2, 3]
    assert len({channel.receiver_id for channel in channels}) == 4
    assert not any(deployment.is_local(channel) for channel in channels)


def test_a_producer_has_a_subpartition_for_each_consumer() -> None:
    scenario = Scenario(workload=WorkloadConfig(producers=2, consumers=3))
    deployment = deploy_producers(scenario, [FIRST, SECOND])
    assert [each.subpartition for each in deployment.channels_of_producer(1)] == [0, 1, 2]
    assert deployment.partition_id(1) == SECOND
    assert deployment.find_channel(SECOND, 2) == 5
    assert deployment.find_channel(SECOND, 3) is None
    assert deployment.find_channel(ResultPartitionID.decode(bytes(60)), 0) is None


def test_what_is_named_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--partition: .* is given twice"):
        deploy_producers(Scenario(), [FIRST, FIRST])
    with pytest.raises(ConfigError, match="--subpartition: 3 is given twice"):
        deploy_consumer(Scenario(), [FIRST], [3, 3])
