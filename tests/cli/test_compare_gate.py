"""compare-configs as a gate: baselines, disturbed runs, and what CI servers read."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from flinknet.cli import main
from flinknet.cli.sweep import Executor
from flinknet.errors import RunFailedError
from flinknet.report.warning_lines import lowered
from flinknet.results import FlushCounts, RunWarning
from tests.report.test_page import embedded

DISTURBED = RunWarning("disturbed", "a TaskManager waited for a CPU")
INVALID = RunWarning("rate-not-reached", "rate not reached: 5 of 9; do", "rate not reached")
TIMEOUT = "execution.buffer-timeout.interval"
HERE = {"flinknet": "1", "cpu": "A", "cores": 2, "kernel": "6.1", "python_operations_per_s": 100}


@pytest.fixture
def gate(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Call compare-configs on a machine, each time a day later."""
    monkeypatch.chdir(tmp_path)
    days = itertools.count(1)

    def call(*arguments: str, **environment: Any) -> Result:
        started_at = f"2026-11-{next(days):02}T10:00:00Z"
        executor = Executor(run, lambda: {**HERE, **environment, "started_at": started_at})
        words = ["compare-configs", *arguments, "--details"]
        return CliRunner().invoke(main, words, obj=executor)

    return call


def keep_baseline(gate: Callable[..., Result], timeout: str = "5ms") -> None:
    gate("base", f"conf:buffer-timeout={timeout}", "--runs", "9", "--json", "main.json")


@pytest.mark.parametrize(
    ("timeout", "exit_code", "line"),
    [
        ("7ms", 1, "Failed: the limit is broken."),
        ("5ms", 0, "Passed: the limit holds."),
        ("5600us", 3, "Undecided: the limit could not be decided."),
    ],
)
def test_an_earlier_candidate_is_the_baseline(
    gate: Callable[..., Result], run: Any, timeout: str, exit_code: int, line: str
) -> None:
    keep_baseline(gate)
    run.scenarios.clear()
    limit = ("--fail-if", "p99>+10%")
    result = gate(
        f"conf:buffer-timeout={timeout}", "--baseline", "main.json", "--runs", "9", *limit
    )
    assert result.exit_code == exit_code, result.output
    assert len(run.scenarios) == 9
    assert line in result.stdout
    assert (
        "Baseline: conf in main.json, 9 runs, measured 2026-11-01T10:00:00Z; the" in result.stdout
    )


def test_a_run_that_fails_is_no_broken_limit(gate: Callable[..., Result], run: Any) -> None:
    run.error, run.fail_at = RunFailedError("tm-0 (pid 7) has died"), 3
    result = gate("base", "buffer-timeout=5ms", "--runs", "2", "--fail-if", "p99>+10%")
    assert result.exit_code == 4
    assert result.stderr.splitlines()[-1] == (
        "flinknet: nothing was compared, a run failed: tm-0 (pid 7) has died"
    )


def test_an_undecided_limit_says_how_many_runs_would_decide(gate: Callable[..., Result]) -> None:
    result = gate(
        "base",
        "x:buffer-timeout=105ms",
        "--runs",
        "2",
        "--fail-if",
        "p99_9>+1%",
        "--json",
        "c.json",
    )
    assert result.exit_code == 3
    assert "undecided: x, fail if p99_9>+1%: p99.9 was not measured; p99.9 needs" in result.stdout
    (limit,) = json.loads(Path("c.json").read_text())["limits"]
    assert limit["step"] == "use a longer --duration, a higher --rate, or another metric"
    assert "5000 records, a run had 3000\n" in result.stdout
    assert "use a longer --duration, a higher --rate, or another metric" in result.stdout
    keep_baseline(gate)
    options = ("--baseline", "main.json", "--runs", "3", "--fail-if", "p99>+10%")
    result = gate("conf:buffer-timeout=5200us", *options)
    assert result.exit_code == 3
    assert "about 17 runs would decide" in result.stdout


