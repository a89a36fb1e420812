"""Whether this machine is ready: loopback and ports, temporary files, the user, the clock, cores,
memory, open files.

Each check tests the real thing (opens a connection, reads the clock) and takes milliseconds.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import resource
import socket
import time
from dataclasses import dataclass

import psutil

from flinknet.errors import FlinknetError
from flinknet.loopback import LOOPBACK, family_of, loopback
from flinknet.units import format_address
from flinknet.whole_files import work_directory

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


def check_machine() -> list[Check]:
    """Run all checks of the machine; those of Java and Spark are elsewhere."""
    return [
        check_loopback(),
        check_temporary_files(),
        check_user(),
        check_clock(),
        check_cores(),
        check_memory(),
        check_open_files(),
    ]


def check_loopback() -> Check:
    """Bind a free port, connect to it, pass one byte."""
    try:
        host = loopback()
    except FlinknetError as error:
        return Check("loopback", MISSING, str(error).partition(";")[0], "ip link set lo up")
    try:
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(socket.create_server((host, 0), family=family_of(host)))
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
    found = f"connected to {format_address(host, port)}, a port the system chose"
    if host != LOOPBACK:
        found += f"; this host has no {LOOPBACK}"
    return Check("loopback", OK, found)


def check_temporary_files() -> Check:
    """Make a directory for temporary files."""
    try:
        with work_directory("doctor") as directory:
            return Check("temporary files", OK, f"in {directory.parent}")
    except (FlinknetError, OSError) as error:
        found, _, advice = str(error).partition("; ")
        return Check("temporary files", MISSING, found, advice)


def check_user() -> Check:
    """Look for the user in /etc/passwd, as Java does; flinknet does without."""
    number, home = os.geteuid(), os.path.expanduser("~")
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:
        found = f"number {number} has no entry in /etc/passwd; Spark gets the name {number}"
        return Check("user", OK, found)
    return Check("user", OK, f"{name}, home directory {home}")


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
