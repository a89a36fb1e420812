"""Whether this machine is ready: loopback and ports, the clock, cores, memory, open files.

Each check tests the real thing (opens a connection, reads the clock) and takes milliseconds.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import socket
import time
from dataclasses import dataclass

import psutil

OK = "ok"
WARNING = "warning"
MISSING = "missing"

_CLOCK_SAMPLES = 10_000
_CLOCK_STEP_NS_MAX = 10_000
_CORES_MIN = 2
_MEMORY_BYTES_MIN = 2 << 30
_OPEN_FILES_MIN = 256


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check, and advice if it is not enough."""

    name: str
    status: str  # OK, WARNING (works, but worse) or MISSING (something will not work)
    found: str
    advice: str = ""


def check_machine(host: str = "127.0.0.1") -> list[Check]:
    """Run all checks of the machine; those of Java and Spark are elsewhere."""
    return [check_loopback(host), check_clock(), check_cores(), check_memory(), check_open_files()]


def check_loopback(host: str) -> Check:
    """Bind a free port, connect to it, pass one byte."""
    try:
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(socket.create_server((host, 0)))
            port = listener.getsockname()[1]
            client = stack.enter_context(socket.create_connection((host, port), timeout=5))
            server = stack.enter_context(listener.accept()[0])
            server.settimeout(5)
            client.sendall(b"\1")
            passed = server.recv(1)
    except OSError as error:
        advice = "allow TCP connections of this machine to itself (firewall, sandbox)"
        return Check("loopback", MISSING, f"no connection to {host}: {error}", advice)
    if passed != b"\1":
        return Check("loopback", MISSING, f"{host}:{port} closed at once", "look for a proxy")
    return Check("loopback", OK, f"connected to {host}:{port}, a port the system chose")


def check_clock() -> Check:
    """Read the monotonic clock until it moves; its step is the smallest measurable difference."""
    instants = [time.monotonic_ns() for _ in range(_CLOCK_SAMPLES)]
    steps_ns = [after - before for before, after in itertools.pairwise(instants)]
    step_ns = min((step for step in steps_ns if step), default=None)
    if step_ns is None or step_ns > _CLOCK_STEP_NS_MAX:
        advice = "expect latencies no finer than this step"
        return Check("clock", WARNING, f"CLOCK_MONOTONIC moves by {step_ns or '?'} ns", advice)
    return Check("clock", OK, f"CLOCK_MONOTONIC moves by {step_ns} ns at least")


def check_cores() -> Check:
    """Count the cores that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = f"{cores} usable"
    if cores is None or cores < _CORES_MIN:
        advice = f"two TaskManagers share a core: use {_CORES_MIN} or more for true latencies"
        return Check("cores", WARNING, found, advice)
    return Check("cores", OK, found)


def check_memory() -> Check:
    """Read the memory available without swapping."""
    available = psutil.virtual_memory().available
    found = f"{available / (1 << 30):.1f} GiB available"
    if available < _MEMORY_BYTES_MIN:
        advice = f"Spark wants some {_MEMORY_BYTES_MIN >> 30} GiB; close other programs"
        return Check("memory", WARNING, found, advice)
    return Check("memory", OK, found)


def check_open_files() -> Check:
    """Read how many files and sockets a process may open."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    found = "unlimited" if limit == resource.RLIM_INFINITY else f"{limit} for each process"
    if limit != resource.RLIM_INFINITY and limit < _OPEN_FILES_MIN:
        return Check("open files", WARNING, found, f"raise it: ulimit -n {_OPEN_FILES_MIN * 4}")
    return Check("open files", OK, found)
