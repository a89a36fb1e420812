"""compare.py: its options, what it asks of `flinknet bench`, its table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.flink.compare import arguments_parser, bench_options, print_report, settings
from bench.flink.exchange import Exchange
from bench.flink.footprint import Sample, cores, end_of_work_ns, rss_bytes_max
from flinknet.cli import main
from flinknet.errors import ConfigError, RunFailedError
from flinknet.runtime.cluster import launcher


def asked(*words: str) -> tuple[list[Exchange], dict[str, str]]:
    return settings(arguments_parser().parse_args(words))


def test_each_buffer_timeout_is_a_setting() -> None:
    exchanges, keys = asked("--rate", "20k/s", "--buffer-timeout", "0,5ms,-1", "-D", "a.b=c=d")
    assert [each.buffer_timeout_ms for each in exchanges] == [0, 5, -1]
    assert {each.rate_per_s for each in exchanges} == {20_000}
    assert keys == {"a.b": "c=d"}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--record-size", "19b"], "at least 20b"),
        (["--buffer-timeout", "500us"], "whole milliseconds"),
        (["--rate", "fast"], "--rate"),
        (["--rounds", "0"], "--rounds"),
        (["--duration", "0"], "--duration"),
        (["--placement", "spread", "--producers", "2"], "as many"),
        (["-D", "key"], "KEY=VALUE"),
    ],
)
def test_what_cannot_be_measured_is_refused(words: list[str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        asked(*words)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--rate", "20k/s", "--buffer-timeout", "-1", "--checkpoint-interval", "1s"],
        ["--producers", "2", "--consumers", "2", "--placement", "spread", "--partitioner", "hash"],
        ["--sink-delay", "1ms", "--consumers", "3", "-D", "taskmanager.memory.segment-size=4kb"],
    ],
)
def test_flinknet_bench_understands_what_it_is_asked(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_scenario(*_: object, **__: object) -> None:
        raise RunFailedError("this would run")

    monkeypatch.setattr(launcher, "run_scenario", run_scenario)
    monkeypatch.chdir(tmp_path)
    exchanges, keys = asked(*words)
    answer = CliRunner().invoke(main, ["bench", *bench_options(exchanges[0], keys)])
    assert "this would run" in answer.output


def row(throughput: float, **more: float | None) -> dict[str, float | None]:
    return {
        "throughput_records_per_s": throughput,
        "p50_ns": 2e6,
        "p99_ns": 5e6,
        "rss_bytes": float(1 << 30),
        "cpu_ns_per_record": 500.0,
        "first_answer_s": 8.0,
    } | more


def report_of(flink: list[Any], flinknet: list[Any]) -> dict[str, Any]:
    return {
        "environment": {
            **{"flink": "2.3.0", "java": "17", "flinknet": "0.1.0", "python": "3.11"},
            **{"cpu": "a processor", "cores": 2, "memory_bytes": 8 << 30, "kernel": "6.1"},
            "load_average": 0.2,
        },
        "settings": [
            {
                "exchange": {
                    **{"rate_per_s": None, "buffer_timeout_ms": 5, "value_bytes": 100},
                    **{"producers": 1, "consumers": 1, "placement": "split"},
                    **{"duration_ns": 3_000_000_000, "warmup_ns": 2_000_000_000},
                },
                "wire_bytes_per_record": 105,
                "flink": flink,
                "flinknet": flinknet,
            }
        ],
    }


def test_the_table_shows_both_sides_their_spread_and_their_ratio(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_report(
        report_of(
            [row(1e6), row(2e6, first_answer_s=None)],
            [row(4e6), row(4e6, cpu_ns_per_record=None)],
        )
    )
    lines = capsys.readouterr().out.splitlines()
    flink, flinknet, ratio = (line.split() for line in lines[1:4])
    assert flink[:6] == ["max,", "timeout", "5", "ms:", "flink", "1.50"]
    assert "(67%)" in flink
    assert "4.00" in flinknet
    assert ratio[:5] == ["flinknet", "/", "Flink", "x", "3"]
    assert "105 B on the wire" in lines[5]


def test_a_figure_that_one_side_lacks_has_no_column(capsys: pytest.CaptureFixture[str]) -> None:
    def title_and_ratio(flink: dict[str, float | None]) -> tuple[str, str]:
        print_report(report_of([flink], [row(4e6, buffers_per_s=990.0)]))
        lines = capsys.readouterr().out.splitlines()
        return lines[0], lines[3]

    title, ratio = title_and_ratio(row(1e6, buffers_per_s=900.0, first_answer_s=None))
    assert "buffers/s" in title
    assert "first answer" not in title
    assert ratio.split()[3:7] == ["x", "4", "x", "1.1"]
    title, _ = title_and_ratio(row(1e6))
    assert "buffers/s" not in title
    assert "first answer" in title


SAMPLES = [
    Sample(0, 0.0, 0, 10),
    Sample(1_000, 0.0, 2, 70),
    Sample(2_000, 0.5e-6, 2, 90),
    Sample(3_000, 2.0e-6, 2, 80),
    Sample(4_000, 9.0e-6, 1, 20),
]


def test_processor_time_is_that_of_the_window() -> None:
    assert cores(SAMPLES, 1_500, 3_500) == pytest.approx(1.5)
    assert cores(SAMPLES, 1_500, 2_500) is None


def test_work_ends_with_the_first_worker() -> None:
    assert end_of_work_ns(SAMPLES) == 3_000
    assert end_of_work_ns([Sample(5, 0.0, 0, 1)]) is None
    assert rss_bytes_max(SAMPLES) == 90
