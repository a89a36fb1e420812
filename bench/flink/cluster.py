"""A real Flink cluster on loopback: one JobManager and some TaskManagers, each a JVM of its own.

Memory is small and given explicitly, ports are chosen free, readiness is asked through REST. All
processes end with the context, by their ids; their logs stay in the work directory.
"""

from __future__ import annotations

import json
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from bench.flink.distribution import class_path, java, write_log4j

LOOPBACK = "127.0.0.1"
READY_WITHIN_S = 300.0
METRICS_EVERY_MS = 500
_PORTS = range(20_000, 32_000)

JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"

# What Flink's own scripts pass to a JVM from 17 on, as far as its network stack needs it.
_OPENED = ("java.lang", "java.net", "java.nio", "java.util", "java.util.concurrent", "sun.nio.ch")
JVM_OPTIONS = (
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "-XX:+UseG1GC",
    "-XX:+PerfDisableSharedMem",
)

_MEMORY = {
    "taskmanager.cpu.cores": "4",
    "taskmanager.memory.framework.heap.size": "64m",
    "taskmanager.memory.task.heap.size": "256m",
    "taskmanager.memory.framework.off-heap.size": "64m",
    "taskmanager.memory.task.off-heap.size": "0",
    "taskmanager.memory.managed.size": "0",
    "taskmanager.memory.network.min": "64m",
    "taskmanager.memory.network.max": "64m",
    "taskmanager.memory.jvm-metaspace.size": "128m",
    "taskmanager.memory.jvm-overhead.min": "64m",
    "taskmanager.memory.jvm-overhead.max": "64m",
}
_TASK_MANAGER_JVM = ("-Xms320m", "-Xmx320m", "-XX:MaxDirectMemorySize=192m")
_JOB_MANAGER_JVM = ("-Xms192m", "-Xmx384m")


@dataclass(frozen=True, slots=True)
class TaskManager:
    """What one TaskManager is told.

    Args:
        slots: tasks that share a slot count once.
        data_port: what it advertises; 0: a free one.
        bind_port: where it listens; None: where it advertises. Where the two differ, something
            that carries the bytes must stand between, such as `flinknet trace tap`.
        tap_port: where the tap listens; None: where it advertises. Where the two differ, a slow
            link carries the bytes from the one to the other.
        resources: of which kind its slots are, one of each kind per slot (see ExchangeJob).
    """

    slots: int = 1
    data_port: int = 0
    bind_port: int | None = None
    tap_port: int | None = None
    resources: Sequence[str] = ()

    def options(self, name: str) -> dict[str, str]:
        """Its own keys, beside those of the cluster."""
        keys = {
            "taskmanager.resource-id": name,
            "taskmanager.numberOfTaskSlots": str(self.slots),
            "taskmanager.data.port": str(self.data_port),
        }
        if self.bind_port is not None:
            keys["taskmanager.data.bind-port"] = str(self.bind_port)
        if self.resources:
            keys["external-resources"] = ";".join(self.resources)
            for each in self.resources:
                keys[f"external-resource.{each}.amount"] = str(self.slots)
        return keys


