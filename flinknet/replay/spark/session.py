"""The Spark session: local, silent, on loopback, without a trace on disk afterwards.

Works without network, without an installed Java and in a directory that cannot be written to.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import flinknet
from flinknet.errors import ConfigError, FlinknetError

from .jvm import cause_in, find_java, launcher_home, spark_context

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

LOCAL_MASTER = "local[*]"

WORK_UNITS_MAX = 1_000
"""A table made by the driver has a partition for each row up to this number: each row is a work
unit."""

_SESSION = {
    "spark.app.name": "flinknet trace replay",
    "spark.log.level": "OFF",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.leafNodeDefaultParallelism": str(WORK_UNITS_MAX),
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
}
"""Of any session, wherever it runs."""

_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit|Stop\w*): ")
"""The line of a traceback that says what was raised."""

_LOG4J2 = """rootLogger.level = off
rootLogger.appenderRef.nowhere.ref = nowhere
appender.nowhere.type = Null
appender.nowhere.name = nowhere
"""


@contextmanager
def spark_session(master: str | None = None) -> Iterator[SparkSession]:
    """A session that ends, with its JVM and all its files, when the block ends.

    Args:
        master: Spark master; None for all cores of this machine. What spark-submit started has a
            JVM already, and takes the master and everything else from it if none is given.

    Raises: FlinknetError if Spark cannot be started, ConfigError for a master that cannot be.
    """
    if master is not None:
        check_master(master)
    if is_submitted():
        with _submitted_session(master) as session:
            yield session
        return
    master = master or LOCAL_MASTER
    work_dir = Path(tempfile.mkdtemp(prefix="flinknet-spark-"))
    try:
        settings, environment = _settings(master, work_dir), _environment(master, work_dir)
        with spark_context(settings, environment, work_dir / "stderr") as context:
            yield _session_of(context)
    finally:
        shutil.rmtree(work_dir, ignore_errors=True)


def _session_of(context: SparkContext) -> SparkSession:
    """Raises: FlinknetError if the context has ended meanwhile, as when its master goes away."""
    from pyspark.sql import SparkSession

    with spark_errors():
        return SparkSession(context)


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn what Spark raises into a FlinknetError of one line.

    An error of ours that was raised in an executor comes back with its own words; of any other
    exception there its last line is given, for the traceback is Spark's.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException, PythonException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = _text_of(error)
        ours = re.findall(r"flinknet\.errors\.\w+: (.+)$", text, re.MULTILINE)
        if ours:
            raise FlinknetError(ours[-1]) from None  # the rest is Spark's way there
        lines = text.strip().splitlines() or [type(error).__name__]
        if isinstance(error, PythonException):
            lines = text.partition("JVM stacktrace:")[0].strip().splitlines() or lines
            raised = [line.strip() for line in lines if _RAISED.match(line.strip())]
            why = raised[-1] if raised else lines[-1].strip()
            raise FlinknetError(
                f"a bug in flinknet, inside Spark: {why}; please report it"
            ) from error
        raise FlinknetError(f"Spark failed: {cause_in(text) or lines[0]}") from error


def _text_of(error: Exception) -> str:
    """What an error says; some fail to say it once their JVM is gone, and keep it all the same."""
    try:
        return str(error)
    except Exception:
        return str(getattr(error, "_desc", None) or type(error).__name__)


def is_submitted() -> bool:
    """Whether this process was started by spark-submit."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


@contextmanager
def _submitted_session(master: str | None) -> Iterator[SparkSession]:
    """The settings of spark-submit go before what we would set."""
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    conf = SparkConf()
    for name, value in _SESSION.items():
        if not conf.contains(name):
            conf.set(name, value)
    if master is not None:
        conf.setMaster(master)
    with spark_errors():
        session = SparkSession.builder.config(conf=conf).getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def is_local(master: str) -> bool:
    """Whether driver and executors are one process on this machine."""
    return master.startswith("local")


def is_here(master: str) -> bool:
    """Whether all of Spark is on this machine's loopback."""
    return is_local(master) or re.match(r"spark://(127\.|localhost:|\[::1\])", master) is not None


def _environment(master: str, work_dir: Path) -> dict[str, str]:
    import pyspark

    (work_dir / "log4j2.properties").write_text(_LOG4J2)
    environment = {
        "JAVA_HOME": str(launcher_home(find_java())),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_CONF_DIR": str(work_dir),
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1",
        "SPARK_LOCAL_DIRS": str(work_dir),
    }
    if is_local(master):
        environment |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": _python_path()}
    if is_here(master):
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    return environment


def _python_path() -> str:
    """Lets Python workers find the same flinknet, also where it is not installed."""
    ours = str(Path(flinknet.__file__).parent.parent)
    return os.pathsep.join([ours, *filter(None, [os.environ.get("PYTHONPATH")])])


def _settings(master: str, work_dir: Path) -> dict[str, str]:
    java_options = [
        f"-Djava.io.tmpdir={work_dir}",
        f"-Dderby.system.home={work_dir}",
        "-XX:+UseParallelGC",
        "-XX:-UsePerfData",
        "-XX:TieredStopAtLevel=1",  # a replay lasts seconds: 7 instead of 10 s
    ]
    settings = {
        **_SESSION,
        "spark.master": master,
        "spark.sql.warehouse.dir": (work_dir / "warehouse").as_uri(),
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": " ".join(java_options),
    }
    if is_here(master):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return settings


_SCHEME = "spark://"


_ANSWER_WAIT_S = 5.0


_PORT_MAX = 65_535


def check_master(master: str) -> None:
    """See that one of the hosts of a spark:// URL takes connections; other masters are not asked.

    Raises: ConfigError if the URL names no host and port; FlinknetError if none of them answers.
    """
    if not master.startswith(_SCHEME):
        return
    silent = []
    for host, port in _addresses(master):
        try:
            socket.create_connection((host, port), _ANSWER_WAIT_S).close()
            return
        except (OSError, UnicodeError) as error:  # the latter of what cannot be a host's name
            why = getattr(error, "strerror", None) or error
            silent.append(f"{_SCHEME}{host}:{port} ({why})")
    raise FlinknetError(
        f"no Spark master answers at {', '.join(silent)}; see that it runs there, or give another"
        " --master"
    )


def _addresses(master: str) -> list[tuple[str, int]]:
    """The hosts and ports of spark://HOST:PORT,HOST:PORT…; with several masters one is in charge
    and the others stand by.
    """
    addresses = []
    for text in master.removeprefix(_SCHEME).split(","):
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) <= _PORT_MAX:
            raise ConfigError(f"--master: {master!r} is not a master; write spark://HOST:PORT")
        addresses.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return addresses
