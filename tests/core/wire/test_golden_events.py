"""Golden events: bare, in a buffer of exact size, and as pipelined partitions send them."""

from __future__ import annotations

from flinknet.core.buffers.data_type import DataType
from flinknet.core.wire.events import data_type_of, decode_event, encode_pipelined
from tests.golden_vectors import Vector, describe_event, golden


@golden("event")
def test_event_decodes_to_its_fields_and_encodes_to_its_bytes(release: str, vector: Vector) -> None:
    data = bytes.fromhex(vector["hex"])
    event = decode_event(data)
    assert describe_event(event, release) == vector["fields"]
    assert event.encode() == data


@golden("event-buffer", "event-pipelined")
def test_event_in_a_buffer_is_read_by_its_content(release: str, vector: Vector) -> None:
    fields = vector["fields"]
    payload = bytes.fromhex(fields["payload"])
    event = decode_event(payload)
    assert describe_event(event, release) == fields["event"]
    assert event.encode()[: fields["event_size"]] == payload[: fields["event_size"]]


@golden("event-pipelined")
def test_pipelined_partition_sends_the_whole_array(release: str, vector: Vector) -> None:
    payload = bytes.fromhex(vector["fields"]["payload"])
    exact = payload[: vector["fields"]["event_size"]]
    assert encode_pipelined(decode_event(exact)) == payload


@golden("event-buffer")
def test_event_is_sent_under_its_data_type(release: str, vector: Vector) -> None:
    fields = vector["fields"]
    data_type = DataType(fields["data_type"])
    event = decode_event(bytes.fromhex(fields["payload"]))
    assert data_type_of(event, priority=data_type.has_priority) is data_type
