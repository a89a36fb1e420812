"""Where Flink's own network stack does otherwise than the tables say, case by case: measured by
tests/interop/test_misbehaving_peers.py, which fails on a difference that is not listed here.
"""

from __future__ import annotations

DIFFERENCES: dict[str, tuple[str, str]] = {}
"""Number of a case -> what Flink 2.3 does, and why we differ."""

NOT_COMPARED: dict[str, str] = {}
"""Number of a case -> why it cannot be shown to Flink."""
