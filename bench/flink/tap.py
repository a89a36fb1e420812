"""`flinknet trace tap` as a process beside a cluster, and tcpdump beside both."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from bench.flink.cluster import LOOPBACK, FlinkError, TaskManager, free_ports
from bench.measure import FLINKNET

READY_WITHIN_S = 30.0
ENDS_WITHIN_S = 60.0


def behind_a_tap(
    task_managers: Sequence[TaskManager], *, with_links: bool = False
) -> list[TaskManager]:
    """Give each TaskManager a port that it advertises and another that it binds.

    Args:
        with_links: the tap listens at a third port; see `slow_link`.
    """
    ports = free_ports(3 * len(task_managers))
    return [
        replace(
            each, data_port=advertised, bind_port=bound, tap_port=own if with_links else advertised
        )
        for each, advertised, bound, own in zip(
            task_managers, ports[::3], ports[1::3], ports[2::3], strict=True
        )
    ]


def tap_command(
    task_managers: Sequence[TaskManager], out: Path, conf: Path | None, rest: str | None = None
) -> list[str]:
    """A tap between what they advertise and what they bind.

    Args:
        conf: the config.yaml it keeps; None: it knows the settings from `rest` alone.
        rest: URL of the API that it asks for names and metrics.
    """
    command = [str(FLINKNET), "trace", "tap", "--out", str(out), "--json"]
    if conf is not None:
        command += ["--flink-conf", str(conf)]
    if rest is not None:
        command += ["--rest", rest]
    for each in task_managers:
        command += ["--listen", f"{LOOPBACK}:{each.tap_port or each.data_port}"]
        command += ["--upstream", f"{LOOPBACK}:{each.bind_port}"]
    return command


def tcpdump_command(task_managers: Sequence[TaskManager], out: Path) -> list[str] | None:
    """tcpdump of what the TaskManagers themselves send and take; None without tcpdump.

    The ports they bind: the way from the tap to the producers.
    """
    program = shutil.which("tcpdump")
    if program is None:
        return None
    ports = " or ".join(f"tcp port {each.bind_port}" for each in task_managers)
    # Loopback does not cut packets: one of 64 KiB is one. What is not taken in time is dropped.
    return [program, "-i", "lo", "-s", "0", "-B", "65536", "-U", "-w", str(out), ports]


@dataclass(slots=True)
class Companion:
    """A program that runs beside a cluster, from a first sign of life to an interrupt.

    Args:
        command: what runs.
        is_ready: asked with its process.
        log: where its standard error goes.
        lags_s: how long what it has seen may take to arrive in its output.
    """

    command: Sequence[str]
    is_ready: Callable[[subprocess.Popen[bytes]], bool]
    log: Path
    lags_s: float = 0.0
    out: Path = field(init=False)
    popen: subprocess.Popen[bytes] | None = None
    cpu_s: float = 0.0

    def __enter__(self) -> Companion:
        self.out = self.log.with_suffix(".out")
        with self.log.open("wb") as log, self.out.open("wb") as out:
            # A group of its own: Ctrl-C reaches it when its turn has come, not at once.
            self.popen = subprocess.Popen(
                self.command, stdout=out, stderr=log, stdin=subprocess.DEVNULL, process_group=0
            )
        give_up = time.monotonic() + READY_WITHIN_S
        while not self.is_ready(self.popen):
            if self.popen.poll() is not None or time.monotonic() > give_up:
                self._end()
                raise FlinkError(f"{self.command[0]} did not start: {self._talk()}")
            time.sleep(0.05)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def stop(self) -> str:
        """Interrupt it. Returns: its standard output.

        Raises:
            FlinkError: it ended before, or not well.
        """
        time.sleep(self.lags_s)
        self._end()
        if self.popen is None or self.popen.returncode:
            raise FlinkError(f"{' '.join(self.command[:3])} ended badly: {self._talk()}")
        return self.out.read_text()

    def _end(self) -> None:
        if self.popen is None or self.popen.poll() is not None:
            return
        self.cpu_s = _cpu_s(self.popen.pid)
        self.popen.send_signal(signal.SIGINT)
        try:
            self.popen.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()

    def _talk(self) -> str:
        return self.log.read_text(errors="replace").strip()[-2000:]


def tap(
    task_managers: Sequence[TaskManager], work: Path, conf: Path | None, rest: str | None = None
) -> Companion:
    """A tap that stands between when its context begins; its run is `work/tap`. See tap_command."""
    ports = {each.tap_port or each.data_port for each in task_managers}
    return Companion(
        tap_command(task_managers, work / "tap", conf, rest),
        lambda popen: ports <= listening(popen.pid),
        work / "tap.log",
    )


def tcpdump(task_managers: Sequence[TaskManager], work: Path) -> Companion:
    """A capture into `work/capture.pcap`.

    Raises:
        FlinkError: there is no tcpdump.
    """
    command = tcpdump_command(task_managers, work / "capture.pcap")
    if command is None:
        raise FlinkError("there is no tcpdump")
    log = work / "tcpdump.log"
    # The kernel hands over packets once a second; what it holds at the end would be lost.
    return Companion(
        command, lambda _: "listening on" in log.read_text(errors="replace"), log, lags_s=1.5
    )


def flinknet(*arguments: str) -> str:
    """What `flinknet` says on standard output.

    Raises:
        FlinkError: with what it says on standard error.
    """
    done = subprocess.run([str(FLINKNET), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise FlinkError(f"flinknet {' '.join(arguments[:2])}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def last_document(text: str) -> Mapping[str, Any]:
    """The JSON object that a command printed; empty if it printed none."""
    begin = text.find("{")
    if begin < 0:
        return {}
    document: Mapping[str, Any] = json.loads(text[begin:])
    return document


def run_directory(out: Path) -> Path:
    """The run that a command wrote: `out` itself or the only one below it."""
    found = [out] if (out / "manifest.json").exists() else sorted(out.glob("*/manifest.json"))
    if not found:
        raise FlinkError(f"there is no run in {out}: {os.listdir(out) if out.exists() else 'none'}")
    return found[0] if found[0].is_dir() else found[0].parent


def listening(pid: int) -> set[int]:
    """Ports that a process, or one it started, listens at."""
    ports: set[int] = set()
    try:
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            ports |= {c.laddr.port for c in each.net_connections("tcp") if c.status == "LISTEN"}
    except psutil.NoSuchProcess:
        pass
    return ports


def _cpu_s(pid: int) -> float:
    try:
        process = psutil.Process(pid)
        times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    except psutil.NoSuchProcess:
        return 0.0
    return sum(each.user + each.system for each in times)
