"""Accuracy of emulated links: round trip and bandwidth as measured through the emulator's sockets.

    python bench/link_accuracy.py [LINK ...]

Both ends are polled by this process, so that its own waking adds nothing; the round trip of a plain
socket is subtracted. Real-time priority, where the user may have it, keeps other processes out.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from flinknet.options.link import parse_link
from flinknet.runtime.link_process import LinkEmulator

LINKS = (
    *("rtt=0", "rtt=1ms", "rtt=10ms", "rtt=50ms", "rtt=2ms,jitter=0.2ms"),
    *("rtt=2ms,bandwidth=100mbit", "rtt=2ms,bandwidth=1gbit", "rtt=20ms,bandwidth=1gbit"),
)
PINGS_S, BULK_S, SKIPPED_S = 2.0, 2.0, 0.3


@contextmanager
def connected(
    server: socket.socket, address: tuple[str, int]
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection, non-blocking."""
    with socket.create_connection(address) as client:
        accepted, _ = server.accept()
        with accepted:
            for each in client, accepted:
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                each.setblocking(False)
            yield client, accepted


def round_trips_us(server: socket.socket, address: tuple[str, int], rtt_ns: int) -> list[float]:
    """Round trips of small messages, ascending, in us."""
    found = []
    with connected(server, address) as (client, accepted):
        for _ in range(max(30, min(400, int(PINGS_S * 1e9 / (rtt_ns + 3e5))))):
            begun_ns = time.monotonic_ns()
            client.send(bytes(64))
            while True:
                with suppress(BlockingIOError):
                    accepted.send(accepted.recv(64))
                with suppress(BlockingIOError):
                    client.recv(64)
                    break
            found.append((time.monotonic_ns() - begun_ns) / 1e3)
            time.sleep(0.0003)
    return sorted(found)


def bytes_per_s(server: socket.socket, address: tuple[str, int]) -> float:
    """Throughput of a sender that always has more."""
    data, buffer = bytes(1 << 18), bytearray(1 << 20)
    with connected(server, address) as (client, accepted):
        begun_ns = time.monotonic_ns()
        first_ns = last_ns = received = 0
        while (now_ns := time.monotonic_ns()) < begun_ns + BULK_S * 1e9:
            with suppress(BlockingIOError):
                client.send(data)
            try:
                count = accepted.recv_into(buffer)
            except BlockingIOError:
                time.sleep(0.0002)
                continue
            if first_ns:
                received, last_ns = received + count, now_ns
            elif now_ns > begun_ns + SKIPPED_S * 1e9:
                first_ns = now_ns
    return received / max(1, last_ns - first_ns) * 1e9


def main(texts: list[str]) -> None:
    """Measure links, and print a line for each."""
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    with socket.create_server(("127.0.0.1", 0)) as server:
        own = server.getsockname()[:2]
        plain = round_trips_us(server, own, 0)
        plain_us = plain[len(plain) // 2]
        print(f"plain socket: {plain_us:.0f} us")
        print(f"{'link':<28}{'p10':>9}{'p50':>9}{'p90':>9}{'error':>9}   bandwidth")
        for text in texts:
            link = parse_link(text)
            assert link is not None
            emulator = LinkEmulator(link, 2, seed=1)
            try:
                emulator.set_target(1, own)
                address = emulator.address_of(1, 0)
                found = round_trips_us(server, address, link.rtt_ns)
                p10, p50, p90 = (found[len(found) * each // 100] for each in (10, 50, 90))
                error = p50 - plain_us - link.rtt_ns / 1e3
                line = f"{text:<28}{p10:>6.0f} us{p50:>6.0f} us{p90:>6.0f} us{error:>+6.0f} us"
                if asked := link.bandwidth_bytes_per_s:
                    carried = bytes_per_s(server, address)
                    line += f"   {carried * 8 / 1e6:.1f} Mbit/s ({carried / asked - 1:+.2%})"
                print(line, flush=True)
            finally:
                emulator.close()


if __name__ == "__main__":
    main(sys.argv[1:] or list(LINKS))
