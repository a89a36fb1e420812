"""PySpark's worker daemon, silent when a query ends before a worker has told everything.

A limit, an error elsewhere or Ctrl-C ends a scan early: the JVM closes the socket, and PySpark's
daemon prints the BrokenPipeError of each worker. Nothing is lost then, so the worker just ends.
"""

from __future__ import annotations

from typing import Any

from pyspark import daemon

CLOSED_EARLY = 1

_worker = daemon.worker


def worker(connection: Any, authenticated: bool) -> int:
    """Run tasks that come over a connection until it closes."""
    try:
        return int(_worker(connection, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        return CLOSED_EARLY


if __name__ == "__main__":
    daemon.worker = worker  # type: ignore[assignment]  # sockets live in `runtime` alone
    daemon.manager()
