"""All byte layouts of the network, and nothing else: encoding and decoding.

- `ids`: ids of channels, partitions and attempts; `lineage`: inputs of vertices, from ids alone.
- `layout`: the frame, the header of a BufferResponse by release, and the frequent messages as
bytes, without objects. `messages` (with `buffer_response`, `java_errors`): all messages.
- `frames`: decodes a stream of bytes, split anywhere, into messages, of a known or unknown release;
`response_decoder` does so on the consumer's hot path.
- `events` (with `checkpoint_barrier`), `records`: contents of payloads, and the times they carry.
`record_counter`: the number of records that end in a payload, also behind a gap.
- `compression`: compressed payloads.

Only these modules have offsets, formats and magic numbers. They have no connection state (credits,
sequence numbers: see `core.producer` and `core.consumer`), sockets, clocks or threads. Values are
frozen dataclasses with `encode` and `decode` side by side. A decoder checks a length before it uses
it; it raises RemoteProtocolError for what a Flink peer would reject, and never anything else,
whatever the bytes.

flinknet speaks Flink 2.3 and reads 1.20 to 2.3.
"""