def test_a_baseline_of_another_machine_decides_nothing(gate: Callable[..., Result]) -> None:
    keep_baseline(gate)
    options = ("--baseline", "main.json", "--runs", "9", "--fail-if", "p99>+10%")
    result = gate("conf:buffer-timeout=50ms", *options, cpu="B")
    assert result.exit_code == 3
    assert "measured elsewhere (CPU A then, B now), so nothing is called better" in result.stdout
    assert "conf against baseline: higher in p99" in result.stdout
    known = " ".join(gate("conf:buffer-timeout=50ms", *options, cpu="B", cores=4).stdout.split())
    begin = "trust fair: the baseline was measured elsewhere"
    assert f"{begin} (CPU A then, B now and cores 2 then, 4 now), so nothing" in known
    result = gate("conf:buffer-timeout=50ms", *options, kernel="6.2", python_operations_per_s=70)
    assert result.exit_code == 1
    assert "Since the baseline: kernel 6.1 then, 6.2 now." in result.stdout
    assert "runs Python 30% slower than it did then" in result.stdout


def test_warnings_about_the_runs_of_a_baseline_count(gate: Callable[..., Result]) -> None:
    keep_baseline(gate)
    options = ("conf:buffer-timeout=5ms", "--baseline", "main.json", "--runs", "9")
    assert "trust      good: " in gate(*options).stdout
    document = json.loads(Path("main.json").read_text())
    late = {"code": "schedule-missed", "text": "a record was late; use a quiet machine."}
    document["configs"][1]["runs"][0]["warnings"] = [late]
    Path("main.json").write_text(json.dumps(document))
    stdout = " ".join(gate(*options).stdout.split())
    words = "arning in 1 of 18 runs (baseline): a record was late"
    assert f"trust fair: w{words}" in stdout
    assert f"W{words}; use a quiet machine" in stdout


def test_a_bench_is_a_baseline_too_and_results_of_other_versions_can_be_read(
    gate: Callable[..., Result], run: Any, tmp_path: Path
) -> None:
    keep_baseline(gate)
    document = json.loads(Path("main.json").read_text())
    runs = document["configs"][1]["runs"]
    for each in runs:
        each["measured"]["latency_ns"]["p99_99"] = 1
        del each["measured"]["checkpoints"]
    bench = {"environment": document["environment"], "runs": runs, "schema_version": 9}
    Path("bench.json").write_text(json.dumps(bench))
    result = gate("quick:buffer-timeout=2ms", "--baseline", "bench.json", "--runs", "3")
    better = "quick against baseline: better in p99 (−60.0%)"
    assert better in result.stdout
    Path("first.json").write_text(json.dumps(document | {"schema_version": 1, "trends": []}))
    result = gate("quick:buffer-timeout=2ms", "--baseline", "first.json", "--runs", "3")
    assert better in result.stdout


def test_settings_of_a_bench_are_named_by_what_differs(gate: Callable[..., Result]) -> None:
    keep_baseline(gate)
    document = json.loads(Path("main.json").read_text())
    runs = [run for each in document["configs"] for run in each["runs"]]
    bench = {"environment": document["environment"], "runs": runs}
    Path("bench.json").write_text(json.dumps(bench))
    refused = gate("base", "--baseline", "bench.json")
    assert "has 2 candidates (buffer-timeout-100ms, buffer-timeout-5ms); give" in refused.stderr
    options = ("--baseline", "bench.json", "--runs", "3")
    result = gate("buffer-timeout-5ms:buffer-timeout=2ms", *options)
    assert "buffer-timeout-5ms against baseline: better in p99 (−60.0%)" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["base", "--baseline", "absent.json"], "there is no such file"),
        (["base", "--baseline", "text.json"], "is not JSON"),
        (["base", "--baseline", "other.json"], "not a result of compare-configs or bench"),
        (["--baseline", "main.json"], "give a configuration to compare with the baseline"),
        (["baseline:producers=1", "--baseline", "main.json"], "give the configuration another"),
        (
            ["x:rate=1k/s", "--baseline", "main.json", "--fail-if", "p99>+1%"],
            "x and baseline differ in their workload (rate)",
        ),
        (["base", "--baseline", "two.json"], "has 2 candidates (a, b); give the CONFIG"),
        (
            ["base", "x:producers=2", "--json", "-", "--csv", "-"],
            "--json and --csv both want stdout",
        ),
    ],
)
def test_bad_input_is_one_line(
    gate: Callable[..., Result], run: Any, tmp_path: Path, arguments: list[str], why: str
) -> None:
    keep_baseline(gate)
    Path("text.json").write_text("no")
    Path("other.json").write_text("[]")
    gate("base", "a:producers=2", "b:producers=3", "--runs", "2", "--json", "two.json")
    run.scenarios.clear()
    result = gate(*arguments)
    assert result.exit_code == 2
    assert why in result.stderr
    assert result.stderr.count("\n") == 1
    assert run.scenarios == []


