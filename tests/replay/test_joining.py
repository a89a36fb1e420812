"""Recordings of one job by taps on several hosts: which are one run, and what counts of each."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.replay.joining import Together
from flinknet.replay.read import RecordedRun, open_runs
from flinknet.replay.simulations import stamps_at
from flinknet.results import ClockRelation
from flinknet.results.recordings import ASSUMED, MESSAGES, SAME_CLOCK, WALL_CLOCKS
from flinknet.trace import ClockInfo, TraceReader
from flinknet.trace.recordings import Recording, open_recordings
from flinknet.trace.trace_file import ChannelRange
from tests.tapped_job import (
    MS,
    PERIOD_NS,
    SECOND,
    SOURCE,
    START_NS,
    Place,
    TappedChannel,
    write_tapped_job,
)

DAY_NS = 86_400_000_000_000
HOSTS = [ClockInfo(host_id=f"host-{number}") for number in range(3)]


def channel(producer: int, consumer: int = 0, vertex: str = SOURCE, **given: int) -> TappedChannel:
    """A channel whose receiver no other one has."""
    receiver = int(vertex[:4], 16) + 16 * producer + consumer
    return TappedChannel(vertex, producer, consumer, buffers=40, receiver=receiver, **given)


def taps(directory: Path, *channels: list[TappedChannel], **given: Place) -> Path:
    """A recording for each list, by taps on hosts of their own."""
    for number, own in enumerate(channels):
        name = f"tap-{number}"
        place = given.get(name.replace("-", "_"), Place(HOSTS[number % 3]))
        write_tapped_job(directory / name, own, place)
    return directory


def events_of(run: RecordedRun) -> dict[int, list[int]]:
    """The instants of the events of each channel, since the run began."""
    found: dict[int, list[int]] = {}
    for file in open_recordings(run.place).files:
        with TraceReader(file) as reader:
            for block in reader.events(("at_ns", "channel")):
                for at_ns, number in zip(block["at_ns"], block["channel"], strict=True):
                    found.setdefault(int(number), []).append(int(at_ns) - run.from_ns)
            held = {each for entry in reader.blocks() for each in entry.channels["channel"]}
            assert held <= found.keys()
    return found


def test_recordings_of_one_execution_are_one_run(tmp_path: Path) -> None:
    taps(tmp_path, [channel(0), channel(0, 1)], [channel(1), channel(1, 1)])
    (run,) = open_runs([tmp_path])
    assert [each.index for each in run.manifest.channels] == [0, 1, 2, 3]
    assert [each.producer for each in run.manifest.channels] == [0, 0, 1, 1]
    assert {len(each) for each in events_of(run).values()} == {81}
    assert [each.label for each in run.described] == ["tap-0", "tap-1"]
    assert [each.producer_process for each in run.manifest.channels][1:3] == ["tap-0/a", "tap-1/a"]
    assert run.path == tmp_path


def test_recordings_of_other_executions_are_runs_of_their_own(tmp_path: Path) -> None:
    taps(tmp_path, [channel(0, graph=1)], [channel(1, graph=2)])
    assert [run.path.name for run in open_runs([tmp_path])] == ["tap-0", "tap-1"]


def test_which_recordings_are_one_run_can_be_said(tmp_path: Path) -> None:
    taps(tmp_path / "same", [channel(0)], [channel(1)])
    assert len(open_runs([tmp_path / "same"], together=Together.EACH)) == 2
    taps(tmp_path / "other", [channel(0, from_buffer=1)], [channel(1, from_buffer=1)])
    assert len(open_runs([tmp_path / "other"])) == 2
    (run,) = open_runs([tmp_path / "other"], together=Together.ONE)
    assert len(run.manifest.channels) == 2


def test_edges_are_those_of_the_data_sets_whatever_each_tap_calls_them(tmp_path: Path) -> None:
    second = channel(0, vertex=SECOND)
    taps(tmp_path, [channel(0), second], [channel(1, vertex=SECOND), channel(1)])
    first, other = open_runs([tmp_path])
    assert [each.index for each in first.manifest.channels] == [0, 3]
    assert [each.index for each in other.manifest.channels] == [1, 2]


def test_a_channel_that_two_taps_saw_counts_once_and_relates_their_clocks(tmp_path: Path) -> None:
    far = Place(HOSTS[1], ahead_ns=DAY_NS, way_ns=MS)
    taps(tmp_path, [channel(0), channel(1)], [channel(2), channel(1)], tap_1=far)
    (run,) = open_runs([tmp_path])
    assert [each.producer for each in run.manifest.channels] == [0, 1, 2]
    found = events_of(run)
    assert {number: len(each) for number, each in found.items()} == {0: 81, 1: 81, 2: 81}
    assert min(found[2]) - min(found[0]) == pytest.approx(0, abs=2 * MS)
    first, second = run.described
    assert (first.channels_counted, second.channels, second.channels_counted) == (2, 2, 1)
    assert second.clock == ClockRelation(MESSAGES, -DAY_NS, MS)
    assert first.clock == ClockRelation(SAME_CLOCK, 0, 0)


def test_the_error_between_two_clocks_includes_their_drift(tmp_path: Path) -> None:
    far = Place(HOSTS[1], ahead_ns=DAY_NS, way_ns=50_000, drift=50e-6)
    taps(tmp_path, [channel(0), channel(1)], [channel(2), channel(1)], tap_1=far)
    clock = open_runs([tmp_path])[0].described[1].clock
    for since_ns in (0, 40 * PERIOD_NS):
        ahead_ns = DAY_NS + since_ns * far.drift
        assert abs(-clock.offset_ns - ahead_ns) <= clock.error_ns < 200_000


def test_of_two_recordings_of_a_channel_the_one_that_has_more_counts(tmp_path: Path) -> None:
    part = TappedChannel(SOURCE, 0, 0, buffers=25, receiver=channel(0).receiver)
    taps(tmp_path, [part, channel(1)], [channel(0), channel(2)])
    (run,) = open_runs([tmp_path])
    assert {len(each) for each in events_of(run).values()} == {81}
    assert [each.channels_counted for each in run.described] == [1, 2]


def test_a_recording_of_which_others_have_all_is_not_read(tmp_path: Path) -> None:
    taps(tmp_path, [channel(0)], [channel(1)])
    shutil.copytree(tmp_path / "tap-0", tmp_path / "tap-2")
    (run,) = open_runs([tmp_path])
    assert len(run.files) == 2
    assert [each.channels_counted for each in run.described] == [1, 1, 0]


def test_captures_that_were_rotated_are_parts_of_the_same_channels(tmp_path: Path) -> None:
    place = Place(ClockInfo("CLOCK_REALTIME"))
    first = TappedChannel(SOURCE, 0, 0, buffers=20, receiver=7)
    rest = TappedChannel(SOURCE, 0, 0, buffers=40, receiver=7, from_buffer=20)
    taps(tmp_path, [first], [rest, channel(1, from_buffer=20)], tap_0=place, tap_1=place)
    (run,) = open_runs([tmp_path])
    found = events_of(run)
    assert {number: len(each) for number, each in found.items()} == {0: 81, 1: 40}
    assert [each.index for each in run.manifest.channels] == [0, 1]
    assert run.duration_ns == 40 * PERIOD_NS


def test_runs_of_one_host_that_follow_each_other_are_repeats(tmp_path: Path) -> None:
    places = [Place(HOSTS[0]), Place(HOSTS[0], ahead_ns=20_000 * MS)]
    own = [channel(0), channel(1)]
    taps(tmp_path, own, own, tap_0=places[0], tap_1=places[1])
    assert len(open_runs([tmp_path])) == 2
    taps(tmp_path / "at-once", [channel(0)], [channel(1)], tap_0=places[0], tap_1=places[0])
    (run,) = open_runs([tmp_path / "at-once"])
    assert {each.clock for each in run.described} == {ClockRelation(SAME_CLOCK, 0, 0)}


def test_without_a_common_message_wall_clocks_relate_two_clocks(tmp_path: Path) -> None:
    known = [
        Place(ClockInfo(host_id="a", epoch_ns=-1_000 * DAY_NS)),
        Place(ClockInfo(host_id="b", epoch_ns=-999 * DAY_NS), ahead_ns=DAY_NS),
    ]
    taps(tmp_path / "wall", [channel(0)], [channel(1)], tap_0=known[0], tap_1=known[1])
    (run,) = open_runs([tmp_path / "wall"])
    assert run.described[1].clock == ClockRelation(WALL_CLOCKS, -DAY_NS, None)
    assert run.described[1].from_ns == 0
    ahead = Place(HOSTS[1], ahead_ns=5 * DAY_NS)
    taps(tmp_path / "assumed", [channel(0)], [channel(1)], tap_1=ahead)
    (run,) = open_runs([tmp_path / "assumed"])
    assert run.described[1].clock == ClockRelation(ASSUMED, -5 * DAY_NS, None)
    assert run.from_ns == START_NS


@pytest.mark.parametrize("names", [("tap-0",), ("tap-0", "tap-1")])
def test_recordings_that_are_written_again_are_opened_again(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    found = []
    for consumers in (1, 2):
        shutil.rmtree(tmp_path / "taps", ignore_errors=True)
        taps(tmp_path / "taps", *([channel(p, c) for c in range(consumers)] for p in range(2)))
        place = tuple(
            Recording(str(tmp_path / "taps" / name), channels=[ChannelRange(0, 2, 2 * number)])
            for number, name in enumerate(names)
        )
        place = place if len(place) > 1 else (replace(place[0], channels=[]),)
        place = tuple(replace(each, edges=[0]) for each in place)
        stamps_at(place)
        manifest = open_recordings(place).manifest
        found.append(len(manifest.channels))
    assert found == [len(names), 2 * len(names)]
