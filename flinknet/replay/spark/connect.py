"""Spark Connect: a session on a server that runs already, without a JVM of ours."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinknet.errors import FlinknetError

from .settings import OF_QUERIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODULE = "pyspark.sql.connect"


def is_connected(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect: it has no JVM and no SparkContext here."""
    return type(spark).__module__.startswith(MODULE)


@contextmanager
def connected_session(
    remote: str, conf: Mapping[str, str], code: Path | None
) -> Iterator[SparkSession]:
    """A session on a server, until the block ends; the server goes on.

    Args:
        remote: sc://HOST:PORT
        conf: what the user sets; the server refuses what holds for all of its sessions.
        code: that executors get.

    Raises: FlinknetError if the packages for it are not installed.
    """
    before = {name: os.environ.get(name) for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")}
    try:
        session = _session(remote)
        try:
            for key, value in OF_QUERIES.items():
                with suppress(Exception):  # what a platform keeps to itself stays as it is
                    session.conf.set(key, value)
            for key, value in conf.items():
                session.conf.set(key, value)
            if code is not None:
                session.addArtifacts(str(code), pyfile=True)
            yield session
        finally:
            session.stop()
    finally:
        for name, text in before.items():
            if text is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = text


def _session(remote: str) -> Any:
    from pyspark.sql import SparkSession

    try:
        return SparkSession.builder.remote(remote).getOrCreate()
    except ImportError as error:
        raise FlinknetError(
            "Spark Connect needs more packages than are installed: pip install 'pyspark[connect]'"
            f" ({str(error).splitlines()[0]})"
        ) from error
