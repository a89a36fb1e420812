"""TraceRecorder: every event reaches the file, in order; what cannot be written is counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flinknet.core.probe import Probe
from flinknet.core.wire.records import NO_TIME, SAMPLES
from flinknet.trace import ProcessInfo, TraceReader, TraceRecorder, TraceWriter
from flinknet.trace.blocks import ORDER
from flinknet.trace.format import FORMAT_VERSION, WITHOUT_TIMES
from flinknet.trace.schema import COLUMN_NAMES, TIME_NAMES, TIMESTAMPS

PROCESS = ProcessInfo("tm-0", "tm-0.fnt", 100)
RANDOM = np.random.default_rng(3)


def record(probe: Probe, number: int) -> None:
    noise = int(RANDOM.integers(1 << 62))
    probe.record(number, number % 3, 0, 0, 1, 1, number, 5, 1, noise, noise, 0, 1, 0, 2, 3, -1)


def recorded(path: Path) -> list[int]:
    """The instants in the file, in the order of recording."""
    instants: list[int] = []
    with TraceReader(path) as reader:
        for block in reader.events(("at_ns", ORDER)):
            instants += block["at_ns"][np.argsort(block[ORDER])].tolist()
    return instants


@pytest.mark.parametrize("block_events", [1, 2, 31, 32, 33, 64, 1000])
@pytest.mark.parametrize("events", [0, 1, 63, 64, 65, 200])
def test_every_event_reaches_the_file_in_order(
    tmp_path: Path, block_events: int, events: int
) -> None:
    path = tmp_path / "tm-0.fnt"
    recorder = TraceRecorder(TraceWriter(path, PROCESS), block_events=block_events)
    for number in range(events):
        record(recorder, number)
    recorder.close()
    assert recorded(path) == list(range(events))


def test_a_column_keeps_its_place_from_the_call_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tm-0.fnt"
    recorder = TraceRecorder(TraceWriter(path, PROCESS))
    recorder.record(*range(1, len(COLUMN_NAMES) + 1))
    recorder.close()
    with TraceReader(path) as reader:
        (block,) = reader.events()
    assert {name: values.tolist() for name, values in block.items()} == {
        name: [position] for position, name in enumerate(COLUMN_NAMES, start=1)
    }


def test_flush_makes_everything_readable_while_recording_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "tm-0.fnt"
    recorder = TraceRecorder(TraceWriter(path, PROCESS), block_events=32)
    for number in range(40):
        record(recorder, number)
    recorder.flush()
    assert recorder.pending_events == 0
    assert recorded(path) == list(range(40))
    for number in range(40, 100):
        record(recorder, number)
    recorder.close()
    assert recorded(path) == list(range(100))


def test_a_flush_goes_on_step_by_step_while_recording_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "tm-0.fnt"
    recorder = TraceRecorder(TraceWriter(path, PROCESS))
    assert not recorder.step()
    for number in range(40):
        record(recorder, number)
    recorder.begin_flush()
    number = 40
    while recorder.step():
        record(recorder, number)
        number += 1
    assert recorded(path) == list(range(40))
    assert recorder.pending_events == number - 40
    recorder.close()
    assert recorded(path) == list(range(number))


def test_a_flush_comes_behind_the_block_before(tmp_path: Path) -> None:
    path = tmp_path / "tm-0.fnt"
    recorder = TraceRecorder(TraceWriter(path, PROCESS), block_events=64)
    for number in range(70):
        record(recorder, number)
    recorder.begin_flush()
    while recorder.step():
        pass
    assert recorded(path) == list(range(70))
    assert recorder.pending_events == 0
    recorder.close()
    assert recorded(path) == list(range(70))


def test_while_one_block_fills_the_one_before_is_written(tmp_path: Path) -> None:
    recorder = TraceRecorder(TraceWriter(tmp_path / "tm-0.fnt", PROCESS), block_events=640)
    for number in range(640):
        record(recorder, number)
    assert recorder.pending_events == 640
    for number in range(640 - 1):
        record(recorder, number)
    assert recorder.pending_events == 640 - 1
    recorder.close()


def test_what_is_recorded_after_the_end_is_left_out(tmp_path: Path) -> None:
    recorder = TraceRecorder(TraceWriter(tmp_path / "tm-0.fnt", PROCESS), block_events=2)
    record(recorder, 1)
    recorder.close()
    for number in range(2, 9):
        record(recorder, number)
    recorder.flush()
    recorder.close()
    assert recorded(tmp_path / "tm-0.fnt") == [1]


def test_times_stay_with_their_event_and_a_block_without_any_has_no_column(tmp_path: Path) -> None:
    """Times of every third event, over several blocks, one of them without any."""
    path = tmp_path / "tm-0.fnt"
    recorder = TraceRecorder(TraceWriter(path, PROCESS), block_events=32)
    expected = {}
    for number in range(100):
        if number % 3 == 1 and not 32 <= number < 64:
            sample = [number << 40, (number << 40) - 5, -(1 << 62)]
            expected[number] = [number, NO_TIME, *sample, *[NO_TIME] * (SAMPLES - 3)]
            recorder.note_times(tuple(expected[number]))
        record(recorder, number)
    recorder.close()
    found = {}
    with TraceReader(path) as reader:
        held = [TIMESTAMPS[0] in reader.stored_columns(each) for each in range(4)]
        assert held == [True, False, True, True]
        assert "marker_ms" not in reader.stored_columns(0)
        for block in reader.events(("at_ns", *TIME_NAMES)):
            for at_ns, *times in zip(*(each.tolist() for each in block.values()), strict=True):
                first = times[2]
                rest = [each if each == NO_TIME else each + first for each in times[3:]]
                if any(each != NO_TIME for each in times):
                    found[at_ns] = [*times[:3], *rest]
    assert found == expected


def test_a_sample_wider_than_a_difference_loses_the_record_alone(tmp_path: Path) -> None:
    """Minus 2**63 means that there is no time, so that no difference of two instants may be it."""
    recorder = TraceRecorder(TraceWriter(tmp_path / "tm-0.fnt", PROCESS))
    recorder.note_times((NO_TIME, NO_TIME, 1 << 62, -(1 << 62), *[NO_TIME] * (SAMPLES - 2)))
    record(recorder, 0)
    recorder.close()
    with TraceReader(tmp_path / "tm-0.fnt") as reader:
        (block,) = reader.events(TIMESTAMPS)
    assert [block[name].tolist() for name in TIMESTAMPS[:2]] == [[1 << 62], [NO_TIME]]


def test_only_a_file_with_times_is_of_the_newer_version(tmp_path: Path) -> None:
    path, copy = tmp_path / "tm-0.fnt", tmp_path / "copy.fnt"
    recorder = TraceRecorder(TraceWriter(path, PROCESS))
    versions = []
    for times in (None, (900, *[NO_TIME] * (SAMPLES + 1))):
        if times is not None:
            recorder.note_times(times)
        record(recorder, len(versions))
        recorder.flush()
        versions.append(path.read_bytes()[8])
    recorder.close()
    assert versions == [WITHOUT_TIMES, FORMAT_VERSION]
    with TraceReader(path) as reader, TraceWriter(copy, PROCESS) as writer:
        for entry, version in zip(reader.blocks(), versions, strict=True):
            writer.copy_block(path.read_bytes()[entry.offset :][: entry.length_bytes])
            assert copy.read_bytes()[8] == version
    assert recorded(copy) == recorded(path) == [0, 1]
