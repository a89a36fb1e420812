"""Results for other programs: CSV, live values, published figures, and --json in every command."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from flinknet.cli import main

from .conftest import Flinknet


def test_a_bench_writes_csv_and_serves_live_values(flinknet: Flinknet, tmp_path: Path) -> None:
    result = flinknet(
        *("bench", "--no-trace", "--buffer-timeout", "0,5ms", "--runs", "2"),
        *("--csv", "runs.csv", "--metrics-port", "0"),
    )
    assert result.exit_code == 0, result.output
    assert "metrics: http://127.0.0.1:" in result.stderr
    rows = list(csv.DictReader((tmp_path / "runs.csv").read_text().splitlines()))
    assert [(row["config"], row["round"], row["validity"]) for row in rows] == [
        *(("buffer-timeout=0", "1", "valid"), ("buffer-timeout=0", "2", "valid")),
        *(("buffer-timeout=5ms", "1", "valid"), ("buffer-timeout=5ms", "2", "valid")),
    ]
    assert {row["execution.buffer-timeout.interval"] for row in rows} == {"0 ms", "5 ms"}
    assert (rows[0]["latency_p50_ns"], rows[0]["used_cpu_cores"]) == ("1000000.0", "")


@pytest.mark.parametrize("option", ["--csv", "--json"])
def test_what_goes_to_stdout_is_alone_there(flinknet: Flinknet, option: str) -> None:
    stdout = flinknet("bench", "--no-trace", option, "-").stdout
    assert stdout.startswith("config," if option == "--csv" else "{")
    assert "records/s" not in stdout


def test_json_without_a_file_goes_to_stdout_in_every_command(flinknet: Flinknet) -> None:
    assert json.loads(flinknet("bench", "--no-trace", "--json", "--runs", "1").stdout)["runs"]
    assert json.loads(CliRunner().invoke(main, ["bench", "config", "--json"]).stdout)


def test_published_numbers_of_the_same_load_stand_next_to_a_bench(flinknet: Flinknet) -> None:
    result = flinknet(
        *("bench", "--no-trace", "--rate", "2k/s", "--buffer-timeout", "5ms,100ms", "--reference"),
        *("--json", "bench.json", "--report", "bench.html"),
    )
    assert result.exit_code == 0, result.output
    _, _, table = result.stdout.partition("for comparison: published measurements")
    assert "Flink 2.3.0" in table
    assert "2.74 ms" in table
    assert "docs/capture.md" in table
    assert "highest rate" not in table
    assert "compare orders of magnitude" in table
    document = json.loads(Path("bench.json").read_text())
    assert {each["buffer_timeout_ns"] for each in document["references"]} == {5e6, 1e8}
    assert "published measurements" in Path("bench.html").read_text()


def test_at_the_highest_rate_flinks_own_benchmark_is_what_to_compare_with(
    flinknet: Flinknet,
) -> None:
    result = flinknet("bench", "--no-trace", "--reference")
    assert "55.4 M" in result.stdout
    assert "github.com/apache/flink/pull/11155" in result.stdout
    assert "references" not in json.loads(flinknet("bench", "--no-trace", "--json").stdout)
