"""Records that span buffers, stream elements, and the basic values in them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.wire.java_errors import decode_modified_utf8, encode_modified_utf8
from flinknet.core.wire.records import (
    Record,
    StreamElement,
    Watermark,
    WatermarkStatus,
    decode_element,
    encode_record,
)
from flinknet.errors import FrameCorruptedError
from tests.strategies import elements

any_text = st.text(st.characters(), max_size=20)


@given(elements())
def test_encoding_an_element_yields_bytes_that_decode_to_it(element: StreamElement) -> None:
    assert decode_element(memoryview(element.encode())) == element


def test_an_empty_element_is_no_stream_element() -> None:
    with pytest.raises(FrameCorruptedError, match="nothing"):
        decode_element(b"")


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
