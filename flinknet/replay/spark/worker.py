"""Spark's Python workers: the process from which they are forked (spark.python.daemon.module),
garbage collection, free memory, silenced tracebacks, and the code that they need elsewhere.

The process is PySpark's own daemon with flinknet and its compiled functions loaded, which takes a
second and a half of CPU time. So a session starts it next to its JVM. Spark starts another one at
its first job, with an environment, arguments and three pipes; that one hands all of them to the
early process, at a socket in the session's own directory, and waits until it ends; without an early
process it loads by itself. The early process ends with the session until Spark has asked for it,
and from then on with the pipe from the JVM.

Workers collect garbage after every task and then traverse all loaded objects, which takes 80 ms and
more. When a scan is ended early, as by a limit, Spark closes the pipe of its worker, whose parent
prints the stack of the failed write; that is no error.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, wraps
from importlib import import_module
from mmap import PAGESIZE
from pathlib import Path
from typing import Any

import flinknet

DAEMON = "flinknet.replay.spark.worker"
LOADED = (
    *("pandas", "pyspark.worker"),  # pyarrow imports pandas at its first array
    *("flinknet.replay.pipeline", "flinknet.replay.observe.kernels"),
)
"""Modules that workers need, loaded before they are forked."""

VARIABLE = "FLINKNET_EARLY_DAEMON"
"""Variable with the path of the socket, for the process that Spark starts."""

_EARLY = "--early"
_BEFORE_START = {"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "YES", "OMP_NUM_THREADS": "1"}
"""Variables that Spark sets for its daemon and that Python and numpy read when they start."""

_STANDARD = (0, 1, 2)
_END_WAIT_S = 5.0


@contextmanager
def early_daemon(environment: Mapping[str, str], path: Path) -> Iterator[None]:
    """Start a daemon that loads while the block runs, and ends with it; none if the path, in a
    private directory, is too long for a socket. Spark hands over its own variables later."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            listener.bind(str(path))
            listener.listen(1)
            process = subprocess.Popen(
                [sys.executable, "-m", DAEMON, _EARLY, str(listener.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **environment, **_BEFORE_START},
                pass_fds=[listener.fileno()],
                preexec_fn=ignore_interrupts,
            )
        except OSError:  # the path is longer than the 107 bytes of a socket name
            process = None
    try:
        yield
    finally:
        if process is not None and process.stdin is not None:
            process.stdin.close()
            if path.exists():  # nobody has asked for it: it may be loading still
                process.kill()
            try:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_END_WAIT_S)
            finally:  # Ctrl-C does not leave it behind
                process.kill()
                process.wait()


def take_place(descriptor: int) -> socket.socket | None:
    """Wait in the early daemon for the process that Spark starts, and take over its environment and
    pipes. Returns: the connection to it, to keep open as long as this process lives; None if the
    session has ended before."""
    with socket.socket(fileno=descriptor) as listener:
        ready, _, _ = select.select([descriptor, _STANDARD[0]], [], [])
        if descriptor not in ready:
            return None
        replaced, _ = listener.accept()
        os.unlink(listener.getsockname())  # others load by themselves
    _, descriptors, _, _ = socket.recv_fds(replaced, 1, len(_STANDARD))
    with replaced.makefile("rb") as stream:
        sys.argv[1:], environment, path = json.load(stream)
    for own, given in zip(_STANDARD, descriptors, strict=True):
        os.dup2(given, own)
        os.close(given)
    sys.path += [each for each in path if each not in sys.path]
    os.environ.clear()
    os.environ.update(environment)
    return replaced


def hand_over() -> bool:
    """Hand this process over to the early daemon, and wait until that ends; False without one."""
    path = os.environ.pop(VARIABLE, None)
    if path is None:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as early, suppress(OSError):
        early.connect(path)
        socket.send_fds(early, [b"+"], _STANDARD)
        early.sendall(json.dumps([sys.argv[1:], dict(os.environ), sys.path]).encode())
        early.shutdown(socket.SHUT_WR)
        early.recv(1)
        return True
    return False


def load() -> None:
    from flinknet.predict.kernel.compiling import load_kept

    for each in LOADED:
        import_module(each)
    load_kept()
    gc.collect()
    gc.freeze()


def ignore_interrupts() -> None:
    """Ignore Ctrl-C, which reaches all processes of a terminal, in a child that the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


_frozen_modules = 0


def freeze_what_is_loaded() -> None:
    """Exempt loaded objects from garbage collection, in a worker at the end of a task."""
    global _frozen_modules
    if len(sys.modules) != _frozen_modules:
        _frozen_modules = len(sys.modules)
        gc.collect()
        gc.freeze()


RESIDENT_BYTES_KEPT = 448 << 20
"""Resident memory below which a process frees nothing: new pages cost 5 to 10% of its time."""


def return_free_memory() -> None:
    """Return free memory to the system if the process has much: allocators keep it in pieces, and
    the next unit needs others. After a unit of 90,000 channels that is 500 MB."""
    if _resident_bytes() < RESIDENT_BYTES_KEPT:
        return
    import pyarrow as pa  # the process that Spark starts needs none

    pa.default_memory_pool().release_unused()
    _trim_heap()(0)


def _resident_bytes() -> int:
    with suppress(OSError):  # a system that does not report it
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGESIZE
    return RESIDENT_BYTES_KEPT


@cache
def _trim_heap() -> Callable[[int], object]:
    """malloc_trim of glibc; elsewhere a function without effect."""
    found: Callable[[int], object] = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)
    return found


def ignore_abandoned_pipes() -> None:
    """Keep this process from printing stacks of pipes that are not read any more."""
    print_exc = traceback.print_exc
    if hasattr(print_exc, "__wrapped__"):
        return

    @wraps(print_exc)
    def print_others(*args: Any, **options: Any) -> None:
        if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
            print_exc(*args, **options)

    traceback.print_exc = print_others


def code_zip(directory: Path) -> Path:
    """Pack the sources of flinknet into a zip file from which Python can import."""
    import zipfile

    path = directory / f"flinknet-{flinknet.__version__}.zip"
    package = Path(flinknet.__file__).parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for source in sorted(package.rglob("*")):
            is_code = source.is_file() and source.suffix != ".pyc"
            if is_code and "_compiled" not in source.parts:
                file.write(source, source.relative_to(package.parent))
    return path


def main() -> None:
    is_early = sys.argv[1:2] == [_EARLY]
    if not is_early and hand_over():  # Spark has started this process
        return
    load()
    replaced = take_place(int(sys.argv[2])) if is_early else None
    if replaced is not None or not is_early:
        from pyspark.daemon import manager

        manager()


if __name__ == "__main__":
    main()
