"""Hypothesis strategies that several tests share: what travels, and ways to cut bytes."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from flinknet.config import NetworkConfig
from flinknet.core.buffers.data_type import DataType
from flinknet.core.wire import checkpoint_barrier as cb
from flinknet.core.wire import events as ev
from flinknet.core.wire import ids, records
from flinknet.core.wire import messages as ms
from flinknet.core.wire.java_errors import SENDABLE_CLASSES, JavaThrowable

i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
positive_i32 = st.integers(1, 2**31 - 1)
index = st.integers(0, 2**31 - 1)
id16 = st.binary(min_size=16, max_size=16)
receiver_ids = id16.map(ids.InputChannelID)
java_text = st.text(st.characters(codec="utf-16-be"), max_size=20)

partition_ids = st.builds(
    ids.ResultPartitionID,
    st.builds(ids.IntermediateResultPartitionID, id16.map(ids.IntermediateDataSetID), i32),
    st.builds(
        ids.ExecutionAttemptID,
        id16.map(ids.ExecutionGraphID),
        st.builds(ids.ExecutionVertexID, id16.map(ids.JobVertexID), index),
        index,
    ),
)
subpartition_ranges = st.tuples(index, index).map(
    lambda pair: ids.ResultSubpartitionIndexSet(min(pair), max(pair))
)


@st.composite
def barriers(draw: st.DrawFn) -> cb.CheckpointBarrier:
    snapshot_type = draw(st.sampled_from(cb.SnapshotType))
    return cb.CheckpointBarrier(
        draw(i64),
        draw(i64),
        snapshot_type,
        draw(st.sampled_from(cb.AlignmentType)),
        draw(i64),
        draw(st.none() | st.binary(max_size=30)),
        draw(st.sampled_from(cb.SavepointFormatType)) if snapshot_type.is_savepoint else None,
    )


def events() -> st.SearchStrategy[ev.Event]:
    """Every kind of event."""
    plain = st.one_of(
        barriers(),
        st.builds(ev.EndOfPartitionEvent),
        st.builds(ev.EndOfSuperstepEvent),
        st.builds(ev.OtherEvent, java_text, st.binary(max_size=20)),
        st.builds(ev.CancelCheckpointMarker, i64),
        st.builds(ev.EndOfOutputChannelStateEvent),
        st.builds(ev.SubtaskConnectionDescriptor, i32, i32),
        st.builds(ev.EndOfData, st.sampled_from(ev.StopMode)),
        st.builds(ev.EndOfSegmentEvent),
        st.builds(ev.RecoveryMetadata, i32),
        st.builds(ev.WatermarkEvent, java_text, i64 | st.booleans(), st.booleans()),
        st.builds(ev.EndOfInputChannelStateEvent),
    )
    return plain | st.builds(ev.EventAnnouncement, plain, i32)


def elements() -> st.SearchStrategy[records.StreamElement]:
    """Every kind of stream element."""
    return st.one_of(
        st.builds(records.Record, st.binary(max_size=40), st.none() | i64),
        st.builds(records.Watermark, i64),
        st.builds(records.LatencyMarker, i64, id16, i32),
        st.builds(records.WatermarkStatus, st.sampled_from([0, -1])),
        st.builds(records.RecordAttributes, st.booleans()),
        st.builds(records.InternalWatermark, i32, i64),
    )


@st.composite
def buffer_responses(draw: st.DrawFn) -> ms.BufferResponse:
    """Data or an event, whole or in pieces."""
    pieces = draw(st.lists(st.binary(min_size=1, max_size=20), max_size=4))
    is_data = draw(st.booleans()) or not pieces
    data_types = [kind for kind in DataType if kind.is_buffer == is_data and kind.value]
    is_one_buffer = len(pieces) < 2 and draw(st.booleans())
    return ms.BufferResponse(
        draw(receiver_ids),
        draw(i32),
        draw(i32),
        draw(i32),
        draw(st.sampled_from(data_types)),
        is_data and draw(st.booleans()),
        b"".join(pieces),
        () if is_one_buffer else tuple(map(len, pieces)),
    )


def producer_messages() -> st.SearchStrategy[ms.Message]:
    """What a producer sends."""
    throwable_classes = st.sampled_from(sorted(SENDABLE_CLASSES))
    errors = st.builds(JavaThrowable, throwable_classes, st.none() | java_text)
    return st.one_of(
        buffer_responses(),
        st.builds(ms.ErrorResponse, errors, st.none() | receiver_ids),
        st.builds(ms.BacklogAnnouncement, positive_i32, receiver_ids),
    )


def consumer_messages() -> st.SearchStrategy[ms.Message]:
    """What a consumer sends."""
    return st.one_of(
        st.builds(ms.PartitionRequest, partition_ids, subpartition_ranges, receiver_ids, i32),
        st.builds(ms.TaskEventRequest, events(), partition_ids, receiver_ids),
        st.builds(ms.CancelPartitionRequest, receiver_ids),
        st.builds(ms.CloseRequest),
        st.builds(ms.AddCredit, positive_i32, receiver_ids),
        st.builds(ms.ResumeConsumption, receiver_ids),
        st.builds(ms.AckAllUserRecordsProcessed, receiver_ids),
        st.builds(ms.NewBufferSize, positive_i32, receiver_ids),
        st.builds(ms.SegmentId, i32, positive_i32, receiver_ids),
    )


def messages() -> st.SearchStrategy[ms.Message]:
    """Every kind of message, of both directions."""
    return producer_messages() | consumer_messages()


def chunkings(data: bytes) -> st.SearchStrategy[list[bytes]]:
    """Ways to cut `data` into pieces, empty ones among them."""
    cuts = st.lists(st.integers(0, len(data)), max_size=8).map(sorted)
    return cuts.map(lambda at: [data[a:b] for a, b in zip([0, *at], [*at, len(data)], strict=True)])


@dataclass(frozen=True)
class ArrivalPlan:
    """What ScheduledArrivals is made from."""

    law: str
    rate_per_s: float
    start_ns: int
    records: int
    seed: int


def arrival_plans() -> st.SearchStrategy[ArrivalPlan]:
    """Every law, from a record a second to many a microsecond."""
    return st.builds(
        ArrivalPlan,
        st.sampled_from(["constant", "poisson", "bursts", "on-off:50ms:150ms"]),
        st.floats(1, 5e6),
        st.integers(0, 10**15),
        st.integers(1, 40_000),
        st.integers(0, 2**31),
    )


def network_configs() -> st.SearchStrategy[NetworkConfig]:
    """Small segments and pools, so that bounds are met: quotas, overdraft, no exclusive buffers."""
    return st.builds(
        NetworkConfig,
        segment_size_bytes=st.sampled_from([20, 32, 100]),
        exclusive_buffers=st.integers(0, 3),
        floating_buffers=st.integers(1, 5),
        # with 1 an open buffer alone makes the pool unavailable, for good
        max_buffers_per_channel=st.integers(2, 10),
        max_overdraft_buffers=st.integers(0, 5),
        buffer_timeout_ns=st.sampled_from([-1, 0, 1000, 100_000]),
    )
