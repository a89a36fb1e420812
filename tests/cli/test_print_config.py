"""flinknet bench config: every key with its value and origin, and no run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from flinknet.options import options
from flinknet.options.keys import MEMORY_SIZES

from .conftest import Flinknet

TIMEOUT = "execution.buffer-timeout.interval"
SEGMENT = "taskmanager.memory.segment-size"
EXCLUSIVE = "taskmanager.network.memory.buffers-per-channel"
FLOATING = "taskmanager.network.memory.floating-buffers-per-gate"
NETWORK_MIN = "taskmanager.memory.network.min"
FLINK_SIZE = "taskmanager.memory.flink.size"


def configs(result: Result, exit_code: int = 0) -> list[dict[str, Any]]:
    """The keys of each setting, by their name."""
    assert result.exit_code == exit_code, result.output
    document = json.loads(result.stdout)
    assert list(document) == ["schema_version", "configs"]
    return [{each["key"]: each for each in one["keys"]} for one in document["configs"]]


def test_every_key_is_there_with_its_type_limits_and_effect_and_nothing_is_run(
    flinknet: Flinknet, run: Any
) -> None:
    (keys,) = configs(flinknet("bench", "config", "--json", "-"))
    assert list(keys) == list(options())
    assert run.scenarios == []
    assert not list(Path().iterdir())
    assert keys["execution.runtime-mode"]["type"] == "choice"
    assert keys["execution.runtime-mode"]["limits"] == ["STREAMING", "BATCH", "AUTOMATIC"]
    assert keys["taskmanager.network.request-backoff.initial"]["type"] == "milliseconds"
    assert keys[SEGMENT]["is_acted_on"]
    for key, option in options().items():
        if key not in (*MEMORY_SIZES, "taskmanager.network.numberOfBuffers"):
            assert keys[key]["is_acted_on"] == option.is_acted_on
    assert not keys[FLINK_SIZE]["is_acted_on"]  # no total is given


def test_a_file_with_which_flink_does_not_start_has_keys_and_no_buffers(
    flinknet: Flinknet, tmp_path: Path
) -> None:
    conf = tmp_path / "config.yaml"
    conf.write_text(f"{SEGMENT}: 8kb\n")
    result = flinknet("bench", "config", "--flink-conf", "config.yaml")
    assert result.exit_code == 2
    assert SEGMENT in result.stdout
    assert "configured" not in result.stdout
    assert "so Flink does not start; set " in result.stderr
    conf.write_text("taskmanager.memory.size: 1500mb\ntaskmanager.memory.process.size: 2200mb\n")
    conf.rename(tmp_path / "flink-conf.yaml")
    result = flinknet("bench", "config", "--flink-conf", "flink-conf.yaml")
    assert " is deprecated: use " in result.stderr.splitlines()[0]


def test_each_value_says_where_it_comes_from(flinknet: Flinknet, tmp_path: Path) -> None:
    conf = tmp_path / "config.yaml"
    conf.write_text(f"{SEGMENT}: 8kb\n{EXCLUSIVE}: 3\n{FLOATING}: 3\n{TIMEOUT}: 1 ms\n")
    (keys,) = configs(
        flinknet(
            *("bench", "config", "--json", "-", "--flink-conf", "config.yaml"),
            *("-D", f"{EXCLUSIVE}=4", "--buffer-timeout", "5ms"),
        ),
        exit_code=2,  # no total size of memory
    )
    actual = {key: (keys[key]["value"], keys[key]["origin"]) for key in keys}
    assert actual[SEGMENT] == ("8 kb", "config.yaml")
    assert actual[EXCLUSIVE] == ("4", "-D")
    assert actual[TIMEOUT] == ("5 ms", "--buffer-timeout")
    assert actual[FLOATING] == ("8", "fixed in 2.3")
    assert actual["taskmanager.network.numberOfBuffers"] == ("2048", "default of 1.20")
    assert actual["taskmanager.bind-host"] == ("127.0.0.1", "default of flinknet")
    assert actual["taskmanager.host"] == ("unset", "default of 2.3")
    assert actual["taskmanager.memory.network.max"] == ("unlimited", "default of 2.3")


def test_a_file_of_flink_1_has_the_defaults_of_its_release(flinknet: Flinknet) -> None:
    Path("flink-conf.yaml").write_text(f"{FLINK_SIZE}: 1gb\n")
    call = ("bench", "config", "--json", "-", "--flink-conf", "flink-conf.yaml")
    (keys,) = configs(flinknet(*call))
    of_network = "taskmanager.network.memory"
    for key, value in (
        (f"{of_network}.max-overdraft-buffers-per-gate", "5"),
        (f"{of_network}.floating-buffers-per-gate", "8"),
    ):
        assert (keys[key]["value"], keys[key]["origin"]) == (value, "default of 1.20")
    partitioner = keys["taskmanager.network.adaptive-partitioner.enabled"]
    assert partitioner["origin"] == "default of 2.3"


def test_no_key_is_folded_on_a_narrow_terminal(
    flinknet: Flinknet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = flinknet("bench", "config").stdout.splitlines()
    assert set(options()) <= set(lines)
    assert lines[lines.index(SEGMENT) + 1].split("  ")[1] == "32 kb"


def test_derived_sizes_say_how(flinknet: Flinknet) -> None:
    (keys,) = configs(flinknet("bench", "config", "--json", "-", "-D", f"{FLINK_SIZE}=1280m"))
    assert keys[NETWORK_MIN]["value"] == "134217730 b"
    assert keys[NETWORK_MIN]["origin"] == "derived"
    assert keys[NETWORK_MIN]["how"] == (
        "taskmanager.memory.network.fraction (0.1) of taskmanager.memory.flink.size (1280mb)"
    )
    assert keys["taskmanager.memory.network.max"]["value"] == "134217730 b"
    assert keys[FLINK_SIZE]["is_acted_on"]


def test_a_timeout_and_its_switch_follow_each_other(flinknet: Flinknet) -> None:
    enabled = "execution.buffer-timeout.enabled"
    (keys,) = configs(flinknet("bench", "config", "--json", "-", "--buffer-timeout", "-1"))
    assert (keys[enabled]["value"], keys[enabled]["origin"]) == ("false", "derived")
    (keys,) = configs(flinknet("bench", "config", "--json", "-", "-D", f"{enabled}=false"))
    assert (keys[TIMEOUT]["value"], keys[TIMEOUT]["origin"]) == ("-1 ms", "derived")


def test_flow_control_is_reported_by_the_key_of_flink_1(flinknet: Flinknet) -> None:
    key = "taskmanager.network.credit-model.enabled"
    actual = []
    for option in ("--flow-control", "tcp"), ("-D", f"{key}=false"), ():
        (keys,) = configs(flinknet("bench", "config", "--json", "-", *option))
        actual.append((keys[key]["value"], keys[key]["origin"]))
    assert actual[:2] == [("false", "--flow-control"), ("false", "-D")]
    assert actual[2][0] == "true"


def test_passwords_are_hidden(flinknet: Flinknet) -> None:
    key = "security.ssl.internal.keystore-password"
    result = flinknet("bench", "config", "--json", "-", "-D", f"{key}=geheim")
    (keys,) = configs(result)
    assert keys[key]["value"] == "******"
    assert "geheim" not in result.output


def test_a_sweep_has_a_configuration_for_each_setting(flinknet: Flinknet) -> None:
    result = flinknet("bench", "config", "--json", "-", "--segment-size", "4kb,8kb")
    assert [keys[SEGMENT]["value"] for keys in configs(result)] == ["4 kb", "8 kb"]
    names = [one["name"] for one in json.loads(result.stdout)["configs"]]
    assert names == ["segment-size=4kb", "segment-size=8kb"]


def test_buffers_of_each_task_manager_are_reported(flinknet: Flinknet) -> None:
    result = flinknet(*("bench", "config", "--json", "-", "--producers", "4", "--consumers", "2"))
    memory = json.loads(result.stdout)["configs"][0]["memory"]
    names = ("total_buffers", "exclusive_buffers", "required_buffers", "spare_buffers")
    assert [[each[name] for name in names] for each in memory] == [
        [2048, 0, 12, 2036],  # four partitions of two subpartitions
        [2048, 16, 2, 2030],  # two gates of four channels
    ]


def test_the_table_is_grouped_and_names_what_is_deprecated(flinknet: Flinknet) -> None:
    call = ("bench", "config", "-D", "execution.buffer-timeout=5ms", "--json", "config.json")
    result = flinknet(*call)
    assert result.exit_code == 0, result.output
    assert json.loads(Path("config.json").read_text())["schema_version"] == 1
    lines = result.stdout.splitlines()
    assert lines[0] == f"Note: execution.buffer-timeout is deprecated: use {TIMEOUT}"
    assert lines[1].split() == ["key", "value", "origin", "type", "acts"]
    groups = ["memory and buffers", "shuffle", "transport", "checkpoints, graph and cluster"]
    assert [line.strip() for line in lines if line.strip() in groups] == groups
    (timeout,) = [line.split() for line in lines if line.startswith(TIMEOUT)]
    assert timeout == [TIMEOUT, "5", "ms", "-D", "duration", "yes"]


def test_memory_that_does_not_hold_the_run_is_refused_before_anything_starts(
    flinknet: Flinknet, run: Any
) -> None:
    call = ("bench", "--no-trace", "--producers", "100", "--consumers", "100", "-D")
    result = flinknet(*call, f"{NETWORK_MIN}=64mb")
    assert result.exit_code == 2
    assert run.scenarios == []
    # 100 gates of 100 channels: 20000 exclusive buffers, and 1 for each gate
    for words in ("TaskManager 1 requires 20100", "20000 exclusive", "2048 of 32kb", "643200kb"):
        assert words in result.stderr
    enough = flinknet(*call, f"{NETWORK_MIN}=643200kb")
    assert enough.exit_code == 0, enough.output
