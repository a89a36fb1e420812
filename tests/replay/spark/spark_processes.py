"""Spark's own processes on this machine, and replays that use them from a process of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyspark

from flinknet.replay.spark.installed import find_java, launcher_home

SPARK_HOME = Path(pyspark.__file__).parent

QUICK_JAVA = "-XX:TieredStopAtLevel=1"
"""For a JVM that lives for seconds."""

_LOGGED = """rootLogger.level = info
rootLogger.appenderRef.e.ref = e
appender.e.type = Console
appender.e.name = e
appender.e.target = SYSTEM_ERR
appender.e.layout.type = PatternLayout
appender.e.layout.pattern = %m%n
logger.quiet.name = org.apache.spark
logger.quiet.level = warn
logger.deploy.name = org.apache.spark.deploy
logger.deploy.level = info
logger.connect.name = org.apache.spark.sql.connect
logger.connect.level = info
"""
_PORTS = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")


def environment() -> dict[str, str]:
    """What Spark's own scripts need."""
    return os.environ | {
        "JAVA_HOME": str(launcher_home(find_java())),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LAUNCHER_OPTS": QUICK_JAVA,
    }


@dataclass
class SparkProcesses:
    """Processes of Spark that say on stderr what they do.

    Attributes:
        directory: for their configuration and what executors write.
    """

    directory: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, name: str, *arguments: str, **more: str) -> subprocess.Popen[str]:
        """Start a class of org.apache.spark.deploy.

        Args:
            more: variables of its environment.
        """
        own = {"SPARK_DAEMON_MEMORY": "512m", "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA}
        own |= {"SPARK_CONF_DIR": str(self.directory)}
        command = (str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}")
        process = subprocess.Popen(
            [*command, *arguments],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env=environment() | own | more,
        )
        self.started.append(process)
        return process

    def cluster(self, **more: str) -> str:
        """The master of a standalone cluster on loopback with one worker of two cores."""
        master = self.start("master.Master", *_PORTS)
        url = told(master, r"Starting Spark master at (spark://\S+)")
        room = ("--cores", "2", "--memory", "2g", "--work-dir", str(self.directory / "work"))
        worker = self.start("worker.Worker", *_PORTS, *room, url, **more)
        told(worker, r"(Successfully registered) with master")
        return url


@contextmanager
def spark_processes(directory: Path) -> Iterator[SparkProcesses]:
    """Ends what it has started when the block ends."""
    (directory / "log4j2.properties").write_text(_LOGGED)
    found = SparkProcesses(directory)
    try:
        yield found
    finally:
        for process in reversed(found.started):
            process.terminate()
            process.communicate()


def told(process: subprocess.Popen[str], pattern: str) -> str:
    """What a process says on stderr."""
    for line in process.stderr:
        found = re.search(pattern, line)
        if found:
            return found[1]
    raise AssertionError(f"it ended with {process.wait()} before it said {pattern}")


@dataclass(frozen=True)
class Cluster:
    """A standalone cluster, by the process id of its worker; executors are its children."""

    url: str
    worker: int

    def executors(self) -> list[psutil.Process]:
        """Those that have begun to work: each has started a Python process."""
        found = []
        for child in psutil.Process(self.worker).children(recursive=True):
            with suppress(psutil.Error):
                if "pyspark.daemon" in child.cmdline():
                    found.append(psutil.Process(child.ppid()))
        return [each for each in found if each.pid != self.worker and each.name() == "java"]


@contextmanager
def cluster_within(spark: Any, directory: Path) -> Iterator[Cluster]:
    """A standalone cluster of two cores whose master and worker live in the JVM of a session: it
    starts at once. Executors are processes of their own.

    Args:
        directory: for what executors write.
    """
    gateway = spark.sparkContext._gateway
    jvm, deploy = gateway.jvm, gateway.jvm.org.apache.spark.deploy
    conf, nothing = jvm.org.apache.spark.SparkConf(False), jvm.scala.Option.apply(None)
    master = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)._1()
    try:
        urls = gateway.new_array(jvm.String, 1)
        urls[0] = f"spark://127.0.0.1:{master.address().port()}"
        room = ("127.0.0.1", 0, 0, 2, 2048, urls, str(directory / "work"))
        worker = deploy.worker.Worker.startRpcEnvAndEndpoint(*room, nothing, conf, nothing)
        try:
            yield Cluster(urls[0], jvm.java.lang.ProcessHandle.current().pid())
        finally:
            worker.shutdown()
            worker.awaitTermination()
    finally:
        master.shutdown()
        master.awaitTermination()


_TASKS_DONE = re.compile(r"flinknet: .+: [\d,]+ of [\d,]+ tasks …")


def arguments(run: str | Path) -> tuple[str, ...]:
    """Of every replay here."""
    return ("trace", "replay", str(run), "--buffer-timeout", "1ms,-1", "--split", "3")


def begin(
    run: str | Path, out: Path, *options: str, command: tuple[str, ...] = ()
) -> subprocess.Popen[str]:
    """A replay in a process of its own."""
    command = command or (sys.executable, "-m", "flinknet")
    return subprocess.Popen(
        [*command, *arguments(run), *options, "--json", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def answer(run: str | Path, out: Path, *options: str, command: tuple[str, ...] = ()) -> bytes:
    """The JSON of a replay, whose stderr only says that it begins, and how far long steps are."""
    replay = begin(run, out, *options, command=command)
    error = ended(replay)
    if not command or not command[0].endswith("spark-submit"):
        first, *others = error.splitlines()
        assert first == "flinknet: starting Spark …"
        assert [each for each in others if not _TASKS_DONE.fullmatch(each)] == []
    return out.read_bytes()


def ended(replay: subprocess.Popen[str]) -> str:
    """What a replay that ends well says on stderr."""
    _, error = replay.communicate()
    assert replay.returncode == 0, error
    assert "Traceback" not in error
    return error