def test_disturbed_runs_are_repeated_and_reported(gate: Callable[..., Result], run: Any) -> None:
    run.warnings_of = [(), (DISTURBED,), (DISTURBED,), (), (), ()]
    arguments = ("base", "x:buffer-timeout=5ms", "--runs", "2", "--fail-on-disturbed")
    result = gate(*arguments, "--csv", "runs.csv", "--json", "result.json")
    assert result.exit_code == 0, result.output
    assert len(run.scenarios) == 6
    assert (
        "Disturbed or invalid runs were repeated: 2 more for 4 runs (2 of base); the"
        in result.stdout
    )
    assert "run 2/4 base: try 3 of 3 (counted)" in result.stderr.splitlines()
    assert result.stderr.count("(disturbed: a TaskManager waited for a CPU)") == 2
    rows = list(csv.DictReader(io.StringIO(Path("runs.csv").read_text())))
    assert [row["is_counted"] for row in rows].count("false") == 2
    document = json.loads(Path("result.json").read_text())
    assert document["disturbed"] == {"repeated": 2, "still": 0}
    assert sum(len(each["discarded"]) for each in document["configs"]) == 2


def test_on_a_busy_machine_runs_are_not_repeated_until_one_is_good(
    gate: Callable[..., Result], run: Any
) -> None:
    busy = [(DISTURBED,)] * 5  # two tries of both, and one of the next
    run.warnings_of = [*busy, (), *busy]
    result = gate("base", "x:buffer-timeout=5ms", "--runs", "3", "--repeat-disturbed", "1")
    assert "4 more for 6 runs" in result.stdout
    assert len(run.scenarios) == 10


def test_trust_is_poor_where_all_runs_of_a_configuration_are_disturbed(
    gate: Callable[..., Result], run: Any
) -> None:
    arguments = ("base", "x:buffer-timeout=5ms", "--runs", "2", "--repeat-disturbed", "0")
    run.warnings = (RunWarning("schedule-missed", "records were sent late"),)
    assert "trust      fair: " in gate(*arguments).stdout
    run.warnings, run.warnings_at = (), {5_000_000: (DISTURBED,)}
    assert "trust      poor: " in gate(*arguments).stdout


def test_runs_that_stay_disturbed_can_fail_the_gate(gate: Callable[..., Result], run: Any) -> None:
    run.warnings = (DISTURBED,)
    arguments = ("base", "x:buffer-timeout=500ms", "--runs", "2", "--repeat-disturbed", "1")
    limit = ("--fail-if", "p99>+10%")
    result = gate(*arguments, *limit)
    assert result.exit_code == 1
    assert "Still disturbed: 2 of 2 runs of base, 2 of 2 runs of x; intervals, and" in result.stdout
    assert "; 4 of 4 runs were disturbed\n" in result.stdout
    assert "trust      poor: " in result.stdout
    assert "runs would decide)" not in result.stdout
    assert len(run.scenarios) == 6  # those of the first round twice
    result = gate(*arguments, *limit, "--fail-on-disturbed", "--junit", "junit.xml")
    assert result.exit_code == 3
    assert "Undecided: disturbed runs do not count" in result.stdout
    skipped = ElementTree.parse("junit.xml").find(".//skipped")
    assert skipped is not None
    assert skipped.attrib["message"].startswith("undecided: x, fail if p99>+10%: p99 ")
    assert "; disturbed runs do not count (--fail-on-disturbed)" in skipped.attrib["message"]


