"""Ids: bytes, printed form, and what they reject."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given

from flinknet.core.wire import ids
from flinknet.errors import FrameCorruptedError, LocalProtocolError
from tests.comparisons import compares, compares_in
from tests.strategies import partition_ids, subpartition_ranges

COUNTING = bytes(range(16))
PARTITION = ids.ResultPartitionID(
    ids.IntermediateResultPartitionID(ids.IntermediateDataSetID(COUNTING), 16909060),
    ids.ExecutionAttemptID(
        ids.ExecutionGraphID(bytes(range(16, 32))),
        ids.ExecutionVertexID(ids.JobVertexID(bytes(range(32, 48))), 2147483647),
        66051,
    ),
)


@given(partition_ids)
def test_a_partition_id_decodes_from_its_60_bytes(partition_id: ids.ResultPartitionID) -> None:
    encoded = partition_id.encode()
    assert len(encoded) == ids.ResultPartitionID.BYTES == 60
    assert ids.ResultPartitionID.decode(memoryview(encoded)) == partition_id


@given(subpartition_ranges)
def test_a_range_decodes_from_its_8_bytes(subpartitions: ids.ResultSubpartitionIndexSet) -> None:
    assert ids.ResultSubpartitionIndexSet.decode(subpartitions.encode()) == subpartitions


def test_a_partition_id_is_printed_as_flink_prints_it() -> None:
    assert str(PARTITION) == (
        "000102030405060708090a0b0c0d0e0f#16909060"
        "@101112131415161718191a1b1c1d1e1f_202122232425262728292a2b2c2d2e2f_2147483647_66051"
    )


def test_a_range_counts_its_subpartitions_both_ends_included() -> None:
    assert len(ids.ResultSubpartitionIndexSet(3, 3)) == 1
    assert len(ids.ResultSubpartitionIndexSet(0, 127)) == 128


def test_ids_of_different_kinds_are_never_equal() -> None:
    assert ids.IntermediateDataSetID(COUNTING) != ids.JobVertexID(COUNTING)
    assert ids.IntermediateDataSetID(COUNTING) == ids.IntermediateDataSetID.decode(COUNTING)
    assert ids.IntermediateDataSetID(COUNTING).encode() == COUNTING


@pytest.mark.parametrize("length", [0, 15, 17])
def test_an_id_of_other_than_16_bytes_is_our_own_error(length: int) -> None:
    with pytest.raises(LocalProtocolError):
        ids.JobVertexID(bytes(length))


@pytest.mark.parametrize(
    "kind",
    [
        ids.IntermediateDataSetID,
        ids.IntermediateResultPartitionID,
        ids.ExecutionVertexID,
        ids.ExecutionAttemptID,
        ids.ResultPartitionID,
        ids.ResultSubpartitionIndexSet,
    ],
)
def test_an_id_of_the_wrong_length_is_corrupt(kind: type[ids.ResultPartitionID]) -> None:
    for length in (kind.BYTES - 1, kind.BYTES + 1):
        with pytest.raises(FrameCorruptedError, match=kind.__name__):
            kind.decode(bytes(length))


def test_negative_subtasks_and_attempts_are_corrupt() -> None:
    with pytest.raises(FrameCorruptedError, match="subtask"):
        ids.ExecutionVertexID.decode(COUNTING + struct.pack(">i", -1))
    with pytest.raises(FrameCorruptedError, match="attempt"):
        ids.ExecutionAttemptID.decode(bytes(36) + struct.pack(">i", -1))


def test_a_range_that_is_none_is_our_own_error() -> None:
    with pytest.raises(LocalProtocolError):
        ids.ResultSubpartitionIndexSet(2, 1)


@compares_in(0.3)
@given(partition_ids)
def test_a_printed_partition_id_is_read_back(partition_id: ids.ResultPartitionID) -> None:
    if compares(partition_id.partition_id.partition_number >= 0):
        assert ids.ResultPartitionID.parse(str(partition_id)) == partition_id
    assert ids.ResultPartitionID.parse(f" {partition_id.encode().hex().upper()} ") == partition_id


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ab" * 59,
        "zz" * 60,
        str(PARTITION).replace("#", "@"),
        str(PARTITION).rsplit("_", 1)[0],
        str(PARTITION).replace("#16909060", "#4294967296"),
        str(PARTITION.partition_id),
        PARTITION.encode().hex()[:-8] + "ffffffff",
    ],
)
def test_what_is_no_partition_id_is_refused_with_what_would_do(text: str) -> None:
    with pytest.raises(LocalProtocolError, match=r"is not a result partition"):
        ids.ResultPartitionID.parse(text)
