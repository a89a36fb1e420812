"""flinknet compare-configs: what a reader has to know of the settings that differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.report.test_page import embedded

from .conftest import Flinknet

FEW_BUFFERS = (
    "x:taskmanager.network.memory.buffers-per-channel=1,taskmanager.memory.network.min=512kb"
)


def test_every_output_says_below_the_verdict_what_the_load_hardly_shows(compare: Flinknet) -> None:
    files = ("--markdown", "c.md", "--junit", "j.xml", "--json", "j.json", "--report", "p.html")
    arguments = ("base", FEW_BUFFERS, "--rate", "1k/s", "--runs", "3", "--fail-if", "p99>+10%")
    result = compare(*arguments, *files)
    note = "a shortage of buffers hardly shows at a fixed rate"
    fixed = "buffers-per-channel: ignored by Flink 2.x, which always uses 2"
    first, second, *rest = result.stdout.splitlines()
    assert first.startswith(f"Note (x): taskmanager.network.memory.{fixed}")
    assert second.startswith("Note: x differs in network memory (by taskmanager.memory.*): a short")
    assert note in second
    assert not any(fixed in line or note in line for line in rest)
    load = "1 producer, 1 consumer, 1 k/s each, records of 100 b"
    assert load in " ".join(result.stdout.split())
    comment = Path("c.md").read_text()
    places = [load, "**verdict**: pass", note, fixed, "| setting |", "<details>", "| Environment |"]
    assert [comment.index(each) for each in places] == sorted(map(comment.index, places))
    output = ElementTree.parse("j.xml").findtext(".//system-out") or ""
    assert output.startswith("compared   x against base; 3 runs each of 3 s")
    assert 0 < output.index(note) < output.index(fixed)
    (view,) = embedded(Path("p.html").read_text())["views"]
    assert note in view["lead"]
    assert load in dict(view["parts"][0]["sentences"])["compared"]
    (comparison,) = json.loads(Path("j.json").read_text())["comparisons"]
    assert note in comparison["notes"][0]


def test_a_key_that_flink_2_ignores_gets_no_advice(compare: Flinknet) -> None:
    few = "x:taskmanager.network.memory.buffers-per-channel=1"
    result = compare("base", few, "--rate", "1k/s", "--runs", "2")
    assert "ignored by Flink 2.x, which always uses 2" in result.stdout.splitlines()[0]
    assert "a shortage of buffers" not in result.output
    result = compare("base", few, "--runs", "2", "--csv", "-")
    assert result.stdout.startswith("config,")
    assert "ignored by Flink 2.x, which always uses 2" in result.stderr.splitlines()[0]


def test_few_buffers_of_flink_1_hardly_show_at_a_fixed_rate(compare: Flinknet) -> None:
    few = "taskmanager.network.memory.buffers-per-channel: 0\n"
    few += "taskmanager.network.memory.floating-buffers-per-gate: 1\n"
    for name, text in (("a", ""), ("b", few)):
        Path(name).mkdir()
        Path(name, "flink-conf.yaml").write_text(f"parallelism.default: 1\n{text}")
    files = ("a/flink-conf.yaml", "b/flink-conf.yaml")
    note = "buffers-per-channel, taskmanager.network.memory.floating-buffers-per-gate: a shortage"
    assert note in compare(*files, "--rate", "2k/s", "--runs", "2").output
    assert note not in compare(*files, "--rate", "max", "--runs", "2").output


def test_files_that_are_read_by_rules_of_two_releases_are_named_with_them(
    compare: Flinknet,
) -> None:
    for name in ("main.yaml", "flink-conf.yaml"):
        Path(name).write_text("parallelism.default: 1\n")
    result = compare("main.yaml", "flink-conf.yaml", "--runs", "2")
    assert (
        "Note: rules and defaults are those of different releases: main.yaml (Flink 2.3),"
        " flink-conf.yaml (Flink 1.20)." in " ".join(result.output.split())
    )
    assert "different releases" not in compare("base", "main.yaml", "--runs", "2").output


def test_a_note_about_a_key_is_shown_where_one_configuration_has_it_or_its_value_differs(
    compare: Flinknet,
) -> None:
    Path("main.yaml").write_text("rest.port: 1\n")
    Path("new.yaml").write_text("rest.port: 2\n")
    options = ("--runs", "2", "--markdown", "-")
    assert (
        "ignored by flinknet, not network keys"
        not in compare("main.yaml", "new.yaml", *options).stdout
    )
    Path("new.yaml").write_text("rest.port: 1\nstate.backend.type: hashmap\n")
    result = compare("main.yaml", "new.yaml", *options)
    assert (
        "- Note: new.yaml: ignored by flinknet, not network keys: rest.port, state.backend.type"
        in result.stdout
    )
    assert "- Note: main.yaml: ignored by flinknet, not network keys: rest.port" in result.stdout


def test_a_segment_size_costs_throughput_that_a_fixed_rate_does_not_show(compare: Flinknet) -> None:
    small = ("base", "x:segment-size=4kb", "--runs", "2")
    note = "a fixed rate shows the latency of a size (smaller segments are full sooner), not what"
    assert note in compare(*small, "--rate", "1k/s").stdout
    assert note not in compare(*small, "--rate", "max").stdout


def test_a_limit_on_throughput_hardly_tests_anything_at_a_given_rate(compare: Flinknet) -> None:
    limits = ("--fail-if", "throughput<-5%", "--fail-if", "p99>+10%")
    call = ("base", "x:buffer-timeout=5ms", "--runs", "2", *limits)
    note = "--fail-if throughput<-5%: at a given rate, throughput is that rate unless"
    assert note in compare(*call, "--rate", "1k/s", "--arrivals", "on-off:50ms:150ms").stdout
    assert note not in compare(*call, "--rate", "max").stdout


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("taskmanager.memory.network.max: 1mb", "insufficient number of network buffers"),
        ("taskmanager.memory.segment-size: 31kb", "31kb must be a power of two"),
        ("execution.buffer-timeout.interval: 5 apples", "'apples' is not a unit of time"),
    ],
)
def test_a_candidate_that_cannot_start_breaks_a_gate_and_is_a_wrong_call_without_limits(
    compare: Flinknet, run: Any, line: str, why: str
) -> None:
    Path("few.yaml").write_text(f"{line}\ntaskmanager.memory.network.min: 1mb\n")
    call = ("base", "few.yaml", "--producers", "4", "--consumers", "4", "--rate", "1k/s")
    files = ("--markdown", "c.md", "--junit", "j.xml")
    result = compare(*call, "--fail-if", "p99>+10%", *files)
    assert result.exit_code == 1, result.output
    begin = "flinknet: Failed: few.yaml cannot start, so nothing was measured. few.yaml: "
    assert result.stderr.startswith(begin)
    assert why in result.stderr
    comment = Path("c.md").read_text()
    assert comment.startswith("### flinknet compare-configs: ✗ Failed: few.yaml cannot start")
    failure = ElementTree.parse("j.xml").find(".//failure")
    assert failure is not None
    assert why in failure.attrib["message"]
    result = compare(*call)
    assert result.exit_code == 2
    assert result.stderr.startswith("flinknet: few.yaml: ")
    result = compare("few.yaml", "base", *call[2:], "--fail-if", "p99>+10%")
    assert result.exit_code == 2
    assert result.stderr.startswith("flinknet: few.yaml: ")
    result = compare(*call, "--fail-if", "p99<+10%")
    assert result.exit_code == 2
    assert "p99<+10%" in result.stderr
    own = ("-D", line.replace(": ", "="))
    result = compare("base", "segment-size=8kb", *call[2:], *own)
    assert result.exit_code == 2
    assert result.stderr.startswith("flinknet: base: ")
    assert run.scenarios == []


def test_a_key_that_flink_2_has_fixed_lets_no_candidate_start(compare: Flinknet) -> None:
    few = "taskmanager.memory.network.min: 1mb\ntaskmanager.memory.network.max: 1mb\n"
    Path("few.yaml").write_text(f"{few}taskmanager.network.memory.buffers-per-channel: 0\n")
    call = ("base", "few.yaml", "--producers", "4", "--consumers", "4", "--rate", "1k/s")
    result = compare(*call, "--fail-if", "p99>+10%")
    assert result.exit_code == 1, result.output
    assert "insufficient number of network buffers" in result.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("taskmanager.numberOfTaskSlots: 2\n", "has no total size of memory"),
        ("taskmanager.memory.managed.size:\n", "line 1: a key without a value"),
        ("rest.port: 1\nrest.port: 2\n", "the key rest.port is there twice"),
        ("rest.port: 1\n---\nrest.port: 2\n", "has 2 documents"),
    ],
)
def test_a_file_that_flink_refuses_breaks_a_gate_with_a_comment(
    compare: Flinknet, run: Any, text: str, why: str
) -> None:
    Path("main.yaml").write_text("taskmanager.memory.process.size: 4g\n")
    Path("new.yaml").write_text(text)
    call = ("main.yaml", "new.yaml", "--rate", "1k/s", "--fail-if", "p99>+10%")
    result = compare(*call, "--markdown", "c.md", "--junit", "j.xml")
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith("flinknet: Failed: new.yaml cannot start, so nothing was")
    assert "new.yaml: " in result.stderr
    assert why in result.stderr
    assert why in Path("c.md").read_text()
    failure = ElementTree.parse("j.xml").find(".//failure")
    assert failure is not None
    assert why in failure.attrib["message"]
    assert run.scenarios == []


def test_a_file_without_a_total_size_is_compared_where_the_call_gives_one_or_the_base_has_none(
    compare: Flinknet,
) -> None:
    Path("main.yaml").write_text("taskmanager.memory.process.size: 4g\n")
    Path("new.yaml").write_text("taskmanager.numberOfTaskSlots: 2\n")
    call = ("--rate", "1k/s", "--runs", "2", "--fail-if", "buffers>+10%")
    given = ("-D", "taskmanager.memory.process.size=4g")
    assert compare("main.yaml", "new.yaml", *call, *given).exit_code == 0
    assert compare("base", "new.yaml", *call).exit_code == 0
    assert compare("new.yaml", "main.yaml", *call).exit_code == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--rate", "max", "--records", "2000"), "rate max, records of 100 b"),
        (
            ("--rate", "2k/s", "--arrivals", "poisson", "--record-size", "1kb..4kb"),
            "2 k/s each, records of 1 kb to 4 kb, poisson",
        ),
        (("--record-size", "exponential:200b", "--relays", "1"), "200 b on average, 1 relay"),
    ],
)
def test_the_load_is_one_line(compare: Flinknet, options: tuple[str, ...], words: str) -> None:
    call = ("base", "x:buffer-timeout=5ms", "--runs", "2", "--producers", "3", *options)
    result = compare(*call)
    text = " ".join(result.stdout.split())
    assert "2 runs each of" in text
    assert "3 producers, 1 consumer, " in text
    assert words in text


def test_load_and_link_stand_in_the_details_of_every_output_however_long_the_names_are(
    compare: Flinknet,
) -> None:
    name = "a-candidate-with-the-whole-history-of-its-branch-in-its-name"
    options = ("--runs", "2", "--rate", "1k/s", "--link", "rtt=1ms")
    load = (
        "Load: 2 runs each of 3 s; 1 producer, 1 consumer, 1 k/s each, records of 100 b;"
        " emulated link rtt=1ms."
    )
    for candidate in (f"{name}:buffer-timeout=5ms", "x:buffer-timeout=5ms"):
        result = compare("base", candidate, *options, "--junit", "j.xml", "--details")
        assert load in " ".join(result.stdout.split())
        output = ElementTree.parse("j.xml").findtext(".//system-out") or ""
        assert load in " ".join(output.split())
    loads = ("base", f"{name}:buffer-timeout=5ms", f"{name}2:rate=2k/s")
    text = " ".join(compare(*loads, *options, "--details").stdout.split())
    assert f"; base and {name}: 1 producer, 1 consumer, 1 k/s each, records of 100 b; " in text
    assert f"; {name}2: 1 producer, 1 consumer, 2 k/s each, records of 100 b; " in text


def test_backlog_is_no_merit_where_buffers_differ(compare: Flinknet, run: Any) -> None:
    run.backlogs = [0.5, 4.0, 4.0, 0.5]
    call = ("base", "--runs", "2")
    assert "x against base: lower in backlog" in compare(*call, FEW_BUFFERS).stdout
    run.scenarios.clear()
    assert "lower in backlog" in compare(*call, "x:segment-size=4kb").stdout
    run.scenarios.clear()
    assert "better in backlog" in compare(*call, "x:flow-control=tcp").stdout


def test_throughput_is_no_merit_at_a_rate_that_both_keep(compare: Flinknet, run: Any) -> None:
    run.rates_per_s = [1000, 1100, 1100, 1000]
    blocking = ("--partition-type", "blocking", "--warmup", "0s", "--records", "1000")
    for verdict, *options in (
        ("lower", "--rate", "1k/s"),
        ("lower", "--rate", "1k/s", "--arrivals", "poisson"),
        ("worse", "--rate", "max"),
        ("worse", "--rate", "1k/s", *blocking),
    ):
        run.scenarios.clear()
        call = ("base", "x:flow-control=credit", "--runs", "2", *options)
        assert f"{verdict} in throughput" in compare(*call).stdout
    run.rates_per_s = [1000, 1100, 1000, 1100]  # more in one round, less in the other
    run.scenarios.clear()
    call = ("base", "x:flow-control=credit", "--runs", "2", "--rate", "1k/s")
    result = compare(*call)
    assert result.stdout.count("rate kept") == 2
    assert "unclear in throughput" not in result.stdout


def test_network_memory_that_holds_every_buffer_is_no_shortage(compare: Flinknet) -> None:
    Path("conf.yaml").write_text("taskmanager.memory.network.min: 128mb\n")
    call = ("base", "big:conf.yaml", "--rate", "1k/s", "--runs", "2")
    result = compare(*call)
    assert "network memory (by taskmanager.memory.*)  64 mb  128 mb" in result.stdout
    assert "big against base" in result.stdout
    assert "a shortage of buffers" not in result.output
    Path("conf.yaml").write_text("taskmanager.memory.network.min: 512kb\n")
    result = compare(*call)
    assert "big differs in network memory" in result.stdout
    assert "2 runs of each hardly show how far runs differ" in result.stdout
    for load in (("max",), ("1k/s", "--arrivals", "on-off:50ms:150ms")):
        other = compare("base", "big:conf.yaml", "--runs", "2", "--rate", *load)
        assert "a shortage of" not in other.stdout
