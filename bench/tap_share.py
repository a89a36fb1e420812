"""tap_share: what a tap adds to the way of a buffer when it has only a share of a processor, as in
a container with a CPU limit, and the memory that it needs.

A producer sends a buffer for each record at a fixed rate, through a tap, to a consumer. The tap is
put under the CPU quota of a control group (version 1 or 2), which takes the rights of root. How
long a buffer was on its way is read from the traces of both ends, which have one clock. What the
tap says that it adds is less: it does not see bytes that wait in the kernel while it may not run.

    python bench/tap_share.py [--seconds 8] [--rates 500,2000,8000] [--cores 0.1,0.25,0.5,1]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from bench.flink.cluster import free_ports
from bench.measure import FLINKNET, print_table
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.trace.reader import TraceReader

PARTITION = "5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e#0@" + "0" * 32 + "_" + "1" * 32 + "_0_0"
PERIOD_US = 100_000
"""The period of a quota, in microseconds; Kubernetes has the same."""


@contextmanager
def quota(cores: float, pid: int) -> Iterator[None]:
    """A control group that gives a process, and those it starts, a share of the processors.

    Raises: OSError without the right to make one.
    """
    old = Path("/sys/fs/cgroup/cpu")
    group = (old if old.is_dir() else Path("/sys/fs/cgroup")) / f"flinknet-tap-{pid}"
    group.mkdir()
    try:
        if old.is_dir():
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(int(cores * PERIOD_US)))
        else:
            (group / "cpu.max").write_text(f"{int(cores * PERIOD_US)} {PERIOD_US}")
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        while psutil.pid_exists(pid):
            time.sleep(0.05)
        group.rmdir()


def measured(rate: int, cores: float | None, seconds: float, work: Path) -> tuple[str, ...]:
    """One run: a row of the table.

    Args:
        cores: share of the processors for the tap; None: no tap.
    """
    listen, upstream = free_ports(2)
    produce = _start(
        *("bench", "produce", "--listen", f"127.0.0.1:{upstream}", "--partition", PARTITION),
        *("--rate", f"{rate}/s", "--duration", f"{seconds:g}s", "--buffer-timeout", "0"),
        *("--out", f"{work}/sent"),
    )
    processes = [produce]
    port = upstream
    if cores is not None:
        port = listen
        tap = _start(
            *("trace", "tap", "--listen", f"127.0.0.1:{listen}", "--out", f"{work}/tapped"),
            *("--upstream", f"127.0.0.1:{upstream}", "--ring", "1min"),
        )
        processes.append(tap)
        _wait_for(listen)
    _wait_for(upstream)
    rss_bytes, added = 0.0, None
    consume = [
        *("bench", "consume", f"127.0.0.1:{port}", "--partition", PARTITION, "--stamped"),
        *("--out", f"{work}/received"),
    ]
    if cores is None:
        _result(_start(*consume))
    else:
        with quota(cores, tap.pid):
            reader = _start(*consume)
            while reader.poll() is None:
                rss_bytes = max(rss_bytes, psutil.Process(tap.pid).memory_info().rss)
                time.sleep(0.1)
            _result(reader)
            tap.send_signal(signal.SIGINT)
            added = _result(tap)["added_delay_ns"]
    for each in processes:
        each.wait(30)
    p50, p99 = np.percentile(_way_ns(work), [50, 99]) / 1e6
    return (
        f"{rate:,}",
        "no tap" if cores is None else f"{cores:g}",
        f"{p50:.2f}",
        f"{p99:.2f}",
        "-" if added is None else f"{added['p50'] / 1e6:.2f}",
        "-" if added is None else f"{added['p99'] / 1e6:.2f}",
        "-" if added is None else f"{rss_bytes / 1e6:.0f}",
    )


def _way_ns(work: Path) -> np.ndarray[Any, Any]:
    """How long each buffer was on its way, from the traces of both ends."""
    instants = []
    for end, point in (("sent", TracePoint.SENT), ("received", TracePoint.RECEIVED)):
        [file] = (work / end).rglob("*.fnt")
        with TraceReader(file) as reader:
            names = ("at_ns", "point", "kind", "sequence_number")
            blocks = list(reader.events(names))
        at_ns, points, kinds, numbers = (np.concatenate([b[n] for b in blocks]) for n in names)
        own = (points == point) & (kinds == MessageKind.BUFFER_RESPONSE)
        instants.append(at_ns[own][np.argsort(numbers[own], kind="stable")])
    sent, received = instants
    return received - sent[: len(received)]


def _start(*arguments: str) -> subprocess.Popen[str]:
    command = [str(FLINKNET), *arguments, "--json", "-"]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ
    )


def _result(process: subprocess.Popen[str]) -> dict[str, Any]:
    text, _ = process.communicate(timeout=120)
    found: dict[str, Any] = json.loads(text)
    return found


def _wait_for(port: int) -> None:
    while not any(each.laddr.port == port for each in psutil.net_connections("tcp")):
        time.sleep(0.05)


def main() -> None:
    """Measure each rate without a tap and with each share of a processor; print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rates", default="500,2000,8000")
    parser.add_argument("--cores", default="0.1,0.25,0.5,1")
    arguments = parser.parse_args()
    shares = [None, *map(float, arguments.cores.split(","))]
    with tempfile.TemporaryDirectory(prefix="flinknet-tap-share-") as work:
        rows = [
            measured(int(rate), cores, arguments.seconds, Path(work, f"{rate}-{cores}"))
            for rate in arguments.rates.split(",")
            for cores in shares
        ]
    print_table(
        ("buffers/s", "cores", "p50 ms", "p99 ms", "waits p50", "waits p99", "memory MB"), rows
    )


if __name__ == "__main__":
    main()
