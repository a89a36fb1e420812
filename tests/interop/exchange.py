"""Both ends of an exchange as processes: flinknet by its command line, and Flink's own shuffle
environment (java/FlinkPeer.java).
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.flink.distribution import class_path
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.trace import open_run
from flinknet.trace.verify import verify_run

BENCH = [sys.executable, "-c", "from flinknet.cli import main; main()", "bench"]

PARTITIONS = tuple(
    ResultPartitionID.decode(
        bytes.fromhex("f126f51bbabba2bfbc764cd8828fad36")
        + index.to_bytes(4, "big")
        + bytes.fromhex("d4485ed59291f7a83442b2fd464ecd84bc764cd8ddf7a0cff126f51c16239658")
        + index.to_bytes(4, "big")
        + bytes(4)
    )
    for index in range(2)
)

JAVA_OPTIONS = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # it lives for seconds
    "-XX:-UsePerfData",
    *(
        f"--add-opens=java.base/java.{package}=ALL-UNNAMED"
        for package in ("lang", "net", "nio", "util")
    ),
)


@dataclass(frozen=True, slots=True)
class Release:
    """A release of Flink, ready to run: its jars and our harness compiled against them."""

    version: str
    java: str
    home: Path
    classes: Path

    def start(self, role: str, **options: object) -> FlinkPeer:
        """Start one end; underscores in the names of options stand for hyphens."""
        given = {name.replace("_", "-"): value for name, value in options.items()}
        given.setdefault("partitions", PARTITIONS[:1])
        return FlinkPeer(self._command("FlinkPeer", role, **given))

    def start_misbehaved(self, **keys: object) -> Misbehaved:
        """Start what peers misbehave to, with Flink's keys."""
        return Misbehaved(self._command("Misbehaved", **keys))

    def _command(self, name: str, *words: str, **options: object) -> list[str]:
        texts = [f"{key}={_text(value)}" for key, value in options.items()]
        paths = class_path(self.home, self.classes)
        return [self.java, *JAVA_OPTIONS, "-cp", paths, name, *words, *texts]


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(each.encode().hex() for each in value)
    return str(value)


def _word(value: object) -> str:
    return value.encode().hex() if isinstance(value, ResultPartitionID) else str(value)


class Ended(Exception):
    """A process ended before it said what was waited for."""


class _Process:
    """A process whose lines are read; it never outlives its `with` block."""

    def __init__(self, command: Sequence[str], *, reads_stderr: bool, cwd: Path | None) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
        )
        self._lines = self.process.stderr if reads_stderr else self.process.stdout
        self.said: list[str] = []

    def __enter__(self):  # type: ignore[no-untyped-def]
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def wait_for(self, word: str) -> dict[str, str]:
        """The next line that begins with a word, as its key=value pairs."""
        assert self._lines is not None
        for line in self._lines:
            self.said.append(line.rstrip("\n"))
            if line.startswith(word):
                return dict(each.split("=", 1) for each in line.split() if "=" in each)
        raise Ended(f"{word!r} never came; it said {self.said}")

    def wait_for_text(self, text: str) -> str:
        """The next line that has a text anywhere."""
        assert self._lines is not None
        for line in self._lines:
            if text in line:
                return line
        raise Ended(f"{text!r} never came")

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)


class FlinkPeer(_Process):
    """One end, with Flink's classes."""

    def __init__(self, command: Sequence[str]) -> None:
        super().__init__(command, reads_stderr=False, cwd=None)

    @property
    def port(self) -> int:
        """Its data port; waits until it can be asked for partitions."""
        return int(self.wait_for("listening")["port"])

    def done(self) -> dict[str, int]:
        """What it counted; waits for the end. A blocking producer must be dismissed first."""
        return {name: int(value) for name, value in self.wait_for("done").items()}

    def failed(self) -> str:
        """The chain of causes with which it ended."""
        self.wait_for("failed")
        return self.said[-1]

    def dismiss(self) -> None:
        """A blocking partition is not needed any more."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.stdin = None


ANSWERS = ("ok", "told ", "state ")
"""What answers an order begin with; lines of Flink's own come in between."""


