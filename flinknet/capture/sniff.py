"""Sniffing on this host: the capture program that is installed, started and ended, and the ports on
which TaskManagers listen.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flinknet.errors import ConfigError
from flinknet.runtime.clock import monotonic_ns
from flinknet.runtime.signals import interrupts_noted

STARTS_WITHIN_S: Final = 5.0
"""Time in which a program that may not capture has ended, in s."""

ENDS_WITHIN_NS: Final = 10_000_000_000
"""Time in which a program ends, or is killed, in ns."""

_LOOK_S: Final = 0.05
_ENDED_CLEANLY: Final = (0, -signal.SIGINT)

_TASK_MANAGER: Final = re.compile(
    r"org\.apache\.flink\S*(?:TaskManagerRunner|TaskExecutorRunner)\b"
)
"""Main class of a TaskManager: standalone, of Kubernetes or of YARN."""

_DROPS: Final = (
    re.compile(rb"(\d+) packets? dropped by (?:kernel|interface)"),
    re.compile(rb"received/dropped on interface .*: \d+/(\d+)"),
)

_INSTALL: Final = (
    "no capture program is installed; one of them is enough: apt install tcpdump, dnf install"
    " wireshark-cli, apk add tcpdump"
)


PROGRAMS: Final = {
    "dumpcap": (["-q"], 20, ["-w", "-", "-f"]),
    "tcpdump": (["-n", "-U"], 10, ["-w", "-"]),
    "tshark": (["-q"], 20, ["-w", "-", "-f"]),
}
"""Capture programs, the first of which is preferred: their first options, the unit of the size of
their buffer (a power of two), and the options before the filter."""


@dataclass(frozen=True, slots=True)
class SniffConfig:
    ports: tuple[tuple[int, int], ...]  # first and last of each range
    interface: str = "any"
    snap_bytes: int = 0  # most bytes of a packet; 0 for all
    buffer_bytes: int = 64 << 20  # kernel memory for packets until the program takes them

    @property
    def filter(self) -> str:
        return " or ".join(
            f"tcp port {first}" if first == last else f"tcp portrange {first}-{last}"
            for first, last in self.ports
        )


class Sniffer:
    """A capture program that is running; `path` is the pipe with its packets. Raises: ConfigError
    if no program is installed, or none may capture; the text says what to do."""

    def __init__(self, config: SniffConfig) -> None:
        found = {name: path for name in PROGRAMS if (path := shutil.which(name)) is not None}
        if not found:
            raise ConfigError(_INSTALL)
        refusals: list[str] = []
        for name, path in found.items():
            self._held = ExitStack()
            self._was_asked = False
            self._unread_bytes = 0
            try:
                self._start(name, path, config)
                is_ready = select.select([self._out], [], [], STARTS_WITHIN_S)[0]
                if not is_ready or self._waiting_bytes():  # the header of its packets
                    return
                refusals.append(_advice(name, path, self._end_text()))
            except OSError as error:
                refusals.append(f"{name} cannot be started ({error.strerror or error})")
                if error.errno == errno.EPERM:  # file capabilities beyond those of a container
                    refusals[-1] += "; in a container, it needs NET_RAW and NET_ADMIN"
            except BaseException:
                self.close()
                raise
            self.close()
        raise ConfigError("; ".join(refusals))

    def ask_to_end(self) -> None:
        """Let it write what it has, and end."""
        self._was_asked |= self._process.poll() is None
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)

    def ended(self) -> tuple[int, list[str]]:
        """Wait for its end. Returns: the packets that it states as dropped, and warnings."""
        text = self._end_text()
        dropped = sum(int(count) for each in _DROPS for count in each.findall(text))
        code, warnings = self._process.returncode, list[str]()
        unknown = "; what it dropped is unknown" if code == -signal.SIGKILL else ""
        if self._was_asked and unknown:
            warnings.append(f"{self.name} did not end and was killed{unknown}")
        elif not self._was_asked and code not in _ENDED_CLEANLY:
            last = text.decode(errors="replace").strip().rpartition("\n")[2]
            warnings.append(f"{self.name} ended by itself with {code}: {last}{unknown}")
        if self._unread_bytes:
            warnings.append(
                f"the last {self._unread_bytes:,} bytes of {self.name} are not recorded"
            )
        return dropped, warnings

    def close(self) -> None:
        """End it and the processes that it has started, whatever they do; idempotent."""
        self._held.close()

    def _start(self, name: str, path: str, config: SniffConfig) -> None:
        options, shift, before_filter = PROGRAMS[name]
        snap_bytes, units = config.snap_bytes or 1 << 18, max(1, config.buffer_bytes >> shift)
        self.name = f"{name} on {config.interface}"
        self._errors = self._held.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        command = [path, *options, "-i", config.interface, "-s", str(snap_bytes), "-B", str(units)]
        with interrupts_noted() as signals:  # none comes between the start and the way to end it
            self._process = subprocess.Popen(
                [*command, *before_filter, config.filter],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                process_group=0,  # Ctrl-C reaches it when its turn has come
            )
            self._held.callback(self._kill)
            assert self._process.stdout is not None
            self._out = self._held.enter_context(self._process.stdout).fileno()
            self.path = Path(f"/dev/fd/{self._out}")
        for number in signals:
            signal.raise_signal(number)

    def _waiting_bytes(self) -> int:
        return int.from_bytes(fcntl.ioctl(self._out, termios.FIONREAD, bytes(4)), sys.byteorder)

    def _end_text(self) -> bytes:
        """Wait for its end, and empty its pipe meanwhile, because a full one would hold it up.
        Returns: its standard error."""
        until_ns = monotonic_ns() + ENDS_WITHIN_NS
        is_open = True
        while self._process.poll() is None and monotonic_ns() < until_ns:
            if select.select([self._out] if is_open else [], [], [], _LOOK_S)[0]:
                data = os.read(self._out, 1 << 16)
                self._unread_bytes += len(data)
                is_open = bool(data)
        self._kill()
        self._unread_bytes += self._waiting_bytes()
        self._errors.seek(0)
        return self._errors.read()

    def _kill(self) -> None:
        """Kill the processes of its group that are left: tshark has a dumpcap that captures."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _advice(name: str, path: str, text: bytes) -> str:
    said = text.decode(errors="replace")
    if not re.search(r"[Pp]ermi|not allowed", said):
        lines = [line for line in said.splitlines() if line.strip() and "Capturing on" not in line]
        return f"{name} does not capture: {lines[0] if lines else 'it ended at once'}"
    group = "" if name == "tcpdump" else "join its group (sudo usermod -aG wireshark $USER), or "
    program = shutil.which("dumpcap") or path if name == "tshark" else path
    return (
        f"{name} may not capture: {group}grant it (sudo setcap cap_net_raw,cap_net_admin+ep"
        f" {os.path.realpath(program)}), or run this as root; flinknet itself needs no more"
    )


def task_manager_ports() -> set[int]:
    """Ports on which TaskManagers of this host listen, as far as this user may see them: their data
    ports, and those of RPC, whose connections an import leaves alone."""
    import psutil

    found: set[int] = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if _TASK_MANAGER.search(" ".join(process.cmdline())):
                connections = process.net_connections("tcp")
                found |= {each.laddr.port for each in connections if each.status == "LISTEN"}
    return found
