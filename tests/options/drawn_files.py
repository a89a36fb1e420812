"""Configuration files drawn from Flink's keys, and what Flink's own classes make of them.

    python -m tests.options.drawn_files [FILES]     draw them and write flink_answers.json anew

FlinkConfigurations.java asks BashJavaUtils for network memory, NettyShuffleEnvironmentConfiguration
for the number of buffers, and ConfigOption for each value.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from bench.flink.distribution import class_path, flink_home, java
from flinknet.options import FLINK_1, FLINK_2, Option, find_option, options

HERE = Path(__file__).parent
ANSWERS = HERE / "flink_answers.json"
FILES = 60

RELEASES: Final[Mapping[str, str]] = {FLINK_1: "1.20.5", FLINK_2: "2.3.0"}

REFUSED = "refused"

Answer = dict[str, Any]
"""REFUSED and why, or `buffers`, `bytes` and the typed `values` by key: durations in ms, sizes in
bytes."""

_TOTALS = (
    ("taskmanager.memory.process.size", ("4g", "2200m", "1728 mb", "72g")),
    ("taskmanager.memory.flink.size", ("1280m", "4g", "600m")),
    ("taskmanager.heap.size", ("4096m", "1g", "3g")),
    ("taskmanager.heap.mb", ("4096", "1024")),
)
_MEMORY = (
    ("taskmanager.memory.network.fraction", ("0.2", "0.1f", "0.99", "1.0", "-0.1", "0", ".5", "x")),
    ("taskmanager.memory.network.min", ("128m", "64mb", "2g", "10kb", "8 mebibytes", "1.5g")),
    ("taskmanager.memory.network.max", ("1g", "128mb", "32mb", "16 gb", "unlimited")),
    ("taskmanager.network.numberOfBuffers", ("8192", "2048", "100000", "-1", "1_0")),
    ("taskmanager.memory.managed.size", ("800m", "0", "1g", "1500m", "")),
    ("taskmanager.memory.managed.fraction", ("0.1", "0.7", "0", "1.5")),
    ("taskmanager.memory.task.heap.size", ("512m", "1g", "9mb")),
    ("taskmanager.memory.task.off-heap.size", ("128m", "0")),
    ("taskmanager.memory.framework.heap.size", ("256m", "1024m")),
    ("taskmanager.memory.framework.off-heap.size", ("64m", "256 m")),
    ("taskmanager.memory.jvm-metaspace.size", ("128m", "512m")),
    ("taskmanager.memory.jvm-overhead.min", ("128m", "2g")),
    ("taskmanager.memory.jvm-overhead.max", ("512m", "192mb")),
    ("taskmanager.memory.jvm-overhead.fraction", ("0.2", "0.05", "1")),
    ("taskmanager.memory.segment-size", ("32kb", "16kb", "4 kb", "64k", "5000", "2kb", "32768")),
    ("taskmanager.numberOfTaskSlots", ("2", "8", "0", "0o10", "0x4")),
)
_ODD = {
    "D": (
        "5 ms",
        "0",
        "30 s",
        "500 µs",
        "500 us",
        "0.5 ms",
        "-1",
        "PT0.005S",
        "PT5M",
        "1 day",
        "x",
    ),
    "M": ("1 kb", "32KB", "4.5g", "1_0", "64kib", "128 bytes"),
    "I": ("3", "0", "-1", "1_0", "4294967296", "2.0", "50,100", "+4", "0x10"),
    "L": ("3", "1_0"),
    "N": ("300", "1e3", "-1"),
    "T": ("60", "0", "1.5"),
    "B": ("true", "FALSE", "yes", "1"),
    "F": ("0.5", "2", "0_1.5"),
}
_IGNORED = (
    ("taskmanager.memory.preallocate", "false"),
    ("taskmanager.memory.heap.size", "1g"),
    ("taskmanager.network.memory.buffer-size", "64kb"),
    ("taskmanager.network.credit-model", "false"),
    ("jobmanager.rpc.address", "jobmanager"),
    ("rest.port", "8081"),
    ("env.java.opts.all", "-XX:+UseG1GC"),
    ("state.backend.type", "rocksdb"),
)
_STRICTER = frozenset(
    ("taskmanager.memory.framework.off-heap.batch-shuffle.size", "execution.checkpointing.interval")
)
"""Of these, flinknet refuses values with which these classes are content."""


def drawn_file(seed: int) -> tuple[str, str]:
    """Name and text of a configuration file."""
    draw = random.Random(seed)
    pairs: dict[str, str] = {}
    if draw.random() < 0.93:
        for key, values in draw.sample(_TOTALS, 2 if draw.random() < 0.15 else 1):
            pairs[key] = draw.choice(values)
    for key, values in draw.sample(_MEMORY, draw.choice((0, 1, 2, 3, 4))):
        pairs[_spelled(draw, key)] = draw.choice(values if draw.random() < 0.5 else values[:2])
    others = [each for each in options().values() if each.kind in _ODD and _is_other(each)]
    for option in draw.sample(others, draw.choice((0, 1, 2, 3))):
        pairs[_spelled(draw, option.key)] = draw.choice(
            _ODD[option.kind][: draw.choice((1, 1, 99))]
        )
    pairs |= dict(draw.sample(_IGNORED, draw.choice((0, 0, 1, 2))))
    items = list(pairs.items())
    draw.shuffle(items)
    name = "flink-conf.yaml" if seed % 3 == 0 else "config.yaml"
    lines = [f"{key}: {value}".rstrip() for key, value in items]
    odd = draw.random()
    if odd < 0.03:
        lines.append("env.java.opts.jobmanager:")
    elif odd < 0.06:
        lines[0] = f"\ufeff{lines[0]}" if lines else ""
    return name, "\n".join(["# drawn", *lines] if odd >= 0.06 else lines) + "\n"


def _is_other(option: Option) -> bool:
    is_drawn = option.key in dict(_TOTALS) or option.key in dict(_MEMORY)
    return not is_drawn and option.key not in _STRICTER


def _spelled(draw: random.Random, key: str) -> str:
    return draw.choice([key, key, *find_option(key).older_keys])


def releases_of(name: str) -> list[str]:
    """The releases that read a file of this name."""
    return [FLINK_1] if name == "flink-conf.yaml" else [FLINK_1, FLINK_2]


def harness(release: str, classes: Path) -> Callable[..., list[list[str]]]:
    """A call of FlinkConfigurations, whose answer is a list of fields for each line.

    Raises: FileNotFoundError without the jars or a JDK.
    """
    home, runner, compiler = flink_home(RELEASES[release]), java(), java("javac")
    if home is None or runner is None or compiler is None:
        raise FileNotFoundError(f"no jars of Flink {RELEASES[release]}, or no JDK")
    jar = home / "lib" / f"flink-dist-{RELEASES[release]}.jar"
    path = class_path(home, classes, home / "bin" / "bash-java-utils.jar")
    source = str(HERE / "FlinkConfigurations.java")
    subprocess.run([compiler, "-nowarn", "-d", str(classes), "-cp", path, source], check=True)

    def call(what: str, *arguments: str) -> list[list[str]]:
        command = [runner, "-XX:TieredStopAtLevel=1", "-cp", path, "-Dfile.encoding=UTF-8"]
        command += ["FlinkConfigurations", what, str(jar), *arguments]
        done = subprocess.run(command, capture_output=True, check=True)
        return [line.split("\t") for line in done.stdout.decode().splitlines()]

    return call


def answers_of_flink(
    call: Callable[..., list[list[str]]], files: Iterable[tuple[str, str]], work: Path
) -> list[Answer]:
    """What a release makes of files, each a name and a text."""
    for number, (name, text) in enumerate(files):
        place = work / f"{number:06}"
        place.mkdir()
        (place / name).write_text(text, encoding="utf-8")
    found = []
    for _, outcome, *rest in call("files", str(work)):
        if outcome == REFUSED:
            found.append({REFUSED: rest[0]})
        else:
            values = dict(each.split("=", 1) for each in rest[1:])
            found.append({"buffers": int(outcome), "bytes": int(rest[0]), "values": values})
    return found


def main(count: int) -> None:
    """Write the answers anew."""
    files = [drawn_file(seed) for seed in range(count)]
    answers: list[dict[str, Answer]] = [{} for _ in files]
    for release in RELEASES:
        numbers = [n for n, (name, _) in enumerate(files) if release in releases_of(name)]
        with tempfile.TemporaryDirectory() as classes, tempfile.TemporaryDirectory() as work:
            call = harness(release, Path(classes))
            found = answers_of_flink(call, [files[n] for n in numbers], Path(work))
        for number, answer in zip(numbers, found, strict=True):
            answers[number][release] = answer
    document = [
        {"name": name, "text": text, **answer}
        for (name, text), answer in zip(files, answers, strict=True)
    ]
    ANSWERS.write_text("[\n" + ",\n".join(map(json.dumps, document)) + "\n]\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else FILES)
