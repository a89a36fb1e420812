"""Captures that lack packets, or have them late, twice or cut: each figure of a replay is right for
what was captured, or absent, or stands next to the share that is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import accumulate
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from dpkt import pcap, tcp
from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.capture.pcap.importing import Import
from flinknet.capture.session import SessionConfig
from flinknet.core.probe import MessageKind
from flinknet.core.wire.messages import AddCredit
from flinknet.errors import TraceFormatError
from flinknet.predict.loading import load_exchange
from flinknet.replay.advise.judged import judged
from flinknet.replay.observe.measured import ObservedRun, replayed_channels, uncounted_loss
from flinknet.replay.observe.observed import observe_here
from flinknet.replay.read import AskedPart, open_runs
from flinknet.trace import open_run
from tests.capture.conversations import buffer, request
from tests.capture.pcap.packets import tcp_packet
from tests.pair import OTHER_RECEIVER, RECEIVER

SERVER, CLIENT = ("10.0.0.1", 6121), ("10.0.0.2", 50_000)
PACKET_BYTES = 1448
BUFFERS = 240

Key = tuple[str, int]
"""A receiver and a sequence number."""


class Packet(NamedTuple):
    at_ns: int
    frame: bytes


class Captured(NamedTuple):
    """Packets, and the records and bytes of each buffer in them."""

    packets: list[Packet]
    records: dict[Key, int]
    payload_bytes: dict[Key, int]


@cache
def conversation() -> Captured:
    """Two channels on one connection, with records of 20 to 900 bytes, flushed or in full segments
    of 2,000; each buffer's credit comes back."""
    random, packets = Random(1), []
    numbers = {SERVER: 100, CLIENT: 200}
    identifications = {SERVER: 1, CLIENT: 1}
    records: dict[Key, int] = {}
    payload_bytes: dict[Key, int] = {}

    def send(source: tuple[str, int], data: bytes, at_ns: int, flags: int = tcp.TH_ACK) -> None:
        target = CLIENT if source == SERVER else SERVER
        for at in range(0, max(len(data), 1), PACKET_BYTES):
            piece = data[at : at + PACKET_BYTES]
            frame = tcp_packet(
                piece,
                source=source,
                target=target,
                sequence_number=numbers[source],
                acknowledged=numbers[target],
                flags=flags,
                identification=identifications[source],
            )
            packets.append(Packet(at_ns, frame))
            numbers[source] += len(piece) + bool(flags & tcp.TH_SYN)
            identifications[source] += 1

    send(CLIENT, b"", 0, tcp.TH_SYN)
    send(SERVER, b"", 1_000, tcp.TH_SYN | tcp.TH_ACK)
    streams = {}
    for receiver in (RECEIVER, OTHER_RECEIVER):
        send(CLIENT, request(receiver, credit=8).encode(), 2_000)
        lengths = [random.randrange(20, 900) for _ in range(4 * BUFFERS)]
        stream = b"".join(
            length.to_bytes(4) + b"\x01" + random.randbytes(length - 1) for length in lengths
        )
        streams[receiver] = stream, list(accumulate(4 + length for length in lengths))
    position = dict.fromkeys(streams, 0)
    for number in range(2 * BUFFERS):
        receiver = list(streams)[number % 2]
        stream, ends = streams[receiver]
        begin = position[receiver]
        is_full = number % 5 == 0
        stop = begin + 2_000 if is_full else min(end for end in ends if end > begin + 700)
        position[receiver] = stop
        at_ns, key = (number + 1) * 5_000_000, (receiver.hex(), number // 2)
        send(SERVER, buffer(number // 2, stream[begin:stop], receiver=receiver).encode(), at_ns)
        send(CLIENT, AddCredit(1, receiver).encode(), at_ns + 300_000)
        records[key] = sum(begin < end <= stop for end in ends)
        payload_bytes[key] = stop - begin
    return Captured(packets, records, payload_bytes)


KINDS = "drop", "double", "delay", "reorder", "cut"


def disturbed(
    packets: list[Packet], kinds: tuple[str, ...], rate: float, random: Random
) -> list[Packet]:
    """Packets of which some were dropped, captured again, delayed, reordered or cut."""
    found: list[Packet] = []
    for packet in packets:
        kind = random.choice(kinds) if random.random() < rate else ""
        if kind == "drop":
            continue
        if kind == "cut":
            packet = Packet(packet.at_ns, packet.frame[: random.randint(54, len(packet.frame))])
        if kind == "delay":
            packet = Packet(packet.at_ns + random.randrange(20_000_000), packet.frame)
        place = max(0, len(found) - random.randrange(6)) if kind == "reorder" else len(found)
        found.insert(place, packet)
        if kind == "double":
            found += [packet] * random.randrange(1, 3)
    return sorted(found, key=lambda each: each.at_ns) if "delay" in kinds else found


def imported(packets: list[Packet], directory: Path) -> Path:
    with (directory / "some.pcap").open("wb") as file:
        writer = pcap.Writer(file, nano=True)
        for packet in packets:
            writer.writepkt_time(packet.frame, packet.at_ns / 1e9)
    Import([directory / "some.pcap"], SessionConfig(out=directory / "run"), versions={}).run()
    return directory / "run"


def rows_of(path: Path) -> dict[Key, tuple[int, int]]:
    """Records and bytes of each buffer; none is there twice."""
    run = open_run(path)
    names = {each.index: each.receiver_id for each in run.manifest.channels}
    found: dict[Key, tuple[int, int]] = {}
    for reader in run.readers():
        with reader:
            columns = ("kind", "channel", "sequence_number", "records", "payload_bytes")
            for block in reader.events(columns):
                for kind, channel, number, *row in zip(
                    *(block[e].tolist() for e in columns), strict=True
                ):
                    if kind == MessageKind.BUFFER_RESPONSE:
                        assert (names[channel], number) not in found
                        found[names[channel], number] = (row[0], row[1])
    return found


def stepped(at_ns: int, by_ns: int) -> int:
    """An instant by a clock that is set in the middle of the conversation."""
    return at_ns + by_ns * (at_ns >= BUFFERS * 5_000_000)


@pytest.mark.parametrize(
    ("instant", "line"),
    [
        (lambda at_ns: stepped(at_ns, -200_000_000), "set back by at least 195 ms after 1.20 s"),
        (lambda at_ns: stepped(at_ns, -3_000_000_000), "set back by at least 3.00 s after 1.20 s"),
        (lambda at_ns: min(at_ns, 1_500_000_000), "stood at 1.50 s for "),
    ],
)
def test_rates_are_those_of_a_clock_that_went_evenly(
    tmp_path: Path, instant: Callable[[int], int], line: str
) -> None:
    whole = conversation()
    packets = [Packet(10_000_000_000 + instant(at_ns), frame) for at_ns, frame in whole.packets]
    (run,) = open_runs([imported(packets, tmp_path)], AskedPart(from_ns=0))
    (observed,) = observe_here([run])
    (loss,) = (each.text for each in run.losses if each.kind == "clock")
    assert line in loss
    expected = sum(whole.records.values()) / (2 * BUFFERS * 5e-3)
    assert observed.measured.throughput_records_per_s == pytest.approx(expected, rel=0.05)


def test_a_clock_that_stood_all_the_time_is_no_ground_for_a_rate(tmp_path: Path) -> None:
    packets = [Packet(1_000_000_000, frame) for _, frame in conversation().packets]
    with pytest.raises(TraceFormatError, match="the clock of the capture stood all the time"):
        open_runs([imported(packets, tmp_path)])


def test_how_long_data_waited_is_unknown_where_credit_is(tmp_path: Path) -> None:
    (run,) = open_runs([imported(conversation().packets[200:], tmp_path)], AskedPart(from_ns=0))
    (observed,) = observe_here([run])
    assert observed.measured.credits.starved_ns is None
    assert {each.starved_ns for each in replayed_channels(observed)} == {None}
    (edge,) = judged([observed])
    assert edge.diagnosis == ()
    assert edge.bottleneck is None


@settings(max_examples=20)
@given(
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=3, unique=True),
    st.sampled_from([0.0, 0.002, 0.02, 0.1, 0.4]),
    st.floats(0, 0.9),
    st.booleans(),
    st.integers(0, 1 << 32).map(Random),
)
def test_every_figure_is_right_absent_or_next_to_the_share_that_is_missing(
    kinds: list[str], rate: float, since: float, begins_later: bool, random: Random
) -> None:
    whole = conversation()
    place = int(since * len(whole.packets))
    before = [] if begins_later else whole.packets[:place]
    packets = before + disturbed(whole.packets[place:], tuple(kinds), rate, random)
    with TemporaryDirectory() as directory:
        path = imported(packets, Path(directory))
        rows = rows_of(path)
        for key, (records, payload_bytes) in rows.items():
            assert payload_bytes == whole.payload_bytes[key]
            assert records in (whole.records[key], -1)
        runs = open_runs([path], AskedPart(from_ns=0))
        for observed in observe_here(runs):
            own = {each.receiver_id for each in observed.run.manifest.channels}
            of_run = {key: row for key, row in rows.items() if key[0] in own}
            check_figures(observed, of_run, whole, begins_later=begins_later)
        if len(runs) == 1:
            exchange = load_exchange(runs[0].place, runs[0].from_ns, runs[0].to_ns)
            # Each channel is rounded on its own.
            assert abs(exchange.records - observed.measured.records) <= 2


def check_figures(
    observed: ObservedRun, rows: dict[Key, tuple[int, int]], whole: Captured, *, begins_later: bool
) -> None:
    measured, losses = observed.measured, {each.kind for each in observed.run.losses}
    uncounted_bytes = sum(size for records, size in rows.values() if records < 0)
    truth = sum(whole.records[key] for key in rows)
    assert measured.buffers == len(rows)
    (share,) = uncounted_loss(observed) or (None,)
    assert (share.count if share else 0) == uncounted_bytes
    if not uncounted_bytes:
        assert measured.records == truth
    elif measured.records:
        # Records have 20 to 900 bytes: what is estimated is off by their spread at most.
        counted = sum(max(records, 0) for records, _ in rows.values())
        estimated, uncounted = measured.records - counted, truth - counted
        assert abs(estimated - uncounted) <= 5 + 0.6 * uncounted
    else:
        assert measured.throughput_records_per_s is None
    if measured.records:
        assert measured.throughput_records_per_s == measured.records * 1e9 / measured.duration_ns
    for receiver in {receiver for receiver, _ in rows}:
        numbers = sorted(number for key, number in rows if key == receiver)
        if len(numbers) != numbers[-1] - numbers[0] + 1:
            assert losses & {"missing_bytes", "losses"}
        if not begins_later and numbers[-1] < BUFFERS - 3:
            assert losses & {"missing_bytes", "losses"}
