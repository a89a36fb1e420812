"""A process that was stopped knows it; one that waited for a CPU is not taken for one."""

from __future__ import annotations

import pytest

from flinknet.runtime.other_processes import ProcessTimes, Standstill, read_times

S = 1_000_000_000


@pytest.mark.parametrize(
    ("cpu_ns", "queued_ns", "stood_ns"),
    [
        (0, 0, 2 * S - S // 10),
        (S // 2, S // 2, S - S // 10),
        (S, S, 0),
        (0, 2 * S, 0),
        (0, None, 0),
    ],
)
def test_a_gap_without_cpu_time_and_without_waiting_for_a_cpu_is_a_standstill(
    cpu_ns: int, queued_ns: int | None, stood_ns: int
) -> None:
    begun = ProcessTimes(5 * S, S, None if queued_ns is None else 7 * S)
    ended = ProcessTimes(7 * S, S + cpu_ns, None if queued_ns is None else 7 * S + queued_ns)
    readings = [begun, ended, ended]
    standstill = Standstill(lambda: readings.pop(0))
    standstill.look(within_ns=S // 10)
    standstill.look(within_ns=S // 10)
    assert standstill.stood_ns == stood_ns
    assert standstill.queued_ns == queued_ns


def test_the_times_of_this_process_can_be_read() -> None:
    first, second = read_times(), read_times()
    assert second.clock_ns > first.clock_ns
    assert second.cpu_ns >= first.cpu_ns
