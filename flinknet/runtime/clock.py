"""The one place that reads a clock."""

from __future__ import annotations

import time

monotonic_ns = time.monotonic_ns
"""Instant in ns of CLOCK_MONOTONIC, shared by all processes of a host."""


process_time_ns = time.process_time_ns
"""CPU time that this process has used, in ns."""


def timestamp_epoch_ns() -> int:
    """The instant of CLOCK_MONOTONIC at which the time of day was 0 (1970)."""
    return time.monotonic_ns() - time.time_ns()


def wall_clock_iso() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
