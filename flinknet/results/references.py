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
    """A measurement of one exchange.

    Attributes:
        rate_per_s: rate of all producers together; None: as fast as possible.
        buffer_timeout_ns: timeout of Flink's output flusher.
        record_bytes: size of the value of a record.
        source: where it is published.
    """

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
        """The reference as JSON-ready plain data."""
        return asdict(self)


def _published(channels: int, timeout_ms: int, records_per_ms: float, *, is_tls: bool) -> Reference:
    """A row of Flink's own benchmark: four writers of 8-byte values over this many channels."""
    return Reference(
        system="Flink 1.11-SNAPSHOT",
        benchmark="networkThroughput of flink-benchmarks, 4 writers",
        rate_per_s=None,
        buffer_timeout_ns=timeout_ms * _MS,
        channels=channels,
        record_bytes=8,
        throughput_records_per_s=records_per_ms * 1000,
        latency_ns_p50=None,
        latency_ns_p99=None,
        machine=FLINK_MACHINE,
        source=_PULL_REQUEST,
        is_tls=is_tls,
    )


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
    """A measurement of this project; latency is p50 and p99."""
    p50, p99 = (round(each * 1000) for each in latency_us) if latency_us else (None, None)
    return Reference(
        system,
        benchmark,
        rate_per_s,
        timeout_ms * _MS,
        channels,
        record_bytes,
        records_per_s,
        p50,
        p99,
        OWN_MACHINE,
        source,
    )


_TAPPED_MS = {
    2_000: {
        1: (707, 3960),
        5: (2740, 6700),
        10: (5230, 10500),
        50: (24200, 49900),
        100: (42900, 99400),
    },
    20_000: {
        1: (641, 3550),
        5: (2580, 6440),
        10: (4800, 10100),
        50: (16400, 48100),
        100: (22500, 61200),
    },
}
"""p50 and p99 in us of a job of Flink 2.3.0, by the rate of all sources and the timeout in ms."""

REFERENCES: Sequence[Reference] = (
    _published(100, 100, 69_553.22069, is_tls=False),
    _published(100, 100, 17_430.11747, is_tls=True),
    _published(1000, 1, 51_019.51607, is_tls=False),
    _published(1000, 100, 55_423.23278, is_tls=False),
    _published(1000, 100, 14_924.65899, is_tls=True),
    _own("flinknet", "bench/network_throughput.py", None, 100, 25.3e6),
    _own("flinknet", "bench/network_throughput.py", None, 100, 166e6, record_bytes=8),
    _own("flinknet", "bench/network_throughput.py", None, 0, 23.4e6),
    _own("Flink 2.3.0", "bench/flink/compare.py", 20_000, 0, 20_000, 135, 2480),
    _own("flinknet", "bench/flink/compare.py", 20_000, 0, 20_000, 27.5, 1970),
    _own("Flink 2.3.0", "bench/flink/compare.py", 20_000, 100, 20_000, 7910, 16_200),
    _own("flinknet", "bench/flink/compare.py", 20_000, 100, 20_000, 7620, 15_800),
    *(
        _own(
            "Flink 2.3.0",
            "bench/flink/tapped.py",
            rate,
            timeout_ms,
            rate,
            *latency_us,
            channels=4,
            source=_CAPTURE,
        )
        for rate, by_timeout in _TAPPED_MS.items()
        for timeout_ms, latency_us in by_timeout.items()
    ),
)
