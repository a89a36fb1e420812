"""Capture files in both byte orders, cut and damaged ones, and what their clock did."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Sequence
from pathlib import Path
from random import randbytes
from typing import Literal

import lz4.frame
import pytest
import zstandard

from flinknet.capture.pcap import clock as clock_module
from flinknet.capture.pcap.clock import CaptureClock
from flinknet.capture.pcap.files import CapturedPacket, CaptureFile
from flinknet.capture.pcap.segments import Endpoint, TcpSegment
from flinknet.errors import TraceFormatError

Order = Literal["little", "big"]


def pcap(
    packets: list[tuple[int, bytes]],
    *,
    order: Order = "little",
    is_nano: bool = False,
    link_type: int = 1,
    length: int | None = None,
) -> bytes:
    """A pcap file; instants in its unit."""

    def word(value: int) -> bytes:
        return value.to_bytes(4, order)

    unit = 10**9 if is_nano else 10**6
    head = (
        word(0xA1B23C4D if is_nano else 0xA1B2C3D4)
        + (b"\x02\0\x04\0", b"\0\x02\0\x04")[order == "big"]
    )
    head += word(0) + word(0) + word(65535) + word(link_type)
    body = b""
    for at, frame in packets:
        body += word(at // unit) + word(at % unit) + word(len(frame))
        body += word(length if length is not None else len(frame)) + frame
    return head + body


def block(kind: int, body: bytes, order: Order) -> bytes:
    body += bytes(-len(body) % 4)
    length = (len(body) + 12).to_bytes(4, order)
    return kind.to_bytes(4, order) + length + body + length


def section(order: Order) -> bytes:
    magic = 0x1A2B3C4D.to_bytes(4, order)
    versions = (1).to_bytes(2, order) + (0).to_bytes(2, order)
    return block(0x0A0D0D0A, magic + versions + b"\xff" * 8, order)


def interface(
    link_type: int, order: Order, resolution: int | None = None, offset_s: int | None = None
) -> bytes:
    options = b""
    if offset_s is not None:
        options += (14).to_bytes(2, order) + (8).to_bytes(2, order)
        options += offset_s.to_bytes(8, order, signed=True) + bytes(4)
    if resolution is not None:
        options += (9).to_bytes(2, order) + (1).to_bytes(2, order) + bytes([resolution, 0, 0, 0])
        options += bytes(4)
    head = link_type.to_bytes(2, order) + bytes(2) + (65535).to_bytes(4, order)
    return block(1, head + options, order)


def packet(index: int, ticks: int, frame: bytes, order: Order, length: int | None = None) -> bytes:
    words = [index, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), length or len(frame)]
    head = b"".join(word.to_bytes(4, order) for word in words)
    return block(6, head + frame, order)


def old_packet(
    index: int, ticks: int, frame: bytes, order: Order, length: int | None = None
) -> bytes:
    """A Packet Block: its interface has half as many bits, and a count of drops behind it."""
    head = index.to_bytes(2, order) + (7).to_bytes(2, order)
    return block(2, head + packet(0, ticks, frame, order, length)[12:-4], order)


def blocks_of(packets: Sequence[tuple[int, bytes]], kinds: Sequence[int]) -> bytes:
    """A pcapng file with packets in blocks of these kinds, one after another; instants in ns."""
    content = section("little") + interface(1, "little", 9)
    for number, (at_ns, frame) in enumerate(packets):
        kind = kinds[number % len(kinds)]
        if kind == 2:
            content += old_packet(0, at_ns, frame, "little")
        else:
            content += block(kind, packet(0, at_ns, frame, "little")[8:-4], "little")
    return content


def read(tmp_path: Path, content: bytes) -> tuple[CaptureFile, list[CapturedPacket]]:
    path = tmp_path / "capture"
    path.write_bytes(content)
    file = CaptureFile(path)
    return file, list(file)


AT_NS = 1_763_700_000_123_456_789


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("is_nano", [False, True])
def test_pcap_instants_are_exact(tmp_path: Path, order: Order, is_nano: bool) -> None:
    at = AT_NS if is_nano else AT_NS // 1000
    file, packets = read(tmp_path, pcap([(at, b"frame")], order=order, is_nano=is_nano))
    expected_ns = AT_NS if is_nano else AT_NS // 1000 * 1000
    assert packets == [CapturedPacket(expected_ns, 1, b"frame", 0)]
    assert not file.is_truncated


@pytest.mark.parametrize("order", ["little", "big"])
def test_pcapng_interfaces_have_their_own_link_type_and_clock(tmp_path: Path, order: Order) -> None:
    content = section(order) + interface(1, order) + interface(276, order, 9)
    content += block(5, bytes(8), order)  # statistics
    content += packet(1, AT_NS, b"abc", order) + packet(0, AT_NS // 1000, b"defg", order)
    _, packets = read(tmp_path, content)
    assert packets == [
        CapturedPacket(AT_NS, 276, b"abc", 0),
        CapturedPacket(AT_NS // 1000 * 1000, 1, b"defg", 0),
    ]


@pytest.mark.parametrize("order", ["little", "big"])
def test_packet_blocks_of_every_age_are_read(tmp_path: Path, order: Order) -> None:
    content = section(order) + interface(1, order, 9) + interface(276, order)
    content += old_packet(0, AT_NS, b"abc", order) + old_packet(1, 1, b"defgh", order, 9)
    content += packet(1, 2, b"i", order)
    file, packets = read(tmp_path, content)
    assert packets == [
        CapturedPacket(AT_NS, 1, b"abc", 0),
        CapturedPacket(1000, 276, b"defgh", 4),
        CapturedPacket(2000, 276, b"i", 0),
    ]
    assert file.unread_blocks == 0


def test_blocks_of_unknown_kinds_are_counted_and_those_without_packets_are_not(
    tmp_path: Path,
) -> None:
    content = section("little") + interface(1, "little") + packet(0, 1, b"a", "little")
    known = (4, 5, 9, 10, 0xBAD)
    unread = (3, 0x777, 0x80000001)  # 3 has a packet without an instant
    content += b"".join(block(kind, bytes(8), "little") for kind in (*known, *unread))
    file, packets = read(tmp_path, content)
    assert (len(packets), file.unread_blocks) == (1, 3)


COMPRESSED = {
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "lz4": lz4.frame.compress,
}


@pytest.mark.parametrize("way", COMPRESSED)
def test_compressed_files_are_read_frame_by_frame_as_far_as_they_go(
    tmp_path: Path, way: str
) -> None:
    compress = COMPRESSED[way]
    frames = [(number, randbytes(3_000)) for number in range(100)]
    content = pcap(frames)
    file, packets = read(tmp_path, compress(content[:500]) + compress(content[500:]) + bytes(512))
    assert [each.frame for each in packets] == [frame for _, frame in frames]
    assert not file.is_truncated
    file, packets = read(tmp_path, compress(content)[:200_000])
    assert file.is_truncated
    assert [each.frame for each in packets] == [frame for _, frame in frames[: len(packets)]]
    assert (way == "bzip2") == (len(packets) == 0)  # its only block is cut
    with pytest.raises(TraceFormatError, match=rf"what follows packet 100 .*{way}"):
        read(tmp_path, compress(content) + b"no frame" * 9)


def test_decompression_has_a_limit_of_memory(tmp_path: Path) -> None:
    window_of_a_gigabyte = zstandard.FRAME_HEADER + b"\0\xa0"
    with pytest.raises(TraceFormatError, match=r"zstd: .*memory"):
        read(tmp_path, window_of_a_gigabyte + bytes(99))


def test_pcapng_resolution_in_powers_of_two(tmp_path: Path) -> None:
    content = section("little") + interface(1, "little", 0x80 | 10)
    content += packet(0, 1024 * 7 + 512, b"a", "little")
    assert read(tmp_path, content)[1][0].at_ns == 7_500_000_000


def test_pcapng_sections_start_over(tmp_path: Path) -> None:
    content = section("little") + interface(1, "little") + packet(0, 1, b"a", "little")
    content += section("big") + interface(101, "big") + packet(0, 2, b"b", "big")
    assert [(each.link_type, each.frame) for each in read(tmp_path, content)[1]] == [
        (1, b"a"),
        (101, b"b"),
    ]


def test_what_the_snap_length_cut_off_is_known(tmp_path: Path) -> None:
    assert read(tmp_path, pcap([(0, b"abc")], length=10))[1][0].cut_bytes == 7
    content = section("little") + interface(1, "little") + packet(0, 1, b"abc", "little", 5)
    assert read(tmp_path, content)[1][0].cut_bytes == 2


@pytest.mark.parametrize("kept", [24, 30, 41, 44, 45 + 20])
def test_a_pcap_file_that_ends_early_gives_what_it_has(tmp_path: Path, kept: int) -> None:
    content = pcap([(0, b"frame"), (1, b"frame"), (2, b"frame")])[:kept]
    file, packets = read(tmp_path, content)
    assert len(packets) == (kept - 24) // 21
    assert file.is_truncated == ((kept - 24) % 21 != 0)


@pytest.mark.parametrize("lost", [1, 4, 20, 33])
def test_a_pcapng_file_that_ends_early_gives_what_it_has(tmp_path: Path, lost: int) -> None:
    content = section("little") + interface(1, "little")
    content += packet(0, 1, b"a", "little") + packet(0, 2, b"b", "little")
    file, packets = read(tmp_path, content[:-lost])
    assert [each.frame for each in packets] == [b"a"]
    assert file.is_truncated


@pytest.mark.parametrize("content", [b"", b"abc", b"PK\x03\x04" + bytes(100), b"\0" * 24])
def test_what_is_no_capture_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(TraceFormatError, match="neither a pcap nor a pcapng file"):
        read(tmp_path, content)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match=r"nowhere\.pcap: cannot read it"):
        list(CaptureFile(tmp_path / "nowhere.pcap"))


def test_a_file_is_read_without_a_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    path = tmp_path / "a.pcap"
    path.write_bytes(blocks_of([(1, bytes(60))], (6,)))
    assert len(list(CaptureFile(path))) == 1


def test_a_damaged_length_does_not_take_memory(tmp_path: Path) -> None:
    good = pcap([(0, b"frame")])
    bad = good + bytes(8) + (1 << 31).to_bytes(4, "little") * 2
    with pytest.raises(TraceFormatError, match="what follows packet 1 claims 2147483648 bytes"):
        read(tmp_path, bad)
    section_only = section("little") + interface(1, "little") + packet(0, 1, b"a", "little")
    with pytest.raises(TraceFormatError, match="damaged: what follows packet 1"):
        read(tmp_path, section_only + b"\x06\0\0\0\xff\xff\xff\x7f\0\0\0\0")


@pytest.mark.parametrize("at", [-1, 1 << 62])
def test_an_instant_that_cannot_be_is_damage(tmp_path: Path, at: int) -> None:
    late = interface(1, "little", offset_s=at)
    with pytest.raises(TraceFormatError, match="its instant is"):
        read(tmp_path, section("little") + late + packet(0, 1, b"a", "little"))


def test_a_packet_of_an_interface_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="damaged"):
        read(tmp_path, section("little") + packet(3, 1, b"a", "little"))


HERE, THERE = Endpoint("10.0.0.1", 4000), Endpoint("10.0.0.2", 5000)
MS = 1_000_000


def segment(number: int, at_ns: int, sent_ms: int | None) -> TcpSegment:
    return TcpSegment(
        at_ns, HERE, THERE, 100 * number, 7, 9, False, False, False, bytes(100), 0, sent_ms
    )


@pytest.mark.parametrize("by_ms", [-3000, -200, 2000, 3_600_000])
def test_a_step_is_taken_out_by_the_times_of_senders(by_ms: int) -> None:
    clock = CaptureClock()
    found = []
    for number in range(40):
        true_ms = 5_000_000 + 50 * number
        at_ns = (true_ms + (by_ms if number >= 20 else 0)) * MS
        found.append(clock.follow(segment(number, at_ns, (true_ms + 2**32 - 5_000_100) % 2**32)))
    assert [each.at_ns // MS for each in found] == [5_000_000 + 50 * each for each in range(40)]
    assert clock.finish() is None
    assert len(clock.steps) == 1


@pytest.mark.parametrize("is_timed", [True, False])
def test_a_step_is_found_in_a_conversation_from_its_opening_on(is_timed: bool) -> None:
    """With numbers that wrap, another connection of the same server with a zero of its own, and a
    first packet after the step that says nothing new.
    """
    clock, elsewhere = CaptureClock(), Endpoint("10.0.0.3", 5000)

    def follow(target: Endpoint, at_ms: int, number: int, **changes: object) -> float:
        to_ms = at_ms - (3000 if at_ms > 1000 else 0)
        sent_ms = at_ms + (4_000_000_000 if target is elsewhere else 0) if is_timed else None
        own = segment(number, to_ms * MS, sent_ms)._replace(target=target, **changes)
        return clock.follow(own).at_ns / MS

    for target in (THERE, elsewhere):
        follow(target, 0, 0, acknowledged=None, is_syn=True, data=b"")
    for number in range(1, 20):
        for target in (THERE, elsewhere):
            follow(target, 10 * number, number, acknowledged=3_000_000_000)
    follow(THERE, 1005, 19, acknowledged=3_000_000_000)  # sent again
    found = [
        follow(THERE, 1010 + 10 * each, 20 + each, acknowledged=3_000_000_000) for each in range(9)
    ]
    assert [each - found[0] for each in found] == [10 * each for each in range(9)]
    assert found[0] == (1010 if is_timed else 190)
    assert len(clock.steps) == 1


def test_what_is_known_of_the_oldest_directions_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clock_module, "DIRECTIONS_MAX", 3)
    clock = CaptureClock()
    for number in range(9):
        target = Endpoint("10.0.0.2", 5000 + number)
        clock.follow(segment(number, number * MS, number)._replace(target=target))
    known = [each for each in vars(clock).values() if isinstance(each, dict)]
    assert [len(each) for each in known] == [3, 3]


def test_a_silence_in_which_the_time_of_senders_went_on_is_one() -> None:
    clock = CaptureClock()
    for number in range(40):
        true_ms = 50 * number + (9_000 if number >= 20 else 0)
        clock.follow(segment(number, true_ms * MS, true_ms))
    assert clock.finish() is None
    assert clock.steps == []


def test_packets_that_were_captured_late_or_out_of_order_are_no_step() -> None:
    clock = CaptureClock()
    times_ms = [0, 50, 300, 100, 150, 200, 250, 350, 400]  # one was late
    for number, at_ms in enumerate(times_ms):
        assert clock.follow(segment(number, at_ms * MS, None)).at_ns == at_ms * MS
    for number, at_ms in ((12, 600), (9, 450), (10, 500), (11, 550)):  # one came first
        assert clock.follow(segment(number, at_ms * MS, None)).at_ns == at_ms * MS
    assert clock.steps == []


@pytest.mark.parametrize(("unit_ns", "steps"), [(MS, 0), (MS + 1, 1)])
def test_many_packets_in_one_instant_show_nothing_of_a_clock_in_milliseconds(
    unit_ns: int, steps: int
) -> None:
    clock = CaptureClock()
    for number in range(120):
        clock.follow(segment(number, number * unit_ns, None))
    for number in range(120, 320):
        own = segment(number, 120 * unit_ns, None)
        clock.follow(own._replace(source=THERE, target=HERE) if number % 2 else own)
    clock.finish()
    assert len(clock.steps) == steps
