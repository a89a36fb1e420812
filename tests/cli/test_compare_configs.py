"""flinknet compare-configs: what a configuration may be, verdicts, limits, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flinknet.cli.configs import read_config
from flinknet.config import Link

from .conftest import Flinknet

TIMEOUT = "execution.buffer-timeout.interval"


def test_every_configuration_runs_once_a_round(compare: Flinknet, run: Any) -> None:
    result = compare("base", "buffer-timeout=5ms", "--runs", "3")
    assert result.exit_code == 0, result.output
    rounds = [run.scenarios[i : i + 2] for i in (0, 2, 4)]
    for number, pair in enumerate(rounds, start=1):
        assert {s.seed for s in pair} == {number}
        assert {s.network.buffer_timeout_ns for s in pair} == {5_000_000, 100_000_000}


def test_the_verdict_is_reported_in_a_table_and_a_sentence(compare: Flinknet) -> None:
    result = compare("base", "quick:buffer-timeout=5ms", "--runs", "3")
    assert "quick against base: better in p99 (−95.0%)." in result.stdout
    assert "no difference" in result.stdout
    assert "not measured" in result.stdout
    assert "buffers/s " in result.stdout
    assert "Processor time" not in result.stdout  # at the highest rate, throughput tells it


def test_cpu_is_compared_where_it_is_known(compare: Flinknet, run: Any) -> None:
    run.cpu_cores = [0.5]
    arguments = ["base", "q:buffer-timeout=5ms", "--runs", "2", "--json", "main.json"]
    result = compare(*arguments, "--fail-if", "cpu>+10%")
    assert result.exit_code == 0
    run.cpu_cores = [0.6]
    options = ("--runs", "2", "--baseline", "main.json", "--fail-if", "cpu>+10%")
    result = compare("q:buffer-timeout=5ms", *options)
    assert result.exit_code == 1
    assert "CPU cores 0.500 → 0.600 (+20.0%, +20.0…+20.0%)" in result.stdout
    assert "CPU cores are those of flinknet's Python, with a fixed part" in result.stdout


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
    compare: Flinknet, config: str, limits: list[str], exit_code: int
) -> None:
    options = [part for limit in limits for part in ("--fail-if", limit)]
    result = compare("base", config, "--runs", "3", *options)
    assert result.exit_code == exit_code, result.output


def test_unlike_workloads_are_compared_with_a_warning_and_called_neither_better_nor_worse(
    compare: Flinknet,
) -> None:
    arguments = ["base", "x: rate=10k/s,buffer-timeout=5ms", "--rate", "5k/s", "--runs", "3"]
    result = compare(*arguments)
    assert result.exit_code == 0
    assert "x against base (another workload: rate): lower in p99 (−95.0%)." in result.stdout
    assert "x has another workload than base (rate), so the differences may" in result.stdout
    document = json.loads(compare(*arguments, "--json", "-").stdout)
    (comparison,) = document["comparisons"]
    assert comparison["unlike_workload"] == ["rate"]
    codes = [[w["code"] for w in config["runs"][0]["warnings"]] for config in document["configs"]]
    assert ["unlike-workload" in each for each in codes] == [False, True]


def test_a_limit_between_unlike_workloads_is_refused(compare: Flinknet, run: Any) -> None:
    result = compare("base", "x: rate=10k/s", "--rate", "5k/s", "--fail-if", "p99>+10%")
    assert result.exit_code == 2
    assert "x and base differ in their workload (rate), so a limit" in result.stderr
    assert result.stderr.count("\n") == 1
    assert run.scenarios == []


@pytest.mark.parametrize(
    ("config", "exit_code"),
    [
        ("flow-control=tcp", 0),
        ("task-managers=3", 0),
        ("partitioner=hash", 0),
        ("partitioner=broadcast", 2),
        ("record-size=1kb", 2),
        ("warmup=1s", 2),
        ("slow-consumer=0:1ms", 2),
    ],
)
def test_what_work_is_asked_for_makes_workloads_unlike_and_how_it_is_done_does_not(
    compare: Flinknet, config: str, exit_code: int
) -> None:
    limit = ("--fail-if", "throughput<-5%")
    result = compare("base", config, "--consumers", "2", *limit)
    assert result.exit_code == exit_code, result.output


def test_a_zero_is_compared_in_its_own_unit(compare: Flinknet, run: Any) -> None:
    run.backlogs = [0.0, 0.5, 0.02, 0.0]
    arguments = ["base", "q:buffer-timeout=5ms", "--runs", "2"]
    document = json.loads(compare(*arguments, "--json", "-").stdout)
    backlog = document["comparisons"][0]["metrics"]["backlog"]
    assert (backlog["change"], backlog["interval"]) == (None, None)
    assert set(backlog["difference"]["interval"]) == {"low", "high"}
    run.scenarios.clear()
    stdout = compare(*arguments).stdout
    assert "backlog has zeros, so it is shown as arithmetic means and their" in stdout
    (row,) = [line for line in stdout.splitlines() if line.strip().startswith("backlog")]
    assert "%" not in row


def test_files_are_named_by_their_paths(compare: Flinknet, tmp_path: Path) -> None:
    for name in ("d1", "d2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(f"{TIMEOUT}: 5 ms\n")
    arguments = ["d1/config.yaml", "d2/config.yaml", "--runs", "2", "--json", "-"]
    document = json.loads(compare(*arguments).stdout)
    assert [each["name"] for each in document["configs"]] == ["d1/config.yaml", "d2/config.yaml"]


def test_the_json_holds_runs_differences_and_limits(compare: Flinknet, tmp_path: Path) -> None:
    arguments = ["base", "q:buffer-timeout=5ms", "--runs", "3", "--fail-if", "p99>+10%"]
    result = compare(*arguments, "--json", "-", "--out", "out")
    document = json.loads(result.stdout)
    assert document["schema_version"] == 2
    assert document["base"] == "base"
    assert document["outcome"] == "pass"
    assert [(c["name"], len(c["runs"])) for c in document["configs"]] == [("base", 3), ("q", 3)]
    (comparison,) = document["comparisons"]
    p99 = comparison["metrics"]["p99"]
    assert p99["verdict"] == "better"
    assert p99["change"] == pytest.approx(-0.95)
    assert p99["interval"]["low"] <= p99["change"] <= p99["interval"]["high"]
    assert comparison["metrics"]["p99_9"]["interval"] is None
    assert document["limits"] == [
        {"config": "q", "limit": "p99>+10%", "outcome": "pass", "reason": None, "step": None}
    ]
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
    assert name == str(path)
    assert settings.network == {TIMEOUT: "5 ms", "taskmanager.memory.segment-size": "8kb"}
    assert settings.workload == {
        "rate": "1k/s",
        "record-size": "1kb",
        "producers": "2",
        "slow-consumer": "0:1ms,1:2ms",
    }


def test_a_flink_conf_and_a_deployment_of_the_operator_are_configurations(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    nested = "execution:\n  buffer-timeout:\n    interval: 5 ms\n"
    resource = f"kind: FlinkDeployment\nspec:\n  flinkConfiguration:\n    {TIMEOUT}: 5 ms\n"
    for text in (nested, resource):
        path.write_text(text)
        assert read_config(str(path))[1].network == {TIMEOUT: "5 ms"}
    path.write_text("rest.port: 8081\n")
    assert read_config(str(path))[1].network == {}


def test_a_configuration_stands_on_the_options_of_the_call(flinknet: Flinknet, run: Any) -> None:
    flinknet(
        *("compare-configs", "base", "rate=5k/s", "--rate", "1k/s", "--producers", "2"),
        *("--runs", "2", "--segment-size", "8kb"),
    )
    assert {s.workload.rate_per_s for s in run.scenarios} == {1000, 5000}
    assert {s.workload.producers for s in run.scenarios} == {2}
    assert {s.network.segment_size_bytes for s in run.scenarios} == {8192}


def test_a_link_is_a_setting_of_a_configuration(flinknet: Flinknet, run: Any) -> None:
    far = "far:link=rtt=2ms,bandwidth=1gbit,buffer-timeout=5ms"
    shown = flinknet("compare-configs", "link=rtt=1ms", far, "--runs", "2", "--details").output
    assert {(s.link, s.network.buffer_timeout_ns) for s in run.scenarios} == {
        (Link(1_000_000), 100_000_000),
        (Link(2_000_000, 125_000_000), 5_000_000),
    }
    assert "--link" in shown
