"""Dumps of a running job: the tasks of a TaskManager, and the collection of all their answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from flinknet.core.producer import ResultPartition
from flinknet.core.wire.ids import ExecutionGraphID
from flinknet.results import GateDump, PartitionDump, TaskDump, TaskManagerDump

from . import control_messages as messages
from .attempt import Attempt
from .cluster_process import TaskManagerProcess
from .control_connection import ControlConnection


def dump_of(
    index: int, tasks: Iterable[Attempt], registered: Sequence[ResultPartition]
) -> TaskManagerDump:
    """Describe the tasks of a TaskManager as they are now.

    Args:
        registered: all partitions that can be requested here.
    """
    found = list(tasks)
    own = {id(partition) for task in found for partition in task.partitions}
    return TaskManagerDump(
        index,
        tuple(_task(each) for each in found),
        tuple(_partition(each) for each in registered if id(each) not in own),
    )


def _task(running: Attempt) -> TaskDump:
    return TaskDump(
        running.task.name,
        str(running.attempt_id),
        running.descriptor.slot,
        tuple(_partition(each) for each in running.partitions),
        tuple(
            GateDump(
                described.edge + 1,
                str(gate.channels[0].partition_id.partition_id.intermediate_data_set_id),
                sum(each.initial_credit for each in gate.remote_channels),
                tuple(
                    (
                        each.partition_id.partition_id.partition_number,
                        each.subpartition,
                        each.is_local,
                    )
                    for each in gate.channels
                ),
            )
            for described, gate in zip(running.descriptor.inputs, running.task.gates, strict=True)
        ),
    )


def _partition(partition: ResultPartition) -> PartitionDump:
    return PartitionDump(
        str(partition.partition_id), partition.partition_type.name, len(partition.subpartitions)
    )


class DumpRound:
    """One client's request for a dump, until every TaskManager alive has answered."""

    def __init__(
        self, client: ControlConnection, task_managers: Iterable[TaskManagerProcess]
    ) -> None:
        self.client = client
        self._asked = [each for each in task_managers if each.is_alive and each.connection]
        self._answers: dict[int, TaskManagerDump] = {}
        for each in self._asked:
            each.send(messages.DescribeTasks())

    def take(self, dump: TaskManagerDump) -> None:
        self._answers.setdefault(dump.index, dump)

    def answer(self, graph: ExecutionGraphID) -> tuple[TaskManagerDump, ...] | None:
        """Return the job's part of all dumps, as ids of attempts begin with the id of their job;
        None while an answer is missing.
        """
        if any(each.is_alive and each.index not in self._answers for each in self._asked):
            return None
        job = str(graph)
        return tuple(
            replace(
                dump,
                tasks=tuple(each for each in dump.tasks if each.attempt_id.startswith(job)),
                kept_partitions=tuple(
                    each
                    for each in dump.kept_partitions
                    if each.id.partition("@")[2].startswith(job)
                ),
            )
            for _, dump in sorted(self._answers.items())
        )
