"""What the TaskManagers of a running job report that they have (Flink: the physical graph)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartitionDump:
    """A ResultPartition: its id, its type, how many subpartitions it has."""

    id: str
    type: str
    subpartitions: int


@dataclass(frozen=True, slots=True)
class GateDump:
    """An InputGate.

    Attributes:
        edge: index of the edge that it reads.
        exclusive_buffers: of all its remote channels.
        channels: partition, subpartition, and whether it is local, of each InputChannel.
    """

    edge: int
    data_set: str
    exclusive_buffers: int
    channels: tuple[tuple[int, int, bool], ...]


@dataclass(frozen=True, slots=True)
class TaskDump:
    """A Task with its partitions and gates."""

    name: str
    attempt_id: str
    slot: int
    partitions: tuple[PartitionDump, ...]
    gates: tuple[GateDump, ...]


@dataclass(frozen=True, slots=True)
class TaskManagerDump:
    """What a TaskManager runs, and the partitions that it keeps of tasks that have ended."""

    index: int
    tasks: tuple[TaskDump, ...]
    kept_partitions: tuple[PartitionDump, ...]


@dataclass(frozen=True, slots=True)
class JobDump:
    """All TaskManagers of a job."""

    job_id: str
    name: str
    task_managers: tuple[TaskManagerDump, ...]
