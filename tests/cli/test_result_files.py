"""Results for other programs: CSV, live values and --json in every command."""

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


def test_a_gate_whose_stdout_is_full_fails(
    flinknet: Flinknet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(target: object, text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("flinknet.cli.files.put_text", full)
    arguments = ("compare-configs", "a:rate=1k", "b:rate=2k", "--runs", "2", "--json")
    assert flinknet(*arguments, "-").exit_code == 4
    in_a_file = flinknet(*arguments, "compared.json")
    assert in_a_file.exit_code != 4
    assert "--json was not written" in in_a_file.stderr
