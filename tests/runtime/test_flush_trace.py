"""At low rates a trace is written every second, a step at a time."""

from __future__ import annotations

from pathlib import Path

from flinknet.config import CREDIT, NetworkConfig
from flinknet.runtime.shuffle_environment import (
    FLUSH_EVENTS_MAX,
    FLUSH_INTERVAL_NS,
    FLUSH_PAUSE_NS,
    ShuffleEnvironment,
)
from flinknet.trace import TraceReader


def environment(path: Path) -> ShuffleEnvironment:
    return ShuffleEnvironment(
        NetworkConfig(),
        CREDIT,
        "tm-0",
        task_managers=1,
        trace_path=path,
        channels=1,
        channel_of={},
        may_spin=False,
    )


def record(found: ShuffleEnvironment, events: int) -> None:
    for number in range(events):
        found.recorder.record(number, 0, 0, 0, 1, 1, number, 5, 1, 7, 7, 0, 1, 0, 2, 3, -1)


def written(path: Path) -> int:
    with TraceReader(path) as reader:
        return sum(len(block["at_ns"]) for block in reader.events(("at_ns",)))


def test_what_was_recorded_is_written_within_a_second(tmp_path: Path) -> None:
    path = tmp_path / "tm-0.fnt"
    found = environment(path)
    record(found, 100)
    now_ns, calls = 0, 0
    while written(path) < 100:
        due_ns = found.flush_trace(now_ns=now_ns)
        assert found.flush_trace(now_ns=due_ns - 1) == due_ns  # nothing before that
        assert 0 < due_ns - now_ns <= FLUSH_INTERVAL_NS
        now_ns, calls = due_ns, calls + 1
    assert calls > 10
    assert now_ns <= FLUSH_INTERVAL_NS + calls * FLUSH_PAUSE_NS
    assert found.recorder.pending_events == 0
    record(found, 50)
    while written(path) < 150:
        now_ns = found.flush_trace(now_ns=now_ns)
    found.recorder.close()
    found.close()


def test_a_block_that_is_soon_full_is_left_to_fill(tmp_path: Path) -> None:
    path = tmp_path / "tm-0.fnt"
    found = environment(path)
    record(found, FLUSH_EVENTS_MAX)
    assert found.flush_trace(now_ns=0) == FLUSH_INTERVAL_NS
    assert found.recorder.pending_events == FLUSH_EVENTS_MAX
    assert not found.recorder.step()
    found.recorder.close()
    found.close()
