"""What the clock of a capture did, by the times that senders put into their packets."""

from __future__ import annotations

import pytest

from flinknet.capture.pcap import clock as clock_module
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


@pytest.mark.parametrize("is_timed", [True, False])
def test_a_step_is_found_in_a_conversation_from_its_opening_on(is_timed: bool) -> None:
    """With numbers that wrap, another connection of the same server with a zero of its own, and a
    first packet after the step that says nothing new.
    """
    clock, elsewhere = CaptureClock(), Endpoint("10.0.0.3", 5000)

    def follow(target: Endpoint, at_ms: int, number: int, **changes: object) -> float:
        to_ms = at_ms - (3000 if at_ms > 1000 else 0)
        sent_ms = at_ms + (4_000_000_000 if target is elsewhere else 0) if is_timed else None
        own = segment(number, to_ms * MS, sent_ms)._replace(target=target, **changes)
        return clock.follow(own).at_ns / MS

    for target in (THERE, elsewhere):
        follow(target, 0, 0, acknowledged=None, is_syn=True, data=b"")
    for number in range(1, 20):
        for target in (THERE, elsewhere):
            follow(target, 10 * number, number, acknowledged=3_000_000_000)
    follow(THERE, 1005, 19, acknowledged=3_000_000_000)  # sent again
    found = [
        follow(THERE, 1010 + 10 * each, 20 + each, acknowledged=3_000_000_000) for each in range(9)
    ]
    assert [each - found[0] for each in found] == [10 * each for each in range(9)]
    assert found[0] == (1010 if is_timed else 190)
    assert len(clock.steps) == 1


def test_what_is_known_of_the_oldest_directions_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clock_module, "DIRECTIONS_MAX", 3)
    clock = CaptureClock()
    for number in range(9):
        target = Endpoint("10.0.0.2", 5000 + number)
        clock.follow(segment(number, number * MS, number)._replace(target=target))
    known = [each for each in vars(clock).values() if isinstance(each, dict)]
    assert [len(each) for each in known] == [3, 3]


def test_a_silence_before_or_after_what_is_measured_changes_no_rate() -> None:
    clock = CaptureClock()
    for number in range(60):
        at_ms = 50 * number + (number >= 20) * 9_000 + (number >= 40) * 9_000
        clock.follow(segment(number, at_ms * MS, None))
    measured = 10_000 * MS, 10_950 * MS + 1
    assert clock.finish(measured) is None
    assert clock.steps == []


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
