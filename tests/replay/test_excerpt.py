"""The newest part of runs that are still being written, and what a watch says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flinknet.config import NetworkConfig
from flinknet.core.probe import TracePoint
from flinknet.errors import TraceFormatError
from flinknet.replay import watch
from flinknet.replay.watch import GrowingRun, watched
from flinknet.trace import (
    ProcessInfo,
    RunManifest,
    TraceReader,
    TraceWriter,
    file_index,
    open_run,
)
from flinknet.trace.run import whole_blocks
from tests.recorded_run import (
    CONSUME_NS,
    MS,
    RECORDS_PER_BUFFER,
    START_NS,
    TRANSIT_NS,
    event,
    rows_of,
    write_run,
)
from tests.tapped_run import exchange_of, write_tapped_exchange

SECOND = 1000 * MS


def written_until(run: Path, to_ns: int, directory: Path) -> Path:
    """The run as it was when each process had written its blocks up to an instant, and a part of
    the next one."""
    directory.mkdir(exist_ok=True)
    for file in run.glob("*.fnt"):
        ends = [each.to_byte for each in whole_blocks(file) if 0 < each.last_ns <= to_ns]
        (directory / file.name).write_bytes(file.read_bytes()[: ends[-1] + 11])
    manifest = RunManifest.load(run)
    replace(manifest, measured_from_ns=None, measured_to_ns=None).save(directory)
    return directory


def test_the_newest_part_is_a_run_of_its_own(tmp_path: Path) -> None:
    whole = write_run(tmp_path / "whole", period_ns=SECOND, block_events=8)
    path = written_until(whole, START_NS + 60 * SECOND, tmp_path / "run")
    run = GrowingRun(path)
    first = run.excerpt(tmp_path / "first", 20 * SECOND)
    assert first.to_ns - first.from_ns == 20 * SECOND
    opened = open_run(first.directory)
    assert opened.manifest is not None
    assert opened.manifest.measured_to_ns == first.to_ns
    for file in opened.files:
        with TraceReader(file) as reader:
            assert reader.is_whole
            blocks = reader.blocks()
        assert min(each.first_ns for each in blocks) > START_NS + 15 * SECOND
    written_until(whole, START_NS + 90 * SECOND, path)
    later = run.excerpt(tmp_path / "later", 20 * SECOND)
    assert later.to_ns > first.to_ns + 20 * SECOND
    assert not run.has_ended()


def test_of_a_part_with_very_many_events_the_newest_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_run(tmp_path / "run", period_ns=SECOND, block_events=8)
    whole = GrowingRun(path).excerpt(tmp_path / "whole", 60 * SECOND)
    (of_whole,), _ = watched("run", whole)
    events = sum(file_index(file).events for file in open_run(whole.directory).files)
    monkeypatch.setattr(watch, "EVENTS_MAX", events // 7)
    part = GrowingRun(path).excerpt(tmp_path / "part", 60 * SECOND)
    assert part.to_ns == whole.to_ns
    assert 5 * SECOND < part.to_ns - part.from_ns < 15 * SECOND
    assert sum(file_index(file).events for file in open_run(part.directory).files) < events // 2
    (edge,), _ = watched("run", part)
    assert edge.records_per_s == pytest.approx(of_whole.records_per_s, rel=0.15)
    assert (edge.verdict, edge.backlog_buffers.max) == ("buffer-timeout", 3)


def test_all_is_known_of_the_newest_part(tmp_path: Path) -> None:
    whole = write_run(tmp_path / "whole", period_ns=SECOND, block_events=8)
    path = written_until(whole, START_NS + 60 * SECOND, tmp_path / "run")
    part = GrowingRun(path).excerpt(tmp_path / "part", 20 * SECOND)
    life_ns = SECOND + TRANSIT_NS + CONSUME_NS
    last_ns = [max(each.last_ns for each in whole_blocks(file)) for file in path.glob("*.fnt")]
    assert part.to_ns <= min(last_ns) + 1 - life_ns
    (edge,), bottleneck = watched("run", part)
    assert edge.records == pytest.approx(2 * RECORDS_PER_BUFFER * 20, abs=2 * RECORDS_PER_BUFFER)
    assert edge.latency.until == "consumed"
    assert edge.latency.p50_min_ns == edge.latency.p50_max_ns
    assert edge.latency.p50_max_ns == pytest.approx(0.55 * SECOND, rel=0.1)
    assert edge.regimes is not None
    assert sum(edge.regimes.values()) == pytest.approx(1)
    assert edge.verdict == "buffer-timeout"
    assert edge.backlog_buffers.max == 3
    assert bottleneck


def test_a_process_that_writes_nothing_does_not_hold_the_end_back(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", period_ns=SECOND, block_events=8)
    with TraceWriter(path / "tm-2.fnt", ProcessInfo("tm-2", "tm-2.fnt", 3)) as writer:
        writer.write_events(rows_of([event(at_ns=START_NS, kind=0, point=TracePoint.SENT)]))
    part = GrowingRun(path).excerpt(tmp_path / "part", 20 * SECOND)
    assert part.to_ns > START_NS + 90 * SECOND


def test_a_file_that_a_ring_drops_is_left_out(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", period_ns=SECOND, block_events=8)
    run = GrowingRun(path)
    run.excerpt(tmp_path / "first", 20 * SECOND)
    (path / "tm-0.fnt").unlink()
    part = run.excerpt(tmp_path / "part", 20 * SECOND)
    assert [each.name for each in part.directory.glob("*.fnt")] == ["tm-1.fnt"]


def test_of_a_run_without_events_nothing_can_be_said(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", buffers=2)
    for file in path.glob("*.fnt"):
        file.write_bytes(b"")
    with pytest.raises(TraceFormatError, match="no event has been written yet"):
        GrowingRun(path).excerpt(tmp_path / "part", SECOND)


def test_between_processes_the_latency_has_an_upper_bound(tmp_path: Path) -> None:
    arrivals_ns = [np.arange(0, 400 * MS, 50_000) + each for each in (0, 7_000)]
    network = NetworkConfig(buffer_timeout_ns=5 * MS)
    path = write_tapped_exchange(
        tmp_path / "tap", exchange_of(arrivals_ns, network, duration_ns=400 * MS)
    )
    part = GrowingRun(path).excerpt(tmp_path / "part", 60 * SECOND)
    (edge,), _ = watched("tap", part)
    assert edge.latency.until == "recorded"
    assert edge.latency.p99_min_ns is None
    assert edge.latency.p99_max_ns is not None
    assert 5 * MS < edge.latency.p99_max_ns < 7 * MS
    assert edge.regimes is None
    assert edge.starved == 0
    assert edge.records == 16_000
