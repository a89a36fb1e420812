"""Targets that read what a peer sends: frames, connections, exceptions, events, records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any, TypeAlias

from flinknet.core.connection import Connection
from flinknet.core.wire.compression import CompressionCodec, compress, decompress
from flinknet.core.wire.events import decode_event
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.java_errors import parse_throwable
from flinknet.core.wire.layout import FRAME_HEADER_BYTES, LAYOUTS, Direction
from flinknet.core.wire.messages import Message
from flinknet.core.wire.record_counter import RecordCounter
from flinknet.core.wire.records import decode_element
from flinknet.errors import FlinknetError, FrameCorruptedError, RemoteProtocolError
from flinknet.plain_values import encode_message
from flinknet.runtime.cluster.control_connection import ControlConnection
from tests.capture.conversations import CLIENT, SERVER, Observed, Step, steps_of
from tests.fuzz.snapshot import remade
from tests.fuzz.target import Target, is_one_in
from tests.golden_vectors import LAYOUT_OF_RELEASE, vectors
from tests.pair import OTHER_RECEIVER, REQUEST_TIMEOUT_NS, Consumer
from tests.peers import by_clients, by_consumers, by_producers
from tests.peers.consumer import consumer_of
from tests.peers.producer import Producer
from tests.record_stream import RecordStreamDecoder
from tests.runtime.cluster.test_control_connection import MESSAGES

Figures: TypeAlias = tuple[Any, ...]

RELEASES = tuple(LAYOUT_OF_RELEASE)
_LAYOUTS = tuple(LAYOUTS)
_DIRECTIONS = tuple(Direction)
_CHUNK_BYTES = 4
_CODECS = [each for each in CompressionCodec if each is not CompressionCodec.LZO]
WHEN_AT_PRODUCER = (
    by_consumers.READS,
    by_consumers.NEW,
    by_consumers.WAITS,
    by_consumers.CANCELED,
    by_consumers.FAILED,
    by_consumers.STRANGE,
    by_consumers.WAITED_FOR,
)
WHEN_AT_CONSUMER = (
    by_producers.OPEN,
    by_producers.CREDITLESS,
    by_producers.RELEASED,
    by_producers.HALF,
)


def golden_bytes(*kinds: str) -> Iterator[tuple[str, bytes]]:
    """Release and bytes of golden vectors of these kinds, all if none is named."""
    for release in RELEASES:
        for vector in vectors(release):
            if "hex" in vector and (not kinds or vector["kind"] in kinds):
                yield release, bytes.fromhex(vector["hex"])


def chunked(steps: Sequence[Step]) -> bytes:
    """A conversation as one input: before each piece a byte with its direction and its length."""
    out = bytearray()
    for direction, data in steps:
        for at in range(0, len(data), 127 * _CHUNK_BYTES):
            piece = data[at : at + 127 * _CHUNK_BYTES]
            out.append((direction == SERVER) | -(-len(piece) // _CHUNK_BYTES) << 1)
            out += piece
    return bytes(out)


def pieces_of(data: bytes) -> Iterator[Step]:
    """Back from `chunked`, for any bytes."""
    at = 0
    while at < len(data):
        head = data[at]
        stop = at + 1 + (head >> 1) * _CHUNK_BYTES
        yield (SERVER if head & 1 else CLIENT), data[at + 1 : stop]
        at = stop


def cut_twice(data: bytes) -> Sequence[memoryview]:
    """An input without its first two bytes, cut in three by them."""
    view = memoryview(data)[2:]
    one, other = sorted((data[0], data[1]))
    return view[:one], view[one : one + other], view[one + other :]


def frames(data: bytes) -> None:
    """Frames of every layout and direction: the same messages however they are cut, and the same
    bytes again from each that we write.
    """
    if len(data) < 3:
        return
    choice, rest = data[0], data[1:]
    layout, direction = _LAYOUTS[choice & 1], _DIRECTIONS[choice >> 1 & 1]

    def read(pieces: Sequence[bytes | memoryview]) -> list[Message] | str:
        decoder = FrameDecoder(direction, layout)
        try:
            return [message for piece in pieces for message in decoder.feed(piece)]
        except RemoteProtocolError as error:
            return str(error)

    whole = read([rest[2:]])
    assert whole == read(cut_twice(rest))
    if isinstance(whole, str) or direction is Direction.PRODUCER_TO_CONSUMER:
        return
    again = FrameDecoder(direction, layout).feed(b"".join(each.encode() for each in whole))
    assert again == whole


def frame_seeds() -> Iterator[bytes]:
    for release, data in golden_bytes():
        layout = _LAYOUTS.index(LAYOUT_OF_RELEASE[release])
        for direction in (0, 2):
            yield bytes((layout | direction, 9, 40)) + data


def java_error(data: bytes) -> None:
    """A serialised exception: read to its end, or corrupt."""
    with suppress(FrameCorruptedError):
        throwable, length = parse_throwable(data)
        assert 0 < length <= len(data)
        repr(throwable)


def event(data: bytes) -> None:
    """An event: what was read is written as something that reads the same."""
    with suppress(FrameCorruptedError):
        found = decode_event(data)
        assert decode_event(found.encode()) == found


def records(data: bytes) -> None:
    """Elements of a buffer: both readers of the stream count the same."""
    counter, decoder = RecordCounter(), RecordStreamDecoder()
    counted, elements = 0, []
    for piece in cut_twice(data) if len(data) > 1 else [memoryview(data)]:
        counted += counter.feed(piece)
        try:
            elements += decoder.feed(piece)
        except (AssertionError, FrameCorruptedError):  # of a length that is none
            return
    if not counter.is_lost:
        assert counted + counter.others == len(elements)
    for element in elements:
        with suppress(FrameCorruptedError):
            found = decode_element(element)
            assert decode_element(found.encode()) == found


def record_seeds() -> Iterator[bytes]:
    for release in RELEASES:
        for vector in vectors(release):
            if "hex" in vector and vector["name"].startswith("record"):
                yield b"\x05\x09" + bytes.fromhex(vector["hex"])


def compressed(data: bytes) -> None:
    """A compressed payload of any codec: never more than was announced."""
    if data:
        with suppress(FrameCorruptedError):
            original = decompress(_CODECS[data[0] % len(_CODECS)], data[1:], 4096)
            assert len(original) <= 4096


def compressed_seeds() -> Iterator[bytes]:
    text = b"".join(b"%d little words " % number for number in range(60))
    for number, codec in enumerate(_CODECS):
        yield bytes((number,)) + (compress(codec, text) or text)


@cache
def producers(when: str) -> Callable[[], Producer]:
    """Gives producers in a state of the table."""
    return remade(partial(Producer, when))


def refuse(connection: Connection) -> None:
    """Let a connection refuse the next that comes, behind what it waits for."""
    with suppress(RemoteProtocolError):
        connection.receive_data(memoryview(bytes(2 * FRAME_HEADER_BYTES)), now_ns=0)
    assert connection.is_closing


@cache
def refusing_producer(when: str) -> Figures:
    """The figures of a producer that refuses the first that comes to it in this state."""
    producer = Producer(when)
    refuse(producer.peer)
    return producer.figures()


def at_the_producer(data: bytes) -> None:
    """A producer in any state of the table: other connections go on, all memory comes back. Of
    inputs that were refused before they came to anything, one in eight gets that far.
    """
    if len(data) < 3:
        return
    when = WHEN_AT_PRODUCER[data[0] % len(WHEN_AT_PRODUCER)]
    producer = producers(when)()
    is_refused = False
    try:
        for piece in cut_twice(data[1:]):
            producer.peer.receive_data(piece, now_ns=0)
    except RemoteProtocolError:
        is_refused = True
    producer.peer.handle_deadline(now_ns=REQUEST_TIMEOUT_NS)
    if is_refused and not is_one_in(8, data) and producer.figures() == refusing_producer(when):
        return
    assert producer.gets(producer.others, OTHER_RECEIVER)
    producer.close()


def consumers_seeds() -> Iterator[bytes]:
    for case in by_consumers.CASES:
        if len(case.data) < 2000:
            yield bytes((WHEN_AT_PRODUCER.index(case.when), 3, 9)) + case.data


@cache
def consumers(when: str) -> Callable[[], Consumer]:
    """Gives consumers in a state of the table."""
    return remade(partial(consumer_of, when))


def at_the_consumer(data: bytes) -> None:
    """A consumer in any state of the table: it fails in order, all memory comes back."""
    if len(data) < 3:
        return
    when = WHEN_AT_CONSUMER[data[0] % len(WHEN_AT_CONSUMER)]
    consumer = consumers(when)()
    with suppress(RemoteProtocolError):
        for piece in cut_twice(data[1:]):
            consumer.connection.receive_data(piece, now_ns=0)
            with suppress(FlinknetError):  # of a channel that has failed
                consumer.consume()
    open_channels = consumer.channels[when == by_producers.RELEASED :]
    failed = [channel.error is not None for channel in open_channels]
    assert not consumer.connection.is_closing or all(failed)
    consumer.sent()
    consumer.close()
    consumer.connection.receive_eof(now_ns=0)
    assert consumer.memory.available_buffers == consumer.memory.total_buffers


def producers_seeds() -> Iterator[bytes]:
    for case in by_producers.CASES:
        yield bytes((WHEN_AT_CONSUMER.index(case.when), 3, 9)) + case.data


def observer(data: bytes) -> None:
    """Both halves of a connection as a tap sees them: whatever they are, it follows."""
    if not data:
        return
    observed = Observed(is_from_start=not data[0] & 128)
    steps = list(pieces_of(data[1:]))
    observed.show(steps)
    summary = observed.observer.summary()
    shown = {SERVER: 0, CLIENT: 0}
    for direction, piece in steps:
        shown[direction] += len(piece)
    assert summary["bytes_from_server"] == shown[SERVER]
    assert summary["bytes_from_client"] == shown[CLIENT]
    observed.observer.close(8)


def observer_seeds() -> Iterator[bytes]:
    for release in RELEASES:
        for vector in vectors(release):
            if "steps" in vector.get("fields", ()):
                yield b"\0" + chunked(steps_of(vector))[:6000]
    for side, cases in ((CLIENT, by_consumers.CASES), (SERVER, by_producers.CASES)):
        yield from (b"\0" + chunked([(side, case.data[:1000])]) for case in cases)


def control(data: bytes) -> None:
    """Messages at a control port, before and after the secret was shown."""
    if not data:
        return
    server = ControlConnection("secret", peer="a stranger")
    if data[0] & 1:
        by_clients.show_secret(server)
    said = by_clients.framed(data[1:]) if data[0] & 2 else data[1:]
    with suppress(RemoteProtocolError):
        server.receive_data(memoryview(said), now_ns=0)
    assert server.peer_role is not None or not server.received
    assert server.is_closing == (server.fault is not None)
    server.data_to_send(now_ns=0)


def control_seeds() -> Iterator[bytes]:
    for case in by_clients.CASES:
        yield bytes((case.when == by_clients.LATER,)) + case.data
    for message in MESSAGES:
        yield b"\3" + encode_message(message)
    yield b"\1" + by_clients.CANCEL + b"\xff" * 8  # may still be taken after the fault


TARGETS = (
    Target("frames", frames, frame_seeds),
    Target(
        "java-error", java_error, lambda: (data[9:] for _, data in golden_bytes("ErrorResponse"))
    ),
    Target("event", event, lambda: (data for _, data in golden_bytes())),
    Target("records", records, record_seeds),
    Target("compressed", compressed, compressed_seeds),
    Target("producer", at_the_producer, consumers_seeds),
    Target("consumer", at_the_consumer, producers_seeds),
    Target("observer", observer, observer_seeds, 8192),
    Target("control", control, control_seeds, json_from=1),
)
