"""PySpark's worker daemon, silent when a query ends before a worker has told everything.

A limit, an error elsewhere or Ctrl-C ends a scan early: the JVM closes the socket, and PySpark's
daemon prints the BrokenPipeError of each worker. Nothing is lost then, so the worker just ends.
"""

from __future__ import annotations

from typing import Any

CLOSED_EARLY = 1


def main() -> None:
    """Run PySpark's daemon with workers that end quietly."""
    from pyspark import daemon

    noisy_worker = daemon.worker

    def worker(connection: Any, authenticated: bool) -> int:
        try:
            return int(noisy_worker(connection, authenticated))
        except (BrokenPipeError, ConnectionResetError):
            return CLOSED_EARLY

    daemon.worker = worker  # type: ignore[assignment]  # its sockets are none of ours
    daemon.manager()


if __name__ == "__main__":
    main()