class Misbehaved(_Process):
    """Flink's shuffle environment under orders (java/Misbehaved.java)."""

    def __init__(self, command: Sequence[str]) -> None:
        super().__init__(command, reads_stderr=False, cwd=None)

    @property
    def port(self) -> int:
        """Its data port."""
        return int(self.wait_for("listening")["port"])

    def order(self, *words: object) -> str:
        """Give an order; returns the answer. Raises: Ended if it could not be obeyed."""
        assert self.process.stdin is not None
        assert self._lines is not None
        self.process.stdin.write(" ".join(map(_word, words)) + "\n")
        self.process.stdin.flush()
        for line in self._lines:
            if line.startswith(ANSWERS):
                return line.rstrip("\n")
            if line.startswith("failed"):
                raise Ended(f"{words[0]}: {line}")
        raise Ended(f"{words[0]}: it has ended")


class Flinknet(_Process):
    """One end, as the installed command has it. It writes its trace to `directory`."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.run = directory / "out" / "run-0001"
        command = [*BENCH, *options, "--json", "-", "--out", "out"]
        super().__init__(command, reads_stderr=True, cwd=directory)

    @property
    def port(self) -> int:
        """Where it listens; waits until it does."""
        self.wait_for("listening on ")
        return int(self.said[-1].rpartition(":")[2])

    def end(self) -> Ending:
        """Wait for its end."""
        stdout, stderr = self.process.communicate()
        result = json.loads(stdout) if stdout else {}
        return Ending(self.process.returncode, result, stderr.strip().splitlines())


@dataclass(frozen=True, slots=True)
class Ending:
    """How flinknet ended: exit code, its JSON, its last lines on stderr."""

    code: int
    result: dict[str, Any]
    lines: list[str]

    @property
    def channels(self) -> list[dict[str, Any]]:
        """What passed on each channel."""
        channels: list[dict[str, Any]] = self.result["channels"]
        return channels


def follow(log: Path) -> _Process:
    """A file's lines, and those that will be written to it."""
    return _Process(["tail", "-n", "+1", "-F", str(log)], reads_stderr=False, cwd=None)


def partition_options(count: int = 1) -> list[str]:
    """The first partitions, as Flink's logs print them."""
    return [part for each in PARTITIONS[:count] for part in ("--partition", str(each))]


def consume(directory: Path, flink: FlinkPeer, *options: str, partitions: int = 1) -> Flinknet:
    """flinknet reads what Flink produces."""
    address = f"127.0.0.1:{flink.port}"
    return Flinknet(directory, "consume", address, *partition_options(partitions), *options)


def produce(directory: Path, *options: str, partitions: int = 1) -> Flinknet:
    """flinknet produces, and Flink may ask for it."""
    return Flinknet(directory, "produce", *partition_options(partitions), *options)


def tls_keys(directory: Path) -> dict[str, object]:
    """Flink's keys for TLS between TaskManagers, with certificates made for it."""
    from tests.certificate_set import generate

    hosts = ("localhost", "127.0.0.1")
    return dict(generate(directory, "interop secret", hosts=hosts, days=2))


def as_options(keys: Mapping[str, object]) -> list[str]:
    """Flink's keys as flinknet takes them."""
    return [part for key, value in keys.items() for part in ("-D", f"{key}={value}")]


def trace_columns(run: Path, *names: str, kind: MessageKind, point: TracePoint) -> list[list[int]]:
    """Columns of the messages of one kind in a trace."""
    found: list[list[int]] = [[] for _ in names]
    for reader in open_run(run).readers():
        with reader:
            for index in range(len(reader.blocks())):
                block = reader.read_block(index, (*names, "kind", "point"))
                rows = (block["kind"] == kind) & (block["point"] == point)
                for column, name in zip(found, names, strict=True):
                    column += np.asarray(block[name])[rows].tolist()
    return found


def assert_sound(run: Path) -> None:
    """The trace is whole and keeps the rules of sequence and credit."""
    verification = verify_run(open_run(run))
    assert verification.is_ok, verification.findings
