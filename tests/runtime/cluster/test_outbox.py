"""Messages about a job are sent after earlier announcements."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.core.wire.ids import ExecutionGraphID
from flinknet.runtime.cluster.control_messages import ExpectReaders
from flinknet.runtime.cluster.job_manager import Outbox

JOB = ExecutionGraphID(bytes(16))
READERS = {"ab": (0, 1)}


@pytest.fixture
def sent() -> list[tuple[int, Any]]:
    return []


@pytest.fixture
def outbox(sent: list[tuple[int, Any]]) -> Outbox:
    return Outbox(lambda index, message: sent.append((index, message)))


def test_without_an_announcement_nothing_is_held_back(
    outbox: Outbox, sent: list[tuple[int, Any]]
) -> None:
    outbox.send(1, "submit")
    assert sent == [(1, "submit")]


def test_what_comes_behind_an_announcement_waits_for_every_answer(
    outbox: Outbox, sent: list[tuple[int, Any]]
) -> None:
    outbox.announce(0, JOB, READERS)
    outbox.announce(2, JOB, READERS)
    outbox.send(1, "submit")
    outbox.send(0, "cancel")
    outbox.answered(2)
    announced = [(0, ExpectReaders(JOB, READERS)), (2, ExpectReaders(JOB, READERS))]
    assert sent == announced
    outbox.answered(0)
    assert sent == [*announced, (1, "submit"), (0, "cancel")]


def test_two_announcements_to_one_want_two_answers(
    outbox: Outbox, sent: list[tuple[int, Any]]
) -> None:
    outbox.announce(0, JOB, READERS)
    outbox.send(1, "first")
    outbox.announce(0, JOB, READERS)
    outbox.send(1, "second")
    outbox.answered(0)
    assert len(sent) == 2
    outbox.answered(0)
    assert sent[2:] == [(1, "first"), (1, "second")]


def test_nobody_waits_for_one_that_is_gone(outbox: Outbox, sent: list[tuple[int, Any]]) -> None:
    outbox.announce(0, JOB, READERS)
    outbox.send(1, "submit")
    outbox.lose(0)
    assert sent[1:] == [(1, "submit")]
    outbox.announce(0, JOB, READERS)
    outbox.send(1, "again")
    assert sent[-1] == (1, "again")


def test_an_answer_that_nobody_asked_for_counts_for_nothing(
    outbox: Outbox, sent: list[tuple[int, Any]]
) -> None:
    outbox.answered(0)
    outbox.announce(0, JOB, READERS)
    outbox.send(1, "submit")
    assert len(sent) == 1
