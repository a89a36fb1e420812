"""When checkpoints begin, what becomes of them, and the one answer of each task."""

from __future__ import annotations

from typing import Any

from flinknet.job.barriers import TaskAcknowledgements
from flinknet.job.checkpoint_coordinator import (
    AbortCheckpoint,
    AcknowledgeCheckpoint,
    Answer,
    CheckpointCoordinator,
    DeclineCheckpoint,
    TriggerCheckpoint,
)

MS = 1_000_000


def coordinator(**options: Any) -> CheckpointCoordinator:
    return CheckpointCoordinator(
        {"source 0", "sink 0"},
        interval_ns=100 * MS,
        timeout_ns=250 * MS,
        start_ns=1000 * MS,
        **options,
    )


def acknowledge(each: CheckpointCoordinator, checkpoint_id: int, at_ms: int) -> None:
    for task in ("source 0", "sink 0"):
        each.receive(AcknowledgeCheckpoint(task, checkpoint_id), now_ns=at_ms * MS)


def test_a_checkpoint_begins_with_every_beat() -> None:
    each = coordinator(epoch_ns=-5 * MS)
    assert each.next_deadline_ns() == 1100 * MS
    assert each.advance(now_ns=1100 * MS - 1) == []
    assert each.advance(now_ns=1100 * MS) == [TriggerCheckpoint(1, 1105)]
    assert each.pending_id == 1
    acknowledge(each, 1, 1130)
    assert each.pending_id is None
    assert each.next_deadline_ns() == 1200 * MS
    assert each.advance(now_ns=1203 * MS) == [TriggerCheckpoint(2, 1208)]
    acknowledge(each, 2, 1210)
    assert each.next_deadline_ns() == 1300 * MS  # the beat does not drift


def test_one_at_a_time_and_a_missed_beat_is_made_up_for_once() -> None:
    each = coordinator()
    each.advance(now_ns=1100 * MS)
    assert each.advance(now_ns=1300 * MS) == []
    acknowledge(each, 1, 1320)
    assert each.advance(now_ns=1320 * MS) == [TriggerCheckpoint(2, 1320)]
    acknowledge(each, 2, 1330)
    assert each.advance(now_ns=1330 * MS) == []
    assert each.next_deadline_ns() == 1400 * MS


def test_a_checkpoint_that_takes_too_long_is_aborted() -> None:
    each = coordinator()
    each.advance(now_ns=1100 * MS)
    each.receive(AcknowledgeCheckpoint("source 0", 1), now_ns=1101 * MS)
    assert each.next_deadline_ns() == 1350 * MS
    assert each.advance(now_ns=1350 * MS) == [AbortCheckpoint(1), TriggerCheckpoint(2, 1350)]
    each.receive(AcknowledgeCheckpoint("sink 0", 1), now_ns=1351 * MS)  # too late
    assert each.pending_id == 2
    acknowledge(each, 2, 1352)
    summary = each.summary()
    assert (summary.triggered, summary.completed, summary.aborted) == (2, 1, 1)


def test_one_task_that_declines_is_enough_and_all_are_told_once() -> None:
    each = coordinator()
    each.advance(now_ns=1100 * MS)
    decline = DeclineCheckpoint("sink 0", 1, "subsumed")
    assert each.receive(AcknowledgeCheckpoint("source 0", 1), now_ns=1101 * MS) == []
    assert each.receive(decline, now_ns=1101 * MS) == [AbortCheckpoint(1)]
    assert each.receive(decline, now_ns=1101 * MS) == []
    assert each.pending_id is None
    assert each.summary().aborted == 1


def test_after_the_stop_only_the_pending_one_goes_on() -> None:
    each = coordinator()
    each.advance(now_ns=1100 * MS)
    each.stop()
    acknowledge(each, 1, 1150)
    assert each.next_deadline_ns() is None
    assert each.advance(now_ns=5000 * MS) == []
    assert each.summary().completed == 1
    assert each.spans_ns == [(1100 * MS, 1150 * MS)]


def test_no_checkpoint_begins_after_the_end() -> None:
    each = coordinator(end_ns=1150 * MS)
    assert each.advance(now_ns=1100 * MS) == [TriggerCheckpoint(1, 1100)]
    acknowledge(each, 1, 1160)
    assert each.advance(now_ns=1200 * MS) == []
    assert each.next_deadline_ns() is None
    assert each.completed == 1


def test_who_has_finished_is_not_waited_for() -> None:
    each = coordinator()
    each.advance(now_ns=1100 * MS)
    each.receive(AcknowledgeCheckpoint("sink 0", 1), now_ns=1101 * MS)
    assert each.advance(now_ns=1102 * MS, finished=["source 0"]) == []
    assert each.completed == 1
    each.advance(now_ns=1200 * MS, finished=["source 0"])  # it has finished before this one
    each.receive(AcknowledgeCheckpoint("sink 0", 2), now_ns=1201 * MS)
    assert each.completed == 2


def test_a_checkpoint_is_given_up_when_tasks_begin_again() -> None:
    each = coordinator()
    assert each.abort_pending() == []
    each.advance(now_ns=1100 * MS)
    assert each.abort_pending() == [AbortCheckpoint(1)]
    acknowledge(each, 1, 1110)
    assert each.completed == 0
    assert each.advance(now_ns=1400 * MS) == [TriggerCheckpoint(2, 1400)]
    assert each.summary().aborted == 1


def test_checkpoints_count_that_begin_in_the_measured_part() -> None:
    each = coordinator(measured_from_ns=1200 * MS, measured_to_ns=1300 * MS)
    for beat in (1100, 1200, 1300):
        (trigger,) = each.advance(now_ns=beat * MS)
        acknowledge(each, trigger.checkpoint_id, beat + 10)
    summary = each.summary()
    assert (summary.triggered, summary.completed, summary.aborted) == (1, 1, 0)


def test_the_summary_puts_together_what_the_tasks_saw() -> None:
    each = coordinator()
    each.advance(now_ns=1100 * MS)
    each.receive(
        AcknowledgeCheckpoint(
            "source 0", 1, written_ns={0: 1101 * MS, 1: 1101 * MS}, overtaken_bytes=70
        ),
        now_ns=1102 * MS,
    )
    each.receive(
        AcknowledgeCheckpoint(
            "sink 0",
            1,
            read_ns={0: 1103 * MS, 1: 1107 * MS},
            start_delay_ns=3 * MS,
            alignment_ns=4 * MS,
            overtaken_bytes=30,
            processed_bytes=50,
            is_unaligned=True,
        ),
        now_ns=1108 * MS,
    )
    summary = each.summary()
    assert (summary.completed, summary.unaligned) == (1, 1)
    assert (summary.travel_ns.count, summary.travel_ns.min, summary.travel_ns.max) == (
        2,
        2 * MS,
        6 * MS,
    )
    assert summary.alignment_ns.max == 4 * MS
    assert summary.start_delay_ns.max == 3 * MS
    assert summary.duration_ns.max == 8 * MS
    assert (summary.overtaken_bytes_mean, summary.overtaken_bytes_max) == (100, 100)
    assert summary.processed_bytes_mean == 50


def test_without_checkpoints_there_are_no_means() -> None:
    summary = coordinator().summary()
    assert summary.overtaken_bytes_mean is None
    assert summary.alignment_ns.count == 0


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
    task.forget(1)
    task.end()
    task.ask(3)
    assert answers == [AcknowledgeCheckpoint("Map (1/2)", 2), AcknowledgeCheckpoint("Map (1/2)", 3)]


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
