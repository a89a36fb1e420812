"""Checkpoints of a job whose tasks come and go."""

from __future__ import annotations

from flinknet.graph import execution_graph_of, job_graph_of
from flinknet.graph.execution import ExecutionState
from flinknet.graph.execution_graph import ExecutionGraph
from flinknet.job.checkpoint_coordinator import (
    AbortCheckpoint,
    AcknowledgeCheckpoint,
    Command,
    DeclineCheckpoint,
    TriggerCheckpoint,
)
from flinknet.runtime.job.job_checkpoints import JobCheckpoints
from tests.graph.programs import all_to_all

_S = ExecutionState


def graph() -> ExecutionGraph:
    found = execution_graph_of(job_graph_of(all_to_all(1)))
    for subtask in found.subtasks():
        for state in (_S.SCHEDULED, _S.DEPLOYING, _S.INITIALIZING, _S.RUNNING):
            subtask.current.switch_to(state)
    return found


def checkpoints_of(found: ExecutionGraph) -> JobCheckpoints:
    return JobCheckpoints(
        found, interval_ns=10, timeout_ns=100, start_ns=0, measured_from_ns=0, epoch_ns=0
    )


def told(checkpoints: JobCheckpoints) -> list[Command]:
    found = list(checkpoints.to_tell)
    checkpoints.to_tell.clear()
    return found


def acknowledge(task: str, checkpoint_id: int) -> AcknowledgeCheckpoint:
    (task_id,) = (str(each.id) for each in graph().subtasks() if each.name == task)
    return AcknowledgeCheckpoint(task_id, checkpoint_id)


def test_a_checkpoint_is_complete_when_every_task_has_acknowledged_it() -> None:
    checkpoints = checkpoints_of(graph())
    checkpoints.handle_deadline(now_ns=10)
    assert told(checkpoints) == []  # not every task runs
    assert checkpoints.next_deadline_ns() is None
    checkpoints.set_running(True, now_ns=11)
    checkpoints.handle_deadline(now_ns=11)
    assert told(checkpoints) == [TriggerCheckpoint(1, 0)]
    checkpoints.receive(acknowledge("Source: A (1/1)", 1), now_ns=12)
    assert checkpoints.completed == 0
    checkpoints.receive(acknowledge("Sink: B (1/1)", 1), now_ns=13)
    assert checkpoints.completed == 1


def test_who_has_finished_is_not_waited_for() -> None:
    found = graph()
    source, _ = found.subtasks()
    checkpoints = checkpoints_of(found)
    checkpoints.set_running(True, now_ns=10)
    checkpoints.handle_deadline(now_ns=10)
    source.current.switch_to(_S.FINISHED)
    checkpoints.finish(str(source.id), now_ns=11)
    checkpoints.receive(acknowledge("Sink: B (1/1)", 1), now_ns=12)
    assert checkpoints.completed == 1
    checkpoints.handle_deadline(now_ns=20)  # the source has finished before this one
    checkpoints.receive(acknowledge("Sink: B (1/1)", 2), now_ns=21)
    assert checkpoints.completed == 2


def test_a_checkpoint_is_given_up_when_tasks_begin_again() -> None:
    checkpoints = checkpoints_of(graph())
    checkpoints.set_running(True, now_ns=10)
    checkpoints.handle_deadline(now_ns=10)
    told(checkpoints)
    checkpoints.set_running(False, now_ns=15)
    assert told(checkpoints) == [AbortCheckpoint(1)]
    checkpoints.receive(acknowledge("Source: A (1/1)", 1), now_ns=16)
    checkpoints.receive(acknowledge("Sink: B (1/1)", 1), now_ns=16)
    assert checkpoints.completed == 0
    checkpoints.set_running(True, now_ns=40)
    checkpoints.handle_deadline(now_ns=40)
    assert told(checkpoints) == [TriggerCheckpoint(2, 0)]
    assert checkpoints.summary().aborted == 1


def test_what_one_task_declines_is_given_up_by_all() -> None:
    checkpoints = checkpoints_of(graph())
    checkpoints.set_running(True, now_ns=10)
    checkpoints.handle_deadline(now_ns=10)
    told(checkpoints)
    checkpoints.receive(DeclineCheckpoint("Sink: B (1/1)", 1, "why"), now_ns=12)
    assert told(checkpoints) == [AbortCheckpoint(1)]