def headline(result: Result) -> dict[str, str]:
    """The answer above the details, by the names of its sentences."""
    text = result.stdout.partition("───")[0]
    lines = re.findall(r"^(\w+) {2,}((?:.|\n {9,})*)", text, re.MULTILINE)
    return {name: " ".join(said.split()) for name, said in lines[:5]}


def test_each_of_two_undecided_limits_is_named_with_its_interval(
    gate: Callable[..., Result],
) -> None:
    keep_baseline(gate)
    options = ("--baseline", "main.json", "--runs", "3", "--fail-if", "p99>+10%")
    answer = headline(gate("conf:buffer-timeout=5200us", *options, "--fail-if", "p99>+9%"))
    verdict = answer["verdict"]
    assert re.match(r"undecided \(2 of 2\): p99>\+10% \(.+….+%\), p99>\+9% \(.+….+%\)", verdict)
    assert "p99>+10%: about 17 runs would decide; p99>+9%: the 9 runs of the baseline" in verdict
    assert answer["next"].startswith("repeat it once, with that many --runs")


def test_the_next_step_is_that_of_each_cause(gate: Callable[..., Result], run: Any) -> None:
    limit = ("--runs", "2", "--repeat-disturbed", "0", "--fail-if", "p99>+10%")
    run.warnings_of = [(INVALID,), (DISTURBED,), (DISTURBED,), ()]
    answer = headline(gate("base", "x:buffer-timeout=105ms", *limit, "--fail-on-disturbed"))
    assert answer["verdict"].startswith("undecided: p99>+10%")
    assert answer["verdict"].endswith("disturbed); invalid: 1 of 2 runs of x (run 1)")
    steps = "choose a --rate that the machine reaches; find a quieter machine"
    assert answer["next"].startswith(steps)
    run.warnings_of = ()
    keep_baseline(gate)
    limit = ("--baseline", "main.json", "--runs", "2", "--fail-if", "p99>+10%")
    answer = headline(gate("conf:buffer-timeout=5200us", *limit))
    assert "how many runs would decide is unknown" in answer["verdict"]
    assert answer["next"].startswith("repeat it once, with more --runs")


def test_a_baseline_of_another_load_has_its_own(gate: Callable[..., Result]) -> None:
    keep_baseline(gate)
    arguments = ("fast:buffer-timeout=5ms", "--runs", "2", "--baseline", "main.json")
    result = gate(*arguments, "--duration", "1s")
    answer = headline(result)
    assert answer["compared"].startswith(
        "fast against baseline; baseline: 9 runs each of 3 s; fast: 2 runs each of 1 s"
    )
    assert answer["next"].startswith("a gate needs the same duration for all")
    assert "\n2 runs of fast hardly show" in result.stdout


@pytest.mark.parametrize(
    ("base", "candidate", "timeout", "exit_code"),
    [
        ((), (INVALID,), "500ms", 1),  # broken, and nothing but the candidate can be the cause
        ((), (INVALID,), "5ms", 3),
        ((), (INVALID, DISTURBED), "500ms", 3),
        ((INVALID,), (), "500ms", 3),
        ((INVALID,), (INVALID,), "500ms", 3),
        ((INVALID,), (), "5ms", 3),
    ],
)
def test_no_limit_holds_with_invalid_runs(
    gate: Callable[..., Result],
    run: Any,
    base: tuple[RunWarning, ...],
    candidate: tuple[RunWarning, ...],
    timeout: str,
    exit_code: int,
) -> None:
    run.warnings_at = {100_000_000: base, int(timeout[:-2]) * 1_000_000: candidate}
    options = ("--runs", "2", "--fail-if", "p99>+10%", "--repeat-disturbed", "1")
    result = gate("base", f"x:buffer-timeout={timeout}", *options)
    assert result.exit_code == exit_code, result.output
    assert len(run.scenarios) == 6
    assert ", so no limit can hold." in result.stdout


def test_a_valid_try_counts_instead_of_an_invalid_one(
    gate: Callable[..., Result], run: Any
) -> None:
    run.warnings_of = [(INVALID,), (DISTURBED,), (INVALID,), (), (), ()]
    result = gate("base", "x:buffer-timeout=5ms", "--runs", "2", "--json", "result.json")
    assert "Still disturbed: 1 of 2 runs of x (run 1);" in result.stdout
    assert "Invalid" not in result.stdout
    document = json.loads(Path("result.json").read_text())
    assert document["disturbed"] == {"repeated": 2, "still": 1}
    assert document["invalid"] == {"still": 0}


