"""All byte layouts of the network, and nothing else: encoding and decoding.

- `ids`: ids of channels, partitions and attempts. `layout`: the frame, and what differs between
releases. `header`: the fields of a BufferResponse by name.
- `messages` (with `buffer_response`, `java_errors`): messages of a connection; `plain_frames`
encodes the frequent ones without objects.
- `frames`: decodes a stream of bytes, split anywhere, into messages; `response_decoder` does so on
the consumer's hot path, `layout_detection` for a producer of unknown release. `peek`: inspects
frames as a third party.
- `events` (with `checkpoint_barrier`), `records`: contents of payloads. `record_counter`: the
number of records that end in a payload; behind a gap `record_search` finds where one begins.
- `stored_buffers`: buffers in a file. `modified_utf8`: Java's string encoding.
- `compression` (with `lzo`): compressed payloads.

Only these modules have offsets, formats and magic numbers. They have no connection state (credits,
sequence numbers: see `core.producer` and `core.consumer`), sockets, clocks or threads. Values are
frozen dataclasses with `encode` and `decode` side by side. A decoder checks a length before it uses
it; it raises RemoteProtocolError for what a Flink peer would reject, and never anything else,
whatever the bytes.

flinknet speaks Flink 2.3 and reads 1.20 to 2.3.
"""

from .buffer_response import BufferResponse
from .compression import CompressionCodec, compress, decompress
from .events import Event, data_type_of, decode_event, encode_pipelined
from .frames import FrameDecoder
from .header import BUFFER_RESPONSE_HEADER_BYTES
from .ids import (
    ExecutionAttemptID,
    ExecutionGraphID,
    ExecutionVertexID,
    InputChannelID,
    IntermediateDataSetID,
    IntermediateResultPartitionID,
    JobVertexID,
    ResultPartitionID,
    ResultSubpartitionIndexSet,
)
from .java_errors import JavaThrowable
from .layout import LAYOUTS, Direction, Layout, detect_layout
from .messages import Message
from .plain_frames import (
    decode_buffer_response_header,
    encode_add_credit,
    encode_buffer_response_header,
    next_sequence_number,
)
from .records import (
    LENGTH_PREFIX_BYTES,
    StreamElement,
    decode_element,
    encode_record,
)

__all__ = [
    "BUFFER_RESPONSE_HEADER_BYTES",
    "LAYOUTS",
    "LENGTH_PREFIX_BYTES",
    "BufferResponse",
    "CompressionCodec",
    "Direction",
    "Event",
    "ExecutionAttemptID",
    "ExecutionGraphID",
    "ExecutionVertexID",
    "FrameDecoder",
    "InputChannelID",
    "IntermediateDataSetID",
    "IntermediateResultPartitionID",
    "JavaThrowable",
    "JobVertexID",
    "Layout",
    "Message",
    "ResultPartitionID",
    "ResultSubpartitionIndexSet",
    "StreamElement",
    "compress",
    "data_type_of",
    "decode_buffer_response_header",
    "decode_element",
    "decode_event",
    "decompress",
    "detect_layout",
    "encode_add_credit",
    "encode_buffer_response_header",
    "encode_pipelined",
    "encode_record",
    "next_sequence_number",
]
