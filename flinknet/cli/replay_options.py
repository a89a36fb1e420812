"""Options of commands that read recordings: settings to predict, the session of Spark, and Flink's
REST API for names."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flinknet import options as flink
from flinknet.errors import ConfigError
from flinknet.options import what_if
from flinknet.units import parse_duration_ns

from .commands import check_installed
from .files import first_line
from .value_parsers import count, refuse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flinknet.capture.rest.answers import RestAnswers
    from flinknet.capture.rest.http_client import RestPlace
    from flinknet.predict.grid import Grid
    from flinknet.replay.edges import EdgeTimeouts
    from flinknet.replay.spark.settings import SessionOptions
    from flinknet.results import RunWarning
    from flinknet.trace import RunManifest

_REST_FILES = ("rest_token_file", "rest_ca", "rest_cert", "rest_key")


def rest_place(values: Mapping[str, Any]) -> RestPlace | None:
    """Address and credentials of the REST API that the options name; None without --rest.

    Raises: ConfigError.
    """
    if values["rest"] is None:
        refuse(values, _REST_FILES, " needs --rest")
        return None
    token_file, *files = (values[name] for name in _REST_FILES)
    token = None
    if token_file is not None:
        token = first_line(token_file, "--rest-token-file").strip()
        if not token or not token.isprintable() or not (token.isascii() or ":" in token):
            raise ConfigError(
                f"--rest-token-file: the first line of {token_file} is neither a token nor"
                " user:password"
            )
    if values["rest_key"] is not None and values["rest_cert"] is None:
        raise ConfigError("--rest-key needs --rest-cert")
    from flinknet.capture.rest.http_client import RestPlace

    return RestPlace(values["rest"], token, *files)


def answers_of(values: Mapping[str, Any], save_to: Path | None = None) -> RestAnswers:
    """The source of answers that --rest names. Raises: ConfigError."""
    from flinknet.capture.rest.answers import answers_at

    place = rest_place(values)
    assert place is not None
    return answers_at(place, save_to=save_to)


def naming(values: Mapping[str, Any]) -> Callable[[RunManifest], RunManifest]:
    """A function that adds the job's names to a manifest; it does nothing without --rest.

    Raises: ConfigError; RemoteTransportError without an answer.
    """
    if (place := rest_place(values)) is None:
        return lambda manifest: manifest
    from flinknet.capture.rest.jobs import read_jobs
    from flinknet.capture.rest.names import named

    jobs = read_jobs(answers_of(values))

    def describe(manifest: RunManifest) -> RunManifest:
        found = named(manifest, jobs)
        if found is manifest:
            names = ", ".join(each.name for each in jobs) or "none"
            raise ConfigError(
                f"--rest: the job in the trace is none of those at {place.place}"
                f" ({names}); give the REST API, or the saved answers, of the cluster on which it"
                " was recorded"
            )
        return found

    return describe


def grid_of(values: Mapping[str, Any], *, is_fine: bool) -> Grid:
    """The grid of the lists in a call, with many timeouts if `is_fine`.

    Raises: ConfigError for an invalid value, and for too many settings.
    """
    from flinknet.predict.grid import DEFAULT_TIMEOUTS_NS, FINE_TIMEOUTS_NS, Grid

    given = {
        each.values: [each.kind.read(text, f"--{each.option}") for text in texts]
        for each in what_if.SETTINGS
        if (texts := _texts(values, each))
    }
    if is_fine:
        given[what_if.TIMEOUT.values] = [*FINE_TIMEOUTS_NS]
    grid = Grid(**given or {what_if.TIMEOUT.values: [*DEFAULT_TIMEOUTS_NS]})
    grid.check()
    return grid


def setting_warnings(values: Mapping[str, Any]) -> list[tuple[str, tuple[RunWarning, ...]]]:
    """Warnings about numbers and sizes of buffers, known before anything runs: each option with its
    value, and its warnings."""
    return [
        (f"{each.option}={text}", flink.network_config({what_if.key_of(each.field): text})[1])
        for each in (what_if.EXCLUSIVE, what_if.FLOATING, what_if.SEGMENT_SIZE)
        for text in _texts(values, each)
        if text
    ]


def _texts(values: Mapping[str, Any], asked: what_if.Asked) -> list[str]:
    text = values[asked.option.replace("-", "_")]
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


def number_or(option: str, text: str | None, word: str) -> int | None:
    """A number of 1 or more, or `word`: the largest number for `all`, otherwise None."""
    if text == word:
        return sys.maxsize if word == "all" else None
    return None if text is None else count(text, option)


def offset(option: str, text: str | None) -> int | None:
    """A time from the start of a run, in ns; None for None. Raises: ConfigError."""
    return None if text is None else parse_duration_ns(text, option, bare_unit=None)


def session_options(values: Mapping[str, Any]) -> SessionOptions:
    """The options of Spark's session. Raises: ConfigError."""
    from flinknet.replay.spark.settings import SessionOptions, parse_conf

    return SessionOptions(
        values["master"],
        values["remote"],
        dict(parse_conf(each) for each in values["spark_conf"]),
        values["properties_file"],
        ship=values["ship"],
    )


@contextmanager
def loading_spark(
    options: SessionOptions, say: Callable[..., None]
) -> Iterator[Callable[[], SparkSession]]:
    """A session that loads while the block prepares its work, and ends with the block.

    Args:
        say: prints a line of progress.

    Yields: a function that waits for the session; from then on Spark's errors are FlinknetErrors.
    """
    from flinknet.replay.spark.session import loading_session, page_address, spark_errors

    if not os.environ.get("SPARK_HOME"):  # PySpark may come with it
        check_installed("pyspark")
    check_installed("pyarrow")  # before a JVM starts
    with ExitStack() as until_answered:
        started = until_answered.enter_context(loading_session(options))

        @cache
        def spark() -> SparkSession:
            say("starting Spark", off_terminal_too=True)
            session = started()
            until_answered.enter_context(spark_errors())
            if (address := page_address(session)) is not None:
                click.echo(f"flinknet: Spark's page while it runs: {address}", err=True)
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
