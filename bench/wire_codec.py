"""wire_codec: nanoseconds a frame takes to encode and to decode.

The payload of a BufferResponse is copied into the buffer it is meant for, as at a consumer; the
stream comes in chunks of 64 KiB, as a socket gives it.

    python bench/wire_codec.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from statistics import median

from bench.measure import print_table, spread
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.layout import (
    Direction,
    Header,
    encode_add_credit,
    encode_buffer_response_header,
)
from flinknet.core.wire.messages import Message
from flinknet.core.wire.response_decoder import ResponseDecoder

RECEIVER = bytes(range(16))
CHUNK_BYTES = 64 * 1024


class OneBuffer:
    """Takes every payload into the same memory."""

    def __init__(self, size_bytes: int) -> None:
        self._memory = memoryview(bytearray(size_bytes))
        self.buffers = 0

    def take_buffer(self, _: Header) -> memoryview:
        """The memory for the next payload."""
        return self._memory

    def free_memory(self, header: Header) -> Sequence[memoryview]:
        return ()

    def receive_run(self, header: Header, backlogs: Sequence[int]) -> None:
        raise AssertionError  # no memory was told for one

    def receive_payload(self, _: Header) -> None:
        """Count."""
        self.buffers += 1

    def receive_message(self, message: Message) -> None:
        """None is sent."""
        raise AssertionError(message)


def encode_headers() -> int:
    """Headers of BufferResponses."""
    frames = 200_000
    for number in range(frames):
        encode_buffer_response_header(RECEIVER, 0, number, 3, 1, 0, 32_768)
    return frames


def encode_credits() -> int:
    """AddCredit messages."""
    frames = 200_000
    for number in range(frames):
        encode_add_credit(RECEIVER, number)
    return frames


def decode_credits() -> int:
    """AddCredit messages at a producer."""
    frames = 20_000
    stream = memoryview(encode_add_credit(RECEIVER, 2) * frames)
    decoder = FrameDecoder(Direction.CONSUMER_TO_PRODUCER)
    decoded = 0
    for at in range(0, len(stream), CHUNK_BYTES):
        decoded += len(decoder.feed(stream[at : at + CHUNK_BYTES]))
    assert decoded == frames
    return frames


def decode_buffers(payload_bytes: int) -> int:
    """BufferResponses at a consumer."""
    frames, repeats = (1 << 20) // (payload_bytes + 47), 20  # 1 MiB stays in the cache
    header = encode_buffer_response_header(RECEIVER, 0, 7, 3, 1, 0, payload_bytes)
    stream = memoryview((header + bytes(payload_bytes)) * frames)
    sink = OneBuffer(payload_bytes)
    decoder = ResponseDecoder(sink)
    for _ in range(repeats):
        for at in range(0, len(stream), CHUNK_BYTES):
            decoder.receive(stream[at : at + CHUNK_BYTES])
    assert sink.buffers == frames * repeats
    return sink.buffers


CASES: dict[str, Callable[[], int]] = {
    "wire_encode[BufferResponse header]": encode_headers,
    "wire_encode[AddCredit]": encode_credits,
    "wire_decode[AddCredit]": decode_credits,
    "wire_decode[BufferResponse, 105 B]": lambda: decode_buffers(105),
    "wire_decode[BufferResponse, 32 KiB]": lambda: decode_buffers(32_768),
}


def main() -> None:
    """Time every case in every round and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    times_ns: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(rounds):
        for name, case in CASES.items():
            began = time.perf_counter_ns()
            frames = case()
            times_ns[name].append((time.perf_counter_ns() - began) / frames)
    print_table(
        ("benchmark", "ns per frame", "M frames/s", "spread"),
        [
            (name, f"{median(each):.0f}", f"{1e3 / median(each):.2f}", spread(each))
            for name, each in times_ns.items()
        ],
    )


if __name__ == "__main__":
    main()
