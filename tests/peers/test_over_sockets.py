"""Consumers that misbehave, over loopback sockets, to one producer that listens all the time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from queue import Empty, SimpleQueue

import pytest

from flinknet.core.producer import PipelinedResultPartition
from flinknet.core.wire.ids import ResultPartitionID
from tests.node import HOST, Node
from tests.pair import OTHER_RECEIVER, RECEIVER, partition_of
from tests.peers.by_consumers import CASES, FOR_TASK, Case
from tests.peers.over_sockets import SUBPARTITIONS, expected, outcome, partitions_of
from tests.peers.producer import write

pytestmark = pytest.mark.socket

LATE_NS = 200_000_000


class LoopbackProducer:
    """A node whose loop turns in a thread of its own; everything else happens between its turns."""

    late_s = LATE_NS / 1e9
    fails_s = 5.0
    patience_s = 5.0

    def __init__(self) -> None:
        self._node = Node(0, partition_request_timeout_ns=LATE_NS)
        self._node.channel_of |= {RECEIVER: 0, OTHER_RECEIVER: 1}
        self.address = (HOST, self._node.port)
        self._partitions: dict[ResultPartitionID, PipelinedResultPartition] = {}
        self._told: set[ResultPartitionID] = set()
        self._waiting: SimpleQueue[tuple[Callable[[], None], Future[None]]] = SimpleQueue()
        self._is_over = False
        self._thread = threading.Thread(target=self._turn)
        self._thread.start()

    def serve(self, case: Case) -> None:
        """Register the partitions of a case."""
        self._do(lambda: self._register(case))

    def write(self, partition: ResultPartitionID) -> None:
        self._do(lambda: write(self._partitions[partition]))

    def fail(self, partition: ResultPartitionID) -> None:
        self._do(lambda: self._partitions[partition].fail("why"))

    def was_told(self, partition: ResultPartitionID) -> bool:
        return partition in self._told

    def close(self) -> None:
        """Stop turning, and close."""
        self._is_over = True
        self._thread.join()
        self._node.close()

    def _register(self, case: Case) -> None:
        for partition, subpartitions in zip(partitions_of(case), SUBPARTITIONS, strict=True):
            made, _ = partition_of(subpartitions, identity=partition, buffers=20)
            made.task_events.subscribe(
                FOR_TASK.class_name, lambda _, partition=partition: self._told.add(partition)
            )
            made.task_events.register()
            self._node.partitions.register(made)
            self._partitions[partition] = made

    def _do(self, action: Callable[[], None]) -> None:
        """Do something between two turns, and wait for it."""
        done: Future[None] = Future()
        self._waiting.put((action, done))
        done.result(timeout=10)

    def _turn(self) -> None:
        while not self._is_over:
            self._node.turn()
            try:
                action, done = self._waiting.get_nowait()
            except Empty:
                continue
            action()
            done.set_result(None)


@pytest.fixture(scope="module")
def producer() -> Iterator[LoopbackProducer]:
    made = LoopbackProducer()
    yield made
    made.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"P{case.number:02d}")
def test_a_consumer_over_a_socket(case: Case, producer: LoopbackProducer) -> None:
    producer.serve(case)
    assert outcome(case, producer) == expected(case)
