"""`flinknet trace info` and `trace verify`, from the command line to the table."""

from __future__ import annotations

import fcntl
import json
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flinknet.cli import main
from flinknet.report.trace_console import verification_view
from flinknet.trace import open_run
from flinknet.trace.verify import verify_run
from tests.edited_manifest import edit_manifest
from tests.report.printing import printed
from tests.synthetic_trace import write_run


def run_cli(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["trace", *map(str, args)], env={"COLUMNS": "400"})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", channels=2, data_buffers=10)


def test_info_shows_what_is_in_a_run(run: Path) -> None:
    result = run_cli("info", run)
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "88 events in" in lines[1].replace(",", "")
    for expected in (
        "0 tm-0->tm-1 0 0 44 0.000 s",
        "1 tm-0->tm-1 1 1 44 0.000 s",
        "BUFFER_RESPONSE 22 22 20",
        "PARTITION_REQUEST 2 2 –",
        "ADD_CREDIT 10 10 –",
        "execution.buffer-timeout.interval 100 ms",
        "workload.producers 2",
        "measured part 1.000 s",
    ):
        assert expected in lines, result.output
    assert any(line.startswith("tm-0.fnt tm-0 100 ") for line in lines)


def test_in_a_pipe_a_verified_path_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / ("long" * 30) / "run", channels=2, data_buffers=10)
    monkeypatch.delenv("COLUMNS")
    result = CliRunner().invoke(main, ["trace", "verify", str(run)])
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"OK {run}: 2 files, ")


def test_info_names_the_edges_of_a_job(run: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["channels"][1]["edge"] = 1
        manifest["scenario"]["job"] = {
            "vertices": [{"index": at, "name": name} for at, name in enumerate("ABC")],
            "edges": [
                {"partitioner": "hash", "partition_type": "pipelined"}
                | {"index": at, "source": at, "target": at + 1}
                for at in range(2)
            ],
        }

    edit_manifest(run, change)
    lines = [" ".join(line.split()) for line in run_cli("info", run).output.splitlines()]
    assert {"1 A B hash pipelined", "2 B C hash pipelined"} <= set(lines)
    assert {"0 1 tm-0->tm-1 0 0 44 0.000 s", "1 2 tm-0->tm-1 1 1 44 0.000 s"} <= set(lines)


def test_info_names_the_metrics_next_to_the_trace(run: Path) -> None:
    actual = {"at_ns": 1, "task_manager": "tm-0"}
    lines = [actual | {"task": name, "outPoolUsage": 1} for name in ("source 0", "source 1")]
    text = "".join(json.dumps(line) + "\n" for line in (*lines, actual | {"UsedMemory": 1}))
    (run / "metrics.jsonl").write_text(text + '{"cut')
    found = run_cli("info", run)
    assert "metrics: 3 lines in metrics.jsonl, 1 metrics of 2 tasks over time" in found.output, (
        found.output
    )


def test_info_of_a_file_alone_needs_no_manifest(run: Path) -> None:
    result = run_cli("info", run / "tm-1.fnt")
    assert result.exit_code == 0, result.output
    assert "execution.buffer-timeout" not in result.output


def test_info_as_json_names_units(run: Path) -> None:
    (described,) = json.loads(run_cli("info", run, "--json").output)["runs"]
    assert described["events"] == 88
    assert described["size_bytes"] == sum(
        (run / name).stat().st_size for name in ("tm-0.fnt", "tm-1.fnt")
    )
    assert described["bytes_per_event"] == described["size_bytes"] / 88
    assert described["compression_ratio"] == pytest.approx(72 / described["bytes_per_event"])
    assert described["events_by_kind"]["CONSUMED"] == {"BUFFER_RESPONSE": 20}
    assert [channel["events"] for channel in described["channels"]] == [44, 44]
    assert described["manifest"]["seed"] == 7
    assert described["files"][0]["truncation"] is None


def test_verify_says_ok_with_the_counts(run: Path) -> None:
    result = run_cli("verify", run)
    assert result.exit_code == 0
    assert result.output == (
        f"OK {run}: 2 files, 3 blocks, 88 events on 2 channels, 34 messages sent, 34 received\n"
    )


def test_a_run_that_is_being_written_is_not_called_damaged(run: Path) -> None:
    file = run / "tm-0.fnt"
    file.write_bytes(file.read_bytes()[:-100])
    directory = os.open(run, os.O_RDONLY)
    fcntl.flock(directory, fcntl.LOCK_EX)
    try:
        result = run_cli("verify", run)
    finally:
        os.close(directory)
    assert result.exit_code == 0
    assert result.output.startswith(f"OK {run}: 2 files, ")
    assert result.output.endswith("; still being written, checked up to here\n")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"messages_in_flight": 2}, "9 messages sent, 7 received; 2 were under way at the end"),
        ({"is_from_between": True}, "9 messages from producers, 7 from consumers, each recorded"),
    ],
)
def test_verify_says_why_numbers_that_differ_are_whole(
    run: Path, changes: dict[str, Any], text: str
) -> None:
    found = verify_run(open_run(run))
    counts = {"messages_sent": 9, "messages_received": 7}
    shown = verification_view("x", asdict(found) | counts | changes)
    assert text in printed(shown, width=200)


