"""How often something passes under a setting: the beats of flushers that find records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flinknet.options.what_if import Setting

from .recorded import RecordedChannel, RecordedExchange


def flushes_factor(exchanges: Sequence[RecordedExchange], settings: Sequence[Setting]) -> float:
    """How many times as many flushes some exchanges have under their settings as they had in the
    recorded run."""
    recorded = sum(flushes_per_s(each, Setting(each.network)) for each in exchanges)
    pairs = zip(exchanges, settings, strict=True)
    return sum(flushes_per_s(*each) for each in pairs) / recorded if recorded else 1.0


def flushes_per_s(exchange: RecordedExchange, setting: Setting) -> float:
    """Flushes of all producers, each of all its channels; full buffers where nothing is flushed."""
    network, producers = setting.network, dict[int, list[RecordedChannel]]()
    for each in exchange.channels:
        producers.setdefault(each.producer, []).append(each)
    timeout_ns, found = network.buffer_timeout_ns, 0.0
    for own in producers.values():
        if timeout_ns < 0:
            full = sum(each.records * each.record_wire_bytes for each in own)
            found += full / network.segment_size_bytes
            continue
        instants_ns = np.concatenate([each.arrivals_ns for each in own])
        beat_ns = max(timeout_ns + exchange.flush_overhead_ns if timeout_ns else 0, 1)
        beats = (instants_ns / setting.rate_factor).astype(np.int64) // beat_ns
        found += np.count_nonzero(np.diff(np.sort(beats, kind="stable"), prepend=-1))
    return found * setting.rate_factor * 1e9 / exchange.duration_ns