def test_a_file_that_cannot_be_written_any_more_costs_neither_verdict_nor_the_other_files(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    targets = {"--csv": "runs.csv", "--report": "page.html"}

    def run_while_places_change(*arguments: Any, **options: Any) -> Any:
        if not Path("runs.csv").is_dir():
            Path("runs.csv").mkdir()
            Path("page.html").mkdir()
        return run(*arguments, **options)

    arguments = ["base", "x:buffer-timeout=250ms", "--runs", "2", "--fail-if", "p99>+10%"]
    arguments += [word for each in targets.items() for word in each] + ["--markdown", "c.md"]
    executor = Executor(run_while_places_change, lambda: HERE)
    result = CliRunner().invoke(main, ["compare-configs", *arguments], obj=executor)
    assert result.exit_code == 1, result.output
    assert "verdict    fail: p99>+10%" in result.stdout
    assert Path("c.md").read_text().startswith("### flinknet compare-configs: ✗ Failed")
    for option in targets:
        assert f"flinknet: {option} was not written: " in result.stderr


def test_every_output_shows_invalid_runs_first(gate: Callable[..., Result], run: Any) -> None:
    run.warnings = (INVALID,)
    arguments = ["base", "x:buffer-timeout=250ms", "--runs", "2", "--repeat-disturbed", "0"]
    files = ["--markdown", "c.md", "--junit", "j.xml", "--report", "page.html"]
    line = "Invalid: 2 of 2 runs of base, 2 of 2 runs of x"
    result = gate(*arguments, *files)
    assert result.exit_code == 0
    assert f"{line}.\nEffect: x against base: higher in p99" in result.stdout
    blocks = Path("c.md").read_text().split("\n\n")
    warning = "Invalid in all 4 runs (base, x): rate not reached: 5 of 9; do"
    assert f"- **trust**: poor: {lowered(line)}" in blocks[1]
    assert f"- ⚠ {warning}" in blocks
    text = ElementTree.parse("j.xml").findtext(".//system-out") or ""
    assert lowered(line) in text.partition("\n\n")[0]
    assert text.endswith(f"! {warning}")
    skipped = ElementTree.parse("j.xml").findall(".//skipped")
    assert len(skipped) == 9
    assert skipped[0].attrib["message"].startswith("invalid: 2 of 2 runs of base, 2 of 2 runs of x")
    (view,) = embedded(Path("page.html").read_text())["views"]
    answer = dict(view["parts"][0]["sentences"])
    assert answer["trust"].startswith("poor: ")
    assert lowered(line) in answer["trust"]
    gate(*arguments, *files, "--fail-if", "p99>+10%")
    head = "### flinknet compare-configs: ? Undecided: the limit could not be decided"
    assert Path("c.md").read_text().startswith(head)
    assert ElementTree.parse("j.xml").find(".//failure") is None


def test_every_output_says_why_buffers_left(gate: Callable[..., Result], run: Any) -> None:
    arguments = ("base", "x:buffer-timeout=50ms", "--runs", "2", "--markdown", "c.md")
    each = "3% full, 93% by timeout, 3% with event"
    line = f"Buffers were sent: base {each}; x {each}."
    printed = gate(*arguments, "--report", "page.html", "--csv", "runs.csv").stdout
    assert line in [each.strip() for each in printed.splitlines()]
    assert line in Path("c.md").read_text().splitlines()
    (view,) = embedded(Path("page.html").read_text())["views"]
    tables = [each for part in view["parts"] for each in part.get("parts", ())]
    assert any(line in each.get("notes", ()) for each in tables)
    header, first, *_ = Path("runs.csv").read_text().splitlines()
    row = dict(zip(header.split(","), first.split(","), strict=True))
    sent = [row[f"buffers_{why}"] for why in ("by_timeout", "full", "with_event")]
    assert sent == ["28", "1", "1"]
    run.flushes = FlushCounts(999, 1, 0)
    full = "base 100% full; x 100% full. A buffer that is full does not wait for the timeout."
    assert full in gate(*arguments).stdout
    run.flushes = FlushCounts(0, 0, 0)
    assert "Buffers were sent" not in gate(*arguments).stdout


def test_junit_is_the_same_in_every_environment(
    gate: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("base", "x:buffer-timeout=500ms", "--runs", "3", "--junit", "-")
    texts = []
    for columns, force in (("60", "1"), ("400", "")):
        monkeypatch.setenv("COLUMNS", columns)
        monkeypatch.setenv("FORCE_COLOR", force)
        texts.append(gate(*arguments).stdout)
    assert texts[0] == texts[1]


def test_junit_has_a_test_for_each_limit_or_metric(gate: Callable[..., Result]) -> None:
    arguments = ("base", "x<&>:buffer-timeout=500ms", "--runs", "3", "--junit", "-")
    limits = ("--fail-if", "p99>+10%", "--fail-if", "p99_9>+1%", "--fail-if", "p50>+1%")
    (suite,) = ElementTree.fromstring(gate(*arguments, *limits).stdout)
    assert suite.attrib["name"] == "x<&> against base"
    counts = [suite.attrib[name] for name in ("tests", "failures", "errors", "skipped")]
    assert counts == ["3", "1", "0", "1"]
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "p99 99.8 ms → 499 ms (+400.0%" in failure.attrib["message"]
    (suite,) = ElementTree.fromstring(gate(*arguments).stdout)
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("9", "1")


def test_markdown_is_a_comment_that_no_name_can_break(gate: Callable[..., Result]) -> None:
    arguments = ("base", "a|b<b>:buffer-timeout=500ms", "--runs", "3", "--markdown", "-")
    text = gate(*arguments, "--fail-if", "p99>+10%").stdout
    head, answer, *_ = text.split("\n\n")
    assert head == "### flinknet compare-configs: ✗ Failed: the limit is broken"
    assert "measured in flinknet's own network stack with synthetic records" in answer
    assert "- **verdict**: fail: p99" in answer
    assert "\n- fail: a" in text
    assert "| execution.buffer-timeout.interval | 100 ms | 500 ms |" in text
    assert "| p99 | +400.0% | +396.1…+403.9 | **worse** | 99.8 ms | 499 ms |" in text
    assert "a|b<b>" not in text


def test_the_page_has_charts_for_each_candidate(gate: Callable[..., Result]) -> None:
    arguments = ["base", "x:buffer-timeout=8ms", "y:producers=1", "--runs", "2"]
    gate(*arguments, "--fail-if", "p99>+10%", "--report", "page.html")
    page = embedded(Path("page.html").read_text())
    assert page["command"] == "compare-configs"
    (view,) = page["views"]
    assert view["title"] == "x and y against base"
    parts = [each for each in view["parts"] if each["kind"] == "section" and each["title"]]
    sections = {each["title"]: each for each in parts}
    assert list(sections) == ["x", "y"]
    intervals = {each["name"]: each for each in sections["x"]["parts"][0]["intervals"]}
    assert intervals["p99"]["change"] == pytest.approx(-0.92)
    assert intervals["p99"]["color"] == "green"
    assert intervals["p99"]["limits"] == [0.1]
    assert "mean" not in intervals


def test_what_differs_between_the_configurations_is_listed(gate: Callable[..., Result]) -> None:
    other = "x:segment-size=8kb,flow-control=tcp,slow-consumer=0:1ms"
    stdout = gate("base", other, "--runs", "2").stdout
    assert "taskmanager.memory.segment-size  32 kb   8 kb" in stdout
    assert "--flow-control                   credit  tcp" in stdout
    assert "--slow-consumer                  none    0:1ms" in stdout
    result = gate("base", "x:producers=1", "--runs", "2")
    assert "x and base are the same configuration: any difference is chance." in result.stdout
    assert result.stdout.startswith("Note: x is the same configuration as base: the differences")
    assert "vary at full speed; add --rate 5k/s or similar for a given load.\n" in result.stdout
    result = gate("base", "x:producers=1", "--runs", "2", "--rate", "1k/s")
    assert "how far equal runs vary.\n" in result.stdout
