"""Facts about the host that every result includes, and the speed of its interpreter, since bytecode
is most of the work of a TaskManager.
"""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

import flinknet

from .clock import wall_clock_iso

_ROUNDS = 8
_TURNS = 10_000
_OPERATIONS_PER_TURN = 3  # a call, an addition, an append

DEBUG = "debug build"
OPTIMISED = "profile-guided optimisation"


def build_of_interpreter() -> str | None:
    """DEBUG or OPTIMISED; None if unknown: some distributions optimise without recording it in the
    configuration.
    """
    if sysconfig.get_config_var("Py_DEBUG"):
        return DEBUG
    flags = (
        f"{sysconfig.get_config_var('CONFIG_ARGS')} {sysconfig.get_config_var('PY_CORE_CFLAGS')}"
    )
    if "--enable-optimizations" in flags or "-fprofile-use" in flags:
        return OPTIMISED
    return None


def operations_per_s() -> float:
    """Simple operations of Python code per second, the best of several rounds; takes some 10 ms."""
    return _TURNS * _OPERATIONS_PER_TURN / min(_round_s() for _ in range(_ROUNDS))


def _round_s() -> float:
    kept: list[int] = []
    append, number = kept.append, 0
    begun_ns = time.perf_counter_ns()
    for _ in range(_TURNS):
        number = _next(number)
        append(number)
    return max(1, time.perf_counter_ns() - begun_ns) / 1e9


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
    """The versions of the software that recorded a trace, from its `environment`."""
    return {name: host[name] for name in ("flinknet", "python", "core")}


def differences_from(recorded: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Differences between two `environment`s that change the cost of a record, as far as both have
    the facts.
    """
    return [
        f"{name} {recorded[name]} there, {here[name]} here"
        for name in ("core", "python", "cpu", "cores")
        if name in recorded and name in here and recorded[name] != here[name]
    ]


def host_id() -> str:
    """The id of this boot; clocks of different ids must not be compared."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return platform.node()


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


def available_cores() -> int:
    """Number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))


def stay_on_core(number: int) -> None:
    """Pin this process to one of the cores it may use; numbers beyond them wrap around.

    The kernel tends to wake a process on the core of the process that sends to it, so next to any
    third process two TaskManagers share a core although there is one for each: 390 MB/s of 100-byte
    records then, 610 when each stays on its own; on a quiet machine there is no difference.
    """
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[number % len(cores)]})
