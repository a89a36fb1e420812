"""Published measurements of exchanges, for comparison: of Flink's network stack by its developers,
and of Flink and flinknet by this project.

Each has its machine and its load, without which a number says little, and its source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

_MS = 1_000_000

FLINK_MACHINE = "the benchmark machine of Flink's project"
OWN_MACHINE = "2 cores of an AMD EPYC, virtual"

_PULL_REQUEST = "github.com/apache/flink/pull/11155, comment of 2020-02-25, baseline"
_PERFORMANCE = "docs/performance.md"
_CAPTURE = "docs/capture.md"


@dataclass(frozen=True, slots=True)
class Reference:
    """A measurement of one exchange: rate of all producers together, None for as fast as possible;
    size of the value of a record."""

    system: str
    benchmark: str
    rate_per_s: float | None
    buffer_timeout_ns: int
    channels: int
    record_bytes: int
    throughput_records_per_s: float | None
    latency_ns_p50: int | None
    latency_ns_p99: int | None
    machine: str
    source: str
    is_tls: bool = False

    @property
    def is_max_rate(self) -> bool:
        return self.rate_per_s is None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def _published(channels: int, timeout_ms: int, records_per_ms: float, *, is_tls: bool) -> Reference:
    """A row of Flink's own benchmark: four writers of 8-byte values over this many channels."""
    own = (None, timeout_ms * _MS, channels, 8, records_per_ms * 1000, None, None)
    benchmark = "networkThroughput of flink-benchmarks, 4 writers"
    return Reference("Flink 1.11-SNAPSHOT", benchmark, *own, FLINK_MACHINE, _PULL_REQUEST, is_tls)


def _own(
    system: str,
    benchmark: str,
    rate_per_s: float | None,
    timeout_ms: int,
    records_per_s: float,
    *latency_us: float,
    channels: int = 1,
    record_bytes: int = 100,
    source: str = _PERFORMANCE,
) -> Reference:
    p50, p99 = (round(each * 1000) for each in latency_us) if latency_us else (None, None)
    own = (rate_per_s, timeout_ms * _MS, channels, record_bytes, records_per_s, p50, p99)
    return Reference(system, f"bench/{benchmark}", *own, OWN_MACHINE, source)


def _tapped(rate: int, timeout_ms: int, p50_us: int, p99_us: int) -> Reference:
    job = ("Flink 2.3.0", "flink/tapped.py", rate, timeout_ms, rate, p50_us, p99_us)
    return _own(*job, channels=4, source=_CAPTURE)


_SPEED, _PAIR = "network_throughput.py", "flink/compare.py"

REFERENCES: Sequence[Reference] = (
    _published(100, 100, 69_553.22069, is_tls=False),
    _published(100, 100, 17_430.11747, is_tls=True),
    _published(1000, 1, 51_019.51607, is_tls=False),
    _published(1000, 100, 55_423.23278, is_tls=False),
    _published(1000, 100, 14_924.65899, is_tls=True),
    _own("flinknet", _SPEED, None, 100, 25.3e6),
    _own("flinknet", _SPEED, None, 100, 166e6, record_bytes=8),
    _own("flinknet", _SPEED, None, 0, 23.4e6),
    _own("Flink 2.3.0", _PAIR, 20_000, 0, 20_000, 135, 2480),
    _own("flinknet", _PAIR, 20_000, 0, 20_000, 27.5, 1970),
    _own("Flink 2.3.0", _PAIR, 20_000, 100, 20_000, 7910, 16_200),
    _own("flinknet", _PAIR, 20_000, 100, 20_000, 7620, 15_800),
    _tapped(2_000, 1, 707, 3_960),
    _tapped(2_000, 5, 2_740, 6_700),
    _tapped(2_000, 10, 5_230, 10_500),
    _tapped(2_000, 50, 24_200, 49_900),
    _tapped(2_000, 100, 42_900, 99_400),
    _tapped(20_000, 1, 641, 3_550),
    _tapped(20_000, 5, 2_580, 6_440),
    _tapped(20_000, 10, 4_800, 10_100),
    _tapped(20_000, 50, 16_400, 48_100),
    _tapped(20_000, 100, 22_500, 61_200),
)
