"""`--find`: the highest rate that keeps a limit, on a server whose capacity is known."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flinknet.cli import main
from flinknet.cli.sweep import Executor
from flinknet.config import Scenario
from flinknet.errors import RunFailedError
from flinknet.results import RunResult, RunWarning
from flinknet.results.validity import DISTURBED, RATE_NOT_REACHED
from tests.cli.conftest import RecordingRun

CAPACITY_PER_S = 25_000.0
NS_PER_MS = 1_000_000


class Server:
    """Keeps p99 at 8 ms up to its capacity, which the size of segments changes, and cannot take
    more; every third run is disturbed."""

    def __init__(
        self,
        *,
        is_disturbed: bool = False,
        fail_at: int | None = None,
        error: BaseException | None = None,
    ) -> None:
        self.scenarios: list[Scenario] = []
        self._run = RecordingRun(fail_at=fail_at, error=error)
        self._is_disturbed = is_disturbed

    def __call__(self, scenario: Scenario, **options: Any) -> RunResult:
        self.scenarios.append(scenario)
        options["on_progress"] = lambda _: None
        result = self._run(scenario, **options)
        producers = scenario.workload.producers
        capacity = CAPACITY_PER_S * (scenario.network.segment_size_bytes / (32 * 1024)) ** 0.3
        rate = scenario.workload.rate_per_s or 2 * capacity
        taken_per_s = min(rate, capacity) * producers
        is_over = rate > capacity
        p99_ns = 8.0 * NS_PER_MS
        warnings = [RunWarning(RATE_NOT_REACHED, "it was not")] if rate > 1.1 * capacity else []
        if self._is_disturbed and len(self.scenarios) % 3 == 0:
            warnings, is_over = [RunWarning(DISTURBED, "others ran")], True
        latency = replace(result.measured.latency_ns, p99=p99_ns * (10 if is_over else 1))
        measured = replace(
            result.measured,
            records=int(taken_per_s * 3),
            duration_ns=4 * 10**9,  # with the time for the queue
            throughput_records_per_s=taken_per_s,
            latency_ns=latency,
        )
        return replace(result, measured=measured, warnings=tuple(warnings))


Call = Callable[..., Result]


def call(server: Server, *arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), obj=Executor(server, lambda: {"cores": 2}))


@pytest.mark.parametrize("is_disturbed", [False, True])
def test_bench_finds_the_capacity(tmp_path: Path, is_disturbed: bool) -> None:
    server, file = Server(is_disturbed=is_disturbed), tmp_path / "find.json"
    csv = tmp_path / "find.csv"
    found = call(server, "bench", "--find", "p99<=20ms", "--json", str(file), "--csv", str(csv))
    assert found.exit_code == 0, found.output
    (own,) = json.loads(file.read_text())["find"]
    assert own["rate_per_s"] == pytest.approx(CAPACITY_PER_S, rel=0.03)
    assert own["low_per_s"] <= CAPACITY_PER_S * 1.005
    assert own["high_per_s"] >= CAPACITY_PER_S * 0.995
    assert own["is_decided"]
    assert own["max_per_s"] == CAPACITY_PER_S
    assert (own["disturbed_runs"] > 0) is is_disturbed
    assert len({each.seed for each in server.scenarios}) > len(server.scenarios) // 3
    words = " ".join(found.output.split())
    assert "is the highest rate that keeps p99<=20ms (95%: " in words
    assert re.search(r"; \d+ of \d+ runs up to there kept it\)", words)
    assert re.search(r"at \S+ k/s \(\d+ of \d+ runs? kept", found.output)
    measured, disturbed = (
        int(each[1]) if (each := re.search(rf"{begin} (\d+) run", found.output)) else 0
        for begin in ("measured  ", "disturbed")
    )
    assert measured >= disturbed == own["disturbed_runs"]
    assert f"trust      {'fair' if is_disturbed else 'good'}: within" in found.output
    assert re.search(r"k/s is not reached; between", words)
    assert re.search(r"broken, rate not reached in \d runs?", words)
    assert own["rates"][-1]["figure"] is None
    assert own["rates"][-1]["not_reached"] == own["rates"][-1]["runs"]
    assert csv.read_text().startswith("setting,producers,rate_per_s,runs,kept,figure")


def test_compare_configs_takes_turns_and_says_better() -> None:
    server = Server()
    found = call(
        server, "compare-configs", "base", "segment-size=64kb", "--find", "p99<=20ms",
        "--find-within", "4%",
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    assert "better" in found.output
    sizes = [each.network.segment_size_bytes for each in server.scenarios[:4]]
    assert sizes[0] != sizes[1]


def test_no_rate_keeps_an_impossible_limit() -> None:
    server = Server()
    found = call(server, "bench", "--find", "p99<=1ms")
    assert found.exit_code == 1
    assert "no rate that was tried, down to 200/s, keeps p99<=1ms" in found.output
    assert "runs below 200/s need a longer --duration" in found.output
    assert min(each.workload.rate_per_s for each in server.scenarios[1:]) == 200


def test_a_configuration_without_hope_is_no_change() -> None:
    found = call(Server(), "compare-configs", "base", "segment-size=64kb", "--find", "p99<=1ms")
    assert found.exit_code == 1
    assert "verdict    segment-size=64kb: no rate that was tried, down to 200/s" in found.output


@pytest.mark.parametrize(
    ("call_of", "error", "exit_code", "line"),
    [
        (("bench",), RunFailedError("a TaskManager died"), 1, "a TaskManager died"),
        (("bench",), KeyboardInterrupt(), 130, "interrupted"),
        (
            ("compare-configs", "base", "base"),
            RunFailedError("it died"),
            4,
            "a run failed: it died",
        ),
    ],
)
def test_a_search_that_is_cut_short_puts_out_what_it_has(
    tmp_path: Path, call_of: tuple[str, ...], error: BaseException, exit_code: int, line: str
) -> None:
    server, file = Server(fail_at=6, error=error), tmp_path / "find.json"
    found = call(server, *call_of, "--find", "p99<=20ms", "--json", str(file))
    assert found.exit_code == exit_code
    assert line in found.output
    assert "undecided after" in found.output
    words = " ".join(found.output.split())
    assert re.search(r"--rate [0-9.]{1,3}k?/s .the search is undecided", words)
    searches = json.loads(file.read_text())["find"]
    assert len(searches) == (1 if call_of == ("bench",) else 2)
    assert not any(own["is_decided"] for own in searches)
    runs = sum(each["runs"] for own in searches for each in own["rates"])
    assert runs == len(server.scenarios) - 1 - len(searches)  # less the failed, and full speed


def test_a_rate_is_of_each_producer_and_compared_in_all(tmp_path: Path) -> None:
    file = tmp_path / "find.json"
    found = call(
        Server(), "compare-configs", "base", "producers=2", "--find", "p99<=20ms",
        "--json", str(file),
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    assert "k/s each (" in found.output
    assert "in all" in found.output
    assert "next producers=2: the same options with --rate" in " ".join(found.output.split())
    base, other = json.loads(file.read_text())["find"]
    assert (base["producers"], other["producers"]) == (1, 2)
    assert other["rate_per_s"] == pytest.approx(base["rate_per_s"], rel=0.06)
    assert other["change"]["change"] == pytest.approx(1.0, abs=0.12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--find", "p99<=20ms", "--rate", "2k/s"), "leave --rate out"),
        (("--find", "throughput>=2k/s"), "limits a latency or the backlog"),
        (("--find", "p98"), "--find: 'p98' is not a target"),
        (("--find", "backlog<=x"), "such as p99<=20ms, or backlog<=5"),
        (("--find", "p99<=20ms", "--find-within", "0%"), "out of range"),
        (("--find", "p99<=20ms", "--report", "f.html"), "--report: not with --find"),
        (("--find", "p99<=20ms", "--trace"), "--trace: not with --find"),
        (("run", "--find", "p99<=20ms", "--trace"), "--trace: not with --find"),
        (("--find-within", "3%"), "--find-within: the precision of --find LIMIT"),
        (("--find", "p99.9<=20ms", "--records", "5000"), "give --records 6000 or more"),
        (("--link", ""), "'' is not a link"),
    ],
)
def test_wrong_calls_name_the_option(arguments: tuple[str, ...], message: str) -> None:
    found = call(server := Server(), "bench", *arguments)
    assert found.exit_code == 2
    assert not server.scenarios
    assert message in found.output
