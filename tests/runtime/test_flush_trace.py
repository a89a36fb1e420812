"""A trace is written every second, a step at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinknet.config import CREDIT, NetworkConfig
from flinknet.runtime.shuffle_environment import (
    FLUSH_INTERVAL_NS,
    FLUSH_PAUSE_NS,
    ShuffleEnvironment,
)
from flinknet.trace import TraceReader
from flinknet.trace.recorder import BLOCK_EVENTS


def environment(path: Path) -> ShuffleEnvironment:
    found = ShuffleEnvironment(
        NetworkConfig(), CREDIT, "tm-0", task_managers=1, channel_of={}, may_spin=False
    )
    found.traces.claim(found.open_trace(path.parent), [0])
    return found


def record(found: ShuffleEnvironment, events: int) -> None:
    for number in range(events):
        found.recorder.record(number, 0, 0, 0, 1, 1, number, 5, 1, 7, 7, 0, 1, 0, 2, 3, -1)


def written(path: Path) -> int:
    with TraceReader(path) as reader:
        return sum(len(block["at_ns"]) for block in reader.events(("at_ns",)))


def flushed(found: ShuffleEnvironment, now_ns: int) -> tuple[int, int]:
    """Call it when it says until all is written. Returns: when that is, and how often it took."""
    for calls in range(1, 1_000):
        due_ns = found.flush_trace(now_ns=now_ns)
        assert found.flush_trace(now_ns=due_ns - 1) == due_ns  # nothing before that
        assert FLUSH_PAUSE_NS <= due_ns - now_ns <= FLUSH_INTERVAL_NS
        if not found.recorder.pending_events:
            return now_ns, calls
        now_ns = due_ns
    pytest.fail("it never comes to its end")


@pytest.mark.parametrize("events", [1, 100, BLOCK_EVENTS - 1, BLOCK_EVENTS, BLOCK_EVENTS + 10])
def test_what_was_recorded_is_written_within_seconds_when_nothing_follows(
    tmp_path: Path, events: int
) -> None:
    path = tmp_path / "tm-0.fnt"
    found = environment(path)
    record(found, events)
    reached_ns, calls = flushed(found, 0)
    assert calls > 10 or events < 1_000
    assert reached_ns <= 2 * FLUSH_INTERVAL_NS
    assert written(path) == events
    record(found, 50)
    flushed(found, reached_ns + FLUSH_INTERVAL_NS)
    assert written(path) == events + 50
    found.recorder.close()
    found.close()


def test_where_nothing_was_recorded_it_looks_once_a_second(tmp_path: Path) -> None:
    found = environment(tmp_path / "tm-0.fnt")
    assert found.flush_trace(now_ns=7) == 7 + FLUSH_INTERVAL_NS
    found.recorder.close()
    found.close()
