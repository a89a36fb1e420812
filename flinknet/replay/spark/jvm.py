"""The JVM under a Spark session: started for it, silent, and ended with it, also after Ctrl-C.

PySpark waits for its JVM, leaves it running until Python ends, lets it write to our stderr, and
answers Ctrl-C by calling it. Here the JVM loads while Python does other work, as with spark-submit,
its stderr is a file, and signals that end this process (Ctrl-C, and SIGTERM and SIGHUP if they are
handled) end the JVM first: no results are lost with it, and workers end with their JVM.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Any

from flinknet.errors import FlinknetError
from flinknet.loopback import LOOPBACK_6

from .settings import nameless_user
from .worker import ignore_interrupts

_LOOK_S = 0.05
_EXIT_WAIT_S = 10.0
_DEATH_WAIT_S = 0.2
_NOT_REGISTERED = "spark-application-"  # begins the id of an application that no cluster accepted


@contextlib.contextmanager
def loading_jvm(environment: Mapping[str, str], log: Path) -> Iterator[Callable[[], Any]]:
    """Start a JVM that loads while the block runs, and ends with it. `environment` is that of the
    JVM and its Python workers in addition to ours, and names the file of Spark's settings; `log` is
    a file for their stderr, in a directory for this session alone. Yields: a function that waits
    for the JVM and makes its SparkContext; it raises FlinknetError if Spark does not start. Raises:
    FlinknetError if the block fails because its JVM has ended."""
    with contextlib.ExitStack() as stack:
        ending = stack.enter_context(_Ending())
        jvm = _Jvm(environment, log)
        stack.callback(jvm.end)
        ending.takes(jvm.process)
        try:
            yield partial(_context_of, jvm, stack, ending)
        except Exception as error:  # what PySpark meets in its clean-up without a JVM
            if ending.raised is not None:
                raise ending.raised from error
            is_cut_off = ending.is_used and _is_of_jvm(error)
            death = ending.death(_EXIT_WAIT_S if is_cut_off else _DEATH_WAIT_S)
            if death is None and is_cut_off:
                death = f"does not answer any more ({error})"
            if death is not None:
                raise FlinknetError(f"Spark failed: its JVM {death}") from error
            raise


def _context_of(jvm: _Jvm, stack: contextlib.ExitStack, ending: _Ending) -> Any:
    """Make a SparkContext that ends with the stack."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark import SparkConf, SparkContext, java_gateway
    from pyspark.errors import PySparkException

    try:
        with _environment(jvm.connection()):
            ending.is_used = True
            if jvm.is_on_ipv6:
                parameters = vars(java_gateway)
                made = partial(parameters["GatewayParameters"], address=LOOPBACK_6)
                parameters["GatewayParameters"] = made
            gateway = java_gateway.launch_gateway()  # type: ignore[no-untyped-call]
            stack.callback(_disconnect, gateway, SparkContext)
            if (user := nameless_user()) is not None:  # Hadoop asks the system for it, and fails
                users = gateway.jvm.org.apache.hadoop.security.UserGroupInformation
                users.setLoginUser(users.createRemoteUser(str(user)))
            conf = SparkConf(loadDefaults=True, _jvm=gateway.jvm)  # as spark-submit has it there
            context = SparkContext(conf=conf, gateway=gateway)
    except Py4JJavaError as error:
        raise FlinknetError(f"Spark does not start: {cause_in(str(error))}") from error
    except (PySparkException, Py4JError, OSError) as error:
        raise FlinknetError(f"Spark does not start: {jvm.complaint() or error}") from error
    stack.callback(_stop, context, jvm.process)
    ending.expected_by(context)
    if context.applicationId.startswith(_NOT_REGISTERED):
        raise FlinknetError(
            f"Spark does not start: {context.master} answers, but takes no application; see that it"
            f" is a Spark master of version {context.version}, and can connect to this machine"
        )
    return context