@dataclass(slots=True)
class Process:
    """A JVM that runs."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.popen.pid


class FlinkError(Exception):
    """The cluster or its job did not do what was asked; the text says where to look."""


@dataclass(slots=True)
class Cluster:
    """A running cluster; a context manager.

    Args:
        home: of the distribution.
        work: directory for configuration and logs; exists.
        task_managers: what each is told.
        keys: options of Flink for all processes.
        jars: that belong to the JVMs, so that what has been compiled of a job's code stays compiled
            for the next job.
        metrics_every_ms: how old the metrics that REST answers may be.
    """

    home: Path
    work: Path
    task_managers: Sequence[TaskManager]
    keys: Mapping[str, str] = field(default_factory=dict)
    jars: Sequence[Path] = ()
    metrics_every_ms: int = METRICS_EVERY_MS
    processes: list[Process] = field(default_factory=list)
    rest_port: int = 0

    def __enter__(self) -> Cluster:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _start(self) -> None:
        self.rest_port, rpc_port = free_ports(2)
        keys = {
            "jobmanager.rpc.address": LOOPBACK,
            "jobmanager.bind-host": LOOPBACK,
            "jobmanager.rpc.port": str(rpc_port),
            "rest.address": LOOPBACK,
            "rest.bind-address": LOOPBACK,
            "rest.port": str(self.rest_port),
            "rest.bind-port": str(self.rest_port),
            "rest.flamegraph.enabled": "false",
            "metrics.fetcher.update-interval": str(self.metrics_every_ms),
            "cluster.registration.error-delay": "200 ms",
            "taskmanager.host": LOOPBACK,
            "taskmanager.bind-host": LOOPBACK,
            "io.tmp.dirs": str(self.work / "tmp"),
            "restart-strategy.type": "none",
            # its 10 s are too little where the processors are taken
            "pekko.startup-timeout": f"{READY_WITHIN_S:g} s",
            # slots that ask for external resources; always so from Flink 2.0 on
            "cluster.fine-grained-resource-management.enabled": "true",
            "web.upload.dir": str(self.work),
            **_MEMORY,
            **({"classloader.resolve-order": "parent-first"} if self.jars else {}),
            **self.keys,
        }
        conf = self.work / "conf"
        conf.mkdir(exist_ok=True)
        (self.work / "tmp").mkdir(exist_ok=True)
        (conf / "config.yaml").write_text("".join(f"{k}: {_quoted(v)}\n" for k, v in keys.items()))
        log4j = write_log4j(conf)
        java_program = java()
        if java_program is None:
            raise FlinkError("there is no java: set JAVA_HOME, or install a JDK of 17 or newer")
        jvm = [java_program, *JVM_OPTIONS, f"-Dlog4j.configurationFile={log4j}"]
        self._run("job-manager", [*jvm, *_JOB_MANAGER_JVM], [JOB_MANAGER, "--configDir", str(conf)])
        for index, task_manager in enumerate(self.task_managers):
            name = f"tm-{index}"
            given = [f"-D{k}={v}" for k, v in task_manager.options(name).items()]
            arguments = [TASK_MANAGER, "--configDir", str(conf), *_dynamic(given)]
            self._run(name, [*jvm, *_TASK_MANAGER_JVM], arguments)
        self._wait_until_ready()

    def _run(self, name: str, jvm: Sequence[str], arguments: Sequence[str]) -> None:
        log = self.work / f"{name}.log"
        command = [*jvm, "-cp", class_path(self.home, *self.jars), *arguments]
        with log.open("wb") as out:
            popen = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
            )
        self.processes.append(Process(name, popen, log))

    def _wait_until_ready(self) -> None:
        give_up = time.monotonic() + READY_WITHIN_S
        while True:
            self.check()
            try:
                found = self.get("/overview")
                if found["slots-total"] == sum(each.slots for each in self.task_managers):
                    return
            except (URLError, ConnectionError):
                pass
            if time.monotonic() > give_up:
                raise FlinkError(
                    f"the cluster is not ready after {READY_WITHIN_S:g} s; {self.work}"
                )
            time.sleep(0.1)

    def check(self) -> None:
        """Raise if a process has ended.

        Raises:
            FlinkError: with the last lines of its log.
        """
        for process in self.processes:
            if process.popen.poll() is not None:
                raise FlinkError(f"{process.name} has ended; {process.log}:\n{_tail(process.log)}")

    def stop(self) -> None:
        """End every process that was started; first asking, then not."""
        running = [each.popen for each in self.processes if each.popen.poll() is None]
        for popen in running:
            popen.terminate()
        give_up = time.monotonic() + 5
        for popen in running:
            try:
                popen.wait(max(0.1, give_up - time.monotonic()))
            except subprocess.TimeoutExpired:
                popen.kill()
                popen.wait()
        self.processes.clear()

    def task_manager_pids(self) -> list[int]:
        """Process ids of the TaskManagers, in order."""
        return [each.pid for each in self.processes[1:]]

    def get(self, path: str) -> Any:
        """What REST answers."""
        with urlopen(f"{self.url}{path}", timeout=30) as answer:
            return json.load(answer)

    def post(self, path: str, body: bytes, content_type: str = "application/json") -> Any:
        """What REST answers to a body.

        Raises:
            FlinkError: it declines; with what it says.
        """
        request = Request(
            f"{self.url}{path}", data=body, headers={"Content-Type": content_type}, method="POST"
        )
        try:
            with urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except HTTPError as error:
            raise FlinkError(f"{path}: {_reason(error.read())}") from None

    @property
    def url(self) -> str:
        """Of the REST API and of Flink's web page."""
        return f"http://{LOOPBACK}:{self.rest_port}"


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens at now.

    They lie below the range from which Linux gives ports to clients: no connection takes one before
    it is listened at.
    """
    ports: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                probe.bind((LOOPBACK, port))
                ports.append(port)
        if len(ports) == count:
            return ports
    raise FlinkError(f"fewer than {count} ports are free from {_PORTS.start} to {_PORTS.stop - 1}")


def end_on_sigterm() -> None:
    """Let SIGTERM unwind the stack as Ctrl-C does, so that every context ends what it started."""

    def unwind(number: int, frame: FrameType | None) -> NoReturn:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, unwind)


def _dynamic(given: Sequence[str]) -> list[str]:
    # -Dkey=value in one word would be an option of the JVM's launcher only before the class name
    return [part for each in given for part in ("-D", each[2:])]


def _quoted(value: str) -> str:
    return json.dumps(value) if re.search(r"[:;#*\[\]{}]", value) else value


def _tail(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def _reason(body: bytes) -> str:
    """The cause that matters in REST's answer: the last one of the first stack trace."""
    try:
        text = "\n".join(json.loads(body)["errors"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")[:2000]
    causes = [line for line in text.splitlines() if line.startswith("Caused by: ")]
    return (causes or text.splitlines() or [""])[-1].removeprefix("Caused by: ")
