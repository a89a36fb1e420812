"""LatencySink against a plain model: each record on its own, in a loop."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.config import RecordSize
from flinknet.core.consumer import RecordReader
from flinknet.histogram import LogLinearHistogram
from flinknet.job.load.arrivals import DrawnSizes
from flinknet.job.load.payload import RecordFactory, serialize_mixed
from flinknet.job.load.sink import KEPT_STAMPS, Disorder, LatencySink

EPOCH_NS = 5_000_000


@dataclass
class PlainSink:
    """What the sink must come to: the same rules for one record at a time."""

    delay_ns: int
    is_open_loop: bool
    from_ns: int = 0
    to_ns: int | None = None
    records: int = 0
    measured_records: int = 0
    measured_bytes: int = 0
    last_measured_ns: int = 0
    latencies: list[int] = field(default_factory=list)
    uncorrected: list[int] = field(default_factory=list)

    def receive(self, value: bytes, begun_ns: int) -> int:
        instant = (int.from_bytes(value[:8], "big") & ((1 << 44) - 1)) + EPOCH_NS
        done_ns = begun_ns + self.delay_ns
        self.records += 1
        if instant >= self.from_ns and (self.to_ns is None or instant < self.to_ns):
            self.measured_records += 1
            self.measured_bytes += len(value)
            self.last_measured_ns = done_ns
            self.latencies.append(done_ns - instant)
            if self.is_open_loop and len(value) >= 16:
                lateness = int.from_bytes(value[8:16], "big", signed=True)
                self.uncorrected.append(done_ns - instant - lateness)
        return done_ns


def histogram_of(values: list[int]) -> bytes:
    histogram = LogLinearHistogram()
    histogram.add(np.array(values, np.int64))
    return histogram.to_bytes()


@st.composite
def batches(draw: st.DrawFn) -> list[tuple[int, list[int], int]]:
    """(now, instants, emitted): ascending intended instants, emitted and read in this order."""
    found = []
    now = emitted = EPOCH_NS
    for _ in range(draw(st.integers(1, 6))):
        gaps = draw(st.lists(st.integers(0, 3000), min_size=1, max_size=12))
        instants = []
        for gap in gaps:
            now += gap
            instants.append(now)
        emitted = max(emitted, now + draw(st.integers(0, 5000)))
        found.append((emitted + draw(st.integers(0, 10**6)), instants, emitted))
    return found


@given(
    batches(),
    st.sampled_from([(8, 8), (20, 20), (100, 100), (16, 40), (8, 14), (8, 30)]),
    st.sampled_from([0, 700]),
    st.booleans(),
    st.tuples(st.integers(0, 30_000), st.none() | st.integers(0, 60_000)),
    st.sampled_from([37, 64, 4096]),
)
def test_every_figure_is_that_of_the_plain_model(
    written: list[tuple[int, list[int], int]],
    sizes: tuple[int, int],
    delay_ns: int,
    is_open_loop: bool,
    window: tuple[int, int | None],
    buffer_bytes: int,
) -> None:
    size = RecordSize(*sizes)
    sink = LatencySink(epoch_ns=EPOCH_NS, delay_ns_per_record=delay_ns, is_open_loop=is_open_loop)
    plain = PlainSink(delay_ns, is_open_loop)
    sink.measured_from_ns = plain.from_ns = EPOCH_NS + window[0]
    if window[1] is not None:
        sink.measured_to_ns = plain.to_ns = EPOCH_NS + window[1]
    reader = RecordReader()
    fixed, drawn = RecordFactory(size.low_bytes, 12), DrawnSizes(size, 3)
    number = 0
    for now_ns, instants, emitted in written:
        if not is_open_loop:
            instants = [emitted] * len(instants)
        since = np.array(instants, np.int64) - EPOCH_NS
        if not size.is_constant:
            data, _ = serialize_mixed(number, drawn.take(len(since)), since, emitted - EPOCH_NS)
        elif is_open_loop:
            data = fixed.serialize(number, since, len(since), emitted - EPOCH_NS)
        else:
            data = fixed.serialize(number, emitted - EPOCH_NS, len(since), emitted - EPOCH_NS)
        number += len(instants)
        for start in range(0, len(data), buffer_bytes):
            runs = reader.read(memoryview(bytes(data[start : start + buffer_bytes])))
            if not runs:
                continue
            first, done_ns = None, now_ns
            for memory, offset, count, record_bytes in runs:
                for index in range(count):
                    at = offset + index * record_bytes + 5
                    value = bytes(memory[at : at + record_bytes - 5])
                    done_ns = plain.receive(value, done_ns)
                    instant = (int.from_bytes(value[:8], "big") & ((1 << 44) - 1)) + EPOCH_NS
                    first = instant if first is None else first
            assert sink.receive(runs, now_ns=now_ns) == done_ns
            assert (sink.first_record_ns, sink.last_record_ns) == (first, instant)
    sink.settle()
    assert sink.disorder == Disorder()
    assert (sink.records, sink.measured_records, sink.measured_bytes) == (
        plain.records,
        plain.measured_records,
        plain.measured_bytes,
    )
    if plain.measured_records:
        assert sink.last_measured_ns == plain.last_measured_ns
    assert sink.latency.to_bytes() == histogram_of(plain.latencies)
    assert sink.uncorrected.to_bytes() == histogram_of(plain.uncorrected)


# What is wrong with a stream


def disorder_of(
    numbers: list[int], *, at_once: int, is_open_loop: bool = True
) -> tuple[Disorder, int]:
    """What the sink finds when it gets these records, so many in a run."""
    sink = LatencySink(epoch_ns=0, is_open_loop=is_open_loop)
    factory = RecordFactory(8, 1)
    records = [bytes(factory.serialize(each, at, 1, 0)) for at, each in enumerate(numbers)]
    for start in range(0, len(records), at_once):
        data = b"".join(records[start : start + at_once])
        sink.receive([(memoryview(data), 0, len(data) // 13, 13)], now_ns=100)
        if start % 3 == 0:
            sink.settle()
    sink.settle()
    return sink.disorder, sink.records


@pytest.mark.parametrize("is_open_loop", [True, False])
@pytest.mark.parametrize("at_once", [1, 2, 5, 100])
@pytest.mark.parametrize(
    ("numbers", "disorder"),
    [
        ([0, 1, 2, 3, 4, 5], Disorder()),
        ([0, 1, 3, 4], Disorder(lost=1)),
        ([2, 3], Disorder(lost=2)),
        ([0, 1, 2, 7, 8, 10], Disorder(lost=5)),
        ([0, 1, 1, 2], Disorder(repeated=1)),
        ([0, 1, 2, 2, 2, 3], Disorder(repeated=2)),
        ([0, 1, 2, 3, 0, 4], Disorder(reordered=1)),
        ([0, 2, 1, 3], Disorder(lost=1, reordered=0, repeated=0)),
    ],
    ids=str,
)
def test_loss_repetition_and_disorder_are_counted(
    numbers: list[int], disorder: Disorder, at_once: int, is_open_loop: bool
) -> None:
    found, records = disorder_of(numbers, at_once=at_once, is_open_loop=is_open_loop)
    if numbers == [0, 2, 1, 3]:
        assert (found.lost, found.repeated + found.reordered) == (1, 1)
    else:
        assert found == disorder
    assert records == numbers[-1] + 1


@settings(max_examples=25)
@given(st.integers(0, 2 * KEPT_STAMPS), st.sampled_from(["lose", "repeat", "swap"]), st.data())
def test_one_fault_is_seen_wherever_it_lies(position: int, fault: str, data: st.DataObject) -> None:
    total = 2 * KEPT_STAMPS + 100
    factory = RecordFactory(8, total)
    instants = np.zeros(total, np.int64)
    whole = bytes(factory.serialize(0, instants, total, 0))
    records = np.frombuffer(whole, np.uint8).reshape(total, 13)
    if fault == "lose":
        broken = np.delete(records, position, axis=0)
    elif fault == "repeat":
        broken = np.insert(records, position, records[position], axis=0)
    else:
        broken = records.copy()
        broken[[position, position + 1]] = broken[[position + 1, position]]
    stream = memoryview(broken.tobytes())
    sink = LatencySink(epoch_ns=0)
    reader = RecordReader()
    buffer_bytes = data.draw(st.sampled_from([32 * 1024, 1000, 70_001]))
    for start in range(0, len(stream), buffer_bytes):
        sink.receive(reader.read(stream[start : start + buffer_bytes]), now_ns=1)
    sink.settle()
    found = sink.disorder
    if fault == "lose":
        assert found == Disorder(lost=1)
    elif fault == "repeat":
        assert found == Disorder(repeated=1)
    else:
        assert (found.lost, found.repeated + found.reordered) == (1, 1)
    assert sink.records == total


def test_the_numbers_may_wrap_in_the_middle_of_a_run() -> None:
    total = (1 << 20) + 50
    factory = RecordFactory(8, 4096)
    sink = LatencySink(epoch_ns=0, is_open_loop=False)
    for first in range(0, total, 4096):
        count = min(4096, total - first)
        data = factory.serialize(first, 7, count, 7)
        sink.receive([(data, 0, count, 13)], now_ns=9)
    sink.settle()
    assert sink.disorder == Disorder()
    assert (sink.records, sink.measured_records) == (total, total)


@pytest.mark.parametrize("is_open_loop", [True, False])
@pytest.mark.parametrize("delay_ns", [0, 3])
def test_a_buffer_in_parts_tells_of_its_first_and_last_record(
    is_open_loop: bool, delay_ns: int
) -> None:
    total = 2 * KEPT_STAMPS + 5
    instants = np.arange(total, dtype=np.int64)
    data = RecordFactory(20, total).serialize(0, instants, total, total)
    sink = LatencySink(epoch_ns=10, delay_ns_per_record=delay_ns, is_open_loop=is_open_loop)
    runs = [(data, 0, total - 7, 25), (data, 25 * (total - 7), 7, 25)]
    assert sink.receive(runs, now_ns=total) == total + delay_ns * total
    assert sink.received_records == total
    assert (sink.first_record_ns, sink.last_record_ns) == (10, 10 + total - 1)
    sink.settle()
    assert (sink.measured_records, sink.measured_bytes) == (total, 20 * total)
    expected = [total + delay_ns * (index + 1) - index - 10 for index in range(total)]
    assert sink.latency.to_bytes() == histogram_of(expected)
    if is_open_loop:
        uncorrected = [each - total + index for index, each in enumerate(expected)]
        assert sink.uncorrected.to_bytes() == histogram_of(uncorrected)


def test_bytes_are_those_of_the_measured_records_where_sizes_change() -> None:
    numbers = iter(range(100))
    sink = LatencySink(epoch_ns=0, is_open_loop=False)
    sink.measured_from_ns, sink.measured_to_ns = 2, 6
    for instant, value_bytes in enumerate([8, 8, 20, 20, 9, 30, 8]):
        data = RecordFactory(value_bytes, 1).serialize(next(numbers), instant, 1, instant)
        sink.receive([(data, 0, 1, value_bytes + 5)], now_ns=50)
    sink.settle()
    assert sink.disorder == Disorder()
    assert (sink.measured_records, sink.measured_bytes) == (4, 20 + 20 + 9 + 30)
    assert sink.latency.to_bytes() == histogram_of([48, 47, 46, 45])


def test_no_runs_are_nothing() -> None:
    sink = LatencySink(epoch_ns=0)
    assert sink.receive([], now_ns=8) == 8
    assert (sink.first_record_ns, sink.last_record_ns) == (-1, -1)


@pytest.mark.parametrize("is_open_loop", [True, False])
@pytest.mark.parametrize("before", [0, 5, KEPT_STAMPS // 2 - 1, KEPT_STAMPS // 2])
@pytest.mark.parametrize(
    "records", [1, KEPT_STAMPS // 2, KEPT_STAMPS // 2 + 1, 12_000, KEPT_STAMPS]
)
def test_what_each_buffer_carried_is_told_of_runs_of_any_length(
    is_open_loop: bool, before: int, records: int
) -> None:
    sink = LatencySink(epoch_ns=EPOCH_NS, is_open_loop=is_open_loop)
    factory = RecordFactory(8, KEPT_STAMPS)

    def receive(first: int, count: int) -> None:
        since = np.arange(first, first + count) if is_open_loop else first
        data = factory.serialize(first, since, count, first + count)
        sink.receive(RecordReader().read(memoryview(bytes(data))), now_ns=EPOCH_NS + 10**9)

    if before:
        receive(0, before)
    receive(before, records)
    half = records // 2
    told = sink.carried([half, half, records])
    since = np.arange(before, before + records) if is_open_loop else np.full(records, before)
    instants = since + EPOCH_NS
    first_half = (half, int(instants[0]), int(instants[half - 1])) if half else (0, -1, -1)
    rest = (records - half, int(instants[half]), int(instants[-1]))
    assert told == [first_half, (0, -1, -1), rest]
    sink.settle()
    assert sink.measured_records == before + records
    assert sink.disorder == Disorder()
