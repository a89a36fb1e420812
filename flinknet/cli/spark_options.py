"""Options of all commands that use Spark: its master and its settings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flinknet.storage import path_of

from .missing_packages import check_installed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flinknet.replay.spark.settings import SessionOptions

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
