"""Every published number has its machine and its source, and stands there."""

from __future__ import annotations

import re
from pathlib import Path

from flinknet.results.references import REFERENCES

ROOT = Path(__file__).parents[2]
MS = 1_000_000


def test_every_number_has_its_source_and_machine() -> None:
    for each in REFERENCES:
        assert each.machine
        assert each.throughput_records_per_s
        page = ROOT / each.source
        assert page.is_file() or each.source.startswith("github.com/apache/flink/")
        if page.is_file() and each.latency_ns_p50 is not None and each.latency_ns_p99 is not None:
            text = page.read_text()
            for latency_ns in (each.latency_ns_p50, each.latency_ns_p99):
                number = f"{latency_ns / (MS if latency_ns >= MS / 2 else 1000):.3g}"
                assert re.search(rf"(?<![\d.]){re.escape(number)}(\.0)?(?![\d.])", text), each
