"""Answers of `trace replay`, small and made by hand, for tests of what shows them."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from itertools import product
from typing import Any, Union, get_args, get_origin, get_type_hints

from rich.console import Console

from flinknet.plain_values import from_plain, to_plain
from flinknet.report.console import print_page
from flinknet.report.replay import replay_page
from flinknet.results import EdgeAnswer, JobAnswer

MS = 1_000_000
S = 1_000 * MS

REGIMES = (
    *("waiting_for_flush", "waiting_for_credit", "blocked_by_alignment"),
    *("in_socket", "in_receiver_queue", "idle"),
)


def typed(document: Mapping[str, Any]) -> EdgeAnswer:
    """The answer that a document is of; what it does not state is empty, and of a whole run."""
    trace = {"origin": "run"} | document.get("trace", {})
    given = {**document, "trace": trace, "diagnosis": []}
    answer: EdgeAnswer = from_plain(EdgeAnswer, filled(EdgeAnswer, given))
    return answer


def print_replays(
    jobs: Sequence[JobAnswer],
    console: Console,
    *,
    channels: Sequence[int] | None = None,
    diagnose: bool = False,
    details: bool = False,
) -> None:
    """Print answers as `trace replay` does."""
    page = replay_page(jobs, channels, diagnose=diagnose)
    print_page(console, page, has_details=details)


def filled(hint: Any, plain: Any) -> Any:
    """Plain data with all fields of its dataclasses."""
    if is_dataclass(hint) and isinstance(hint, type):
        hints = get_type_hints(hint)
        given = plain or {}
        return {
            each.name: to_plain(each.default)
            if each.name not in given and each.default is not MISSING
            else filled(hints[each.name], given.get(each.name))
            for each in fields(hint)
        }
    arguments = get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return None if plain is None else filled(arguments[0], plain)
    if get_origin(hint) is tuple:
        return [filled(arguments[0], each) for each in plain or ()]
    if get_origin(hint) is Mapping:
        return {} if plain is None else plain
    return hint() if plain is None else plain


def latency(scale: float = 1.0) -> dict[str, Any]:
    """A summary whose percentiles grow evenly."""
    names = ("p50", "p75", "p90", "p95", "p99", "p99_9")
    summary: dict[str, Any] = {
        "count": 10_000,
        "min": 100_000,
        "mean": 5e6 * scale,
        "max": 2 * 10**7,
    }
    return summary | {name: (number + 5) * 1e6 * scale for number, name in enumerate(names)}


def point(timeout_ms: int, floating: int = 8, *, is_recorded: bool = False) -> dict[str, Any]:
    """A prediction; a timeout of -1 is never."""
    config = {
        "execution.buffer-timeout.interval": f"{max(timeout_ms, 0)} ms",
        "execution.buffer-timeout.enabled": "true" if timeout_ms >= 0 else "false",
        "taskmanager.memory.segment-size": "32 kb",
        "taskmanager.network.memory.buffers-per-channel": "2",
        "taskmanager.network.memory.floating-buffers-per-gate": str(floating),
    }
    return {
        "config": config,
        "throughput_records_per_s": 10_000.0 + floating,
        "latency_ns": latency(max(timeout_ms, 1) / 10 if timeout_ms >= 0 else 30),
        "backlog_buffers": {"mean": 0.5, "max": 3},
        "buffers_per_s": 4_000.0 / max(timeout_ms, 1),
        "is_recorded": is_recorded,
        "notes": ["assumed: something"] if timeout_ms else ["assumed: something", "just this one"],
        "memory_bytes": floating << 16,
        "credits_per_s": 90.0,
        "flow_control": "credit",
        "round_trip_ns": 0,
        "consumer_speed": 1.0,
        "rate_factor": 1.0,
        "method": None,
    }


def situation(**changes: Any) -> dict[str, Any]:
    """What is advised at the recorded rate: nothing, as no limit is given."""
    given: dict[str, Any] = {
        "rate_factor": 1.0,
        "consumer_speed": 1.0,
        "round_trip_ns": 0,
        "flow_control": "credit",
        "is_alike": False,
        "choice": None,
        "beyond_keys": [],
    }
    return given | changes


def channel_details(channel: int, windows: int = 300) -> dict[str, Any]:
    """A channel whose backlog rises for half of the time; every tenth window is silent."""
    shown = [number for number in range(windows) if number % 10]
    wide = range(0, windows, 10)
    return {
        "channel": channel,
        "window_ns": 10 * MS,
        "windows": {
            "from_ns": [number * 10 * MS for number in shown],
            "records": [50 for _ in shown],
            "buffers": [4 for _ in shown],
            "backlog_sum": [4 * (number % 150) // 30 for number in shown],
            "credits": [8 for _ in shown],
            "credit_sum": [16 for _ in shown],
            "backlog_max": [number % 150 // 25 for number in shown],
            "credit_min": [1 for _ in shown],
        },
        "regimes": {
            "from_ns": [number * 10 * MS for number in wide],
            "width_ns": [100 * MS for _ in wide],
            **{
                name: [(60 if not place else 8) * MS for _ in wide]
                for place, name in enumerate(REGIMES)
            },
        },
    }


def answer(
    timeouts_ms: tuple[int, ...] = (0, 10, 100, -1),
    floating: tuple[int, ...] = (8,),
    *,
    channels: int = 2,
    **changes: Any,
) -> dict[str, Any]:
    """The answer for one run; recorded with 10 ms and 8 floating buffers."""
    shares = dict.fromkeys(REGIMES, 0.08) | {"waiting_for_flush": 0.6}
    given: dict[str, Any] = {
        "schema_version": 2,
        "trace": {
            "path": "runs/<one> & </script>",
            "started_at": "2030-01-01T00:00:00Z",
            "config": {"execution.buffer-timeout.interval": "10 ms", "a.key": "1 < 2"},
            "is_max_rate": False,
            "events": 12_345,
            "channels": channels,
            "measured_duration_ns": 3 * S,
            "part": {"from_ns": 0, "to_ns": 3 * S, "whole_ns": 3 * S},
            "damaged_files": [],
        },
        "observed": {
            "records": 30_000,
            "bytes": 3_000_000,
            "buffers": 1_276,
            "events": 8,
            "duration_ns": 3 * S,
            "throughput_records_per_s": 10_000.0,
            "throughput_bytes_per_s": 1_000_000.0,
            "latency_ns": latency(),
            "latency_uncorrected_ns": {"count": 0},
            "backlog_buffers": {"mean": 0.5, "max": 3},
            "credits": {"announced": 100, "messages": 90, "starved_ns": 1 * MS},
            "flushes": {"full": 10, "timeout": 1_264, "event": 2},
        },
        "model_error": {"throughput": 0.01, "p50": -0.052, "p99": 0.2},
        "trade_offs": [
            point(timeout, buffers, is_recorded=(timeout, buffers) == (10, 8))
            for buffers, timeout in product(floating, timeouts_ms)
        ],
        "advice": {
            "frontier": [0, 1],
            "withheld": None,
            "situations": [situation()],
        },
        "simulated": {"records": 30_000, "window_ns": 3 * S, "is_whole": True},
        "messages": [{"kind": "DATA_BUFFER", "messages": 1_276, "payload_bytes": 3_000_000}],
        "channels": [
            {
                "channel": number,
                "producer": 0,
                "consumer": number,
                "records": 15_000,
                "throughput_records_per_s": 5_000.0,
                "latency_ns": latency(1 + number),
                "backlog_buffers": {"mean": 0.5, "max": 3},
                "starved_ns": 0,
                "regimes": shares,
                "messages": {"DATA_BUFFER": 638, "ADD_CREDIT": 600},
            }
            for number in range(channels)
        ],
        "regimes": shares,
        "diagnosis": [
            {
                "edge": "producers → consumers",
                "cause": "buffer-timeout",
                "share": 0.6,
                "text": "why",
            }
        ],
        "latency_distribution": {
            "low_ns": [1e6, 2e6, 4e6, 8e6],
            "high_ns": [2e6, 4e6, 8e6, 16e6],
            "records": [1_000, 4_000, 15_000, 10_000],
            "percentiles": [[0.1, 2e6], [0.5, 5e6], [0.9, 7e6], [0.99, 9e6], [0.999, 1e7]],
        },
        "over_time": [],
        "details": {
            "fill": {
                "bins": 20,
                "mean": 0.071,
                "segment_size_bytes": 32_768,
                "full": [0] * 19 + [10],
                "timeout": [1_264] + [0] * 19,
                "event": [2] + [0] * 19,
            },
            "environment": {
                "host": {"cores": 2},
                "versions": {"flinknet": "0.1.0"},
                "workload": {"producers": 1, "record_size": {"low": 100}},
            },
            "channels_left_out": 0,
            "channels": [channel_details(number) for number in range(min(channels, 16))],
        },
    }
    return given | changes
