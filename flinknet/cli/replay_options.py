"""Options of commands that read recordings: settings to predict, the session of Spark, and Flink's
REST API for names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flinknet import options as flink
from flinknet.errors import ConfigError
from flinknet.options.what_if import (
    EXCLUSIVE,
    FLOATING,
    SEGMENT_SIZE,
    SETTINGS,
    TIMEOUT,
    Asked,
    key_of,
)
from flinknet.storage import path_of
from flinknet.units import parse_duration_ns

from .commands import check_installed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flinknet.capture.rest.answers import RestAnswers
    from flinknet.capture.rest.http_client import RestPlace
    from flinknet.predict.grid import Grid
    from flinknet.replay.edges import EdgeTimeouts
    from flinknet.replay.spark.settings import SessionOptions
    from flinknet.results import RunWarning
    from flinknet.trace import RunManifest

REST_FILES = ("rest-token-file", "rest-ca", "rest-cert", "rest-key")
"""Names of the options of `rest_files_options`, for sections of help."""

_HELP = (
    "File whose first line is sent to --rest: a bearer token, or user:password.",
    "PEM file: the authority that signed the certificate of --rest. [default: those of the system,"
    " or SSL_CERT_FILE]",
    "PEM file: a client certificate for --rest.",
    "PEM file: the key of --rest-cert. [default: in the file of --rest-cert]",
)


@dataclass(frozen=True, slots=True)
class RestFiles:
    """Files with credentials and certificates for --rest; None where not given."""

    token_file: str | None
    ca: str | None
    cert: str | None
    key: str | None

    def place(self, rest: str | None) -> RestPlace | None:
        """Address and credentials of the API; None without --rest.

        Raises: ConfigError.
        """
        given = zip(REST_FILES, (self.token_file, self.ca, self.cert, self.key), strict=True)
        if rest is None:
            for option, value in given:
                if value is not None:
                    raise ConfigError(f"--{option} needs --rest")
            return None
        if self.key is not None and self.cert is None:
            raise ConfigError("--rest-key needs --rest-cert")
        from flinknet.capture.rest.http_client import RestPlace

        return RestPlace(rest, _credentials(self.token_file), self.ca, self.cert, self.key)


def rest_files_options(command: Any) -> Any:
    """Add the options of `RestFiles` to a command, which gets them as `rest_files`."""

    @wraps(command)
    def called(*args: Any, **values: Any) -> Any:
        files = [values.pop(name.replace("-", "_")) for name in REST_FILES]
        return command(*args, rest_files=RestFiles(*files), **values)

    for name, text in reversed(list(zip(REST_FILES, _HELP, strict=True))):
        called = click.option(f"--{name}", metavar="FILE", help=text)(called)
    return called


def _credentials(token_file: str | None) -> str | None:
    """The token or user:password in a file; None for None. Raises: ConfigError."""
    if token_file is None:
        return None
    try:
        lines = Path(token_file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"--rest-token-file: {token_file}: cannot be read") from None
    found = lines[0].strip() if lines else ""
    if not found or not found.isprintable() or not (found.isascii() or ":" in found):
        raise ConfigError(
            f"--rest-token-file: the first line of {token_file} is neither a token nor"
            " user:password"
        )
    return found


def answers_of(rest: str, files: RestFiles, save_to: Path | None = None) -> RestAnswers:
    """The source of answers that --rest names. Raises: ConfigError."""
    from flinknet.capture.rest.answers import answers_at

    place = files.place(rest)
    assert place is not None
    return answers_at(place, save_to=save_to)


def naming(rest: str | None, files: RestFiles) -> Callable[[RunManifest], RunManifest]:
    """A function that adds the job's names to a manifest; it does nothing without --rest.

    Raises: ConfigError; RemoteTransportError without an answer.
    """
    if rest is None:
        files.place(rest)
        return lambda manifest: manifest
    from flinknet.capture.rest.jobs import read_jobs
    from flinknet.capture.rest.names import named

    jobs = read_jobs(answers_of(rest, files))

    def describe(manifest: RunManifest) -> RunManifest:
        found = named(manifest, jobs)
        if found is manifest:
            names = ", ".join(each.name for each in jobs) or "none"
            raise ConfigError(
                f"--rest: the job in the trace is none of those at {rest} ({names}); give the REST"
                " API, or the saved answers, of the cluster on which it was recorded"
            )
        return found

    return describe


edge_timeout_option = click.option(
    "--edge-timeout",
    metavar="EDGE=TIMEOUT,...",
    multiple=True,
    help="For a job of several exchanges: one more setting, with other timeouts on some edges, as"
    " setBufferTimeout sets them. EDGE: its number, or a part of its name. May be repeated.",
)

Lists = Mapping[str, str | None]
"""Texts of the options that list settings, by click's name of the option."""


def grid_of(lists: Lists, *, is_fine: bool) -> Grid:
    """The grid of the given lists, with many timeouts if `is_fine`.

    Raises: ConfigError for an invalid value, and for too many settings.
    """
    from flinknet.predict.grid import DEFAULT_TIMEOUTS_NS, FINE_TIMEOUTS_NS, Grid

    given = {
        each.values: [each.kind.read(text, f"--{each.option}") for text in texts]
        for each in SETTINGS
        if (texts := _texts(lists, each))
    }
    if is_fine:
        given[TIMEOUT.values] = [*FINE_TIMEOUTS_NS]
    grid = Grid(**given or {TIMEOUT.values: [*DEFAULT_TIMEOUTS_NS]})
    grid.check()
    return grid


