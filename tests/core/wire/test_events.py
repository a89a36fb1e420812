"""Events beyond the golden vectors: round trips, padding, data types, garbage."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.buffers.data_type import DataType
from flinknet.core.wire.checkpoint_barrier import (
    NO_ALIGNMENT_TIMEOUT_MS,
    AlignmentType,
    CheckpointBarrier,
    SavepointFormatType,
    SnapshotType,
)
from flinknet.core.wire.events import (
    EVENT_CLASSES,
    EndOfPartitionEvent,
    Event,
    EventAnnouncement,
    OtherEvent,
    WatermarkEvent,
    data_type_of,
    decode_event,
    encode_pipelined,
)
from flinknet.errors import FrameCorruptedError, LocalProtocolError
from tests.strategies import events


@given(events())
def test_encoding_an_event_yields_bytes_that_decode_to_it(event: Event) -> None:
    assert decode_event(memoryview(event.encode())) == event


@given(events().filter(lambda event: "OtherEvent" not in repr(event)), st.binary(max_size=9))
def test_bytes_behind_an_event_are_ignored(event: Event, surplus: bytes) -> None:
    assert decode_event(event.encode() + surplus) == event


@given(events())
def test_padding_follows_the_exact_bytes_and_is_zero(event: Event) -> None:
    exact, padded = event.encode(), encode_pipelined(event)
    assert padded.startswith(exact)
    assert not any(padded[len(exact) :])


@given(events())
def test_a_cut_event_is_corrupt(event: Event) -> None:
    """Except that the body of an event of a foreign class may end anywhere."""
    encoded = event.encode()
    body = event.announced_event if isinstance(event, EventAnnouncement) else event
    may_miss = len(body.body) if isinstance(body, OtherEvent) else 0
    for cut in range(len(encoded) - may_miss):
        with pytest.raises(FrameCorruptedError):
            decode_event(encoded[:cut])


@given(st.sampled_from(sorted(EVENT_CLASSES)), st.binary(max_size=60))
def test_garbage_behind_a_tag_raises_nothing_but_corruption(tag: int, garbage: bytes) -> None:
    with suppress(FrameCorruptedError):
        decode_event(struct.pack(">i", tag) + garbage)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        *((struct.pack(">i", tag), "not known") for tag in (-1, 13, 2**31 - 1)),
        (struct.pack(">iHBi", 11, 0, 0, 2) + bytes(8), "a watermark event of kind 2"),
        (struct.pack(">iiii", 6, 17, 6, 17) + EndOfPartitionEvent().encode(), "announcement"),
    ],
)
def test_what_no_event_contains_is_corrupt(data: bytes, match: str) -> None:
    with pytest.raises(FrameCorruptedError, match=match):
        decode_event(data)


@pytest.mark.parametrize("length", [-2, 30, 2**31 - 1])
def test_a_location_that_cannot_be_in_its_barrier_is_corrupt(length: int) -> None:
    encoded = CheckpointBarrier(1, 0, location=b"here").encode()
    damaged = encoded.replace(struct.pack(">i", 4) + b"here", struct.pack(">i", length) + b"here")
    with pytest.raises(FrameCorruptedError, match=f"location of {length} bytes"):
        decode_event(damaged)


def test_a_savepoint_has_a_format_and_nothing_else_has_one() -> None:
    with pytest.raises(LocalProtocolError):
        CheckpointBarrier(1, 0, SnapshotType.SAVEPOINT)
    with pytest.raises(LocalProtocolError):
        CheckpointBarrier(1, 0, savepoint_format=SavepointFormatType.NATIVE)


def test_text_beyond_a_u16_length_is_our_own_error() -> None:
    with pytest.raises(LocalProtocolError, match="65536 bytes"):
        WatermarkEvent("x" * 65536, 1, False).encode()


@pytest.mark.parametrize(
    ("identifier_bytes", "array_bytes"),
    [
        (2, 128),
        (122, 256),  # the identifier fits exactly, the flag behind it does not
        (150, 280),  # doubling is not enough for one write
        (300, 430),
    ],
)
def test_a_watermark_is_padded_to_the_array_it_was_written_into(
    identifier_bytes: int, array_bytes: int
) -> None:
    assert len(encode_pipelined(WatermarkEvent("i" * identifier_bytes, 1, False))) == array_bytes


@pytest.mark.parametrize(
    ("alignment", "timeout_ms", "data_type"),
    [
        (AlignmentType.AT_LEAST_ONCE, NO_ALIGNMENT_TIMEOUT_MS, DataType.EVENT_BUFFER),
        (AlignmentType.AT_LEAST_ONCE, 30_000, DataType.EVENT_BUFFER),
        (AlignmentType.UNALIGNED, NO_ALIGNMENT_TIMEOUT_MS, DataType.EVENT_BUFFER),
        (AlignmentType.ALIGNED, NO_ALIGNMENT_TIMEOUT_MS, DataType.ALIGNED_CHECKPOINT_BARRIER),
        (AlignmentType.ALIGNED, 0, DataType.ALIGNED_CHECKPOINT_BARRIER),
        (AlignmentType.ALIGNED, 30_000, DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER),
        (AlignmentType.FORCED_ALIGNED, 30_000, DataType.ALIGNED_CHECKPOINT_BARRIER),
    ],
)
def test_data_type_of_a_barrier_follows_alignment_and_timeout(
    alignment: AlignmentType, timeout_ms: int, data_type: DataType
) -> None:
    barrier = CheckpointBarrier(1, 0, alignment=alignment, aligned_timeout_ms=timeout_ms)
    assert data_type_of(barrier) is data_type


@given(events())
def test_a_priority_event_is_one_whatever_it_is(event: Event) -> None:
    assert data_type_of(event, priority=True) is DataType.PRIORITIZED_EVENT_BUFFER
    assert not data_type_of(event).is_buffer
