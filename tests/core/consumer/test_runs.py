"""A run of buffers is handled as its buffers would be one by one, in all that can be seen."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.core.buffers import DataType, NetworkBuffer
from flinknet.core.consumer import ConsumerConnection, SingleInputGate, UnionInputGate
from flinknet.core.wire.layout import next_sequence_number
from flinknet.core.wire.messages import AddCredit, BacklogAnnouncement, BufferResponse, Message
from flinknet.errors import FlinknetError
from tests.pair import Consumer
from tests.probes import ListProbe

SEGMENT_BYTES = 100
DATA, BARRIER = DataType.DATA_BUFFER, DataType.ALIGNED_CHECKPOINT_BARRIER
PRIORITIZED = DataType.PRIORITIZED_EVENT_BUFFER


def lay(connection: ConsumerConnection, data: bytes) -> int:
    """Hand bytes over as a driver does that lays them where they are wanted. Returns: how many went
    that way.
    """
    laid = 0
    while data:
        memory = connection.memory_to_fill()
        if not memory:
            connection.receive_data(memoryview(data), now_ns=0)
            return laid
        count = 0
        for piece in memory:
            part = min(len(piece), len(data) - count)
            piece[:part] = data[count : count + part]
            count += part
        connection.memory_filled(count, now_ns=0)
        laid += count
        data = data[count:]
    return laid


class Reader(Consumer):
    """A consumer with a probe."""

    def __init__(self, *, channels: int, floating_buffers: int) -> None:
        self.probe = ListProbe()
        super().__init__(
            channels=channels,
            floating_buffers=floating_buffers,
            segment_size_bytes=SEGMENT_BYTES,
            probe=self.probe,
        )
        self.taken: list[tuple[int, int, int, bytes]] = []
        self.error: str | None = None

    def read(self, *, runs: bool) -> int:
        """Take and recycle the next buffer, or the next run. Returns: how many that were."""
        try:
            polled = self.gate.poll()
        except FlinknetError as error:
            self.error = str(error)
            return 0
        if polled is None:
            return 0
        channel, buffer, number = polled
        assert isinstance(buffer, NetworkBuffer)
        run = self.gate.poll_run(*polled) if runs and buffer.data_type == DATA else []
        for place, each in enumerate(run or (buffer,)):
            kind, payload = int(each.data_type), bytes(each.payload)
            self.taken.append((channel.index, number + place, kind, payload))
        if run:
            joined = run[0].segment.with_neighbours(len(run))
            assert bytes(joined) == b"".join(bytes(each.payload) for each in run)
            assert not channel.is_local
            channel.buffers.recycle_run(run)
            return len(run)
        buffer.recycle()
        return 1

    def state(self) -> object:
        """What is to be seen from outside."""
        pool = self.pool
        managers = [channel.buffers for channel in self.channels]
        return (
            [(m.available_buffers, m.floating_buffers, m.required_buffers) for m in managers],
            [(m.unannounced_credit, m.expected_sequence_number) for m in self.channels],
            [(m.queued_elements, m.queued_bytes, str(m.error)) for m in self.channels],
            (pool.available_buffers, pool.used_buffers, len(pool._listeners)),
            (self.memory.available_buffers, self.gate.is_available, self.error),
            [managers.index(waiting) for waiting in pool._listeners],
            self.probe.events,
            self.taken,
        )


@dataclass
class Both:
    """Two consumers of one stream: one by one, and in runs. The test speaks for the producer."""

    channels: int = 1
    floating_buffers: int = 8
    laid_bytes: int = 0
    longest_run: int = 0
    wire: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self.plain, self.in_runs = (
            Reader(channels=self.channels, floating_buffers=self.floating_buffers) for _ in range(2)
        )
        self.credit = [2] * self.channels
        self.numbers = [0] * self.channels
        self.announce()

    def send(self, channel: int, size: int, backlog: int, data_type: DataType = DATA) -> None:
        number = self.numbers[channel]
        self.numbers[channel] = next_sequence_number(number)
        payload = bytes((channel * 7 + number * 13 + i) % 256 for i in range(size))
        receiver_id = self.plain.channels[channel].receiver_id
        response = BufferResponse(receiver_id, channel, number, backlog, data_type, False, payload)
        self.wire += response.encode()

    def send_run(self, channel: int, buffers: int, backlog: int = 20) -> None:
        """As many full buffers as requested and as credit lets leave, `backlog` behind them."""
        buffers = min(buffers, self.credit[channel])
        self.credit[channel] -= buffers
        for left in reversed(range(buffers)):
            self.send(channel, SEGMENT_BYTES, backlog + left)

    def say(self, message: Message) -> None:
        self.wire += message.encode()

    def deliver(self, count: int | None = None) -> None:
        data = bytes(self.wire[:count])
        del self.wire[: len(data)]
        if data:
            self.plain.connection.receive_data(memoryview(data), now_ns=0)
            self.laid_bytes += lay(self.in_runs.connection, data)
        self.check()

    def read(self) -> None:
        count = self.in_runs.read(runs=True)
        self.longest_run = max(self.longest_run, count)
        for _ in range(max(count, 1)):
            self.plain.read(runs=False)
        self.check()

    def announce(self) -> None:
        sent = self.in_runs.sent()
        assert sent == self.plain.sent()
        for message in sent:
            if isinstance(message, AddCredit):
                ids = [channel.receiver_id for channel in self.plain.channels]
                self.credit[ids.index(message.receiver_id)] += message.credit
        self.check()

    def warm_up(self) -> None:
        """A stream at the highest rate: the channel waits for its pool, a run is under way."""
        for _ in range(4):
            self.send_run(0, 10)
            self.deliver()
            while self.plain.gate.is_available:
                self.read()
            self.announce()

    def check(self) -> None:
        assert self.in_runs.state() == self.plain.state()

    def close(self) -> None:
        for each in (self.plain, self.in_runs):
            each.close()
            each.connection.receive_eof(now_ns=0)
            assert each.memory.available_buffers == each.memory.total_buffers


actions = st.one_of(
    st.tuples(
        st.just("run"), st.integers(0, 1), st.integers(1, 10), st.sampled_from([0, 0, 1, 5, 20])
    ),
    st.tuples(st.just("part"), st.integers(0, 1), st.integers(0, 99), st.integers(-1, 5)),
    st.tuples(st.just("event"), st.integers(0, 1), st.sampled_from([BARRIER, PRIORITIZED])),
    st.tuples(st.just("backlog"), st.integers(0, 1), st.integers(1, 12)),
    st.tuples(st.just("deliver"), st.integers(1, 900)),
    st.tuples(st.just("deliver"), st.none()),
    st.tuples(st.just("read"), st.integers(1, 3)),
    st.tuples(st.just("read"), st.just(30)),
    st.tuples(st.just("announce")),
    st.tuples(st.just("hold")),
    st.tuples(st.just("give back")),
    st.tuples(st.just("resize"), st.integers(1, 12)),
    st.tuples(st.just("release"), st.integers(0, 1)),
    st.tuples(st.just("skip a number"), st.integers(0, 1)),
)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("floating_buffers", [1, 8])
@settings(max_examples=150, deadline=None)
@given(script=st.lists(actions, max_size=30))
def test_a_run_is_handled_as_its_buffers_would_be_one_by_one(
    channels: int, floating_buffers: int, script: list[tuple[object, ...]]
) -> None:
    both = Both(channels, floating_buffers)
    both.warm_up()
    held: list[tuple[NetworkBuffer | None, ...]] = []
    for name, *values in script:
        match name, *values:
            case "run", int(index), int(buffers), int(backlog):
                channel = index % channels
                both.send_run(channel, buffers, backlog)
            case "part", int(index), int(size), int(backlog):
                channel = index % channels
                if both.credit[channel]:
                    both.credit[channel] -= 1
                    both.send(channel, size, backlog)
            case "event", int(index), DataType() as data_type:
                both.send(index % channels, 30, 0, data_type)
            case "backlog", int(index), int(backlog):
                receiver = both.plain.channels[index % channels]
                both.say(BacklogAnnouncement(backlog, receiver.receiver_id))
            case "deliver", count:
                both.deliver(count)  # type: ignore[arg-type]
            case "read", int(times):
                for _ in range(times):
                    both.read()
            case ("announce",):
                both.announce()
            case ("hold",):
                held.append(tuple(e.pool.try_request() for e in (both.plain, both.in_runs)))
            case ("give back",):
                for buffer in held.pop() if held else ():
                    if buffer is not None:
                        buffer.recycle()
            case "resize", int(size):
                for each in (both.plain, both.in_runs):
                    each.pool.resize(size)
            case "release", int(index):
                for each in (both.plain, both.in_runs):
                    each.channels[index % channels].release()
            case "skip a number", int(index):
                both.numbers[index % channels] += 1
        both.check()
    both.deliver()
    for _ in range(60):
        both.read()
    both.announce()
    for buffer in (buffer for pair in held for buffer in pair):
        if buffer is not None:
            buffer.recycle()
    both.close()


def test_at_the_highest_rate_payloads_are_laid_in_place_and_read_as_one() -> None:
    both = Both()
    both.warm_up()
    laid, both.longest_run = both.laid_bytes, 0
    both.send_run(0, 6)
    sent = len(both.wire)
    both.deliver()
    assert both.laid_bytes == laid + sent
    both.read()
    assert both.longest_run == 6
    both.close()


def test_a_message_of_another_kind_in_the_place_of_a_run_is_not_kept_waiting() -> None:
    both = Both()
    both.warm_up()
    laid = both.laid_bytes
    (channel,) = both.in_runs.channels
    both.say(BacklogAnnouncement(3, channel.receiver_id))  # shorter than a header
    both.deliver()
    assert both.laid_bytes > laid  # a run was under way
    assert channel.buffers.required_buffers == 3 + 2
    both.close()


def test_a_run_ends_where_sequence_numbers_wrap() -> None:
    both = Both()
    both.warm_up()
    first = 2**31 - 3
    both.numbers[0] = first
    for each in (both.plain, both.in_runs):
        each.channels[0].expected_sequence_number = first
    for _ in range(2):
        for _ in range(2):
            both.send_run(0, 2)
            both.deliver()
        both.read()
        both.read()
        both.announce()
    assert both.in_runs.channels[0].expected_sequence_number == -(2**31) + 5
    both.close()


def test_gates_of_a_union_take_turns_of_one_buffer() -> None:
    both = Both()
    both.warm_up()
    gate = both.in_runs.gate
    other = SingleInputGate(1)
    union = UnionInputGate((gate, other))
    both.send_run(0, 4)
    both.deliver()
    polled = union.poll()
    assert polled is not None
    union.queue_gate(other, has_priority=False)
    assert union.poll_run(*polled) == []
    union._ready.pop()
    run = union.poll_run(*polled)
    assert [each.size_bytes for each in run] == [SEGMENT_BYTES] * 4
    assert not union.is_available
