"""`flinknet bench again`: the recorded arrivals again, with predictions beside."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flinknet.arrays import RecordedLoad
from flinknet.config import RECORDED, Link
from flinknet.errors import RunFailedError
from flinknet.job.load.arrivals import RecordedArrivals
from flinknet.replay.read import open_recorded_run
from flinknet.replay.rerun import save_records, scenario_of
from flinknet.results import RunWarning
from tests.edited_manifest import edit_manifest
from tests.recorded_run import MS, START_NS, write_run

from .conftest import Flinknet


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A buffer of ten records each 10 ms on each of two channels, for a second."""
    return write_run(tmp_path / "recorded")


def test_each_setting_stands_predicted_and_measured(
    recorded: Path, flinknet: Flinknet, run: Any
) -> None:
    options = ["--buffer-timeout", "0,20ms", "--json", "-", "--no-trace"]
    result = flinknet("bench", "again", str(recorded), *options)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["is_complete"], document["settings_asked"]) == (True, 3)
    names = [row["name"] for row in document["runs"]]
    assert names == ["buffer-timeout=10ms (as recorded)", "buffer-timeout=0", "buffer-timeout=20ms"]
    assert [row["is_recorded"] for row in document["runs"]] == [True, False, False]
    for row in document["runs"]:
        assert row["predicted"]["throughput_records_per_s"] == pytest.approx(2000, rel=0.05)
        assert row["measured"]["throughput_records_per_s"] == 1000
        assert row["error"]["throughput"] == pytest.approx(1, rel=0.1)
    slow = document["runs"][2]
    assert slow["predicted"]["latency_ns"]["p50"] == pytest.approx(10 * MS, rel=0.2)
    assert slow["config"]["execution.buffer-timeout.interval"] == "20 ms"
    control, first, second = run.scenarios
    assert control.network.buffer_timeout_ns == 10 * MS
    assert (first.network.buffer_timeout_ns, second.network.buffer_timeout_ns) == (0, 20 * MS)
    assert first.workload.arrivals.startswith(RECORDED)
    assert (first.workload.duration_ns, first.seed) == (1000 * MS, 7)
    assert (first.workload.producers, first.workload.consumers) == (1, 2)


def test_other_keys_stay_as_they_were_recorded(
    recorded: Path, flinknet: Flinknet, run: Any
) -> None:
    key = "taskmanager.memory.segment-size"
    options = ("--no-trace", "--no-control", "-D", f"{key}=8kb")
    assert flinknet("bench", "again", str(recorded), *options).exit_code == 0
    (scenario,) = run.scenarios
    assert scenario.network.segment_size_bytes == 8192
    assert scenario.network.buffer_timeout_ns == 10 * MS


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--buffer-timeout", "10ms,50ms"], ["10ms (as recorded)", "50ms"]),
        (["--buffer-timeout", "50ms"], ["10ms (as recorded)", "50ms"]),
        (["--buffer-timeout", "50ms", "--no-control"], ["50ms"]),
        ([], ["as recorded"]),
        (["--flow-control", "tcp"], ["credit (as recorded)", "tcp"]),
    ],
)
def test_the_recorded_setting_runs_once_as_a_control(
    recorded: Path, flinknet: Flinknet, options: list[str], names: list[str]
) -> None:
    result = flinknet("bench", "again", str(recorded), "--no-trace", *options, "--json", "-")
    rows = json.loads(result.stdout)["runs"]
    assert [row["name"].rpartition("=")[2] for row in rows] == names
    assert sum(row["is_recorded"] for row in rows) == ("--no-control" not in options)


