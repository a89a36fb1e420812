"""Every command that README, the pages and the helps show is run, in its order, in a directory that
has what it names. `make commands` runs all of them, shorter and smaller. Otherwise an executor that
starts nothing stands in for measured runs, and what needs Spark or processes is left out.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from bench.synthetic_trace import make_run
from flinknet.cli import main
from flinknet.cli.sweep import Executor
from flinknet.config import Scenario, WorkloadConfig
from flinknet.trace.share import copy_run, with_recording
from tests.capture.pcap.test_importing import write_capture
from tests.capture.rest.saved import directory
from tests.cli.conftest import RecordingRun
from tests.cli.test_trace_tap import free_ports
from tests.documented import ALL, ROOT, below, commands_of, examples_of, helps
from tests.tapped_job import SECOND, SOURCE, TappedChannel, write_tapped_job

pytestmark = pytest.mark.usefixtures("usual_signals")

PARTITION = "f126f51c3d88b095bc764cd9055cbb0c#0@59cd065cb2919c050352343a9ca20e3b"
PARTITION += "_bc764cd8ddf7a0cff126f51c16239658_0_0"
NOBODY = "http://127.0.0.1:9"
"""Flink's REST API, for a tap that also does without."""

TIMEOUT_S = 600

STAND_INS = {
    r"^flinknet-runs/session$": "session",
    r"^(\S*(first-run|demo-run|flinknet-runs|runs)/\S*|RUN|run|big|small)$": "recorded",
    r"^(tapped|shared)\.html$": "shared.html",
    r"^(tapped\S*|sniffed|recordings/)$": "taken",
    r"^s3://bucket/runs$": "recorded",
    r"^s3://bucket/": "",
    r"^/traces/\S+$": "new-trace",
    r"^(FILE|job\.py)$": "bench/jobs/shuffle.py",
    r"^DIR$": "detached",
    r"^(rot\.pcap\*|eth\d\.pcap)$": "flink.pcap",
    r"^(spark://\S+|local\[\d\])$": "local[2]",
    r"^\S+:9349$|^9249$": "127.0.0.1:0",
    r"^(10M|100M|1G)$": "20k",
    r"^delta$": "parquet",
    r"^([^,]+,[^,]+),.+$": r"\1",  # two settings of a sweep
}
"""What stands for what a reader has, and for what takes long."""

SHORT = {
    **{"--duration": "1s", "--warmup": "200ms", "--runs": "2", "--records": "1000"},
    **{"--repeat-disturbed": "0"},
}
OUTPUTS = (
    *("--out", "--json", "--csv", "--report", "--plot"),
    *("--junit", "--markdown"),
)
MORE = {
    **dict.fromkeys(("bench", "bench run", "bench again", "bench demo"), ("--duration",)),
    "compare-configs": ("--duration", "--runs", "--repeat-disturbed"),
    "job run": ("--duration",),
}
"""Options that make a command shorter where it does not give them."""

STARTS_NOTHING = (
    *("bench", "bench run", "bench again", "bench config", "compare-configs"),
    *("trace export", "trace import", "trace info", "trace verify", "trace tap"),
    *("trace dissector", "doctor", "plan", "job list"),
)
"""Commands that run in every test run; the first ones with the executor that stands in."""

NEEDS = (
    *("trace replay", "trace tap", "trace watch", "trace info", "bench again"),
    *("job cancel", "job status"),
)
"""Commands that a text may name without what they need."""

NO_ANSWER = {1: "a gate or a target that does not hold", 3: "a gate that is undecided"}

Command = tuple[str, ...]


def command_and_rest(words: Sequence[str]) -> tuple[str, list[str]]:
    """The names of a command, and the rest."""
    command: click.Command = main
    names = []
    rest = list(words)
    while rest and rest[0] in below(command):
        command = below(command)[rest[0]]
        names.append(rest.pop(0))
    return " ".join(names), rest


def is_run(words: Sequence[str]) -> bool:
    """Whether a text shows a command to run, and does not just name it."""
    command, rest = command_and_rest(words[1:])
    if command == "trace sniff":  # may need rights: tests/capture/pcap/test_sniff.py
        return False
    if command == "worker" or "--workers" in rest:  # tests/runtime/cluster/test_workers.py
        return False
    return bool(rest) or command not in NEEDS


SOURCES = {
    **{page.name: [each for each in commands_of(page) if is_run(each)] for page in ALL},
    **{name: [each for each in examples_of(text) if is_run(each)] for name, text in helps()},
}
every_source = pytest.mark.parametrize("source", [name for name, found in SOURCES.items() if found])


