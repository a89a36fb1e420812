"""Settings of a cluster whose messages were captured: as stated, or as the messages show them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from flinknet.config import NetworkConfig
from flinknet.options import ADAPTIVE_PARTITIONER, effective_flink_keys
from flinknet.trace import RunManifest, TraceFile
from flinknet.trace.manifest import IS_ADAPTIVE, JOB_MANAGER, SETTINGS_FROM
from flinknet.units import format_duration_ns

from .captured_rows import CapturedRows, read_captured
from .exchange import recorded_network
from .fit.flusher import SOONER_MAX, sooner_share
from .fit.flusher import beat_ns as beat_of

SETTINGS_ROWS = 200_000
"""Rows that the settings of the cluster are guessed from, where nobody stated them."""

BEAT_TOLERANCE = 0.1
"""How far a beat may be from a multiple of a timeout, as a share of it, and still be its own."""

DEFAULT = "default"
"""The origin of what nobody stated."""

BEAT = "by the beat of the messages"
"""The origin of what the messages show to be otherwise than stated."""

_TIMEOUT_KEY = "execution.buffer-timeout.interval"
_ENABLED_KEY = "execution.buffer-timeout.enabled"
_SEGMENT_KEY = "taskmanager.memory.segment-size"
_PREDICTED_BY = ("execution.checkpointing.", "taskmanager.memory.", "taskmanager.network.memory.")
_EXCLUSIVE_KEY = "taskmanager.network.memory.buffers-per-channel"


def with_settings(
    manifest: RunManifest, files: Iterable[TraceFile], whole: RunManifest | None = None
) -> tuple[RunManifest, tuple[str, ...], bool]:
    """The manifest with the settings that the messages show, where nobody stated them; notes on
    that; and whether the buffer timeout is known, by a statement or by the beat of the messages.

    Args:
        whole: with all channels of the trace, which show the beat if those of `manifest` do not.
    """
    rows = _rows_of(manifest, files)
    keys: dict[str, Any] = dict(manifest.flink_keys)
    beat = beat_of(rows.sent)
    if beat is None and whole is not None and len(whole.channels) > len(manifest.channels):
        beat = beat_of(_rows_of(whole, files).sent)
    beat_ns = None if beat is None else _round(beat)
    notes = []
    is_timeout_known = True
    is_about_the_job = _origin(manifest) not in (DEFAULT, JOB_MANAGER)
    if _TIMEOUT_KEY not in keys:
        is_timeout_known = beat_ns is not None
        timeout_ns = NetworkConfig().buffer_timeout_ns if beat_ns is None else beat_ns
        keys[_TIMEOUT_KEY] = format_duration_ns(timeout_ns, separator=" ")
        why = "Flink's default" if beat_ns is None else BEAT
        notes.append(f"assumed: {_TIMEOUT_KEY} {keys[_TIMEOUT_KEY]}, {why}")
    elif beat_ns is not None and not _may_be(manifest, beat_ns):
        beats = f"buffers leave every {format_duration_ns(beat_ns, separator=' ')}"
        stated = f"{_TIMEOUT_KEY} is {_in_words(manifest)}"
        if is_about_the_job:
            notes.append(f"{stated}, but {beats}: check what was stated")
        else:
            notes.append(f"the job's code sets the buffer timeout: {beats}, but {stated}")
            keys[_TIMEOUT_KEY] = format_duration_ns(beat_ns, separator=" ")
            keys[_ENABLED_KEY] = "true"
            manifest = _with_origin(manifest, BEAT)
    elif not is_about_the_job and not _may_flush(manifest, rows):
        is_timeout_known = False
        notes.append(
            f"the job's code sets the buffer timeout, but to what does not show: buffers leave"
            f" sooner than {_TIMEOUT_KEY} lets them, {_in_words(manifest)}"
        )
    if manifest.scenario.get(IS_ADAPTIVE):
        notes.append(
            f"{ADAPTIVE_PARTITIONER} is true: rebalance and rescale chose idle channels; that is"
            " not followed, in predictions each channel keeps its recorded records"
        )
    if _EXCLUSIVE_KEY not in keys and len(rows.initial_credit):
        keys[_EXCLUSIVE_KEY] = int(rows.initial_credit.min())
    if _SEGMENT_KEY not in keys and len(rows.sent["payload_bytes"]):
        largest_bytes = int(rows.sent["payload_bytes"].max())
        if largest_bytes > NetworkConfig().segment_size_bytes:
            keys[_SEGMENT_KEY] = f"{largest_bytes} bytes"
    network = recorded_network(replace(manifest, flink_keys=keys))
    manifest = replace(manifest, flink_keys=dict(effective_flink_keys(network)))
    return manifest, (*notes, *_stated_in_words(manifest)), is_timeout_known


def _rows_of(manifest: RunManifest, files: Iterable[TraceFile]) -> CapturedRows:
    channels = [each.index for each in manifest.channels]
    return read_captured(files, None, None, channels=channels, rows_max=SETTINGS_ROWS)


def _may_be(manifest: RunManifest, beat_ns: int) -> bool:
    """Whether a flusher with the stated buffer timeout may beat like that.

    It never comes sooner than its timeout, and beats without records make the time between two
    flushes a multiple of it. A longer time that is no multiple says nothing against a timeout that
    was set, but where it is the default, the job's code may have set another. Debloated buffers may
    be full at any size, as if a flush had sent them.
    """
    network = recorded_network(manifest)
    timeout_ns = network.buffer_timeout_ns
    if not timeout_ns or network.debloating_enabled:
        return True
    beats = beat_ns / timeout_ns
    if timeout_ns < 0 or beats < 1 - BEAT_TOLERANCE:
        return False
    is_multiple = abs(beats - round(beats)) <= BEAT_TOLERANCE
    return is_multiple or _origin(manifest) != DEFAULT


def _may_flush(manifest: RunManifest, rows: CapturedRows) -> bool:
    """Whether a flusher with the stated buffer timeout may have sent buffers at these instants."""
    network = recorded_network(manifest)
    if network.debloating_enabled or network.buffer_timeout_ns <= 0:
        return True
    return sooner_share(rows.sent, network.buffer_timeout_ns) <= SOONER_MAX


def _origin(manifest: RunManifest) -> str | None:
    """Who stated the buffer timeout; None if that is unknown. The JobManager's configuration is
    about all jobs, and the code of a job may set another."""
    origins = manifest.settings_from
    if origins is None:
        return None
    return origins.get(_TIMEOUT_KEY) or origins.get(_ENABLED_KEY) or DEFAULT


def _with_origin(manifest: RunManifest, origin: str) -> RunManifest:
    """The manifest with the origin of the buffer timeout."""
    origins = {**(manifest.settings_from or {}), _TIMEOUT_KEY: origin}
    return replace(manifest, scenario={**manifest.scenario, SETTINGS_FROM: origins})


def _stated_in_words(manifest: RunManifest) -> list[str]:
    """The settings that predictions depend on, if they are not defaults, each with its origin; none
    if the trace does not record origins."""
    if manifest.settings_from is None:
        return []
    defaults, origins = effective_flink_keys(NetworkConfig()), manifest.settings_from
    shown = [
        f"{key} {value} ({origins[key]})"
        for key, value in manifest.flink_keys.items()
        if key in origins and value != defaults.get(key) and key.startswith(_PREDICTED_BY)
    ]
    return [f"recorded with {', '.join([f'{_TIMEOUT_KEY} {_in_words(manifest)}', *shown])}"]


def _in_words(manifest: RunManifest) -> str:
    timeout_ns = recorded_network(manifest).buffer_timeout_ns
    value = "off" if timeout_ns < 0 else format_duration_ns(timeout_ns, separator=" ")
    origin = _origin(manifest)
    return value if origin is None else f"{value} ({origin})"


def _round(beat_ns: int) -> int:
    """The timeout behind a beat, which is a little longer."""
    for unit_ns in (1_000_000, 100_000):
        timeout_ns = beat_ns // unit_ns * unit_ns
        if timeout_ns and beat_ns - timeout_ns <= max(0.05 * beat_ns, 200_000):
            return timeout_ns
    return beat_ns
