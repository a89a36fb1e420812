"""Deployment: which task runs where, and the channels between them.

Pure; ids follow from the seed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from flinknet.config import Scenario
from flinknet.core.wire.ids import (
    ExecutionAttemptID,
    ExecutionGraphID,
    ExecutionVertexID,
    InputChannelID,
    IntermediateDataSetID,
    IntermediateResultPartitionID,
    JobVertexID,
    ResultPartitionID,
)
from flinknet.errors import ConfigError

LONGEST_RUN_NS = 4 * 3600 * 10**9
"""Below the 2**44 ns that the stamp of a record holds (workload.payload)."""

PARTITIONERS = ("rebalance", "hash", "forward", "broadcast")


@dataclass(frozen=True, slots=True)
class DeployedChannel:
    """One channel: a subpartition of `producer`, read by `consumer` as `receiver_id`."""

    index: int
    producer: int
    consumer: int
    subpartition: int
    receiver_id: InputChannelID


@dataclass(frozen=True, slots=True)
class Deployment:
    """All tasks and channels of one run.

    Producers sit on the first half of the TaskManagers and consumers on the rest, in turns, so that
    every channel crosses a connection.
    """

    scenario: Scenario
    channels: tuple[DeployedChannel, ...]
    producer_task_managers: tuple[int, ...]
    consumer_task_managers: tuple[int, ...]

    def partition_id(self, producer: int) -> ResultPartitionID:
        """The result partition of a producer."""
        seed = self.scenario.seed
        return ResultPartitionID(
            IntermediateResultPartitionID(IntermediateDataSetID(_id16(seed, "data set")), producer),
            ExecutionAttemptID(
                ExecutionGraphID(_id16(seed, "execution graph")),
                ExecutionVertexID(JobVertexID(_id16(seed, "producers")), producer),
                0,
            ),
        )

    def channels_of_producer(self, producer: int) -> tuple[DeployedChannel, ...]:
        """The channels of a producer, by subpartition."""
        return tuple(each for each in self.channels if each.producer == producer)

    def channels_of_consumer(self, consumer: int) -> tuple[DeployedChannel, ...]:
        """The channels of a consumer, by producer."""
        return tuple(each for each in self.channels if each.consumer == consumer)

    def producers_on(self, task_manager: int) -> list[int]:
        """Producers deployed to a TaskManager."""
        return [i for i, tm in enumerate(self.producer_task_managers) if tm == task_manager]

    def consumers_on(self, task_manager: int) -> list[int]:
        """Consumers deployed to a TaskManager."""
        return [i for i, tm in enumerate(self.consumer_task_managers) if tm == task_manager]


def deploy(scenario: Scenario) -> Deployment:
    """Place the tasks of a scenario and wire them.

    Raises: ConfigError when the scenario cannot be deployed.
    """
    workload = scenario.workload
    if workload.partitioner not in PARTITIONERS:
        raise ConfigError(
            f"partitioner {workload.partitioner!r} is not known; choose from"
            f" {', '.join(PARTITIONERS)}"
        )
    if scenario.task_managers < 2:
        raise ConfigError(
            f"{scenario.task_managers} task manager(s): channels within one task manager never"
            " touch the network; use --task-managers 2 or more"
        )
    is_forward = workload.partitioner == "forward"
    if is_forward and workload.producers != workload.consumers:
        raise ConfigError(
            f"forward needs as many consumers as producers, not {workload.producers} and"
            f" {workload.consumers}; make them equal, or use --partitioner rebalance"
        )
    for slow in workload.slow_consumers:
        if not 0 <= slow.index < workload.consumers:
            raise ConfigError(
                f"there is no consumer {slow.index} to slow down; they are 0 to"
                f" {workload.consumers - 1}"
            )
        is_paused = slow.delay_ns_per_record < 0
        has_end = workload.duration_ns is not None or (
            not workload.is_max_rate and workload.arrivals == "constant"
        )
        if is_paused and not has_end:
            raise ConfigError(
                "a paused consumer at the highest rate or with irregular arrivals needs --duration:"
                " a number of records may never be reached"
            )
    if workload.warmup_ns + (workload.duration_ns or 0) > LONGEST_RUN_NS:
        raise ConfigError("a run may last four hours: the stamps of its records reach no further")
    if workload.record_size.low_bytes < 8:
        raise ConfigError(
            f"records of {workload.record_size.low_bytes} bytes cannot carry what the consumer"
            " checks; the smallest is 8b"
        )
    pairs = [
        (producer, consumer)
        for producer in range(workload.producers)
        for consumer in ([producer] if is_forward else range(workload.consumers))
    ]
    channels = tuple(
        DeployedChannel(
            index,
            producer,
            consumer,
            0 if is_forward else consumer,
            InputChannelID(_id16(scenario.seed, f"channel {index}")),
        )
        for index, (producer, consumer) in enumerate(pairs)
    )
    upstream = (scenario.task_managers + 1) // 2
    downstream = scenario.task_managers - upstream
    return Deployment(
        scenario,
        channels,
        tuple(producer % upstream for producer in range(workload.producers)),
        tuple(upstream + consumer % downstream for consumer in range(workload.consumers)),
    )


def _id16(seed: int, what: str) -> bytes:
    return hashlib.sha256(f"flinknet {seed} {what}".encode()).digest()[:16]
