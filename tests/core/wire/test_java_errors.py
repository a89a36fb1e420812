"""Java exceptions: what we send parses, and no stream does harm."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.wire.java_errors import (
    SENDABLE_CLASSES,
    STREAM_BYTES_MAX,
    JavaThrowable,
    encode_throwable,
    parse_throwable,
)
from flinknet.errors import FrameCorruptedError, LocalProtocolError
from tests.golden_vectors import vectors
from tests.strategies import java_text

HEADER = bytes.fromhex("aced0005")
REAL_STREAMS = [
    bytes.fromhex(vector["hex"])[9:]
    for vector in vectors("2.3.0")
    if vector["kind"] == "ErrorResponse"
]


def class_desc(
    name: str, superclass: bytes = b"\x70", flags: int = 2, fields: bytes = b""
) -> bytes:
    """A class description; `fields` with their count."""
    uid_and_flags = struct.pack(">QB", 1, flags)
    return (
        struct.pack(">BH", 0x72, len(name))
        + name.encode()
        + uid_and_flags
        + (fields or b"\0\0")
        + b"\x78"
        + superclass
    )


def test_the_smallest_stream_is_that_of_the_reference() -> None:
    expected = bytes.fromhex(
        "aced0005 7372 0013 6a6176612e696f2e494f457863657074696f6e 6c8073646525f0ab 02 0000 78"
        "72 0013 6a6176612e6c616e672e457863657074696f6e d0fd1f3e1a3b1cc4 02 0000 78"
        "72 0013 6a6176612e6c616e672e5468726f7761626c65 d5c635273977b8cb 03 0001"
        "4c 000d 64657461696c4d657373616765 74 0012 4c6a6176612f6c616e672f537472696e673b 78 70"
        "74 0011 616c6c206368616e6e656c7320646f776e 78"
    )
    assert encode_throwable("java.io.IOException", "all channels down") == expected


@given(st.sampled_from(sorted(SENDABLE_CLASSES)), st.none() | java_text, st.binary(max_size=20))
def test_what_we_send_parses_to_class_message_and_end(
    class_name: str, message: str | None, behind: bytes
) -> None:
    stream = encode_throwable(class_name, message)
    assert parse_throwable(stream + behind) == (JavaThrowable(class_name, message), len(stream))


def test_a_message_beyond_64_kib_is_a_long_string() -> None:
    message = "x" * 70_000
    stream = encode_throwable("java.io.IOException", message)
    assert parse_throwable(stream)[0].message == message


def test_a_class_of_unknown_serial_version_is_our_own_error() -> None:
    with pytest.raises(LocalProtocolError, match=r"com\.example\.Mine"):
        encode_throwable("com.example.Mine", None)


@pytest.mark.parametrize("stream", REAL_STREAMS, ids=len)
def test_a_real_stream_cut_anywhere_is_corrupt(stream: bytes) -> None:
    _, length = parse_throwable(stream)
    for cut in range(0, length, 7):
        with pytest.raises(FrameCorruptedError):
            parse_throwable(stream[:cut])


@given(st.data())
def test_a_damaged_stream_raises_nothing_but_corruption(data: st.DataObject) -> None:
    damaged = bytearray(data.draw(st.sampled_from(REAL_STREAMS)))
    for at in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=5)):
        damaged[at] = data.draw(st.integers(0x70, 0x7E) | st.integers(0, 255))
    with suppress(FrameCorruptedError):
        _, length = parse_throwable(bytes(damaged))
        assert length <= len(damaged)


@given(st.binary(max_size=200))
def test_garbage_raises_nothing_but_corruption(garbage: bytes) -> None:
    with suppress(FrameCorruptedError):
        parse_throwable(HEADER + b"\x73" + garbage)


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        pytest.param(b"\xac\xed\0\4", "not a Java", id="other version"),
        pytest.param(HEADER + b"\x70", "no object", id="null"),
        pytest.param(HEADER + b"\x7b", "unknown element", id="exception mark"),
        pytest.param(HEADER + b"\x71\0\x7e\0\0", "reference to nothing", id="reference"),
        pytest.param(HEADER + b"\x73\x74\0\0", "class description", id="class is a string"),
        pytest.param(HEADER + b"\x73" + class_desc("A"), "not a Throwable", id="not a Throwable"),
        pytest.param(HEADER + b"\x73" + class_desc("A", flags=4), "no end mark", id="external"),
        pytest.param(
            HEADER + b"\x73" + class_desc("A", fields=b"\0\1Q\0\1f"), "field type", id="field"
        ),
        pytest.param(
            HEADER + b"\x75" + class_desc("[I") + b"\x7f\xff\xff\xff", "truncated", id="array"
        ),
        pytest.param(HEADER + b"\x75" + class_desc("A") + b"\0\0\0\1", "of nothing", id="no array"),
        pytest.param(HEADER + b"\x7c" + b"\xff" * 8, "truncated", id="long string"),
        pytest.param(HEADER + b"\x79" * 1000, "deep", id="resets"),
        pytest.param(
            HEADER + (b"\x73" + class_desc("A", fields=b"\0\1L\0\1f\x70")) * 100,
            "deep",
            id="objects",
        ),
    ],
)
def test_streams_outside_the_grammar_are_corrupt(stream: bytes, reason: str) -> None:
    with pytest.raises(FrameCorruptedError, match=reason):
        parse_throwable(stream)


def test_a_chain_of_superclasses_by_reference_is_bounded() -> None:
    """The annotations of class A hold classes of which each extends the one before by reference."""
    chain = b"".join(
        class_desc(f"C{index}", struct.pack(">BI", 0x71, 0x7E0000 + index) if index else b"\x70")
        for index in range(200)
    )
    start_of_a = struct.pack(">BH", 0x72, 1) + b"A" + struct.pack(">QBH", 1, 2, 0)
    with pytest.raises(FrameCorruptedError, match="superclasses"):
        parse_throwable(HEADER + b"\x73" + start_of_a + chain + b"\x78\x70")


def test_a_class_that_extends_itself_is_corrupt() -> None:
    itself = struct.pack(">BI", 0x71, 0x7E0000)
    with pytest.raises(FrameCorruptedError, match="above itself"):
        parse_throwable(HEADER + b"\x73" + class_desc("A", itself))


def test_a_chain_of_causes_by_reference_is_bounded() -> None:
    """The annotations of class A hold throwables of which each is caused by the one before."""
    fields = b"\0\1L\0\5cause\x74\0\1x"
    throwable = class_desc("java.lang.Throwable", fields=fields)
    first = b"\x73" + throwable + b"\x70"  # handles: class A, Throwable, the string x, this one
    causes = b"".join(
        struct.pack(">BBI", 0x73, 0x71, 0x7E0001) + struct.pack(">BI", 0x71, 0x7E0003 + index)
        for index in range(200)
    )
    start_of_a = struct.pack(">BH", 0x72, 1) + b"A" + struct.pack(">QBH", 1, 2, 0)
    superclass = struct.pack(">BI", 0x71, 0x7E0001)
    last = struct.pack(">BI", 0x71, 0x7E0003 + 200)
    with pytest.raises(FrameCorruptedError, match="causes"):
        parse_throwable(
            HEADER + b"\x73" + start_of_a + first + causes + b"\x78" + superclass + last
        )


def test_elements_that_flink_seldom_sends_are_skipped() -> None:
    """An exception whose fields hold one of each, and which wrote optional data behind them."""
    elements = {
        "class": b"\x76" + class_desc("A"),
        "proxy": b"\x73\x7d" + struct.pack(">IH", 1, 1) + b"I" + b"\x78\x70",
        "enum": b"\x7e" + class_desc("E", flags=0x12) + b"\x74\0\5VALUE",
        "external": b"\x73" + class_desc("X", flags=0x0C) + b"\x77\2ab" + b"\x78",
        "longs": b"\x75" + class_desc("[J") + struct.pack(">I", 2) + bytes(16),
        "no class data": b"\x73" + class_desc("N", flags=0),
        "no class": b"\x73\x70",
    }
    fields = struct.pack(">H", len(elements) + 1) + b"J" + b"\0\4long"
    for name in elements:
        fields += b"L" + struct.pack(">H", len(name)) + name.encode() + b"\x74\0\1x"
    optional = b"\x77\1a" + b"\x7a" + struct.pack(">I", 2) + b"bc" + b"\x78"
    desc = class_desc("java.lang.Throwable", flags=3, fields=fields)
    stream = HEADER + b"\x73" + desc + bytes(8) + b"".join(elements.values()) + optional
    assert parse_throwable(stream + b"\0") == (JavaThrowable("java.lang.Throwable"), len(stream))


def test_a_stream_beyond_the_bound_is_not_read() -> None:
    with pytest.raises(FrameCorruptedError, match="truncated"):
        parse_throwable(encode_throwable("java.io.IOException", "x" * STREAM_BYTES_MAX))


def test_causes_that_go_in_a_circle_end() -> None:
    """a is caused by b, and b by a."""
    throwable = struct.pack(">BH", 0x72, 19) + b"java.lang.Throwable"
    fields = b"\0\1L\0\5cause\x74\0\1x"
    desc = throwable + struct.pack(">QB", 1, 2) + fields + b"\x78\x70"
    inner = b"\x73" + struct.pack(">BI", 0x71, 0x7E0000) + struct.pack(">BI", 0x71, 0x7E0002)
    parsed, _ = parse_throwable(HEADER + b"\x73" + desc + inner)
    inside = JavaThrowable("java.lang.Throwable")
    assert parsed == JavaThrowable("java.lang.Throwable", cause=inside)
