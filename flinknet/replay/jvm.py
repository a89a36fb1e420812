"""The JVM under a Spark session: started for it, silent, and gone with it, also after Ctrl-C.

PySpark leaves its JVM running until Python ends, lets it write to our stderr, and answers Ctrl-C by
calling it, often in the middle of another call. Here its stderr is a file, and Ctrl-C ends it:
nothing that a replay has computed is lost with it, and the workers end when their JVM does.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flinknet.errors import FlinknetError

_EXIT_WAIT_S = 10.0


@contextlib.contextmanager
def spark_context(
    settings: Mapping[str, str], environment: Mapping[str, str], log: Path
) -> Iterator[Any]:
    """A SparkContext with a JVM of its own, for the time of the block.

    Args:
        settings: of Spark.
        environment: variables that the JVM and its Python workers get beside ours.
        log: file that takes what they write to stderr.

    Raises: FlinknetError if Spark does not start, with its last line that is no frame of a stack.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with contextlib.ExitStack() as stack:
        interrupt = stack.enter_context(_Interrupt())
        try:
            with log.open("wb") as stderr, _environment(environment):
                gateway = launch_gateway(conf, {"stderr": stderr})  # type: ignore[no-untyped-call]
                stack.callback(_end, gateway, SparkContext)
                context = SparkContext(conf=conf, gateway=gateway)
        except (PySparkException, OSError) as error:
            said = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
            told = [line for line in said if not line.lstrip().startswith(("at ", "..."))]
            why = told[-1] if told else str(error)
            raise FlinknetError(f"Spark does not start: {' '.join(why.split())}") from error
        stack.callback(_stop, context, gateway.proc)
        interrupt.ends(gateway.proc, context)
        try:
            yield context
        except Exception as error:  # what PySpark meets in its clean-up without a JVM
            if interrupt.has_ended:
                raise KeyboardInterrupt from error
            raise


class _Interrupt:
    """What Ctrl-C does: nothing while the JVM starts, which takes seconds; then it ends the JVM
    first."""

    def __init__(self) -> None:
        self._before: Any = None
        self._is_pending = False
        self._process: subprocess.Popen[bytes] | None = None
        self._context: Any = None
        self.has_ended = False

    def __enter__(self) -> _Interrupt:
        with contextlib.suppress(ValueError):  # Ctrl-C goes to the main thread alone
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def ends(self, process: subprocess.Popen[bytes], context: Any) -> None:
        """From now on Ctrl-C ends this process; at once if it came before."""
        self._process, self._context = process, context
        if self._before is not None:
            signal.signal(signal.SIGINT, self._handle)  # PySpark has put its own in place
        if self._is_pending:
            self._handle()

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        logging.disable(logging.NOTSET)

    def _handle(self, *_: object) -> None:
        if self._process is None:
            self._is_pending = True
            return
        # py4j and the server of accumulators would report every connection that ends with the JVM.
        logging.disable(logging.CRITICAL)
        self._context._accumulatorServer.handle_error = lambda *_: None
        self.has_ended = True
        self._process.kill()
        self._process.wait()
        raise KeyboardInterrupt


@contextlib.contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _stop(context: Any, process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        context.stop()


def _end(gateway: Any, spark_context_class: Any) -> None:
    """End the JVM; closing its stdin is what tells it."""
    spark_context_class._active_spark_context = None
    spark_context_class._gateway = spark_context_class._jvm = None
    with contextlib.suppress(Exception):  # the JVM may be gone; py4j has no better name for that
        gateway.shutdown()
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(_EXIT_WAIT_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
