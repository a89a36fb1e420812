"""Pressure through jobs, to what stands outside of them."""

from __future__ import annotations

import socket

import pytest

from flinknet.results import JobStatus
from tests.runtime.cluster.live_job import Start

pytestmark = pytest.mark.socket


MIB = 1 << 20
LINE = b"x" * 1023 + b"\n"

SLOW_SINK = """
def main(env, port):
    lines = env.socket_text_stream("127.0.0.1", int(port))
    lines.rebalance().map(same).name("Slow").delay("2ms").discard()
    env.execute("Slow sink")


def same(line: str) -> str:
    return line
"""

CHAIN = """
def main(env):
    made = env.generate(rate="50k/s").name("X")
    passed = made.rebalance().map(same).name("A")
    passed.rebalance().map(same).name("B").delay("500us").discard()
    env.execute("Chain")


def same(record: tuple[int, bytes]) -> tuple[int, bytes]:
    return record
"""


class Feed:
    """A server of lines without end, which counts what it could send."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.setblocking(False)
        self._client: socket.socket | None = None
        self.port: int = self._server.getsockname()[1]
        self.offered_bytes = 64 * MIB
        self.sent_bytes = 0

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()
        if self._client is not None:
            self._client.close()

    def push(self) -> int:
        """Send as much as can be sent now. Returns: bytes."""
        before = self.sent_bytes
        try:
            if self._client is None:
                self._client, _ = self._server.accept()
                self._client.setblocking(False)
            while self.sent_bytes < self.offered_bytes:
                self.sent_bytes += self._client.send(LINE[self.sent_bytes % len(LINE) :] * 64)
        except BlockingIOError:
            pass
        return self.sent_bytes - before


@pytest.mark.row("S105")
def test_a_source_stops_reading_when_its_sink_is_slow_and_the_rest_stays_outside(
    start: Start,
) -> None:
    with Feed() as feed:
        job = start(SLOW_SINK, feed.port, settings={"taskmanager.memory.segment-size": "4kb"})
        pushed: list[int] = []

        def is_stuck(status: JobStatus) -> bool:
            pushed.append(feed.push())
            is_running = bool(status.vertices) and status.vertices[-1].records_in > 0
            return is_running and feed.sent_bytes > 0 and pushed[-20:] == [0] * 20

        status = job.until(is_stuck)
        sizes = [each.memory_info().rss for each in job.task_managers().values()]
        stuck_at, taken = feed.sent_bytes, status.vertices[-1].records_in
        assert stuck_at < feed.offered_bytes / 2
        status = job.until(lambda status: status.vertices[-1].records_in > taken + 500)
        feed.push()
        # what the sockets give room for is what was taken, and a window of the kernel's
        assert feed.sent_bytes < stuck_at + 8 * MIB
        grown = [
            each.memory_info().rss - size
            for each, size in zip(job.task_managers().values(), sizes, strict=True)
        ]
        assert max(grown) < 2 * MIB
        assert status.vertices[0].back_pressured > 0.5


@pytest.mark.slow("real processes, for rules tested without")
@pytest.mark.row("S104")
def test_a_slow_last_task_holds_up_the_one_before_it_and_the_source(start: Start) -> None:
    job = start(CHAIN, settings={"taskmanager.memory.segment-size": "4kb"})
    status = job.until(
        lambda status: (
            bool(status.vertices)
            and status.vertices[-1].records_in > 3000
            and all(each.back_pressured > 0.5 for each in status.vertices[:-1])
        )
    )
    source, middle, last = status.vertices
    # two edges of one channel each: some twenty buffers of 4 KiB a side, 35 records in each
    assert source.records_out - last.records_in < 4000
    assert middle.records_in - last.records_in < 2000
    assert last.busy > 0.5