class _Jvm:
    """The process; it ends when its stdin is closed, and writes its address to a file."""

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self._environment = dict(environment)
        self._log = log
        self._address = log.with_name("gateway")
        self._is_connected = False
        self.is_on_ipv6 = "SPARK_PREFER_IPV6" in environment
        home = environment["SPARK_HOME"]
        arguments = shlex.split(environment["PYSPARK_SUBMIT_ARGS"])
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                [f"{home}/bin/spark-submit", *arguments],
                stdin=subprocess.PIPE,
                stderr=stderr,
                env={
                    **os.environ,
                    **environment,
                    "SPARK_CONNECT_MODE": "0",
                    "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._address),
                },
                preexec_fn=ignore_interrupts,
            )

    def connection(self) -> dict[str, str]:
        """Wait for the JVM. Returns: variables by which PySpark finds it. Raises: FlinknetError."""
        while not self._address.exists():
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self.process.wait(_LOOK_S)
                why = self.complaint() or f"its JVM ended with exit code {code}"
                raise FlinknetError(f"Spark does not start: {why}")
        written = self._address.read_bytes()
        self._is_connected = True
        return {
            **self._environment,
            "PYSPARK_GATEWAY_PORT": str(int.from_bytes(written[:4], "big")),
            "PYSPARK_GATEWAY_SECRET": written[8:].decode(),  # behind its length
        }

    def complaint(self) -> str | None:
        """The last line of its stderr, without stack traces."""
        said = self._log.read_text(errors="replace").strip().splitlines()
        lines = [line for line in said if not line.lstrip().startswith(("at ", "..."))]
        return " ".join(lines[-1].split()) if lines else None

    def end(self) -> None:
        """Close its stdin and wait; a JVM that still loads is killed."""
        if not self._is_connected:
            self.process.kill()
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(_EXIT_WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _is_of_jvm(error: Exception) -> bool:
    """Whether a call to a JVM that ends broke, and not one to a store or to Flink."""
    frames = traceback.walk_tb(error.__traceback__)
    modules = {str(frame.f_globals.get("__name__")).partition(".")[0] for frame, _ in frames}
    is_cut_off = isinstance(error, ConnectionRefusedError | ConnectionResetError)
    return is_cut_off and not modules.isdisjoint(("py4j", "pyspark"))


def cause_in(text: str) -> str:
    """The last cause in a stack of Java, which py4j begins with a colon, or else its first line."""
    causes: list[str] = re.findall(r"^(?:Caused by)?: (.+)$", text, re.MULTILINE)
    return causes[-1] if causes else text.strip().partition("\n")[0]


class _Ending:
    """Handler of Ctrl-C, and of SIGTERM and SIGHUP where they have a handler: it waits until there
    is a JVM, and then ends it first. Further signals do not disturb the end."""

    def __init__(self) -> None:
        self._then: dict[int, Callable[[int, FrameType | None], object]] = {}
        self._before: dict[int, Any] = {}
        self._pending: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._context: Any = None
        self._is_ending = False
        self.raised: BaseException | None = None
        self.is_used = False
        self._warnings = warnings.catch_warnings()
        self._unraisable = sys.unraisablehook

    def __enter__(self) -> _Ending:
        self._warnings.__enter__()
        self._then = {signal.SIGINT: signal.default_int_handler}
        for each in (signal.SIGTERM, signal.SIGHUP):
            handler = signal.getsignal(each)
            if callable(handler):
                self._then[each] = handler
        with contextlib.suppress(ValueError):  # signals go to the main thread alone
            self._before = {each: signal.signal(each, self._handle) for each in self._then}
        logging.getLogger().addFilter(_is_not_of_py4j)  # it stays, as do threads of py4j
        return self

    def takes(self, process: subprocess.Popen[bytes]) -> None:
        """Let signals end this process; at once if one has arrived before."""
        self._process = process
        for number in self._pending[:1]:
            self._handle(number, None)

    def expected_by(self, context: Any) -> None:
        """Keep this context from reporting that its JVM has ended."""
        self._context = context
        if self._before:
            signal.signal(signal.SIGINT, self._handle)  # PySpark has put its own in place

    def death(self, wait_s: float) -> str | None:
        """How the JVM ended by itself, in words; None if it runs on for `wait_s`, or never started.
        The connection to it may break a moment before the process has ended."""
        if self._process is None or not self.is_used:
            return None
        try:
            code = self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            return None
        if code < 0:
            return f"was killed by signal {-code}; was there too little memory?"
        return f"ended with exit code {code}"

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        logging.disable(logging.NOTSET)
        sys.unraisablehook = self._unraisable
        self._warnings.__exit__(None, None, None)
        if self._process is None:  # it never came to be, maybe of a signal to all of us
            for number in self._pending[:1]:
                signal.raise_signal(number)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._process is None:
            self._pending.append(number)
        if self._process is None or self._is_ending:
            return
        self._is_ending = True
        # py4j, PySpark and the server of accumulators would report all that ends with the JVM.
        logging.disable(logging.CRITICAL)
        warnings.simplefilter("ignore")
        if self._context is not None:
            self._context._accumulatorServer.handle_error = lambda *_: None
        self._process.kill()
        self._process.wait()
        try:
            self._then[number](number, frame)
        except BaseException as error:
            self.raised = error
            sys.unraisablehook = lambda _: None  # raised where Python goes on, as within a fork
            raise


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Suppress records of py4j about broken calls, which it also raises. The thread of py4j that
    drops Java objects may notice the end of the JVM late."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or not kind.__module__.startswith("py4j.")


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
    """End the context without waiting for PySpark's threads: the one for accumulators checks once a
    second whether it may end, and prints a stack if its JVM has gone before."""
    if process.poll() is None:
        adding_up, context._accumulatorServer = context._accumulatorServer, None
        adding_up.handle_error = lambda *_: None
        Thread(target=adding_up.shutdown, daemon=True).start()
        context.stop()


def _disconnect(gateway: Any, spark_context_class: Any) -> None:
    spark_context_class._active_spark_context = None
    spark_context_class._gateway = spark_context_class._jvm = None
    with contextlib.suppress(Exception):  # the JVM may be gone; py4j has no better name for that
        gateway.shutdown()