def test_a_run_over_a_link_is_repeated_over_it_and_predicted_over_others(
    recorded: Path, flinknet: Flinknet, run: Any
) -> None:
    link = {"rtt_ns": MS, "bandwidth_bytes_per_s": 0.0, "jitter_ns": 0, "queue_bytes": 262144}

    def over_link(manifest: Any) -> None:
        manifest["scenario"]["link"] = link

    edit_manifest(recorded, over_link)
    options = ("--no-trace", "--link", "none", "--link", "rtt=21ms,bandwidth=1gbit")
    result = flinknet("bench", "again", str(recorded), *options, "--json", "-")
    rows = json.loads(result.stdout)["runs"]
    names = ["link=rtt=1ms (as recorded)", "link=none", "link=rtt=21ms,bandwidth=1gbit"]
    assert [row["name"] for row in rows] == names
    assert [each.link for each in run.scenarios] == [Link(MS), None, Link(21 * MS, 125e6)]
    p50 = [row["predicted"]["latency_ns"]["p50"] for row in rows]
    assert p50[2] == pytest.approx(p50[0] + 10 * MS, rel=0.1)
    assert any("without its bandwidth" in each for each in rows[2]["notes"])


def test_a_change_is_against_the_recorded_setting_as_it_is_now(
    recorded: Path, flinknet: Flinknet
) -> None:
    options = ("--no-trace", "--details", "--buffer-timeout", "20ms", "--report", "page.html")
    text = flinknet("bench", "again", str(recorded), *options).stdout
    assert "predictions were off by" in text
    assert "ended early" not in text
    assert "Instead of buffer-timeout=10ms (as recorded):" in text
    (line,) = (each for each in text.splitlines() if each.startswith("buffer-timeout=20ms: "))
    assert "measured p50 unchanged, p99 +10.0 ms" in line
    assert "; predicted p50 +" in line
    page = Path("page.html").read_text(encoding="utf-8")
    assert "Instead of buffer-timeout=10ms" in page
    assert "Predicted from the trace, and measured over sockets" in page
    for name in ("all settings", "buffer-timeout=20ms"):
        assert f'"name": "{name}"' in page or f'"name":"{name}"' in page


def test_the_page_is_there_when_stdout_is_closed(
    recorded: Path, flinknet: Flinknet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*_: object, **__: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("flinknet.cli.files.show", closed)
    options = ("--no-trace", "--buffer-timeout", "20ms", "--report", "page.html")
    flinknet("bench", "again", str(recorded), *options)
    assert "Instead of buffer-timeout=10ms" in Path("page.html").read_text(encoding="utf-8")


def machine_lines(text: str) -> tuple[str, str]:
    """The lines that compare this machine with that of the recording."""
    lines = text.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("This machine"))
    return lines[at], lines[at + 1]


def write_result(recorded: Path, p50_ns: float, p99_ns: float) -> None:
    latency_ns = {"p50": p50_ns, "p99": p99_ns}
    measured = {"throughput_records_per_s": 1000.0, "latency_ns": latency_ns}
    (recorded / "result.json").write_text(json.dumps({"measured": measured}))


def test_the_control_shows_whether_this_machine_is_that_of_the_recording(
    recorded: Path, flinknet: Flinknet, tmp_path: Path
) -> None:
    call = ("bench", "again", str(recorded), "--no-trace", "--details", "--buffer-timeout", "20ms")
    assert "This machine" not in flinknet(*call).stdout  # the recording does not say what it was
    write_result(recorded, 0.5 * MS, 9.5 * MS)
    result = flinknet(*call, "--json", "p.json", "--report", "page.html")
    first, second = machine_lines(result.stdout)
    assert first == (
        "This machine is now slower than that of the recording in p50: throughput 0.0%, p50"
        " +100.0%, p99 +5.3% (the recorded setting now, against the recording)."
    )
    assert second.startswith("The errors in the table include that, not the model's alone. Against")
    recording = json.loads(Path("p.json").read_text())["recording"]
    assert recording["change"]["p50"] == 1.0
    assert recording["model_error"]["throughput"] == pytest.approx(1, rel=0.1)
    assert "This machine is now slower than" in Path("page.html").read_text(encoding="utf-8")
    assert "This machine" not in flinknet(*call, "--no-control").stdout
    write_result(recorded, MS, 10 * MS)
    first, second = machine_lines(flinknet(*call, "--duration", "500ms").stdout)
    assert first.startswith(
        "This machine is now about as fast as that of the recording: throughput"
    )
    assert first.endswith("(the recorded setting now, against all of the recording).")
    assert second.startswith("So the errors in the table are mostly the model's. Against the")


