"""tls_cost: throughput with TLS on the data port, relative to plain connections, in turns; and what
the messages that announce credit cost with and without it.

A test set of certificates is made first; protocol and cipher are Flink's defaults (TLSv1.2,
ECDHE-RSA with AES-GCM), tracing is off. A ratio is taken within each round. With a flush for every
record each of them pays for a TLS record of its own.

What an AddCredit costs is measured apart: one after the other over a socket, from the consumer's
end to the producer's, both in this process; its bytes are those that the socket took. How many
there are is counted in the runs.

    python bench/tls_cost.py [--rounds 5] [--seconds 2] [--seed 1]
"""

from __future__ import annotations

import argparse
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.measure import (
    print_table,
    processor_share,
    rate,
    rate_per_processor,
    ratio,
    run_in_turns,
)
from flinknet.core.connection import Connection
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.layout import Direction, encode_add_credit
from flinknet.options import network_config, read_flink_conf
from flinknet.runtime.tls import create_tls
from tests.certificate_set import CONFIG, generate

CASES = {
    "network_throughput[1,100ms] 100 B": ("--record-size", "100b", "--buffer-timeout", "100ms"),
    "network_throughput[1,100ms] 32 KiB": ("--record-size", "32kb", "--buffer-timeout", "100ms"),
    "network_throughput[1,0ms] 100 B": ("--record-size", "100b", "--buffer-timeout", "0"),
    "20,000 records/s, 0ms, 100 B": (
        *("--rate", "20k/s", "--arrivals", "poisson"),
        *("--record-size", "100b", "--buffer-timeout", "0"),
    ),
}
"""As in Flink's benchmarks: [channels, flush timeout]; then the size of a record's value. At a rate
nearly every record leaves in a buffer of its own.
"""

PLAIN, TLS = "plain", "TLS"
MESSAGES = 20_000
"""So many AddCredits are timed, five times; the quickest counts."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one AddCredit, on both ends together."""

    size_bytes: float
    processor_ns: float


class End:
    """One end of a connection: says one AddCredit whenever it is asked, decodes what it hears."""

    is_closing = False
    is_ready = False
    wants_data = True

    def __init__(self) -> None:
        self.decoder = FrameDecoder(Direction.CONSUMER_TO_PRODUCER)

    def receive_data(self, data: memoryview, *, now_ns: int) -> None:
        """Decode."""
        self.decoder.feed(data)

    def receive_eof(self, *, now_ns: int, error: object = None) -> None:
        """There is no end."""

    def data_to_send(self, *, now_ns: int, **_: int) -> Sequence[bytes | memoryview]:
        """One message."""
        return (encode_add_credit(bytes(16), 2),)

    def next_deadline_ns(self) -> int | None:
        """Never."""
        return None

    def handle_deadline(self, *, now_ns: int) -> None:
        """Nothing is due."""


def cost_of_add_credit(consumer: Connection, producer: Connection) -> Cost:
    """Send many from one end to the other over a socket, and take the time of the processor."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    buffer = memoryview(bytearray(1 << 16))
    best_ns, sent = float("inf"), 0
    with near, far:
        for sock in (near, far):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(5):
            sent, began_ns = 0, time.process_time_ns()
            for _ in range(MESSAGES):
                data = b"".join(consumer.data_to_send(now_ns=0))
                near.sendall(data)
                sent += len(data)
                left = len(data)
                while left:
                    count = far.recv_into(buffer)
                    producer.receive_data(buffer[:count], now_ns=0)
                    left -= count
            best_ns = min(best_ns, (time.process_time_ns() - began_ns) / MESSAGES)
    return Cost(sent / MESSAGES, best_ns)


def costs_of_add_credit(config: str) -> dict[str, Cost]:
    """Without TLS, and with it as the settings in a file say."""
    tls = create_tls(network_config(read_flink_conf(Path(config))[0])[0])
    consumer = tls.around(End(), is_server=False)
    producer = tls.around(End(), is_server=True)
    while not (consumer.is_established and producer.is_established):
        for end, other in ((consumer, producer), (producer, consumer)):
            if not end.is_established or not other.is_established:
                other.receive_data(memoryview(b"".join(end.data_to_send(now_ns=0))), now_ns=0)
    return {
        PLAIN: cost_of_add_credit(End(), End()),
        TLS: cost_of_add_credit(consumer, producer),
    }


def share_of_credit(run: Mapping[str, Any], cost: Cost) -> tuple[float, float, float]:
    """AddCredits for each buffer, their bytes for each byte of payload, and their part of the
    processor time of the TaskManagers.
    """
    measured = run["measured"]
    messages, seconds = measured["credits"]["messages"], measured["duration_ns"] / 1e9
    return (
        messages / measured["buffers"],
        messages * cost.size_bytes / measured["bytes"],
        messages * cost.processor_ns / 1e9 / (processor_share(run) * seconds),
    )


def main() -> None:
    """Measure every case in turns and print the ratio of throughput, TLS to plain; then the part
    of the messages that announce credit.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rounds, seed = arguments.rounds, arguments.seed
    duration = ("--duration", f"{arguments.seconds:g}s")
    rows, of_credit = [], []
    with tempfile.TemporaryDirectory(prefix="flinknet-certificates-") as directory:
        generate(Path(directory), "a password")
        config = str(Path(directory, CONFIG))
        costs = costs_of_add_credit(config)
        sides: dict[str, Sequence[str]] = {PLAIN: (), TLS: ("--flink-conf", config)}
        for name, options in CASES.items():
            runs = run_in_turns(sides, *options, *duration, rounds=rounds, seed=seed)
            rates = {side: [rate(run) for run in runs[side]] for side in runs}
            is_max_rate = "--rate" not in options  # else event loops stay awake
            of_processor = {side: [rate_per_processor(run) for run in runs[side]] for side in runs}
            rows.append(
                (
                    name,
                    f"{median(rates[TLS]) / 1e6:.0f}",
                    ratio(rates[PLAIN], rates[TLS]),
                    ratio(of_processor[PLAIN], of_processor[TLS]) if is_max_rate else "-",
                )
            )
            for side in runs:
                shares = [share_of_credit(run, costs[side]) for run in runs[side]]
                for_each, of_bytes, of_time = (median(each) for each in zip(*shares, strict=True))
                of_credit.append(
                    (
                        f"{name}, {side}",
                        f"{for_each:.2f}",
                        f"{costs[side].size_bytes:.0f}",
                        f"{costs[side].processor_ns / 1e3:.1f}",
                        f"{of_bytes:.2%}",
                        f"{of_time:.1%}" if is_max_rate else "-",
                    )
                )
    title = f"{rounds} rounds of {arguments.seconds:g} s, seeds {seed} to {seed + rounds - 1}"
    print_table((title, "TLS MB/s", "TLS / plain [95%]", "per processor time [95%]"), rows)
    print()
    print_table(
        (
            "AddCredit",
            "for each buffer",
            "bytes",
            "us",
            "of the payload's bytes",
            "of the processor time",
        ),
        of_credit,
    )


if __name__ == "__main__":
    main()