def test_info_shows_a_cut_and_verify_exits_with_1_and_a_sentence(run: Path) -> None:
    file = run / "tm-0.fnt"
    file.write_bytes(file.read_bytes()[:-100])
    shown = run_cli("info", run)
    assert (shown.exit_code, "tm-0.fnt has no trailer" in shown.output) == (0, True)
    assert re.search(r" bytes are lost, the last [\d.]+ [mu]?s of the run", shown.output)
    result = run_cli("verify", run)
    assert result.exit_code == 1
    first, second = result.output.splitlines()
    assert first.startswith("DAMAGED")
    assert second.startswith("! tm-0.fnt: there is no trailer")


def test_verify_as_json_carries_the_findings(run: Path) -> None:
    content = bytearray((run / "tm-1.fnt").read_bytes())
    content[len(content) // 3] ^= 1
    (run / "tm-1.fnt").write_bytes(content)
    result = run_cli("verify", run, "--json")
    assert result.exit_code == 1
    (verified,) = json.loads(result.output)["runs"]
    assert not verified["is_ok"]
    assert "checksum" in {finding["rule"] for finding in verified["findings"]}


def test_verify_shows_every_run_and_exits_with_the_worst_code(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / "runs" / name) for name in "ab"]
    below = run_cli("verify", tmp_path / "runs")
    assert (below.exit_code, len(below.output.splitlines())) == (0, 2)
    (tmp_path / "notes.txt").write_text("no trace")
    file = runs[1] / "tm-1.fnt"
    file.write_bytes(file.read_bytes()[:-60])
    paths = (runs[1], tmp_path / "notes.txt", tmp_path / "nowhere", runs[0])
    result = run_cli("verify", *paths)
    assert result.exit_code == 4
    assert [line.split()[0] for line in result.stdout.splitlines() if line[0] != "!"] == [
        "DAMAGED",
        "OK",
    ]
    assert "not a flinknet trace" in result.stderr
    assert "nowhere: there is no such file or directory" in result.stderr
    assert run_cli("verify", *paths[2:]).exit_code == 2
    actual = json.loads(run_cli("verify", *paths, "--json").stdout)["runs"]
    assert [each["is_ok"] for each in actual] == [False, False, False, True]
    assert "no such file" in actual[2]["error"]


def test_info_lists_what_differs_from_the_defaults(run: Path) -> None:
    of_earlier = "taskmanager.network.sort-shuffle.min-parallelism"  # manifests of today lack it

    def change(manifest: dict[str, Any]) -> None:
        manifest["flink_keys"]["taskmanager.memory.segment-size"] = "8 kb"
        manifest["flink_keys"]["taskmanager.network.retries"] = "0"
        manifest["flink_keys"][of_earlier] = "1"
        manifest["scenario"]["workload"]["slow_consumers"] = [
            {"index": 2, "delay_ns_per_record": 1_000_000, "slow_ns": None}
        ]

    edit_manifest(run, change)
    actual = run_cli("info", run).stdout
    assert " ".join(["taskmanager.memory.segment-size", "8", "kb"]) in " ".join(actual.split())
    assert "workload.slow_consumers 2:1ms" in " ".join(actual.split())
    assert "execution.buffer-timeout.interval" in actual  # what everybody looks for
    assert "taskmanager.network.retries" not in actual
    assert of_earlier not in actual
    assert "settings at their defaults; --all shows them" in actual
    everything = run_cli("info", run, "--all").stdout
    assert "taskmanager.network.retries" in everything
    assert "--all shows them" not in everything


