"""credit_path: what the stack itself costs for each buffer, without sockets, clocks or processes.

A partition, the producer's and the consumer's end of a connection, and a gate are joined by their
bytes. Each buffer is filled with records, framed, decoded into pooled memory, polled from the gate
and recycled, and its credit travels back.

    python bench/credit_path.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import time
from statistics import median

from bench.measure import print_table, spread
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.consumer import ConsumerConnection, RemoteInputChannel, SingleInputGate
from flinknet.core.probe import NullProbe
from flinknet.core.producer import (
    PipelinedResultPartition,
    ProducerConnection,
    ResultPartitionManager,
    SerializedRecords,
)
from flinknet.core.wire.ids import (
    ExecutionAttemptID,
    ExecutionGraphID,
    ExecutionVertexID,
    IntermediateDataSetID,
    IntermediateResultPartitionID,
    JobVertexID,
    ResultPartitionID,
)

SEGMENT_BYTES = 32 * 1024
RECORD_BYTES = 128
CASES = {"credit_path[1]": 1, "credit_path[4]": 4, "credit_path[32]": 32}
"""Channels that share one connection."""

PARTITION_ID = ResultPartitionID(
    IntermediateResultPartitionID(IntermediateDataSetID(bytes(16)), 0),
    ExecutionAttemptID(
        ExecutionGraphID(bytes(16)), ExecutionVertexID(JobVertexID(bytes(16)), 0), 0
    ),
)


class Exchange:
    """One producer and one gate over one connection that loses no time."""

    def __init__(self, channels: int) -> None:
        self._pool = NetworkBufferPool(channels * 24 + 32, SEGMENT_BYTES)
        self.partition = PipelinedResultPartition(
            PARTITION_ID,
            channels,
            lambda: self._pool.create_buffer_pool(
                channels + 1,
                channels * 2 + 8,
                channels=channels,
                max_buffers_per_channel=10,
                max_overdraft_buffers=20,
            ),
            exclusive_buffers=2,
        )
        self.partition.setup()
        partitions = ResultPartitionManager()
        partitions.register(self.partition)
        receivers = [number.to_bytes(16, "big") for number in range(channels)]
        self.gate = SingleInputGate()
        floating = self._pool.create_buffer_pool(1, 8)
        inputs = [
            RemoteInputChannel(
                i, receiver, PARTITION_ID, i, self.gate.queue_channel, i, self._pool, floating, 2
            )
            for i, receiver in enumerate(receivers)
        ]
        self.gate.set_channels(inputs)
        self._producer = ProducerConnection(
            partitions,
            NullProbe(),
            {receiver: i for i, receiver in enumerate(receivers)},
            partition_request_timeout_ns=10**10,
        )
        self._consumer = ConsumerConnection("producer", NullProbe())
        for each in inputs:
            self._consumer.request_subpartition(each, now_ns=0)
        self.carry()

    def carry(self) -> None:
        """Take what either end has to send to the other, once."""
        for piece in self._consumer.data_to_send(now_ns=0):
            self._producer.receive_data(memoryview(piece), now_ns=0)
        for piece in self._producer.data_to_send(now_ns=0):
            self._consumer.receive_data(memoryview(piece), now_ns=0)


def move(channels: int, buffers: int) -> float:
    """Nanoseconds for each buffer that went the whole way."""
    exchange = Exchange(channels)
    batch = SerializedRecords(memoryview(bytes(SEGMENT_BYTES)), 0, record_bytes=RECORD_BYTES)
    positions, channel, polled = [0] * channels, 0, 0
    began = time.perf_counter_ns()
    while polled < buffers:
        channel = (channel + 1) % channels
        reached = exchange.partition.emit(channel, batch, positions[channel])
        positions[channel] = reached % SEGMENT_BYTES
        exchange.carry()
        while (found := exchange.gate.poll()) is not None:
            found[1].recycle()
            polled += 1
    return (time.perf_counter_ns() - began) / polled


def main() -> None:
    """Time every case in every round and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--buffers", type=int, default=20_000)
    arguments = parser.parse_args()
    times_ns: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(arguments.rounds):
        for name, channels in CASES.items():
            times_ns[name].append(move(channels, arguments.buffers))
    print_table(
        ("benchmark", "us per buffer", "k buffers/s", "MB/s of 32 KiB", "spread"),
        [
            (
                name,
                f"{median(each) / 1e3:.2f}",
                f"{1e6 / median(each):.1f}",
                f"{SEGMENT_BYTES / median(each) * 1e3:.0f}",
                spread(each),
            )
            for name, each in times_ns.items()
        ],
    )


if __name__ == "__main__":
    main()
