"""Hostile connections to the data ports of a bench, against the same bench without them:

    python -m bench.flood                                10 000 connections
    python -m bench.flood --connections 1000 --rate 50k/s

Each connection says one line of the table of misbehaving consumers, garbage, or the header of a
frame of 64 MiB, and goes away sooner or later. Exit code 1 if the rate fell below 0.95 of that
without them, if a TaskManager took more than 32 MiB more, if the result does not say that strangers
came, or if the bench was over before all of them had come.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.measure import FLINKNET
from tests.peers.by_consumers import CASES
from tests.peers.frames import frame
from tests.runtime.cluster.live_job import listening_port

RATE_KEPT_MIN = 0.95
MORE_BYTES_MAX = 32 << 20
LOOK_S = 0.1
OPEN_MAX = 50
"""Connections that are left open for a while."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a bench came to."""

    records_per_s: float
    peak_bytes: int  # of the TaskManager that took most
    connections: int  # that were made
    said: str  # of strangers


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.flood", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--rate", default="20k/s")
    parser.add_argument("--duration", type=int, default=20, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    alone = _measure(options, 0)
    flooded = _measure(options, options.connections)
    kept = flooded.records_per_s / alone.records_per_s
    more_bytes = flooded.peak_bytes - alone.peak_bytes
    mebibytes = [each.peak_bytes / 2**20 for each in (alone, flooded)]
    print(f"connections made       {flooded.connections:>12,}")
    print(f"records/s, undisturbed {alone.records_per_s:>12,.0f}")
    print(f"records/s, flooded     {flooded.records_per_s:>12,.0f}  ({kept:.3f})")
    print(f"memory, undisturbed    {mebibytes[0]:>12.1f} MiB")
    print(f"memory, flooded        {mebibytes[1]:>12.1f} MiB  (+{more_bytes / 2**20:.1f})")
    print(f"the result says        {flooded.said or 'nothing'}")
    is_well = kept >= RATE_KEPT_MIN and more_bytes <= MORE_BYTES_MAX and bool(flooded.said)
    if flooded.connections < options.connections:
        is_well = False
        print(f"only {flooded.connections:,} connections were made: try a longer --duration")
    print("held" if is_well else "did not hold")
    return int(not is_well)


def _measure(options: argparse.Namespace, connections: int) -> Measured:
    with tempfile.TemporaryDirectory(prefix="flood-") as place:
        result, errors = Path(place, "bench.json"), Path(place, "errors")
        bench = subprocess.Popen(
            [
                *(
                    str(FLINKNET),
                    "bench",
                    "--rate",
                    options.rate,
                    "--duration",
                    f"{options.duration}s",
                ),
                *("--producers", "2", "--consumers", "2", "--no-trace", "--json", str(result)),
            ],
            stdout=subprocess.DEVNULL,
            stderr=errors.open("w"),
        )
        task_managers = _task_managers(bench, errors)
        made = [0]
        is_over = threading.Event()
        flood = threading.Thread(
            target=_flood,
            args=(task_managers, connections, options, made, is_over),
        )
        flood.start()
        peak_bytes = 0
        while bench.poll() is None:
            for each in task_managers:
                with contextlib.suppress(psutil.Error):
                    peak_bytes = max(peak_bytes, each.memory_info().rss)
            with contextlib.suppress(subprocess.TimeoutExpired):
                bench.wait(LOOK_S)
        is_over.set()
        flood.join()
        if bench.returncode:
            raise SystemExit(f"the bench failed: {errors.read_text()[-2000:]}")
        (run,) = json.loads(result.read_text())["runs"]
        said = [each["text"] for each in run["warnings"] if "strangers" in each["code"]]
        rate = run["measured"]["throughput_records_per_s"]
        return Measured(rate, peak_bytes, made[0], "".join(said))


def _task_managers(bench: subprocess.Popen[bytes], errors: Path) -> list[psutil.Process]:
    """Both, once they listen."""
    launcher = psutil.Process(bench.pid)
    while bench.poll() is None:
        found = []
        with contextlib.suppress(psutil.Error, ValueError):
            for each in launcher.children(recursive=True):
                if "taskmanager" in each.cmdline():
                    listening_port(each)
                    found.append(each)
        if len(found) == 2:
            return found
        with contextlib.suppress(subprocess.TimeoutExpired):
            bench.wait(LOOK_S)
    raise SystemExit(f"the bench failed: {errors.read_text()[-2000:]}")


def _flood(
    task_managers: list[psutil.Process],
    connections: int,
    options: argparse.Namespace,
    made: list[int],
    is_over: threading.Event,
) -> None:
    """Make `connections` connections, spread over four fifths of the bench."""
    dice = random.Random(options.seed)
    ports = [listening_port(each) for each in task_managers]
    began = time.monotonic()
    left_open: list[socket.socket] = []
    for number in range(connections):
        due = began + 0.8 * options.duration * number / connections
        if is_over.wait(max(due - time.monotonic(), 0)):
            break
        sock = _connected(dice.choice(ports), is_over)
        if sock is None:
            break
        made[0] += 1
        with contextlib.suppress(OSError):
            sock.send(_said(dice))
        left_open.append(sock)
        if len(left_open) > OPEN_MAX or dice.random() < 0.5:
            left_open.pop(dice.randrange(len(left_open))).close()
    for each in left_open:
        each.close()


def _connected(port: int, is_over: threading.Event) -> socket.socket | None:
    """A connection, after as many attempts as it takes; None when the bench is over."""
    while not is_over.is_set():
        with contextlib.suppress(OSError):
            return socket.create_connection(("127.0.0.1", port), timeout=1)
        is_over.wait(LOOK_S)
    return None


def _said(dice: random.Random) -> bytes:
    kind = dice.randrange(4)
    if kind == 0:
        return dice.randbytes(dice.randint(1, 300))
    if kind == 1:
        return frame(3, length=64 << 20) + bytes(1000)
    return dice.choice(CASES).data[:4000]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
