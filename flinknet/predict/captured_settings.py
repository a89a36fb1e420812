"""Settings of a cluster whose messages were captured: as stated, or as the messages show them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from flinknet.config import NetworkConfig
from flinknet.options import effective_flink_keys
from flinknet.trace import RunManifest, TraceFile
from flinknet.units import format_duration_ns

from .captured_rows import read_captured
from .exchange import recorded_network
from .fit.flusher import beat_ns as beat_of

SETTINGS_ROWS = 200_000
"""Rows that the settings of the cluster are guessed from, where nobody stated them."""

_TIMEOUT_KEY = "execution.buffer-timeout.interval"
_SEGMENT_KEY = "taskmanager.memory.segment-size"
_EXCLUSIVE_KEY = "taskmanager.network.memory.buffers-per-channel"


def with_settings(
    manifest: RunManifest, files: Iterable[TraceFile]
) -> tuple[RunManifest, tuple[str, ...], bool]:
    """The manifest with the settings that the messages show, where nobody stated them; what was
    assumed; and whether the buffer timeout is known, by a statement or by the beat of the messages.
    """
    own = [each.index for each in manifest.channels]
    rows = read_captured(files, None, None, channels=own, rows_max=SETTINGS_ROWS)
    keys: dict[str, Any] = dict(manifest.flink_keys)
    notes = []
    is_timeout_known = True
    if _TIMEOUT_KEY not in keys:
        found_ns = beat_of(rows.sent)
        is_timeout_known = found_ns is not None
        timeout_ns = NetworkConfig().buffer_timeout_ns if found_ns is None else _round(found_ns)
        keys[_TIMEOUT_KEY] = format_duration_ns(timeout_ns, separator=" ")
        why = "Flink's default" if found_ns is None else "by the beat of the messages"
        notes.append(f"assumed: {_TIMEOUT_KEY} {keys[_TIMEOUT_KEY]}, {why}")
    if _EXCLUSIVE_KEY not in keys and len(rows.initial_credit):
        keys[_EXCLUSIVE_KEY] = int(rows.initial_credit.min())
    if _SEGMENT_KEY not in keys and len(rows.sent["payload_bytes"]):
        largest_bytes = int(rows.sent["payload_bytes"].max())
        if largest_bytes > NetworkConfig().segment_size_bytes:
            keys[_SEGMENT_KEY] = f"{largest_bytes} bytes"
    network = recorded_network(replace(manifest, flink_keys=keys))
    manifest = replace(manifest, flink_keys=dict(effective_flink_keys(network)))
    return manifest, tuple(notes), is_timeout_known


def _round(beat_ns: int) -> int:
    """The timeout behind a beat, which is a little longer."""
    for unit_ns in (1_000_000, 100_000):
        timeout_ns = beat_ns // unit_ns * unit_ns
        if timeout_ns and beat_ns - timeout_ns <= max(0.05 * beat_ns, 200_000):
            return timeout_ns
    return beat_ns
