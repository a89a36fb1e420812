"""The Spark session: local, quiet, on loopback, without a trace on disk afterwards.

Works without network, without an installed Java and in a directory that cannot be written to.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import flinknet
from flinknet.errors import FlinknetError

from .java import find_java, launcher_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_MASTER = "local[*]"

WORK_UNITS_MAX = 1_000
"""A table made by the driver has a partition for each row up to this number: each row is a work
unit."""

_LOG4J2 = """rootLogger.level = off
rootLogger.appenderRef.nowhere.ref = nowhere
appender.nowhere.type = Null
appender.nowhere.name = nowhere
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
"""


@contextmanager
def spark_session(master: str = LOCAL_MASTER) -> Iterator[SparkSession]:
    """A session that ends, with all its files, when the block ends.

    Raises: FlinknetError if Spark cannot be started.
    """
    work_dir = Path(tempfile.mkdtemp(prefix="flinknet-spark-"))
    try:
        spark = _start(master, work_dir)
        try:
            yield spark
        finally:
            spark.stop()
    finally:
        shutil.rmtree(work_dir, ignore_errors=True)


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn what Spark raises into a FlinknetError of one line.

    An error of ours that was raised in an executor comes back with its own words. Any other
    exception of our code there is a bug and keeps its traceback.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException, PythonException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        told = re.findall(r"flinknet\.errors\.\w+: (.+)$", str(error), re.MULTILINE)
        if told:
            raise FlinknetError(told[-1]) from error
        if isinstance(error, PythonException):
            raise
        raise FlinknetError(f"Spark failed: {str(error).strip().splitlines()[0]}") from error


def is_local(master: str) -> bool:
    """Whether driver and executors are one process on this machine."""
    return master.startswith("local")


def _start(master: str, work_dir: Path) -> SparkSession:
    import pyspark
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(launcher_home(find_java()))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1")
    if is_local(master):
        (work_dir / "log4j2.properties").write_text(_LOG4J2)
        os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
        os.environ["SPARK_CONF_DIR"] = str(work_dir)
        _put_on_python_path(Path(flinknet.__file__).parent.parent)
        os.environ["SPARK_LOCAL_DIRS"] = str(work_dir)
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.appName("flinknet trace replay").master(master)
    for key, value in _settings(master, work_dir).items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except (PySparkException, OSError) as error:
        raise FlinknetError(f"Spark does not start with master {master}: {error}") from error


def _put_on_python_path(directory: Path) -> None:
    """Let Python workers find the same flinknet, also where it is not installed."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(directory) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(directory), *filter(None, paths)])


def _settings(master: str, work_dir: Path) -> dict[str, str]:
    java_options = [
        f"-Djava.io.tmpdir={work_dir}",
        f"-Dderby.system.home={work_dir}",
        "-XX:+UseParallelGC",
        "-XX:-UsePerfData",
    ]
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.leafNodeDefaultParallelism": str(WORK_UNITS_MAX),
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
        "spark.sql.warehouse.dir": (work_dir / "warehouse").as_uri(),
    }
    if is_local(master):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.python.daemon.module": "flinknet.replay.worker_daemon",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": " ".join(java_options),
        }
    return settings
