"""Live values in Prometheus's text format."""

from __future__ import annotations

import re

from flinknet.report.live import bench_metrics, metric, tap_metrics
from flinknet.results import ChannelProgress, Progress, TaskProgress

LINE = re.compile(r'[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? [-+0-9.e]+')


def samples(text: str) -> dict[str, float]:
    """Every sample by its name and labels; lines that are neither that nor comments fail."""
    lines = [line for line in text.splitlines() if not line.startswith(("# HELP", "# TYPE"))]
    assert all(LINE.fullmatch(line) for line in lines), lines
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_a_bench_has_rates_latencies_channels_and_tasks() -> None:
    channels = (ChannelProgress(0, 1, 2, 1500.0, 4, None),)
    tasks = (TaskProgress("sink 0", 0.75, 0.25, 0.0, None, None),)
    progress = Progress("measuring", 2 * 10**9, 0.5, 10, 2e3, 1e5, 1e6, None, channels, tasks)
    found = samples(bench_metrics(1, 6, "buffer-timeout=5ms", progress))
    own = '{setting="buffer-timeout=5ms"'
    assert found[f"flinknet_bench_records_per_second{own}}}"] == 2000
    assert found[f'flinknet_bench_latency_seconds{own},quantile="0.5"}}'] == 0.001
    assert f'flinknet_bench_latency_seconds{own},quantile="0.99"}}' not in found
    channel = f'{own},edge="0",edge_number="1",producer="1",consumer="2"}}'
    assert found[f"flinknet_bench_channel_backlog_buffers{channel}"] == 4
    assert f"flinknet_bench_channel_credits{channel}" not in found
    assert found[f'flinknet_bench_task_busy_ratio{own},task="sink 0"}}'] == 0.75
    single = samples(bench_metrics(1, 1, "", progress))
    assert single["flinknet_bench_records_per_second"] == 2000


def test_a_tap_has_its_delay_and_its_channels() -> None:
    row = {
        **{"channel": 3, "name": 'a "b" → c', "bytes_per_s": 10.0, "records_per_s": None},
        **{
            "backlog_buffers": 2,
            "credits_available": 1,
            "starved_share": 0.5,
            "no_credit_share": 0.75,
        },
        **{"blocked_share": 0.0, "fill": None},
    }
    look = {
        **{"elapsed_ns": 10**9, "connections": 1, "accepted": 2, "channels_open": 1},
        **{"bytes_per_s": 10.0, "records_per_s": None, "delay_ns_p50": 5e4, "delay_ns_p99": 1e6},
        **{"trace_bytes": 100, "incidents": 0, "triggers": 0, "channels": [row]},
    }
    text = tap_metrics(look)
    assert 'flinknet_tap_added_delay_seconds{quantile="0.99"} 0.001' in text
    assert "# TYPE flinknet_tap_connections_total counter\nflinknet_tap_connections_total 2" in text
    labels = r'{channel="3",name="a \"b\" → c"}'
    assert f"flinknet_tap_channel_credit_starved_ratio{labels} 0.5" in text
    assert f"flinknet_tap_channel_no_credit_ratio{labels} 0.75" in text
    assert "flinknet_tap_records_per_second" not in text


def test_what_is_not_known_is_no_metric() -> None:
    assert metric("a", "gauge", "none", [({}, None)]) == ""
