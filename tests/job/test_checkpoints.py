"""Acknowledgements of a task: one answer for its input and all of its outputs."""

from __future__ import annotations

from flinknet.job.barriers import TaskAcknowledgements
from flinknet.job.checkpoint_coordinator import (
    AcknowledgeCheckpoint,
    Answer,
    DeclineCheckpoint,
)


def acknowledgements(*parts: str) -> tuple[TaskAcknowledgements, list[Answer]]:
    answers: list[Answer] = []
    return TaskAcknowledgements("Map (1/2)", parts, answers.append), answers


def test_a_task_acknowledges_when_all_its_parts_have() -> None:
    task, answers = acknowledgements("input", "output 0", "output 1")
    task.ask(1)
    task.receive(AcknowledgeCheckpoint("output 0", 1, written_ns={3: 10}, overtaken_bytes=5))
    task.receive(
        AcknowledgeCheckpoint("input", 1, read_ns={0: 7}, start_delay_ns=2, alignment_ns=3)
    )
    assert not answers
    task.receive(AcknowledgeCheckpoint("output 1", 1, written_ns={4: 11}, overtaken_bytes=6))
    assert answers == [
        AcknowledgeCheckpoint(
            "Map (1/2)",
            1,
            written_ns={3: 10, 4: 11},
            read_ns={0: 7},
            start_delay_ns=2,
            alignment_ns=3,
            overtaken_bytes=11,
        )
    ]
    task.end()
    assert len(answers) == 1


def test_a_task_that_has_ended_acknowledges_what_it_was_and_is_asked() -> None:
    task, answers = acknowledgements("input")
    task.ask(1)
    task.ask(2)
    task.abort(1)
    task.end()
    task.ask(3)
    assert answers == [
        AcknowledgeCheckpoint("Map (1/2)", 2),
        AcknowledgeCheckpoint("Map (1/2)", 3),
    ]


def test_a_task_without_ends_acknowledges_at_once() -> None:
    task, answers = acknowledgements()
    task.ask(1)
    assert answers == [AcknowledgeCheckpoint("Map (1/2)", 1)]


def test_a_part_that_declines_declines_for_the_task() -> None:
    task, answers = acknowledgements("input", "output 0")
    task.ask(4)
    task.receive(AcknowledgeCheckpoint("output 0", 4))
    task.receive(DeclineCheckpoint("input", 4, "subsumed"))
    assert answers == [DeclineCheckpoint("Map (1/2)", 4, "subsumed")]
    task.end()
    assert len(answers) == 1
