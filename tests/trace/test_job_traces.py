"""JobTraces: one recorder, a trace for each job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from flinknet.errors import TraceError
from flinknet.trace import ProcessInfo, TraceReader, TraceRecorder, TraceWriter
from flinknet.trace.blocks import NO_TIMES, ORDER, Rows
from flinknet.trace.recorder import JobTrace, JobTraces


class Jobs:
    """Jobs whose events one recorder takes."""

    def __init__(self, directory: Path, *, block_events: int = 64) -> None:
        self.directory = directory
        self.traces = JobTraces()
        self.recorder = TraceRecorder(self.traces, block_events=block_events)
        self.at_ns = 0

    def open(self, name: str, *channels: int) -> JobTrace:
        writer = TraceWriter(self.directory / name, ProcessInfo("tm-0", name, 1))
        trace = self.traces.open(writer)
        self.traces.claim(trace, channels)
        return trace

    def record(self, *channels: int) -> None:
        for channel in channels:
            self.at_ns += 1
            self.recorder.record(self.at_ns, channel, 0, 0, 1, 1, 0, 5, 1, 7, 7, 3, 1, 0, 2, 3, -1)

    def close(self, trace: JobTrace) -> None:
        self.recorder.flush()
        self.traces.close_one(trace)

    def read(self, name: str) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        with TraceReader(self.directory / name) as reader:
            for block in reader.events(("at_ns", "channel", ORDER)):
                order = np.argsort(block[ORDER])
                instants, channels = block["at_ns"][order], block["channel"][order]
                found += zip(instants.tolist(), channels.tolist(), strict=True)
        return found


@pytest.mark.parametrize("block_events", [1, 3, 64])
def test_each_job_has_the_events_of_its_channels(tmp_path: Path, block_events: int) -> None:
    jobs = Jobs(tmp_path, block_events=block_events)
    one = jobs.open("one", 0, 1)
    jobs.record(0, 1, 0)
    two = jobs.open("two", 5, 3)
    jobs.record(3, 0, 5, 1)
    jobs.close(one)
    jobs.record(3, 0)
    jobs.close(two)
    assert jobs.read("one") == [(1, 0), (2, 1), (3, 0), (5, 0), (7, 1)]
    assert jobs.read("two") == [(4, 3), (6, 5), (8, 3)]
    assert one.statistics.channel_buffers.tolist() == [3, 2]
    assert two.statistics.channel_buffers.tolist() == [0, 0, 0, 2, 0, 1]


def test_events_of_no_channel_are_in_every_trace_that_is_open(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    one, two = jobs.open("one", 0), jobs.open("two", 1)
    jobs.record(-1, 7, 0)
    jobs.close(one)
    jobs.record(-1)
    jobs.close(two)
    assert jobs.read("one") == [(1, -1), (3, 0)]
    assert jobs.read("two") == [(1, -1), (4, -1)]


def test_a_job_that_ends_while_a_block_is_written_loses_nothing(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, block_events=64)
    one = jobs.open("one", 0)
    jobs.record(*[0] * 50)
    jobs.recorder.begin_flush()
    assert jobs.recorder.step()
    two = jobs.open("two", 1)
    jobs.record(1, 0)
    jobs.close(one)
    jobs.recorder.close()
    assert len(jobs.read("one")) == 51
    assert jobs.read("two") == [(51, 1)]
    assert two.statistics.channel_buffers.tolist() == [0, 1]


class Full:
    """A writer on a disk that is full."""

    def events_in_steps(self, rows: Rows, times: Rows = NO_TIMES) -> Iterator[None]:
        raise TraceError("no space left")
        yield

    def close(self, *, dropped_events: int = 0) -> None:
        """Nothing to end."""


def test_a_trace_that_cannot_be_written_costs_the_other_nothing(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    one, two = jobs.traces.open(Full()), jobs.open("two", 1)
    jobs.traces.claim(one, [0])
    jobs.record(0, 1, 0)
    with pytest.raises(TraceError, match=r"no space left \(2 events were lost\)"):
        jobs.close(one)
    jobs.close(two)
    assert jobs.read("two") == [(2, 1)]
