"""What the clock of a capture did, by the times that senders put into their packets."""

from __future__ import annotations

import pytest

from flinknet.capture.pcap.clock import CaptureClock
from flinknet.capture.pcap.segments import Endpoint, TcpSegment

HERE, THERE = Endpoint("10.0.0.1", 4000), Endpoint("10.0.0.2", 5000)
MS = 1_000_000


def segment(number: int, at_ns: int, sent_ms: int | None) -> TcpSegment:
    return TcpSegment(
        at_ns, HERE, THERE, 100 * number, 7, 9, False, False, False, bytes(100), 0, sent_ms
    )


@pytest.mark.parametrize("by_ms", [-3000, -200, 2000, 3_600_000])
def test_a_step_is_taken_out_by_the_times_of_senders(by_ms: int) -> None:
    clock = CaptureClock()
    found = []
    for number in range(40):
        true_ms = 5_000_000 + 50 * number
        at_ns = (true_ms + (by_ms if number >= 20 else 0)) * MS
        found.append(clock.follow(segment(number, at_ns, (true_ms + 2**32 - 5_000_100) % 2**32)))
    assert [each.at_ns // MS for each in found] == [5_000_000 + 50 * each for each in range(40)]
    assert clock.finish() is None
    assert len(clock.steps) == 1


def test_a_silence_in_which_the_time_of_senders_went_on_is_one() -> None:
    clock = CaptureClock()
    for number in range(40):
        true_ms = 50 * number + (9_000 if number >= 20 else 0)
        clock.follow(segment(number, true_ms * MS, true_ms))
    assert clock.finish() is None
    assert clock.steps == []


def test_packets_that_were_captured_late_or_out_of_order_are_no_step() -> None:
    clock = CaptureClock()
    times_ms = [0, 50, 300, 100, 150, 200, 250, 350, 400]  # one was late
    for number, at_ms in enumerate(times_ms):
        assert clock.follow(segment(number, at_ms * MS, None)).at_ns == at_ms * MS
    for number, at_ms in ((12, 600), (9, 450), (10, 500), (11, 550)):  # one came first
        assert clock.follow(segment(number, at_ms * MS, None)).at_ns == at_ms * MS
    assert clock.steps == []


@pytest.mark.parametrize(("unit_ns", "steps"), [(MS, 0), (MS + 1, 1)])
def test_many_packets_in_one_instant_show_nothing_of_a_clock_in_milliseconds(
    unit_ns: int, steps: int
) -> None:
    clock = CaptureClock()
    for number in range(120):
        clock.follow(segment(number, number * unit_ns, None))
    for number in range(120, 320):
        own = segment(number, 120 * unit_ns, None)
        clock.follow(own._replace(source=THERE, target=HERE) if number % 2 else own)
    clock.finish()
    assert len(clock.steps) == steps
