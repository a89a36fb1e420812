"""What the scripts that run a real Flink share: options, their values, and where answers go."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from bench.flink.cluster import FlinkError, end_on_sigterm
from bench.flink.distribution import VERSION, flink_home, java
from bench.flink.exchange import SMALLEST_VALUE_BYTES
from flinknet.errors import ConfigError
from flinknet.units import parse_duration_ns, parse_size_bytes

_Settings = TypeVar("_Settings")


def parser_of(prog: str, about: str | None, teach: str) -> argparse.ArgumentParser:
    """A parser without options yet, whose `--help` teaches."""
    return argparse.ArgumentParser(
        prog=prog,
        description=about,
        epilog=teach,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_record_size(parser: argparse.ArgumentParser) -> None:
    """--record-size, for `value_bytes_of`."""
    least = f"of a value; at least {SMALLEST_VALUE_BYTES}b [default: 100b]"
    parser.add_argument("--record-size", default="100b", help=least)


def add_placement(parser: argparse.ArgumentParser) -> None:
    """--placement of producers and consumers."""
    choices = ("split", "spread")
    parser.add_argument("--placement", choices=choices, default="split", help="[default: split]")


def add_length(
    parser: argparse.ArgumentParser,
    *,
    duration: str,
    warmup: str,
    before: str = "before it; a JVM needs some",
) -> None:
    """--duration, for `duration_ns_of`, and --warmup."""
    add = parser.add_argument
    add("--duration", default=duration, help=f"of the measured part [default: {duration}]")
    add("--warmup", default=warmup, help=f"{before} [default: {warmup}]")


def add_version(parser: argparse.ArgumentParser) -> None:
    """--flink-version, for `home_of`."""
    parser.add_argument("--flink-version", default=VERSION, help=f"[default: {VERSION}]")


def add_output(
    parser: argparse.ArgumentParser,
    *,
    work: str = "directory for logs and traces [default: a new one]",
    json: str = "write all figures; - for standard output, alone",
) -> None:
    """--work, for `work_directory`, and --json, for `give`."""
    parser.add_argument("--work", help=work)
    parser.add_argument("--json", metavar="FILE|-", help=json)


def value_bytes_of(options: argparse.Namespace) -> int:
    """--record-size.

    Raises:
        ConfigError: it is no size, or too small for a record of the job.
    """
    value_bytes = parse_size_bytes(options.record_size, "--record-size")
    if value_bytes < SMALLEST_VALUE_BYTES:
        raise ConfigError(
            f"--record-size: {value_bytes} bytes are too few for Flink's job; its records carry"
            f" their instant and number, so at least {SMALLEST_VALUE_BYTES}b"
        )
    return value_bytes


def duration_ns_of(options: argparse.Namespace) -> int:
    """--duration.

    Raises:
        ConfigError: it is no duration, or 0.
    """
    duration_ns = parse_duration_ns(options.duration, "--duration")
    if duration_ns <= 0:
        raise ConfigError("--duration: give more than 0")
    return duration_ns


def whole_ms(text: str, name: str) -> int:
    """A duration in ms, as Flink counts it; -1 stands for never.

    Raises:
        ConfigError: it is shorter than Flink can say.
    """
    duration_ns = parse_duration_ns(text, name, allow_never=name == "--buffer-timeout")
    if duration_ns < 0:
        return -1
    if duration_ns % 1_000_000:
        raise ConfigError(f"{name}: {text}: Flink counts in whole milliseconds")
    return duration_ns // 1_000_000


def timeout_name(timeout_ms: int) -> str:
    """The buffer timeout, for reading."""
    return "never" if timeout_ms < 0 else f"{timeout_ms} ms"


@dataclass(frozen=True, slots=True)
class Call(Generic[_Settings]):
    """A call of a script: its options and what was read from them, the jars of Flink, and the
    directory for logs and traces.
    """

    options: argparse.Namespace
    settings: _Settings
    home: Path
    work: Path


def called(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
    read: Callable[[argparse.Namespace], _Settings],
    prefix: str,
) -> Call[_Settings]:
    """Read the options --flink-version, --work and those of the script; ends it if one of them
    cannot be used, or if there is no such Flink.

    Args:
        read: the settings in the options; may raise ConfigError.
        prefix: of the name of a new directory.
    """
    options = parser.parse_args(arguments)
    try:
        settings = read(options)
    except ConfigError as error:
        parser.error(str(error))
    home = home_of(parser, options.flink_version)
    return Call(options, settings, home, work_directory(options.work, prefix))


def home_of(parser: argparse.ArgumentParser, version: str) -> Path:
    """Where the jars of a release are; ends the script if they are nowhere."""
    home = flink_home(version)
    if home is None:
        parser.error(f"no jars of Flink {version}: run `make flink`, or set FLINK_HOME")
    return home


def work_directory(given: str | None, prefix: str) -> Path:
    """The directory of this name, made if need be; a new temporary one for None."""
    work = Path(given or tempfile.mkdtemp(prefix=prefix))
    work.mkdir(parents=True, exist_ok=True)
    return work


def exit_code_of(prog: str, measure: Callable[[], int]) -> int:
    """The exit code of a measurement: its own, 1 if Flink failed, 130 after Ctrl-C."""
    end_on_sigterm()
    try:
        return measure()
    except FlinkError as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def give(document: Mapping[str, Any], target: str | None, show: Callable[[], None]) -> None:
    """Write a document to where --json says, and show it unless it went to standard output."""
    text = json.dumps(document, indent=1, default=str) + "\n"
    if target == "-":
        print(text, end="")
        return
    if target is not None:
        Path(target).write_text(text)
    show()


def java_version() -> str:
    """As `java -version` tells it."""
    command = [java() or "java", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r'"(.+?)"', done.stderr)
    return found.group(1) if found else "?"


def tell(text: str) -> None:
    """Talk while it runs."""
    print(text, file=sys.stderr, flush=True)
