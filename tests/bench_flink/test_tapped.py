"""tapped.py: its options, the tap it starts, predictions against measurements."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.flink import predictions
from bench.flink.cluster import TaskManager
from bench.flink.exchange import Exchange
from bench.flink.predictions import cell, print_predictions, summary
from bench.flink.tap import behind_a_tap, last_document, run_directory, tap_command
from bench.flink.tapped import arguments_parser, is_sound, settings
from bench.flink.tapped_job import write_conf
from flinknet.errors import ConfigError


def asked(*words: str) -> Exchange:
    return settings(arguments_parser().parse_args(words))


def test_the_rate_is_that_of_all_sources() -> None:
    assert asked().rate_per_s == 10_000
    assert asked("--rate", "20k/s", "--parallelism", "4").rate_per_s == 5_000
    assert asked("--max").rate_per_s is None


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--record-size", "5b"], "at least 20b"),
        (["--parallelism", "0"], "1 or more"),
        (["--duration", "0"], "more than 0"),
        (["--checkpoint-interval", "500us"], "whole milliseconds"),
    ],
)
def test_what_cannot_run_is_refused(words: list[str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        asked(*words)


@pytest.mark.socket
def test_every_task_manager_gets_a_tap_before_it() -> None:
    apart = behind_a_tap([TaskManager(1), TaskManager(2)])
    ports = [port for each in apart for port in (each.data_port, each.bind_port)]
    assert len(set(ports)) == 4
    command = tap_command(apart, Path("out"), Path("conf"))
    listens = [command[at + 1] for at, word in enumerate(command) if word == "--listen"]
    upstreams = [command[at + 1] for at, word in enumerate(command) if word == "--upstream"]
    assert listens == [f"127.0.0.1:{each.data_port}" for each in apart]
    assert upstreams == [f"127.0.0.1:{each.bind_port}" for each in apart]


def test_the_tap_is_given_what_the_wire_does_not_show(tmp_path: Path) -> None:
    text = write_conf(tmp_path / "a", Exchange(buffer_timeout_ms=10)).read_text()
    assert "execution.buffer-timeout.interval: 10 ms" in text
    never = write_conf(tmp_path / "b", Exchange(buffer_timeout_ms=-1)).read_text()
    assert "execution.buffer-timeout.enabled: false" in never


def test_the_document_is_found_behind_what_else_was_said() -> None:
    assert last_document('two lines\nof talk\n{"a": {"b": 1}}\n') == {"a": {"b": 1}}
    assert last_document("nothing") == {}


def test_a_run_directory_is_found_at_its_place_or_below(tmp_path: Path) -> None:
    (tmp_path / "run-1").mkdir()
    (tmp_path / "run-1" / "manifest.json").touch()
    assert run_directory(tmp_path) == tmp_path / "run-1"
    assert run_directory(tmp_path / "run-1") == tmp_path / "run-1"


def measured(p50_ms: float | None, p99_ms: float | None) -> Any:
    ns = [None if ms is None else ms * 1e6 for ms in (p50_ms, p99_ms)]
    return SimpleNamespace(latency=SimpleNamespace(p50=ns[0], p99=ns[1]))


GUESS = {
    "latency_ns": {"p50": 5e6, "p99": 10e6},
    "latency_low_ns": {"p50": 1e6, "p99": 9e6},
    "latency_high_ns": {"p50": 6e6, "p99": 11e6},
}


def test_a_prediction_stands_against_the_median_of_what_was_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cells = [
        cell(2e3, 5, GUESS, [measured(4, 8), measured(2, 20), measured(8, 8)]),
        cell(2e3, -1, {"latency_ns": GUESS["latency_ns"]}, [measured(5, None)]),
    ]
    assert cells[0]["p50"]["error"] == pytest.approx(0.25)
    assert [cells[0][name]["is_covered"] for name in ("p50", "p99")] == [True, False]
    assert cells[1]["p50"]["is_covered"] is None
    assert cells[1]["p99"]["error"] is None
    found = summary(cells)
    assert found["median_error"] == pytest.approx(0.25)
    assert (found["intervals"], found["intervals_that_hold"]) == (2, 1)
    print_predictions({"cells": cells, "summary": found, "recorded_timeout_ms": 10})
    out = capsys.readouterr().out
    assert "5 [1, 6]" in out
    assert "+25%" in out
    assert "2.00 k/s, never" in out
    assert "intervals that hold: 1 of 2" in out


def document(**more: Any) -> dict[str, Any]:
    count = {"rows": [("numRecordsOut", 5, 5)], "imported": {"messages": 0}} | more
    return {"tapped": [{"is_verified": True}], "counts": [count]}


def test_a_count_that_differs_or_another_message_in_the_capture_is_no_success() -> None:
    assert is_sound(document())
    assert not is_sound(document(rows=[("numRecordsOut", 5, 4)]))
    assert not is_sound(document(imported={"messages": 1}))
    assert not is_sound(document() | {"tapped": [{"is_verified": False}]})


def test_every_timeout_is_predicted_once_and_measured_in_every_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_of_flinknet: list[str] = []
    rounds = iter([[measured(1, 1), measured(4, 4)], [measured(3, 3), measured(6, 6)]])
    jobs: list[tuple[int, ...]] = []

    def answer(*words: str) -> str:
        asked_of_flinknet.extend(words)
        Path(words[-1]).write_text(json.dumps({"trade_offs": [GUESS, GUESS]}))
        return ""

    def direct(*exchanges: Exchange) -> list[Any]:
        jobs.append(tuple(each.buffer_timeout_ms for each in exchanges))
        return next(rounds)

    monkeypatch.setattr(predictions, "flinknet", answer)
    bench: Any = SimpleNamespace(
        tapped=lambda exchange, with_metrics: SimpleNamespace(run=tmp_path / "tap"),
        directory=lambda name: tmp_path,
        direct=direct,
    )
    found = predictions.predict(bench, Exchange(), [5, -1], [20e3], 2)
    assert asked_of_flinknet[2:5] == [str(tmp_path / "tap"), "--buffer-timeout", "5ms,-1"]
    assert jobs == [(5, -1), (5, -1)]
    assert [each["p50"]["measured_ns"] for each in found["cells"]] == [2e6, 5e6]
