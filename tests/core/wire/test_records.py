"""Records that span buffers, stream elements, and the basic values in them."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.wire.modified_utf8 import decode_modified_utf8, encode_modified_utf8
from flinknet.core.wire.records import (
    LENGTH_PREFIX_BYTES,
    Record,
    RecordStreamDecoder,
    StreamElement,
    Watermark,
    WatermarkStatus,
    decode_element,
    encode_record,
)
from flinknet.errors import FrameCorruptedError
from tests.strategies import chunkings, elements

any_text = st.text(st.characters(), max_size=20)


@given(elements())
def test_encoding_an_element_yields_bytes_that_decode_to_it(element: StreamElement) -> None:
    assert decode_element(memoryview(element.encode())) == element


@given(st.lists(elements(), max_size=8), st.data())
def test_a_stream_cut_anywhere_gives_the_same_elements(
    written: list[StreamElement], data: st.DataObject
) -> None:
    decoder = RecordStreamDecoder()
    stream = b"".join(map(encode_record, written))
    read = [e for payload in data.draw(chunkings(stream)) for e in decoder.feed(payload)]
    assert list(map(decode_element, read)) == written
    assert decoder.pending_bytes == 0


def test_an_element_is_complete_only_with_its_last_byte() -> None:
    stream = encode_record(Record(b"value"))
    decoder = RecordStreamDecoder()
    for position in range(len(stream) - 1):
        assert decoder.feed(stream[position : position + 1]) == []
        assert decoder.pending_bytes == position + 1
    assert decoder.feed(stream[-1:]) == [b"\x01value"]


def test_fed_memory_may_be_reused() -> None:
    memory = bytearray(encode_record(Record(b"value")))
    decoder = RecordStreamDecoder()
    decoder.feed(memoryview(memory)[:8])
    memory[:8] = bytes(8)
    assert decoder.feed(memoryview(memory)[8:]) == [b"\x01value"]


def test_an_empty_element_is_cut_out_but_is_no_stream_element() -> None:
    assert RecordStreamDecoder().feed(bytes(LENGTH_PREFIX_BYTES)) == [b""]
    with pytest.raises(FrameCorruptedError, match="nothing"):
        decode_element(b"")


@pytest.mark.parametrize("length", [-1, 1001, 2**31 - 1])
def test_a_length_outside_the_bounds_is_rejected_at_once(length: int) -> None:
    with pytest.raises(FrameCorruptedError, match=str(length)):
        RecordStreamDecoder(record_bytes_max=1000).feed(struct.pack(">i", length))


def test_a_record_without_timestamp_takes_five_bytes_beside_its_value() -> None:
    assert len(encode_record(Record(bytes(100)))) == 100 + 5


def test_elements_have_the_bytes_of_the_reference() -> None:
    assert encode_record(Record((1).to_bytes(8, "big"))).hex() == "00000009010000000000000001"
    assert (
        encode_record(Record((1).to_bytes(8, "big"), 1000)).hex()
        == "000000110000000000000003e80000000000000001"
    )
    assert Watermark(2**63 - 1).encode().hex() == "027fffffffffffffff"
    assert WatermarkStatus(WatermarkStatus.IDLE).encode().hex() == "04ffffffff"


@given(st.binary(max_size=40))
def test_garbage_raises_nothing_but_corruption(garbage: bytes) -> None:
    with suppress(FrameCorruptedError):
        decode_element(garbage)
    with suppress(FrameCorruptedError):
        RecordStreamDecoder(record_bytes_max=1000).feed(garbage)
    with suppress(FrameCorruptedError):
        decode_modified_utf8(garbage)


@pytest.mark.parametrize("element", ["07", "02 00", "04 00000001", "05", "03 00", "06 00", "00 11"])
def test_bytes_that_are_no_element_are_corrupt(element: str) -> None:
    with pytest.raises(FrameCorruptedError):
        decode_element(bytes.fromhex(element))


@given(any_text)
def test_modified_utf8_round_trips(text: str) -> None:
    encoded = encode_modified_utf8(text)
    assert 0 not in encoded
    assert decode_modified_utf8(encoded) == text


def test_modified_utf8_has_no_zero_byte_and_no_sequence_of_four() -> None:
    assert encode_modified_utf8("a\0") == b"a\xc0\x80"
    assert encode_modified_utf8("😀").hex() == "eda0bdedb880"
    with pytest.raises(FrameCorruptedError, match="four bytes"):
        decode_modified_utf8("😀".encode())