def test_a_key_that_flink_2_ignores_is_said_first(recorded: Path, flinknet: Flinknet) -> None:
    call = ("bench", "again", str(recorded), "--no-trace", "--exclusive-buffers", "4")
    first, *rest = flinknet(*call).stdout.splitlines()
    assert first.startswith("Note (exclusive-buffers=4): taskmanager.network.memory.buffers-per-")
    assert not any("ignored by Flink" in line for line in rest)
    result = flinknet(*call, "--json", "-")
    assert result.stderr.startswith("Note (exclusive-buffers=4): ")
    _, row = json.loads(result.stdout)["runs"]
    assert [each["code"] for each in row["warnings"]] == ["fixed-in-flink-2"]


@pytest.mark.parametrize(("release", "codes"), [("1.20", []), (None, ["fixed-in-flink-2"])])
def test_the_rules_of_the_recorded_release_hold_again(
    recorded: Path, flinknet: Flinknet, run: Any, release: str | None, codes: list[str]
) -> None:
    def by_release(manifest: Any) -> None:
        manifest["scenario"]["network"]["exclusive_buffers"] = 4
        manifest["scenario"]["flink_release"] = release

    edit_manifest(recorded, by_release)
    result = flinknet("bench", "again", str(recorded), "--no-trace", "--json", "-")
    (row,) = json.loads(result.stdout)["runs"]
    assert [each["code"] for each in row["warnings"]] == codes
    assert [each.flink_release for each in run.scenarios] == [release]


def test_what_to_doubt_of_a_measurement_is_reported(
    recorded: Path, flinknet: Flinknet, run: Any
) -> None:
    run.warnings = (RunWarning("p99-disturbed", "a TaskManager waited for a CPU."),)
    timeouts = ("--no-trace", "--no-control", "--buffer-timeout", "5ms,-1")
    command = ("bench", "again", str(recorded), *timeouts)
    text = flinknet(*command, "--details").stdout
    assert "Warning in all 2 runs (buffer-timeout=5ms, buffer-timeout=-1): a TaskManager" in text
    rows = json.loads(flinknet(*command, "--json", "-").stdout)["runs"]
    assert [each["code"] for row in rows for each in row["warnings"]].count("p99-disturbed") == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RunFailedError("tm-1 died")])
def test_what_was_measured_is_reported_where_a_later_run_ends_it(
    recorded: Path, tmp_path: Path, flinknet: Flinknet, run: Any, error: BaseException
) -> None:
    run.fail_at, run.error = 2, error
    out, file = tmp_path / "out", tmp_path / "p.json"
    timeouts = ("--no-trace", "--no-control", "--buffer-timeout", "5ms,-1")
    command = ("bench", "again", str(recorded), *timeouts)
    page = tmp_path / "page.html"
    result = flinknet(*command, "--out", str(out), "--json", str(file), "--report", str(page))
    assert result.exit_code == (130 if isinstance(error, KeyboardInterrupt) else 1)
    assert "buffer-timeout=5ms" in result.stdout
    assert "buffer-timeout=-1" not in result.stdout
    assert "ended early: 1 of 2 settings were measured" in result.stdout
    assert f"results: {out}/prediction.json" in result.stderr
    for path in (file, out / "prediction.json"):
        document = json.loads(path.read_text())
        (row,) = document["runs"]
        assert row["name"] == "buffer-timeout=5ms"
        assert (document["is_complete"], document["settings_asked"]) == (False, 2)
    assert '"name":"buffer-timeout=5ms"' in page.read_text(encoding="utf-8")


def test_json_on_stdout_says_that_a_later_run_ended_it(
    recorded: Path, flinknet: Flinknet, run: Any
) -> None:
    run.fail_at, run.error = 2, RunFailedError("tm-1 died")
    options = ["--buffer-timeout", "5ms,-1", "--json", "-", "--no-trace"]
    result = flinknet("bench", "again", str(recorded), *options)
    document = json.loads(result.stdout)
    assert (document["is_complete"], len(document["runs"])) == (False, 1)
    assert result.stderr.splitlines()[-1] == "flinknet: tm-1 died"


