"""Serializers: the bytes of Flink's own, values that come back as they were, batches as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.consumer import RecordReader
from flinknet.core.wire.buffer_response import BufferResponse
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.layout import Direction
from flinknet.core.wire.records import Record, decode_element, encode_record
from flinknet.errors import FrameCorruptedError
from flinknet.job.basic_serializers import LONG, STRING
from flinknet.job.elements import NO_TIMESTAMP, StreamElementSerializer
from flinknet.job.serializers import VALUE, serializer_of
from tests.comparisons import compares, compares_in
from tests.golden_vectors import LAYOUT_OF_RELEASE, Vector, golden
from tests.record_stream import RecordStreamDecoder


@dataclass
class Point:
    x: int
    y: float
    tags: list[str]


class Pair(NamedTuple):
    word: str
    count: int


def written(value_type: Any, value: Any) -> bytes:
    out = bytearray()
    serializer_of(value_type).write(value, out)
    return bytes(out)


def read_back(value_type: Any, data: bytes) -> Any:
    value, end = serializer_of(value_type).read(data, 0)
    assert end == len(data)
    return value


@pytest.mark.parametrize(
    ("value_type", "value", "expected"),
    [
        (bool, True, "01"),
        (np.int32, -2, "fffffffe"),
        (int, 258, "0000000000000102"),
        (float, 1.5, "3ff8000000000000"),
        (str, "flink", "06666c696e6b"),
        (str, "", "01"),
        (str, None, "00"),
        (str, "é", "02e901"),
        (str, "Grüße €", "084772fc01df016520ac41"),
        (bytes, b"ab", "000000026162"),
        (tuple[str, int], ("to", 1), "03746f0000000000000001"),
        (list[bool], [True, False], "000000020100"),
        (tuple[bool, ...], (True,), "0000000101"),
        (dict[str, bool], {"a": True, "b": None}, "000000020261000102620" + "1"),
        (Pair, Pair("to", 2), "03746f0000000000000002"),
        (object, None, "4e"),
        (object, (1, "a"), "740000000269000000010173000000016" + "1"),
    ],
)
def test_bytes_are_those_of_the_layout(value_type: Any, value: Any, expected: str) -> None:
    assert written(value_type, value).hex() == expected
    assert read_back(value_type, bytes.fromhex(expected)) == value


def test_long_strings_have_a_long_length() -> None:
    text = "x" * 200
    assert written(str, text) == bytes([0xC9, 0x01]) + text.encode()
    assert read_back(str, written(str, text)) == text


@golden("records")
def test_golden_records_are_read_and_written_the_same(release: str, vector: Vector) -> None:
    value_type = {"long": int, "string": str, "bytes": bytes}[vector["fields"]["value_serializer"]]
    elements = StreamElementSerializer(serializer_of(value_type))
    frames = FrameDecoder(Direction.PRODUCER_TO_CONSUMER, LAYOUT_OF_RELEASE[release])
    stream = RecordStreamDecoder()
    for message in frames.feed(bytes.fromhex(vector["hex"])):
        if not (isinstance(message, BufferResponse) and message.data_type.is_buffer):
            continue
        for raw in stream.feed(message.buffer):
            element = decode_element(raw)
            if not isinstance(element, Record) or element.timestamp_ms == NO_TIMESTAMP:
                continue
            framed = encode_record(element)
            ((values, instants),) = elements.read([(bytearray(framed), 0, 1, len(framed))])
            assert bytes(elements.write(values, instants).data) == framed


VALUES = {
    int: st.integers(-(2**63), 2**63 - 1),
    str: st.text(),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    bytes: st.binary(),
    tuple[int, bytes]: st.tuples(st.integers(-(2**63), 2**63 - 1), st.binary()),
    tuple[str, tuple[float, bool]]: st.tuples(
        st.text(), st.tuples(st.floats(allow_nan=False), st.booleans())
    ),
    list[str]: st.lists(st.text()),
    Point: st.builds(
        Point, st.integers(-9, 9), st.floats(allow_nan=False), st.lists(st.text(max_size=3))
    ),
    object: st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
        | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
        max_leaves=8,
    ),
}  # fmt: skip


@pytest.mark.parametrize("value_type", VALUES, ids=str)
@given(data=st.data())
def test_values_come_back_as_they_were(value_type: Any, data: st.DataObject) -> None:
    records = st.tuples(VALUES[value_type], st.integers(NO_TIMESTAMP, 2**63 - 1))
    drawn = data.draw(st.lists(records, min_size=1, max_size=20))
    values, instants = [each for each, _ in drawn], np.array([at for _, at in drawn], np.int64)
    elements = StreamElementSerializer(serializer_of(value_type))
    serialized = elements.write(values, instants)
    found: list[Any] = []
    at: list[int] = []
    for some, when in elements.read(RecordReader().read(serialized.data)):
        found += some.tolist() if isinstance(some, np.ndarray) else some
        at += when.tolist()
    assert found == values
    assert at == instants.tolist()
    assert serialized.ended_between(0, len(serialized.data)) == (
        *(len(values), instants[0], instants[-1]),
    )


@given(
    keys=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=5, max_size=50),
    size=st.integers(1, 40),
)
def test_arrays_are_written_as_their_values_one_by_one(keys: list[int], size: int) -> None:
    elements = StreamElementSerializer(serializer_of(tuple[int, bytes]))
    values = [(key, bytes([key & 0xFF]) * size) for key in keys]
    array = np.array(values, [("f0", "i8"), ("f1", f"V{size}")])
    assert array.tolist() == values
    for instants in (np.arange(len(keys)), np.full(len(keys), NO_TIMESTAMP)):
        serialized = elements.write(array, instants)
        assert bytes(serialized.data) == bytes(elements.write(values, instants).data)
        record_bytes = serialized.record_bytes
        ((found, when),) = elements.read([(serialized.data, 0, len(keys), record_bytes)])
        assert isinstance(found, np.ndarray)
        assert found.tolist() == values
        assert when.tolist() == instants.tolist()


def test_numbers_are_read_as_an_array() -> None:
    elements = StreamElementSerializer(LONG)
    serialized = elements.write(list(range(9)), np.arange(9))
    ((values, instants),) = elements.read([(serialized.data, 0, 9, serialized.record_bytes)])
    assert isinstance(values, np.ndarray)
    assert values.tolist() == instants.tolist() == list(range(9))


@pytest.mark.parametrize(
    ("value_type", "value", "complaint"),
    [
        (int, "1", "'1' cannot be written as Long"),
        (int, 2**63, "cannot be written as Long"),
        (str, 1, "1 cannot be written as String: int is not a str"),
        (tuple[str, int], ("a",), "cannot be written as Tuple2<String, Long>"),
        (tuple[str, int], ["a", 1], "list is not a tuple"),
        (object, {"a": object}, "values of type type cannot be sent to another task"),
        (object, lambda: None, "values of type function cannot be sent to another task"),
    ],
)
def test_a_value_of_another_type_is_refused(value_type: Any, value: Any, complaint: str) -> None:
    elements = StreamElementSerializer(serializer_of(value_type))
    with pytest.raises(ValueError, match="cannot be written") as refused:
        elements.write([value], np.array([1]))
    assert complaint in str(refused.value)


def test_values_that_nest_without_end_are_refused() -> None:
    nested: list[Any] = []
    nested.append(nested)
    elements = StreamElementSerializer(VALUE)
    with pytest.raises(ValueError, match="nested deeper than 64"):
        elements.write([nested], np.array([1]))
    deep = b"l\0\0\0\1" * 100 + b"N"
    with pytest.raises(FrameCorruptedError, match="nested deeper than 64"):
        elements.read([(bytearray(b"\0\0\0\0\1" + deep), 0, 1, len(deep) + 5)])


@pytest.mark.parametrize(
    "value_type", [int, str, tuple[str, int], list[int], object, dict[str, int]]
)
@compares_in(0.5)
@given(garbage=st.binary(min_size=1, max_size=60))
def test_garbage_is_told_as_such(value_type: Any, garbage: bytes) -> None:
    elements = StreamElementSerializer(serializer_of(value_type))
    memory = bytearray(len(garbage).to_bytes(4, "big") + garbage)
    try:
        ((values, instants),) = elements.read([(memory, 0, 1, len(memory))])
    except FrameCorruptedError:
        compares(True)
    else:
        compares(False)
        assert len(values) == len(instants) == 1


def test_a_serializer_that_takes_too_little_is_named() -> None:
    elements = StreamElementSerializer(STRING)
    with pytest.raises(
        FrameCorruptedError, match="has 10 bytes, but the serializer of String reads 8"
    ):
        elements.read([(bytearray.fromhex("00000006 01 0361 62 0000"), 0, 1, 10)])


def test_names_are_those_of_flink() -> None:
    assert serializer_of(tuple[str, int]).name == "Tuple2<String, Long>"
    assert serializer_of(Point).name == "Point<Long, Double, List<String>>"
    assert serializer_of(Any).name == "Value"