def setting_warnings(lists: Lists) -> list[tuple[str, tuple[RunWarning, ...]]]:
    """Warnings about numbers and sizes of buffers, known before anything runs: each option with its
    value, and its warnings."""
    return [
        (f"{each.option}={text}", flink.network_config({key_of(each.field): text})[1])
        for each in (EXCLUSIVE, FLOATING, SEGMENT_SIZE)
        for text in _texts(lists, each)
        if text
    ]


def _texts(lists: Lists, asked: Asked) -> list[str]:
    text = lists[asked.option.replace("-", "_")]
    return [] if text is None else [part.strip() for part in text.split(",")]


def edge_timeouts_of(text: str) -> EdgeTimeouts:
    """Read "1=5ms,Enrich=100ms". Raises: ConfigError."""
    from flinknet.replay.edges import EdgeTimeouts

    found = []
    for part in text.split(","):
        edge, equals, timeout = (each.strip() for each in part.rpartition("="))
        if not (edge and equals and timeout):
            raise ConfigError(
                f"--edge-timeout: {part.strip()!r} is not EDGE=TIMEOUT, such as 1=5ms or Enrich=5ms"
            )
        timeout_ns = parse_duration_ns(timeout, "--edge-timeout", bare_unit=None, allow_never=True)
        found.append((edge, timeout_ns))
    return EdgeTimeouts(tuple(found))


def number_or(option: str, text: str, word: str) -> int | None:
    """A number of 1 or more, or `word`: the largest number for `all`, otherwise None."""
    if text == word:
        return sys.maxsize if word == "all" else None
    digits = text.replace("_", "")
    if not digits.isdecimal() or not int(digits):
        raise ConfigError(f"{option}: {text!r} is not a number of 1 or more, and not {word}")
    return int(digits)


def offset(option: str, text: str | None) -> int | None:
    """A time from the start of a run, in ns; None for None. Raises: ConfigError."""
    return None if text is None else parse_duration_ns(text, option, bare_unit=None)


_OPTIONS = (
    click.option(
        "--master",
        metavar="URL",
        help="Spark master, such as local[2], spark://host:7077, yarn or k8s://https://host:443."
        " Traces on a file system must have the same path on all of its machines. [default: that of"
        " spark-submit or of the platform's configuration, or local[*]]",
    ),
    click.option(
        "--remote",
        metavar="sc://HOST:PORT",
        help="Server of Spark Connect, instead of a master. [default: SPARK_REMOTE]",
    ),
    click.option(
        "--spark-conf",
        metavar="KEY=VALUE",
        multiple=True,
        help="A setting of Spark, such as spark.executor.memory=4g. May be repeated.",
    ),
    click.option(
        "--properties-file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Settings of Spark, instead of spark-defaults.conf and in its form. [default:"
        " spark-defaults.conf in SPARK_CONF_DIR, or in conf of SPARK_HOME]",
    ),
    click.option(
        "--ship",
        type=click.Choice(("none", "code", "environment")),
        default="none",
        show_default=True,
        help="What to send to a cluster. none: nothing, flinknet is installed there. code:"
        " flinknet; the packages that it needs are installed there. environment: flinknet and its"
        " packages, for machines of the same kind with the same Python.",
    ),
    click.option("--spark-ui", is_flag=True, help="Serve Spark's own page while it runs."),
    click.option(
        "--event-log", metavar="DIR", help="Write Spark's event log, for its history server."
    ),
)


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command, which gets them as `session`, a SessionOptions."""

    @wraps(command)
    def called(
        *,
        master: str | None,
        remote: str | None,
        spark_conf: tuple[str, ...],
        properties_file: Path | None,
        ship: str,
        spark_ui: bool,
        event_log: str | None,
        **others: Any,
    ) -> Any:
        from flinknet.replay.spark.settings import SessionOptions, parse_conf

        session = SessionOptions(
            master,
            remote,
            dict(parse_conf(each) for each in spark_conf),
            properties_file,
            has_ui=spark_ui,
            event_log=path_of(event_log) if event_log is not None else None,
            ship=ship,
        )
        return command(session=session, **others)

    for option in reversed(_OPTIONS):
        called = option(called)
    return called


@contextmanager
def loading_spark(
    options: SessionOptions, say: Callable[..., None]
) -> Iterator[Callable[[], SparkSession]]:
    """A session that loads while the block prepares its work, and ends with the block.

    Args:
        say: prints a line of progress.

    Yields: a function that waits for the session; from then on Spark's errors are FlinknetErrors.
    """
    from flinknet.replay.spark.session import loading_session, spark_errors

    check_installed("pyarrow")  # before a JVM starts; PySpark may come with SPARK_HOME
    with ExitStack() as until_answered:
        started = until_answered.enter_context(loading_session(options))

        @cache
        def spark() -> SparkSession:
            say("starting Spark", off_terminal_too=True)
            session = started()
            until_answered.enter_context(spark_errors())
            _print_page_address(session)
            return session

        yield spark


def prepare_faster_starts(options: SessionOptions) -> None:
    """Make the class archive in the background after a user's first replay, but only on a terminal,
    as a script may measure something next."""
    from flinknet.replay.spark.session import make_class_archive_later

    with suppress(OSError):
        if sys.stderr.isatty() and make_class_archive_later(options):
            click.echo(
                "flinknet: later replays start some seconds faster: an archive of Spark's classes"
                " is being made in the background, once (170 MB; FLINKNET_CLASS_ARCHIVE=off for"
                " none)",
                err=True,
            )


def _print_page_address(spark: SparkSession) -> None:
    from flinknet.replay.spark.session import page_address

    address = page_address(spark)
    if address is not None:
        click.echo(f"flinknet: Spark's page while it runs: {address}", err=True)
