"""flinknet compare-configs: what a configuration may be, verdicts, limits, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from flinknet.cli.configs import read_config

Flinknet = Callable[..., Result]
TIMEOUT = "execution.buffer-timeout.interval"


def test_every_configuration_runs_once_a_round(flinknet: Flinknet, run: Any) -> None:
    result = flinknet("compare-configs", "base", "buffer-timeout=5ms", "--runs", "3")
    assert result.exit_code == 0, result.output
    rounds = [run.scenarios[i : i + 2] for i in (0, 2, 4)]
    for number, pair in enumerate(rounds, start=1):
        assert {s.seed for s in pair} == {number}
        assert {s.network.buffer_timeout_ns for s in pair} == {5_000_000, 100_000_000}


def test_the_verdict_is_told_in_a_table_and_a_sentence(flinknet: Flinknet) -> None:
    result = flinknet("compare-configs", "base", "quick:buffer-timeout=5ms", "--runs", "3")
    assert "quick against base: better in p99 (-95.0 %)." in result.stdout
    assert "no difference" in result.stdout
    assert "not measured" in result.stdout
    assert " buffers/s " in result.stdout
    assert "Processor time" not in result.stdout  # at the highest rate, throughput tells it


def test_the_cost_that_is_not_compared_is_named(flinknet: Flinknet) -> None:
    result = flinknet("compare-configs", "base", "buffer-timeout=5ms", "--rate", "1k/s")
    assert "Processor time is not compared: at a rate the event loops stay awake." in result.stdout


@pytest.mark.parametrize(
    ("config", "limits", "exit_code"),
    [
        ("buffer-timeout=200ms", ["p99>+10%"], 1),
        ("buffer-timeout=200ms", ["throughput<-5%"], 0),
        ("buffer-timeout=200ms", ["throughput<-5%", "p99>+10%"], 1),
        ("buffer-timeout=5ms", ["p99>+10%"], 0),
        ("buffer-timeout=5ms", ["p99_9>+10%"], 3),
        ("buffer-timeout=200ms", ["p99_9>+10%", "p99>+10%"], 1),
        ("buffer-timeout=5ms", ["p98>+10%"], 2),
    ],
)
def test_limits_decide_the_exit_code(
    flinknet: Flinknet, config: str, limits: list[str], exit_code: int
) -> None:
    options = [part for limit in limits for part in ("--fail-if", limit)]
    result = flinknet("compare-configs", "base", config, "--runs", "3", *options)
    assert result.exit_code == exit_code, result.output


def test_the_json_holds_runs_differences_and_limits(flinknet: Flinknet, tmp_path: Path) -> None:
    arguments = ["base", "q:buffer-timeout=5ms", "--runs", "3", "--fail-if", "p99>+10%"]
    result = flinknet("compare-configs", *arguments, "--json", "-", "--out", "out")
    document = json.loads(result.stdout)
    assert document["schema_version"] == 1
    assert document["base"] == "base"
    assert document["outcome"] == "pass"
    assert [(c["name"], len(c["runs"])) for c in document["configs"]] == [("base", 3), ("q", 3)]
    (comparison,) = document["comparisons"]
    p99 = comparison["metrics"]["p99"]
    assert p99["verdict"] == "better"
    assert p99["change"] == pytest.approx(-0.95)
    assert p99["interval"]["low"] <= p99["change"] <= p99["interval"]["high"]
    assert comparison["metrics"]["p99_9"]["interval"] is None
    assert document["limits"] == [{"config": "q", "limit": "p99>+10%", "outcome": "pass"}]
    assert json.loads((tmp_path / "out/compare.json").read_text()) == document


def test_a_set_of_keys_may_mix_flink_keys_and_bench_options() -> None:
    name, settings = read_config(f"{TIMEOUT}=5ms,producers=2,slow-consumer=0:1ms,1:2ms")
    assert name == f"{TIMEOUT}=5ms,producers=2,slow-consumer=0:1ms,1:2ms"
    assert settings.network == {TIMEOUT: "5ms"}
    assert settings.workload == {"producers": "2", "slow-consumer": "0:1ms,1:2ms"}


def test_a_toml_file_has_network_and_workload(tmp_path: Path) -> None:
    path = tmp_path / "new.toml"
    path.write_text(
        f'[network]\n"{TIMEOUT}" = "5 ms"\ntaskmanager.memory.segment-size = "8kb"\n'
        '[workload]\nrate = "1k/s"\nrecord_size = "1kb"\nproducers = 2\n'
        'slow-consumer = ["0:1ms", "1:2ms"]\n'
    )
    name, settings = read_config(str(path))
    assert name == "new"
    assert settings.network == {TIMEOUT: "5 ms", "taskmanager.memory.segment-size": "8kb"}
    assert settings.workload == {
        "rate": "1k/s",
        "record-size": "1kb",
        "producers": "2",
        "slow-consumer": "0:1ms,1:2ms",
    }


def test_a_flink_conf_is_a_configuration(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("execution:\n  buffer-timeout:\n    interval: 5 ms\n")
    assert read_config(str(path))[1].network == {TIMEOUT: "5 ms"}


def test_a_configuration_stands_on_the_options_of_the_call(flinknet: Flinknet, run: Any) -> None:
    flinknet(
        *("compare-configs", "base", "rate=5k/s", "--rate", "1k/s", "--producers", "2"),
        *("--runs", "2", "--segment-size", "8kb"),
    )
    assert {s.workload.rate_per_s for s in run.scenarios} == {1000, 5000}
    assert {s.workload.producers for s in run.scenarios} == {2}
    assert {s.network.segment_size_bytes for s in run.scenarios} == {8192}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["base"], "two configurations or more"),
        (["base", "nonsense"], "no configuration"),
        (["base", "absent.toml"], "absent.toml: no such file; it must be a TOML file with"),
        (["base", "absent.yaml"], "absent.yaml: no such file; give the path of Flink's"),
        (["base", "broken.toml"], "cannot be read as TOML"),
        (["base", "strange.toml"], "only the tables"),
        (["base", "buffer-timeot=5ms"], "did you mean buffer-timeout"),
        (["base", "x.y=1"], "Flink has no such key"),
        (["base", "producers=2", "--buffer-timeout", "1ms,2ms"], "has several values"),
        (["base", "producers=2", "--confidence", "100%"], "of no use"),
        (["base", "producers=2", "--runs", "1"], "--runs"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    flinknet: Flinknet, run: Any, tmp_path: Path, arguments: list[str], why: str
) -> None:
    (tmp_path / "broken.toml").write_text("[network\n")
    (tmp_path / "strange.toml").write_text("[other]\n")
    result = flinknet("compare-configs", *arguments)
    assert result.exit_code == 2
    assert why in result.stderr
    assert result.stderr.count("\n") == 1
    assert run.scenarios == []
