"""What a run needs and does not get: room on the disk, descriptors, a certificate that is good."""

from __future__ import annotations

import os
import resource
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

from tests.certificate_set import generate, settings_for
from tests.kills.command import (
    BENCH,
    Done,
    SkippedError,
    bench_words,
    ended_well,
    recorded,
    run,
)

ROOM = "64k"
"""Of a disk: a trace of two seconds takes more."""

DESCRIPTORS = 9
"""Of each process: a TaskManager of the wide bench needs more."""

WIDE = ("--producers", "16", "--consumers", "16", "--duration", "1s", "--warmup", "0")
PASSWORD = "a secret"
ELSEWHERE = "elsewhere.example"


def disk_full(place: Path) -> Iterator[str]:
    """The disk of the run directory is full in the middle of the run, which says so and ends; what
    was recorded until then can be read.
    """
    (place / "out").mkdir()
    disk = ("mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(place / "out"))
    if os.geteuid() != 0 or subprocess.run(disk, capture_output=True).returncode:
        raise SkippedError("no disk can be mounted")
    try:
        done = run(place, *bench_words(place))
        yield from _refused(done, "No space left on device", codes=(4,))
        yield from recorded(done, ("could not be written", "there is no trailer"))
    finally:
        subprocess.run(("umount", str(place / "out")), check=True)


def file_limit(place: Path) -> Iterator[str]:
    """No process may have as many files open as the run needs: the command says so."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))

    words = (*BENCH[:3], *WIDE, "--out", place / "out")
    yield from _refused(run(place, *words, before=limit), "open files", codes=(1, 4))


def expired_certificate(place: Path) -> Iterator[str]:
    """TaskManagers whose certificate has expired do not talk to each other."""
    generate(place / "set", PASSWORD, days=0)
    done = run(place, *bench_words(place), *_tls(place / "set"))
    yield from _refused(done, "expired", codes=(1, 4))


def another_host_name_bench(place: Path) -> Iterator[str]:
    """Between TaskManagers the name in a certificate means nothing, as in Flink."""
    generate(place / "set", PASSWORD, hosts=(ELSEWHERE,))
    done = run(place, *bench_words(place), *_tls(place / "set"))
    yield from ended_well(done)
    yield from recorded(done)


def another_host_name_rest(place: Path) -> Iterator[str]:
    """A REST API whose certificate is somebody else's is not asked anything."""
    for host, said in ((ELSEWHERE, "Hostname mismatch"), ("localhost", "503")):
        generate(place / host, PASSWORD, hosts=(host,))
        with _https(place / host) as (port, asked):
            words = ("plan", "--rest", f"https://localhost:{port}", "--parallelism", 2)
            done = run(place, *words, environ={"SSL_CERT_FILE": str(place / host / "ca.pem")})
        yield from _refused(done, said, codes=(1, 4))
        if bool(asked) == (host == ELSEWHERE):
            yield f"{host} was asked {asked}"


def _refused(done: Done, said: str, *, codes: Sequence[int]) -> Iterator[str]:
    """What is wrong with a command that should have ended with one of these codes, and said why."""
    yield from done.faults
    if done.code not in codes or said not in done.said:
        yield f"it ended with {done.code}: {done.last_line}"


def _tls(directory: Path) -> list[str]:
    settings = settings_for(directory, PASSWORD)
    return [word for key, value in settings.items() for word in ("-D", f"{key}={value}")]


@contextmanager
def _https(directory: Path) -> Iterator[tuple[int, list[str]]]:
    """A server with a set of certificates that has no answers: its port, and what it is asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(503)

        def log_message(self, *_: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "node.pem", password=PASSWORD)
    with HTTPServer(("localhost", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port, asked
        server.shutdown()
        thread.join()
