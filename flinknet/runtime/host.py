"""Facts about the host that every result includes, the speed of its interpreter, since bytecode is
most of the work of a TaskManager, and whether the machine is ready for runs.
"""

from __future__ import annotations

import itertools
import os
import platform
import pwd
import resource
import socket
import sys
import sysconfig
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

import flinknet
from flinknet.errors import FlinknetError
from flinknet.loopback import LOOPBACK, family_of, loopback
from flinknet.units import format_address
from flinknet.whole_files import work_directory

from .clock import clock_name, wall_clock_iso

_ROUNDS = 8
_TURNS = 10_000
_OPERATIONS_PER_TURN = 3  # a call, an addition, an append

DEBUG = "debug build"
OPTIMISED = "profile-guided optimisation"


def build_of_interpreter() -> str | None:
    """DEBUG or OPTIMISED; None if unknown, as some distributions do not record the latter."""
    if sysconfig.get_config_var("Py_DEBUG"):
        return DEBUG
    flags = str(sysconfig.get_config_vars("CONFIG_ARGS", "PY_CORE_CFLAGS"))
    is_optimised = "--enable-optimizations" in flags or "-fprofile-use" in flags
    return OPTIMISED if is_optimised else None


def operations_per_s() -> float:
    """Simple operations of Python code per second, the best of several rounds; takes some 10 ms."""
    rounds_ns = []
    for _ in range(_ROUNDS):
        kept: list[int] = []
        append, number = kept.append, 0
        begun_ns = time.perf_counter_ns()
        for _ in range(_TURNS):
            number = _next(number)
            append(number)
        rounds_ns.append(max(1, time.perf_counter_ns() - begun_ns))
    return _TURNS * _OPERATIONS_PER_TURN / min(rounds_ns) * 1e9


def _next(number: int) -> int:
    return number + 1


def environment() -> dict[str, Any]:
    """The environment of a measurement; JSON-ready."""
    frequency = psutil.cpu_freq()
    return {
        "flinknet": flinknet.__version__,
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "python_build": build_of_interpreter(),
        "python_operations_per_s": round(operations_per_s()),
        "core": "compiled" if flinknet.interpreted_because is None else "interpreted",
        "numpy": metadata.version("numpy"),
        "zstandard": metadata.version("zstandard"),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cpu_mhz": round(frequency.current) if frequency else None,
        "cores": available_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_average": round(os.getloadavg()[0], 2),
        "started_at": wall_clock_iso(),
    }


def versions_of(host: Mapping[str, Any]) -> dict[str, str]:
    return {name: host[name] for name in ("flinknet", "python", "core")}


def differences_from(recorded: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Known differences between two `environment`s that change the cost of a record."""
    return [
        f"{name} {recorded[name]} there, {here[name]} here"
        for name in ("core", "python", "cpu", "cores")
        if name in recorded and name in here and recorded[name] != here[name]
    ]


def host_id() -> str:
    """The id of this boot; clocks of different ids must not be compared."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() + clock_name()
    except OSError:
        return platform.node() + clock_name()


def _cpu_model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def available_cores() -> int:
    return len(os.sched_getaffinity(0))


def stay_on_core(number: int) -> None:
    """Pin this process to one of the cores it may use; numbers beyond them wrap around.

    The kernel tends to wake a process on the core of the process that sends to it, so next to any
    third process two TaskManagers share a core although there is one for each: 390 MB/s of 100-byte
    records then, 610 when each stays on its own; on a quiet machine there is no difference.
    """
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[number % len(cores)]})


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
    checks = check_loopback, check_temporary_files, check_user, check_clock
    return [each() for each in (*checks, check_cores, check_memory, check_open_files)]


def check_loopback() -> Check:
    """Bind a free port, connect to it."""
    try:
        host = loopback()
    except FlinknetError as error:
        return Check("loopback", MISSING, str(error).partition(";")[0], "ip link set lo up")
    try:
        with socket.create_server((host, 0), family=family_of(host)) as listener:
            port = listener.getsockname()[1]
            socket.create_connection((host, port), timeout=5).close()
    except OSError as error:
        advice = "allow TCP connections of this machine to itself (firewall, sandbox)"
        return Check("loopback", MISSING, f"no connection to {host}: {error}", advice)
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
    cores = available_cores()
    if cores < _CORES_MIN:
        advice = f"two TaskManagers share a core: use {_CORES_MIN} or more for true latencies"
        return Check("cores", WARNING, f"{cores} usable", advice)
    return Check("cores", OK, f"{cores} usable")


def check_memory() -> Check:
    available = psutil.virtual_memory().available
    found = f"{available / (1 << 30):.1f} GiB available"
    if available < _MEMORY_BYTES_MIN:
        advice = f"Spark wants some {_MEMORY_BYTES_MIN >> 30} GiB; close other programs"
        return Check("memory", WARNING, found, advice)
    return Check("memory", OK, found)


def check_open_files() -> Check:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    found = "unlimited" if limit == resource.RLIM_INFINITY else f"{limit} for each process"
    if limit != resource.RLIM_INFINITY and limit < _OPEN_FILES_MIN:
        return Check("open files", WARNING, found, f"raise it: ulimit -n {_OPEN_FILES_MIN * 4}")
    return Check("open files", OK, found)
