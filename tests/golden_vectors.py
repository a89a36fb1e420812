"""The golden vectors (see golden/README.md), and our values described in their terms."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from flinknet.core.wire import records
from flinknet.core.wire.buffer_response import BufferResponse
from flinknet.core.wire.checkpoint_barrier import (
    CheckpointBarrier,
    SavepointFormatType,
    SnapshotType,
)
from flinknet.core.wire.events import (
    EndOfData,
    EndOfOutputChannelStateEvent,
    Event,
    EventAnnouncement,
    OtherEvent,
    WatermarkEvent,
)
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.core.wire.messages import ErrorResponse, Message, PartitionRequest, TaskEventRequest

Vector = dict[str, Any]
Test = TypeVar("Test", bound=Callable[..., None])

LAYOUT_OF_RELEASE = {"2.3.0": "2.x", "2.0.2": "2.x", "1.20.5": "1.20"}


@cache
def vectors(release: str) -> list[Vector]:
    path = Path(__file__).parent / "golden" / f"flink-{release}" / "vectors.json.gz"
    loaded: list[Vector] = json.loads(gzip.decompress(path.read_bytes()))
    return loaded


def golden(*groups: str, layout: str | None = None) -> Callable[[Test], Test]:
    """Runs a test with every vector of these groups, of every release or of one layout.

    They are one test for each release and group: thousands of tests took longer to be counted than
    to run. What fails names its vector.
    """

    def decorate(test: Test) -> Test:
        @pytest.mark.parametrize(("release", "group"), _groups(groups, layout))
        @wraps(test)
        def run(release: str, group: str, **arguments: Any) -> None:
            for vector in vectors(release):
                if vector["name"].split("/")[0] != group:
                    continue
                try:
                    test(release=release, vector=vector, **arguments)
                except Exception as error:
                    error.add_note(f"golden vector {release}:{vector['name']}")
                    raise

        parameters = signature(test).parameters
        named = [each for name, each in parameters.items() if name != "vector"]
        group = Parameter("group", Parameter.POSITIONAL_OR_KEYWORD)
        run.__signature__ = Signature([*named, group])  # type: ignore[attr-defined]
        return cast(Test, run)

    return decorate


def _groups(groups: Sequence[str], layout: str | None) -> list[Any]:
    """Those of each release that have a vector."""
    return [
        pytest.param(release, group, id=f"{release}:{group}")
        for release, its_layout in LAYOUT_OF_RELEASE.items()
        if layout in (None, its_layout)
        for group in groups
        if any(vector["name"].split("/")[0] == group for vector in vectors(release))
    ]


def encode(message: Message, release: str) -> bytes:
    if isinstance(message, BufferResponse):
        return message.encode(LAYOUT_OF_RELEASE[release])
    return message.encode()


def describe_message(message: Message, release: str) -> Vector:
    """The message as `fields` of a vector."""
    if isinstance(message, BufferResponse):
        return _describe_buffer_response(message, LAYOUT_OF_RELEASE[release])
    if isinstance(message, ErrorResponse):
        return _describe_error(message)
    if isinstance(message, PartitionRequest):
        return {
            **_describe_partition(message.partition_id),
            "subpartition_start": message.queue_index_set.start_index,
            "subpartition_end": message.queue_index_set.end_index,
            "receiver_id": message.receiver_id.hex(),
            "credit": message.credit,
        }
    if isinstance(message, TaskEventRequest):
        return {
            **_describe_partition(message.partition_id),
            "receiver_id": message.receiver_id.hex(),
            "event": describe_event(message.event, release),
            "event_size": len(message.event.encode()),
        }
    described = {each.name: getattr(message, each.name) for each in fields(message)}
    if "receiver_id" in described:
        described["receiver_id"] = described["receiver_id"].hex()
    return described


def _describe_buffer_response(message: BufferResponse, layout: str) -> Vector:
    described = {
        "receiver_id": message.receiver_id.hex(),
        "subpartition_id": message.subpartition_id,
        "sequence_number": message.sequence_number,
        "backlog": message.backlog,
        "data_type": int(message.data_type),
        "data_type_name": message.data_type.name,
        "is_compressed": message.is_compressed,
        "buffer_size": message.buffer_size,
        "payload": message.buffer.hex(),
    }
    if layout == "2.x":
        described["num_partial_buffers"] = len(message.partial_buffer_sizes)
        described["partial_buffer_sizes"] = list(message.partial_buffer_sizes)
    return described


def _describe_error(message: ErrorResponse) -> Vector:
    causes = []
    cause = message.cause.cause
    while cause is not None:
        causes.append({"class": cause.class_name, "message": cause.message})
        cause = cause.cause
    return {
        "exception_class": message.cause.class_name,
        "message": message.cause.message,
        "causes": causes,
        "stack_trace_elements": message.cause.stack_trace_elements,
        "fatal": message.receiver_id is None,
        "receiver_id": None if message.receiver_id is None else message.receiver_id.hex(),
    }


def _describe_partition(partition_id: ResultPartitionID) -> Vector:
    producer_id = partition_id.producer_id
    return {
        "intermediate_data_set_id": str(partition_id.partition_id.intermediate_data_set_id),
        "partition_number": partition_id.partition_id.partition_number,
        "execution_graph_id": str(producer_id.execution_graph_id),
        "job_vertex_id": str(producer_id.execution_vertex_id.job_vertex_id),
        "subtask_index": producer_id.execution_vertex_id.subtask_index,
        "attempt_number": producer_id.attempt_number,
    }


_POST_ACTIONS = {
    SnapshotType.SAVEPOINT: "NONE",
    SnapshotType.SAVEPOINT_SUSPEND: "SUSPEND",
    SnapshotType.SAVEPOINT_TERMINATE: "TERMINATE",
}


def describe_event(event: Event, release: str) -> Vector:
    """The event as `fields` of a vector."""
    if isinstance(event, CheckpointBarrier):
        return _describe_barrier(event)
    if isinstance(event, EndOfData):
        return {"type": "EndOfData", "stop_mode": event.mode.name}
    if isinstance(event, EventAnnouncement):
        return {
            "type": "EventAnnouncement",
            "sequence_number": event.sequence_number,
            "announced": describe_event(event.announced_event, release),
        }
    if isinstance(event, OtherEvent):
        described = {"type": "Other", "class": event.class_name}
        if event.class_name.endswith(".WorkerDoneEvent"):
            described["worker_index"] = int.from_bytes(event.body[:4], "big")
        return described
    if isinstance(event, WatermarkEvent):
        return {
            "type": "WatermarkEvent",
            "identifier": event.identifier,
            "aligned": event.is_aligned,
            "watermark": "BoolWatermark" if isinstance(event.value, bool) else "LongWatermark",
            "value": event.value,
        }
    if isinstance(event, EndOfOutputChannelStateEvent) and release != "2.3.0":
        return {"type": "EndOfChannelStateEvent"}
    return {
        "type": type(event).__name__,
        **{name: getattr(event, name) for name in event.__slots__},
    }


def _describe_barrier(barrier: CheckpointBarrier) -> Vector:
    described = {
        "type": "CheckpointBarrier",
        "checkpoint_id": barrier.checkpoint_id,
        "timestamp": barrier.timestamp_ms,
        "snapshot": "SAVEPOINT"
        if barrier.snapshot_type.is_savepoint
        else barrier.snapshot_type.name,
        "location": None if barrier.location is None else barrier.location.hex(),
        "alignment": barrier.alignment.name,
        "aligned_timeout": barrier.aligned_timeout_ms,
    }
    if isinstance(barrier.savepoint_format, SavepointFormatType):
        described["post_action"] = _POST_ACTIONS[barrier.snapshot_type]
        described["format"] = barrier.savepoint_format.name
    return described


def describe_element(element: records.StreamElement) -> Vector:
    """The element as one of `elements` of a record stream."""
    match element:
        case records.Record(value, timestamp_ms):
            return {"element": "record", "timestamp": timestamp_ms, "value": value.hex()}
        case records.Watermark(timestamp_ms):
            return {"element": "watermark", "timestamp": timestamp_ms}
        case records.LatencyMarker(marked_time_ms, operator_id, subtask_index):
            return {
                "element": "latency-marker",
                "marked_time": marked_time_ms,
                "operator_id": operator_id.hex(),
                "subtask_index": subtask_index,
            }
        case records.WatermarkStatus(status):
            return {"element": "watermark-status", "status": status}
        case records.RecordAttributes(is_backlog):
            return {"element": "record-attributes", "backlog": is_backlog}
        case records.InternalWatermark(subpartition_index, timestamp_ms):
            return {
                "element": "internal-watermark",
                "subpartition_index": subpartition_index,
                "timestamp": timestamp_ms,
            }
