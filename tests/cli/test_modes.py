"""A mode of bench is a sub-command, and plain bench is `bench run`; helps and completion."""

from __future__ import annotations

import re
from typing import Any

import pytest
from click.shell_completion import BashComplete, CompletionItem
from click.testing import CliRunner

from flinknet.cli import main
from flinknet.cli.bench_run import run
from tests.documented import helps

from .conftest import Flinknet

MODES = ("run", "demo", "again", "consume", "produce", "config")

PLAIN = (
    "",
    " --rate 2k/s --buffer-timeout 0,5ms -D a=b --runs 3 --seed 7 --no-trace --json -",
    " --slow-consumer 0:1ms --slow-consumer 1:pause --out x",
)


@pytest.mark.parametrize("words", PLAIN)
def test_plain_bench_is_parsed_as_bench_run(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(run, "callback", lambda **values: calls.append(values))
    for command in ("bench", "bench run"):
        done = CliRunner().invoke(main, (command + words).split())
        assert done.exit_code == 0, done.output
    plain, named = calls
    assert plain == named


@pytest.mark.parametrize("mode", MODES)
def test_the_help_of_bench_has_its_commands_and_the_options_of_run_alone(mode: str) -> None:
    text = CliRunner().invoke(main, ["bench", "--help"], terminal_width=80).stdout
    assert f"\n  {mode} " in text
    for option in ("--stamped", "--slots"):
        assert option not in text
    assert "--buffer-timeout LIST" in text
    assert "--relays" in text
    assert len(text.splitlines()) <= 100


@pytest.mark.parametrize("command", ["trace replay", "compare-configs"])
def test_a_help_fits_two_screens_and_help_all_explains_every_option(command: str) -> None:
    short, whole = (
        CliRunner().invoke(main, [*command.split(), option], terminal_width=80).stdout
        for option in ("--help", "--help-all")
    )
    assert len(short.splitlines()) <= 100
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", short))
    assert named >= set(re.findall(r"^  (--[a-z][a-z-]+)", whole, re.MULTILINE))
    assert "explained by --help-all" in short
    assert "explained by" not in whole
    assert max(map(len, whole.splitlines())) <= 80


@pytest.mark.parametrize("command", [name for name, _ in helps()])
def test_a_help_fits_80_columns_and_leads_with_examples(command: str) -> None:
    words = [*command.split()[1:], "--help"]
    text = CliRunner().invoke(main, words, terminal_width=80).stdout
    assert max(map(len, text.splitlines())) <= 80
    if "\n  flinknet " in text:
        paragraphs = text.split("\n\n")
        assert any("  flinknet " in each for each in paragraphs[:4])
    options = re.findall(r"^  -", text, re.MULTILINE)
    if len(options) > 12:
        assert "\nOptions:" not in text


def help_of(*words: str) -> str:
    return " ".join(CliRunner().invoke(main, [*words, "--help"]).stdout.split())


def test_helps_show_the_defaults_that_hold_there() -> None:
    again, demo = help_of("bench", "again"), help_of("bench", "demo")
    for option in ("buffer-timeout", "exclusive-buffers", "segment-size", "checkpoint-interval"):
        assert re.search(rf"--{option} LIST [^\[]*\[default: as recorded\]", again)
    assert demo.count("[default: by demo]") == 7
    assert "[default: none is kept]" in demo


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        ("bench --listen 127.0.0.1:0", "No such option '--listen'"),
        ("bench config --report x.html", "No such option '--report'"),
        ("bench --partition x", "No such option '--partition'"),
        ("bench --rate 1k/s config", "unexpected extra argument (config)"),
    ],
)
def test_options_of_two_modes_are_refused_in_one_line(call: str, complaint: str) -> None:
    done = CliRunner().invoke(main, call.split())
    assert done.exit_code == 2
    assert complaint in done.output
    assert len(done.output.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("bench ", {*MODES}),
        ("bench --buffer-t", {"--buffer-timeout"}),
        ("job run --slo", {"--slots"}),
        ("bench --partitioner re", {"rebalance", "rescale"}),
        ("bench --arrivals p", {"poisson"}),
        ("trace replay --alignment u", {"unaligned"}),
        ("trace replay --flow-control ", {"credit", "tcp"}),
        ("bench -D execution.buffer-timeout.i", {"execution.buffer-timeout.interval="}),
    ],
)
def test_a_shell_completes_commands_options_and_values(words: str, expected: set[str]) -> None:
    assert {each.value for each in completions(words)} == expected


@pytest.mark.parametrize(
    "words", ["trace replay fli", "bench --flink-conf fli", "trace tap --tls-ca fli"]
)
def test_a_shell_completes_names_of_files(words: str) -> None:
    assert [(each.type, each.value) for each in completions(words)] == [("file", "fli")]


def test_a_command_whose_values_were_completed_still_reads_them(flinknet: Flinknet) -> None:
    completions("trace replay fli")
    done = flinknet("trace", "replay", "nowhere")
    assert (done.exit_code, done.stderr) == (
        2,
        "flinknet: nowhere: there is no such file or directory\n",
    )


def completions(words: str) -> list[CompletionItem]:
    """What a shell offers after `flinknet` and these words."""
    *before, last = words.split(" ")
    return BashComplete(main, {}, "flinknet", "_FLINKNET_COMPLETE").get_completions(before, last)