def test_info_says_who_stated_the_settings_of_a_real_cluster(run: Path) -> None:
    key, kept = ("execution.buffer-timeout.interval", "taskmanager.memory.segment-size")

    def change(manifest: dict[str, Any]) -> None:
        manifest["origin"] = "tap"
        manifest["flink_keys"] |= {kept: "32 kb", "taskmanager.network.retries": "0"}
        manifest["scenario"] = {"settings_from": {key: "JobManager", kept: "config.yaml"}}

    edit_manifest(run, change)
    rows = [line.split() for line in run_cli("info", run).stdout.splitlines()]
    assert ["setting", "value", "from"] in rows
    assert [row[-1] for row in rows if row and row[0] == key] == ["JobManager"]
    assert [row[-1] for row in rows if row and row[0] == kept] == ["config.yaml"]
    assert not any(row and row[0] == "taskmanager.network.retries" for row in rows)
    everything = [line.split() for line in run_cli("info", run, "--all").stdout.splitlines()]
    assert ["taskmanager.network.retries", "0", "default"] in everything


@pytest.mark.parametrize("command", ["info", "verify"])
def test_what_is_no_trace_is_one_line_and_exit_4(tmp_path: Path, command: str) -> None:
    foreign = tmp_path / "notes.txt"
    foreign.write_text("no trace, only notes about one")
    result = run_cli(command, foreign)
    assert result.exit_code == 4
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "not a flinknet trace" in result.stderr


@pytest.mark.parametrize("command", ["info", "verify"])
def test_names_in_files_do_not_reach_the_terminal_as_escapes(run: Path, command: str) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["processes"][0]["name"] = "\x1b[31m\x9b1mtm-0\u202e"
        manifest["channels"][0]["connection"] = "\x1b]0;title\x07a->b"
        manifest["flink_keys"]["\x1b[2Jkey"] = "\x1b[1A"

    edit_manifest(run, change)
    actual = run_cli(command, run).output
    assert set(actual) & set("\x1b\x07\x9b\u202e") == set()
    assert "[31m1mtm-0" in actual


def test_verify_of_an_edited_manifest_exits_with_1_and_says_what_to_do(run: Path) -> None:
    path = run / "manifest.json"
    path.write_text(path.read_text().replace('"seed": 7', '"seed": 8'))
    result = run_cli("verify", run)
    assert result.exit_code == 1
    assert 'set "seal" in manifest.json to null' in result.stdout.splitlines()[1]
    refused = run_cli("info", run)
    assert (refused.exit_code, refused.stderr.count("\n")) == (4, 1)


@pytest.mark.parametrize(
    "change",
    [lambda manifest: manifest.update(seed=8), lambda manifest: manifest.update(schema_version=1)],
    ids=["the seal is null", "an older version is claimed"],
)
def test_a_manifest_without_its_seal_is_read_and_said_to_have_none(run: Path, change: Any) -> None:
    for command in ("info", "verify"):
        assert "not sealed" not in run_cli(command, run).output
        assert json.loads(run_cli(command, run, "--json").output)["runs"][0]["is_sealed"] is True
    edit_manifest(run, change)
    manifest = json.loads((run / "manifest.json").read_text())
    if manifest["schema_version"] == 1:
        del manifest["seal"]
        (run / "manifest.json").write_text(json.dumps(manifest))
    for command in ("info", "verify"):
        result = run_cli(command, run)
        assert result.exit_code == 0
        assert "not sealed: changes of manifest.json" in result.output
        assert json.loads(run_cli(command, run, "--json").output)["runs"][0]["is_sealed"] is False


def test_a_path_that_is_too_long_is_one_line() -> None:
    result = run_cli("info", "x" * 5000)
    assert result.exit_code == 4
    assert result.stderr.endswith("File name too long; choose a shorter name\n")
