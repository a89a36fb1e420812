"""Records that span buffers, stream elements, and the basic values in them."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flinknet.core.wire.modified_utf8 import decode_modified_utf8, encode_modified_utf8
from flinknet.core.wire.records import (
    LENGTH_PREFIX_BYTES,
    MAX_WATERMARK_MS,
    RECORD_OVERHEAD_BYTES,
    Record,
    RecordStreamDecoder,
    StreamElement,
    Watermark,
    WatermarkStatus,
    decode_element,
    encode_record,
)
from flinknet.core.wire.values import (
    decode_byte_array,
    decode_long,
    decode_string,
    encode_byte_array,
    encode_long,
    encode_string,
)
from flinknet.errors import FrameCorruptedError
from tests.strategies import chunkings, elements, i64

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
    assert len(encode_record(Record(bytes(100)))) == 100 + RECORD_OVERHEAD_BYTES


def test_elements_have_the_bytes_of_the_reference() -> None:
    assert encode_record(Record(encode_long(1))).hex() == "00000009010000000000000001"
    assert (
        encode_record(Record(encode_long(1), 1000)).hex()
        == "000000110000000000000003e80000000000000001"
    )
    assert Watermark(MAX_WATERMARK_MS).encode().hex() == "027fffffffffffffff"
    assert WatermarkStatus(WatermarkStatus.IDLE).is_idle
    assert encode_string("Grüße €").hex() == "0847 72fc01 df01 65 20 ac41".replace(" ", "")


@given(st.binary(max_size=40))
def test_garbage_raises_nothing_but_corruption(garbage: bytes) -> None:
    with suppress(FrameCorruptedError):
        decode_element(garbage)
    with suppress(FrameCorruptedError):
        RecordStreamDecoder(record_bytes_max=1000).feed(garbage)
    for decode in (decode_long, decode_byte_array, decode_string, decode_modified_utf8):
        with suppress(FrameCorruptedError):
            decode(garbage)


@pytest.mark.parametrize("element", ["07", "02 00", "04 00000001", "05", "03 00", "06 00", "00 11"])
def test_bytes_that_are_no_element_are_corrupt(element: str) -> None:
    with pytest.raises(FrameCorruptedError):
        decode_element(bytes.fromhex(element))


@given(i64)
def test_longs_round_trip(number: int) -> None:
    assert decode_long(encode_long(number)) == number


@given(st.binary(max_size=50))
def test_byte_arrays_round_trip(value: bytes) -> None:
    assert decode_byte_array(encode_byte_array(value)) == value


@given(st.none() | any_text)
@example("\ud800\udc00")
def test_strings_round_trip(text: str | None) -> None:
    """As Java has them: two halves of a surrogate pair that stand together are one character."""
    expected = text and text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert decode_string(encode_string(text)) == expected


@pytest.mark.parametrize("value", ["", "80", "0247 48", "03 47", "02 80", "02 ffffff01", "ff" * 8])
def test_bytes_that_are_no_string_are_corrupt(value: str) -> None:
    with pytest.raises(FrameCorruptedError):
        decode_string(bytes.fromhex(value))


def test_values_of_the_wrong_length_are_corrupt() -> None:
    with pytest.raises(FrameCorruptedError):
        decode_long(bytes(7))
    with pytest.raises(FrameCorruptedError):
        decode_byte_array(struct.pack(">i", 5) + bytes(4))


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