def test_every_kind_of_source_has_commands() -> None:
    assert sum(map(len, SOURCES.values())) > 150
    assert len(SOURCES["README.md"]) >= 10
    assert len(SOURCES["flinknet trace replay"]) >= 5
    assert ["flinknet", "bench"] in SOURCES["flinknet"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run long enough for a timeout of 100 ms."""
    place = tmp_path_factory.mktemp("recorded") / "run"
    workload = WorkloadConfig(2, 2, rate_per_s=500.0, duration_ns=3_000_000_000)
    make_run(place, Scenario(workload=workload))
    return place


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a tap recorded of a job of two exchanges."""
    place = tmp_path_factory.mktemp("taken") / "run"
    return write_tapped_job(place, [TappedChannel(SOURCE), TappedChannel(SECOND)])


@pytest.fixture(scope="module")
def done() -> set[Command]:
    """What was run: pages and helps show the same."""
    return set()


@pytest.fixture
def place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: Path, taken: Path
) -> Iterator[Path]:
    """The directory in which a reader works."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, target in {
        "bench": ROOT / "bench",
        "deploy": ROOT / "deploy",
        "traces": ROOT / "traces",
        "recorded": recorded,
        "taken": taken,
    }.items():
        (tmp_path / name).symlink_to(target)
    (tmp_path / "conf").mkdir()
    settings = {
        "execution.buffer-timeout.interval": "10 ms",
        "taskmanager.memory.process.size": "1728m",
    }
    (tmp_path / "main").mkdir()
    for name in ("conf/config.yaml", "main/config.yaml", "main.yaml"):
        (tmp_path / name).write_text(yaml.safe_dump(settings))
    for name, timeout in (("old.toml", "100 ms"), ("new.toml", "10 ms")):
        (tmp_path / name).write_text(
            f"[network]\n'execution.buffer-timeout.interval' = '{timeout}'\n"
        )
    write_capture(tmp_path / "flink.pcap")
    copy_run(taken, tmp_path / "copied", None)
    page = with_recording("<html><body></body></html>", tmp_path / "copied")
    (tmp_path / "shared.html").write_text(page)
    nodes = [
        {"id": 1, "pact": "Data Source", "contents": "Source", "parallelism": 4},
        {
            "id": 2,
            "pact": "Operator",
            "contents": "Sum",
            "parallelism": 4,
            "predecessors": [{"id": 1, "ship_strategy": "HASH"}],
        },
    ]
    (tmp_path / "plan.json").write_text(json.dumps({"nodes": nodes}))
    yield tmp_path
    for ending in (["job", "cancel"], ["job", "cluster", "stop"]):
        for each in ("detached", "first", "second", "session"):
            if (tmp_path / each).exists():
                CliRunner().invoke(main, [*ending, each])


@every_source
def test_every_command_is_accepted(source: str, place: Path, done: set[Command]) -> None:
    executor = Executor(RecordingRun(), lambda: {})
    for words, command, given in adapted_commands(source):
        known = (command, *given)
        is_cheap = command in STARTS_NOTHING or given == ["--help"]
        if known in done or not is_cheap or "--start-spark" in given:
            continue
        done.add(known)
        check(words, known, *invoke(command, given, executor))


@pytest.mark.commands
@pytest.mark.socket
@pytest.mark.spark
@pytest.mark.timeout(900)
@every_source
def test_every_command_runs(
    source: str,
    place: Path,
    done: set[Command],
    with_spark: object,
    start_process: Callable[..., subprocess.Popen[str]],
) -> None:
    for words, command, given in adapted_commands(source):
        known = (command, *given)
        if known in done:
            continue
        if not command.startswith("job"):  # jobs are asked about again
            done.add(known)
        check(words, known, *run(command, given, start_process))


def check(words: list[str], known: Command, code: int, output: str) -> None:
    has_bound = {"--target", "--fail-if", "--find"} & set(known)
    shown = f"{shlex.join(words)}\nas flinknet {' '.join(known)}\n{output}"
    assert code == 0 or (has_bound and code in NO_ANSWER), shown


def adapted_commands(source: str) -> Iterator[tuple[list[str], str, list[str]]]:
    """Each command of a source: its words, its name, and the rest as it is run here."""
    for words in SOURCES[source]:
        command, rest = command_and_rest(words[1:])
        yield words, command, adapted(command, rest)


def adapted(command: str, words: Sequence[str]) -> list[str]:
    """The same command, shorter, of what there is here."""
    found: list[str] = []
    for before, word in zip(("", *words), words, strict=False):
        if before in SHORT:
            word = SHORT[before]
        elif before == "--rest":
            word = NOBODY if command == "trace tap" else str(directory("2.3.0"))
        elif before not in OUTPUTS or word.startswith(("s3:", "/")):
            for pattern, stand_in in STAND_INS.items():
                word = re.sub(pattern, stand_in, word)
        if before == "--out":
            word = next(each for each in _names(word) if not Path(each).exists())
        found.append(word)
    if command == "trace tap":
        return tapping(found)
    if "--remote" in found:
        at = found.index("--remote")
        del found[at : at + 2]
    if "--edge-timeout" in found:  # two edges
        found = ["taken", *(re.sub(r"^Enrich=", "1=", each) for each in found[1:])]
    if "--alignment" in found and "--checkpoint-interval" not in found:  # no barriers
        found += ["--checkpoint-interval", "1s"]
    if {"--help", "--records", "--detached", "--slow-consumer"} & set(found):
        return found
    at = found.index("--") if "--" in found else len(found)
    for option in MORE.get(command, ()):
        if option not in found and not (option == "--runs" and "--find" in found):
            found[at:at] = [option, SHORT.get(option, "20k")]
    return found


def _names(name: str) -> Iterator[str]:
    """The name of a directory and others, for examples that follow each other in a help."""
    return itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))


def invoke(command: str, rest: list[str], executor: Executor | None = None) -> tuple[int, str]:
    """The exit code and the output of a command in this process."""
    result = CliRunner().invoke(main, [*command.split(), *rest], obj=executor)
    return result.exit_code, result.output + "".join(map(str, result.exc_info or ()))


def run(command: str, rest: list[str], start_process: Callable[..., Any]) -> tuple[int, str]:
    """The exit code and the output of a command, with its processes."""
    if command == "bench produce":
        return served(rest, start_process)
    if command == "bench consume":
        return consumed(rest, start_process)
    if command == "trace watch":
        return invoke(command, [*rest, *([] if "--once" in rest else ["--once"])])
    if not command.startswith("job") and "--start-spark" not in rest:
        return invoke(command, rest)
    if "--cluster" in rest and not Path("session").exists():
        code, output = ended(
            ["job", "cluster", "start", "--slots", "4", "--out", "session"], start_process
        )
        assert code == 0, output
    if "--detached" in rest and "--out" not in rest:
        rest = [*rest, "--out", "detached"]
    return ended([*command.split(), *rest], start_process)


def ended(words: list[str], start_process: Callable[..., Any]) -> tuple[int, str]:
    """The exit code and the output of a command that leaves processes behind."""
    process = started(words, start_process)
    out_text, err_text = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, err_text + out_text


def started(words: Sequence[str], start_process: Callable[..., Any]) -> subprocess.Popen[str]:
    """A command in a process of its own."""
    code = "from flinknet.cli import main; main()"
    process: subprocess.Popen[str] = start_process(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    return process


def tapping(words: list[str]) -> list[str]:
    """A tap that ends by itself, on free ports; no TaskManager is behind it."""
    if "…" in words:
        at = words.index("…")
        words[at : at + 1] = ["--listen", "127.0.0.1:0", "--upstream", "127.0.0.1:7101"]
    if "--out" not in words:
        words += ["--out", next(each for each in _names("tapped") if not Path(each).exists())]
    if "--duration" not in words:
        words += ["--duration", "300ms"]
    return [
        re.sub(r":\d+(-\d+)?$", _free, word) if before == "--listen" else word
        for before, word in zip(("", *words), words, strict=False)
    ]


def _free(found: re.Match[str]) -> str:
    """Free ports in place of those of a text, as many."""
    if found[1] is None:
        return ":0"
    first, last = map(int, found[0][1:].split("-"))
    port = free_ports(last - first + 1)
    return f":{port}-{port + last - first}"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def served(words: list[str], start_process: Callable[..., Any]) -> tuple[int, str]:
    """A producer, and a consumer of its partition."""
    words = [PARTITION if each == "ID" else each for each in words]
    if "--partition" not in words:
        words += ["--partition", PARTITION]
    words[words.index("--listen") + 1] = address = f"127.0.0.1:{free_port()}"
    process = started(["bench", "produce", "--no-trace", *words], start_process)
    assert process.stderr is not None
    process.stderr.readline()
    consumer = ["bench", "consume", address, "--partition", PARTITION, "--no-trace"]
    result = CliRunner().invoke(main, consumer)
    assert result.exit_code == 0, result.output
    out_text, err_text = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, err_text + out_text


def consumed(words: list[str], start_process: Callable[..., Any]) -> tuple[int, str]:
    """A consumer, and a producer of its partition."""
    words = [PARTITION if "…" in each else each for each in words]
    words[0] = f"127.0.0.1:{free_port()}"
    producing = ["--listen", words[0], "--partition", words[words.index("--partition") + 1]]
    process = started(
        ["bench", "produce", "--no-trace", "--records", "1000", *producing], start_process
    )
    assert process.stderr is not None
    process.stderr.readline()
    result = CliRunner().invoke(main, ["bench", "consume", *words])
    process.communicate(timeout=TIMEOUT_S)
    return result.exit_code, result.output
