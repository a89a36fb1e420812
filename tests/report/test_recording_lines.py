"""The first lines of an answer: what was lost, and which recordings are the run."""

from __future__ import annotations

from dataclasses import replace

from flinknet.report.recordings import recording_lines
from flinknet.results import ClockRelation, ReplayedRecording, TraceDescription, TraceLoss
from flinknet.results.recordings import MESSAGES, SAME_CLOCK, WALL_CLOCKS
from tests.page_answer import answer, typed

S = 1_000_000_000
ONE = ReplayedRecording("taps/one", "one", "2030", 4, 4, 0, 60 * S, ClockRelation(SAME_CLOCK, 0, 0))
OTHER = replace(
    ONE,
    path="taps/other",
    label="other",
    channels=3,
    channels_counted=1,
    clock=ClockRelation(MESSAGES, -2 * S, 300_000),
)
LATE = replace(
    ONE, path="taps/late", label="late", from_ns=12 * S, clock=ClockRelation(WALL_CLOCKS, S, None)
)


def trace_of(
    *recordings: ReplayedRecording, losses: tuple[TraceLoss, ...] = ()
) -> TraceDescription:
    trace = typed(answer()).trace
    part = replace(trace.part, from_ns=0, to_ns=60 * S, whole_ns=60 * S)
    return replace(trace, recordings=recordings, losses=losses, part=part)


def test_one_recording_without_losses_has_no_line() -> None:
    assert recording_lines(trace_of()) == []


def test_losses_come_first_each_with_its_place() -> None:
    losses = (
        TraceLoss("taps/other", "a.fnt", "dropped_events", 7, "7 events could not be written"),
        TraceLoss("taps/gone", None, "left_out", None, "left out: it has no manifest"),
    )
    lines = recording_lines(trace_of(ONE, OTHER, losses=losses))
    assert lines[:2] == [
        "other/a.fnt: 7 events could not be written",
        "taps/gone: left out: it has no manifest",
    ]
    many = recording_lines(trace_of(losses=losses * 6))
    assert many[-1] == "and 4 more losses (--json has all)"


def test_a_set_states_its_channels_its_clocks_and_who_came_late() -> None:
    lines = recording_lines(trace_of(ONE, OTHER, LATE))
    assert lines[0] == (
        "one run of 3 recordings (one, other, late): 9 channels, 2 recorded twice and counted once"
        " (left out: 2 of other)"
    )
    assert lines[1] == (
        "not all recordings cover the 60.0 s of the run: late has data from 12.0 s to 60.0 s"
    )
    assert lines[2].startswith(
        "clocks of other hosts than one's: other -2.00 s, error at most 300 us (by messages that"
        " both recorded); late +1.00 s, error unknown (by the hosts' wall clocks)."
    )


def test_a_recording_that_is_not_used_is_named() -> None:
    copied = replace(ONE, path="taps/copy", label="copy", channels_counted=0)
    assert "not used, other recordings have all of its channels: copy" in recording_lines(
        trace_of(ONE, copied)
    )