@pytest.mark.parametrize(
    ("host", "note"),
    [
        ({"cores": 64}, "recorded under other conditions (cores 64 there, 2 here): "),
        ({"cores": 2}, None),
    ],
)
def test_a_trace_of_other_conditions_is_noted(
    recorded: Path, flinknet: Flinknet, host: dict[str, Any], note: str | None
) -> None:
    edit_manifest(recorded, lambda manifest: manifest.update(host=host))
    result = flinknet("bench", "again", str(recorded), "--no-trace", "--json", "-")
    (row,) = json.loads(result.stdout)["runs"]
    actual = [each for each in row["notes"] if each.startswith("recorded under")]
    assert [each.startswith(note or "nothing") for each in actual] == ([True] if note else [])


@pytest.mark.parametrize(
    ("options", "exit_code", "complaint"),
    [
        (["--duration", "0s"], 2, "--duration: 0 measures nothing"),
        (["--duration", "2s"], 2, "--duration 2s: the trace holds 1.00 s of records"),
        (["--buffer-timeout", "5"], 2, "'5' has no unit; write 5ms or 5s"),
    ],
)
def test_what_the_trace_answers_may_not_be_given(
    recorded: Path, flinknet: Flinknet, options: list[str], exit_code: int, complaint: str
) -> None:
    result = flinknet("bench", "again", str(recorded), "--no-trace", *options)
    assert result.exit_code == exit_code
    assert complaint in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_of_the_directory_of_a_sweep_one_run_is_to_be_given(
    recorded: Path, flinknet: Flinknet
) -> None:
    call = ("bench", "again", str(recorded.parent), "--no-trace", "--no-control")
    assert flinknet(*call).exit_code == 0  # the only run below it
    write_run(recorded.parent / "second")
    result = flinknet(*call)
    assert result.exit_code == 2
    assert f"2 runs below it; give one: {recorded}, {recorded.parent}/second" in result.stderr


def test_arrivals_are_those_of_the_trace(recorded: Path, tmp_path: Path) -> None:
    again = open_recorded_run(recorded, 0)
    scenario = scenario_of(again)
    scenario = replace(scenario, workload=replace(scenario.workload, warmup_ns=0))
    law = save_records(again, scenario, tmp_path / "arrivals")
    later_ns = 5_000_000 * MS
    load = RecordedLoad.load(law, 0, start_ns=later_ns, measured_from_ns=later_ns)
    assert (load.value_bytes, load.subpartitions) == (None, None)
    arrivals = RecordedArrivals(load.instants_ns)
    instants_ns = arrivals.take(2**62, 10_000)
    assert np.array_equal(instants_ns, later_ns + np.repeat(np.arange(1000), 2) * MS)
    assert arrivals.next_ns() is None
    late = RecordedLoad.load(law, 0, start_ns=later_ns + 500 * MS, measured_from_ns=later_ns)
    assert RecordedArrivals(late.instants_ns).next_ns() == later_ns + 500 * MS


def test_at_the_highest_rate_records_come_as_they_can(tmp_path: Path) -> None:
    run = open_recorded_run(write_run(tmp_path / "max", rate_per_s=0.0), 0)
    scenario = scenario_of(run)
    assert save_records(run, scenario, tmp_path / "arrivals") == "constant"
    assert scenario.workload.is_max_rate
    assert run.from_ns == START_NS


def test_nothing_is_predicted_through_several_exchanges(
    recorded: Path, flinknet: Flinknet, run: Any
) -> None:
    def stand_in_a_row(manifest: dict[str, Any]) -> None:
        for each in manifest["channels"]:
            each["edge"] = each["index"]

    edit_manifest(recorded, stand_in_a_row)
    result = flinknet("bench", "again", str(recorded), "--no-trace", "--json", "-")
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)["runs"]
    assert row["predicted"]["throughput_records_per_s"] is None
    assert any("several exchanges" in note for note in row["notes"])
