"""What is sent again of a trace that was recorded between processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flinknet.arrays import RecordedLoad
from flinknet.config import NetworkConfig
from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import FlushReason, MessageKind, TracePoint
from flinknet.errors import ConfigError
from flinknet.options import effective_flink_keys
from flinknet.replay.rerun import notes_of, open_to_repeat, save_records, scenario_of
from flinknet.trace import RunManifest
from tests.recorded_run import MS, START_NS, event
from tests.tapped_run import save_tapped

TIMEOUT_NS = 10 * MS
Buffer = tuple[int, int, int]
"""Channel, records, bytes; one of each channel leaves at each beat."""


def tapped(directory: Path, beats: Sequence[Sequence[Buffer]]) -> Path:
    rows, numbers = [], {0: 0, 1: 0}
    for beat, buffers in enumerate(beats, start=1):
        for channel, records, payload_bytes in buffers:
            rows.append(
                event(
                    at_ns=START_NS + beat * TIMEOUT_NS,
                    channel=channel,
                    point=TracePoint.SENT,
                    kind=MessageKind.BUFFER_RESPONSE,
                    data_type=DataType.DATA_BUFFER,
                    reason=FlushReason.FLUSH,
                    sequence_number=numbers[channel],
                    payload_bytes=payload_bytes,
                    records=records,
                    backlog_buffers=0,
                    credit_after=5,
                )
            )
            numbers[channel] += 1
    keys = effective_flink_keys(NetworkConfig(buffer_timeout_ns=TIMEOUT_NS))
    to_ns = START_NS + len(beats) * TIMEOUT_NS + 1
    return save_tapped(directory, rows, to_ns=to_ns, keys=keys)


def sent_again(path: Path, directory: Path) -> RecordedLoad:
    run = open_to_repeat(path, None)
    law = save_records(run, scenario_of(run), directory)
    return RecordedLoad.load(law, 0, start_ns=0, measured_from_ns=START_NS)


def test_records_keep_their_channels_and_come_before_their_buffers_left(tmp_path: Path) -> None:
    beats = [[(0, 3, 315), (1, 1, 105)]] * 50
    path = tapped(tmp_path / "tap", beats)
    run = open_to_repeat(path, None)
    workload = scenario_of(run).workload
    assert (workload.producers, workload.consumers) == (1, 2)
    assert (workload.record_size.low_bytes, workload.record_size.is_constant) == (100, True)
    assert workload.rate_per_s == pytest.approx(400, rel=0.01)
    load = sent_again(path, tmp_path / "records")
    assert load.value_bytes is None
    beat = -(-(load.instants_ns - START_NS) // TIMEOUT_NS)
    for channel, records in ((0, 3), (1, 1)):
        counts = np.bincount(beat[load.subpartitions == channel], minlength=51)
        assert counts[1:51].tolist() == [records] * 50
    assert any("100 bytes" in note for note in notes_of(run, scenario_of(run)))
    assert "and not your Flink" in notes_of(run, scenario_of(run))[0]


def test_sizes_that_differ_are_the_means_of_buffers(tmp_path: Path) -> None:
    """A record of flinknet has 8 bytes at least; those of the job may have fewer."""
    beats = [[(0, 2, 2 * 6), (1, 4, 400)], [(0, 2, 600), (1, 4, 40)]] * 25
    path = tapped(tmp_path / "tap", beats)
    run = open_to_repeat(path, None)
    size = scenario_of(run).workload.record_size
    assert (size.low_bytes, size.high_bytes, size.is_constant) == (8, 295, False)
    load = sent_again(path, tmp_path / "records")
    beat = -(-(load.instants_ns - START_NS) // TIMEOUT_NS)
    for channel, odd, even in ((0, 8, 295), (1, 95, 8)):
        own = load.subpartitions == channel
        assert set(load.value_bytes[own & (beat % 2 == 1)].tolist()) == {odd}
        assert set(load.value_bytes[own & (beat % 2 == 0)].tolist()) == {even}
    assert any("mean of the records" in note for note in notes_of(run, scenario_of(run)))


def test_of_several_exchanges_one_must_be_chosen(tmp_path: Path) -> None:
    path = tapped(tmp_path / "tap", [[(0, 3, 315), (1, 1, 105)]] * 50)
    manifest = RunManifest.load(path)
    channels = [replace(each, edge=each.index) for each in manifest.channels]
    replace(manifest, channels=tuple(channels)).save(path)
    with pytest.raises(ConfigError, match=r"several exchanges; choose one of 1 .*; 2 "):
        open_to_repeat(path, None)
    with pytest.raises(ConfigError, match="no edge 7"):
        open_to_repeat(path, 7)
    assert scenario_of(open_to_repeat(path, 1)).workload.rate_per_s == pytest.approx(300, rel=0.01)
