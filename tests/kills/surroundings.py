"""What a host does to a run: its clock is set, its memory, its disk and its files are limited, its
certificates are no good, its directories cannot be written:

    python -m tests.kills.surroundings                 every case
    python -m tests.kills.surroundings --only clock

Clocks are set for the command and all that it starts, by a library that is loaded before others
(needs a C compiler). Memory is limited by a cgroup of its own (needs root). A case whose means are
missing is skipped, and printed as such.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tests.kills.command import (
    ENDS_S,
    Done,
    SkippedError,
    bench_words,
    ended_well,
    manifests,
    recorded,
    run,
)
from tests.kills.shortages import (
    another_host_name_bench,
    another_host_name_rest,
    disk_full,
    expired_certificate,
    file_limit,
)
from tests.runtime.cluster.programs import PIPELINE

LEAST_SHARE, MOST_SHARE = 0.9, 1.1
"""Of the rate that was asked for: what a run whose clock is set measures all the same."""

NOBODY = 65534
CGROUPS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
LIMIT_BYTES = 150 << 20
"""Of the launcher and two TaskManagers together, which take more."""

LEAVES_S = 5.0
"""How long killed processes may take to leave a cgroup."""

MARK = "clock-was-set"
SET_AFTER_NS = 700_000_000
"""How long a run has been measured when its clock is set."""

SET_CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* From the instant of CLOCK_MONOTONIC on that is in the file SET_AT (a long, in ns; 0: not yet),
   CLOCK_REALTIME is ahead by SET_BY_S seconds, and CLOCK_MONOTONIC by SET_MONOTONIC_BY_S, as in a
   virtual machine that was stopped. A process that reads a clock after that creates SET_MARK. */
static int (*real)(clockid_t, struct timespec *);
static volatile long *set_at;
static int is_marked;

static volatile long *mapped(void) {
    static long never;
    int file = open(getenv("SET_AT"), O_RDONLY);
    void *found = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    return found == MAP_FAILED ? &never : found;
}

static long number(const char *name) {
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

static void mark(void) {
    if (!is_marked) close(open(getenv("SET_MARK"), O_CREAT | O_WRONLY, 0666));
    is_marked = 1;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    if (!set_at) set_at = mapped();
    int failed = real(clock, at);
    struct timespec since;
    if (failed || real(CLOCK_MONOTONIC, &since)) return failed;
    if (*set_at && since.tv_sec * 1000000000L + since.tv_nsec >= *set_at) {
        mark();
        if (clock == CLOCK_REALTIME) at->tv_sec += number("SET_BY_S");
        if (clock == CLOCK_MONOTONIC) at->tv_sec += number("SET_MONOTONIC_BY_S");
    }
    return 0;
}

int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}
"""


def _measured(done: Done) -> Iterator[str]:
    """What is wrong with a bench that should have ended well, and measured what was asked for."""
    yield from ended_well(done)
    if done.code != 0:
        return
    yield from recorded(done)
    (run,) = json.loads((done.out / "bench.json").read_text())["runs"]
    rate = run["measured"]["throughput_records_per_s"]
    if not 10_000 * LEAST_SHARE < rate < 10_000 * MOST_SHARE:
        yield f"it measured {rate:.0f} records/s instead of 10000"


def _set_clock(place: Path, seconds: int, *, monotonic_s: int = 0) -> dict[str, str]:
    """Environment of a command whose clocks are set while its run is measured."""
    if shutil.which("cc") is None:
        raise SkippedError("no C compiler")
    source, library = place / "clock.c", place / "clock.so"
    source.write_text(SET_CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    at = place / "set-at"
    at.write_bytes(bytes(8))
    threading.Thread(target=_set_in_mid_run, args=(place / "out", at), daemon=True).start()
    return {
        "LD_PRELOAD": str(library),
        "SET_MARK": str(place / MARK),
        "SET_AT": str(at),
        "SET_BY_S": str(seconds),
        "SET_MONOTONIC_BY_S": str(monotonic_s),
    }


def _set_in_mid_run(out: Path, at: Path) -> None:
    """Say when clocks are to be set, once a run is being measured."""
    until_s = time.monotonic() + ENDS_S
    while (since_ns := _measured_from_ns(out)) is None and time.monotonic() < until_s:
        time.sleep(0.01)
    if since_ns is not None:
        with at.open("r+b") as file:
            file.write((since_ns + SET_AFTER_NS).to_bytes(8, sys.byteorder))


def _measured_from_ns(out: Path) -> int | None:
    """Since when a run is being measured; None before that."""
    for path in manifests(out):
        with suppress(OSError, ValueError):
            found: int | None = json.loads(path.read_text())["measured_from_ns"]
            return found
    return None


def _was_set(place: Path) -> Iterator[str]:
    """What is wrong if the clocks were not set while the run was measured."""
    set_at_ns = int.from_bytes((place / "set-at").read_bytes(), sys.byteorder)
    for path in manifests(place / "out"):
        to_ns = json.loads(path.read_text())["measured_to_ns"]
        if not set_at_ns or (to_ns is not None and set_at_ns >= to_ns):  # None: it ended early
            yield "no clock was set while it was measured"
    if not (place / MARK).exists():
        yield "no clock was read after it was set"


def clock_set_forward(place: Path) -> Iterator[str]:
    """The time of day is set forward by an hour in mid-run; CLOCK_MONOTONIC goes on."""
    done = run(place, *bench_words(place), environ=_set_clock(place, 3600))
    yield from _measured(done)
    yield from _was_set(place)


def clock_set_back(place: Path) -> Iterator[str]:
    """The time of day is set back by an hour in mid-run."""
    done = run(place, *bench_words(place), environ=_set_clock(place, -3600))
    yield from _measured(done)
    yield from _was_set(place)


def clock_set_back_in_a_job(place: Path) -> Iterator[str]:
    """The same while a job with heartbeats runs."""
    program = place / "program.py"
    program.write_text(PIPELINE)
    words = ("job", "run", program, "--task-managers", 2, "--slots", 1, "--out", place / "out")
    environ = _set_clock(place, -3600)
    done = run(place, *words, *("--duration", "3s", "--", "2", "2k/s"), environ=environ)
    yield from ended_well(done)
    yield from recorded(done)
    yield from _was_set(place)


def clock_jump_after_a_stop(place: Path) -> Iterator[str]:
    """CLOCK_MONOTONIC leaps by 20 s, as in a virtual machine that stood still: the run ends, and
    what was recorded can be read.
    """
    environ = _set_clock(place, 20, monotonic_s=20)
    done = run(place, *bench_words(place), environ=environ)
    yield from done.faults
    if done.code not in (0, 1, 4):
        yield f"it ended with {done.code}: {done.last_line}"
    yield from recorded(done)
    yield from _was_set(place)


def memory_limited(place: Path) -> Iterator[str]:
    """The processes of a bench have less memory than they take: the kernel ends one of them, and
    the command says which one died.
    """
    with _Cgroup(LIMIT_BYTES) as cgroup:
        done = run(place, *bench_words(place), before=cgroup.enter)
    yield from done.faults
    died = "killed by signal 9" in done.said or "SIGKILL" in done.said
    if done.code == -9:
        return  # it was the launcher itself; no process of it is left
    if done.code not in (1, 4) or not died:
        yield f"it ended with {done.code}: {done.last_line}"


class _Cgroup:
    """A cgroup with a memory limit, and no swap."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._path = Path()

    def __enter__(self) -> _Cgroup:
        for root, name in zip(CGROUPS, ("memory.limit_in_bytes", "memory.max"), strict=True):
            path = root / f"flinknet-{os.getpid()}"
            try:
                path.mkdir()
            except OSError:
                continue
            try:
                (path / name).write_text(str(self._limit_bytes))
            except OSError:
                path.rmdir()
                continue
            self._path = path
            return self
        raise SkippedError("no cgroup can be made with a memory limit")

    def enter(self) -> None:
        """Move this process into it."""
        (self._path / "cgroup.procs").write_text(str(os.getpid()))

    def __exit__(self, *_: object) -> None:
        """Remove it; who is still in it is killed."""
        left = []
        for pid in (self._path / "cgroup.procs").read_text().split():
            with suppress(psutil.NoSuchProcess):
                left.append(psutil.Process(int(pid)))
                left[-1].kill()
        psutil.wait_procs(left, timeout=LEAVES_S)
        with suppress(OSError):  # it is empty, but for one that the kernel does not end
            self._path.rmdir()


def _unwritable(place: Path) -> tuple[dict[str, str], int | None]:
    """Environment and user of a command that has neither a home nor a cache: nobody, if this is
    root and nobody may start this Python.
    """
    place.chmod(0o777)
    names = ("HOME", "XDG_CACHE_HOME", "MPLCONFIGDIR", "NUMBA_CACHE_DIR")
    nowhere = dict.fromkeys(names, "/proc/nowhere") | {"PYTHONDONTWRITEBYTECODE": "1"}
    python = Path(sys.executable)
    paths = (*python.parents, *python.resolve().parents, *Path.cwd().parents)
    is_open = all(each.stat().st_mode & stat.S_IXOTH for each in paths)
    return nowhere, NOBODY if is_open and os.geteuid() == 0 else None


def no_cache_bench(place: Path) -> Iterator[str]:
    """A user without a home and without a cache directory runs a bench."""
    environ, user = _unwritable(place)
    done = run(place, *bench_words(place), environ=environ, user=user)
    yield from _measured(done)


def no_cache_replay(place: Path) -> Iterator[str]:
    """The same user replays a run in Spark, with predictions."""
    environ, user = _unwritable(place)
    first = run(place, *bench_words(place), environ=environ, user=user)
    yield from _measured(first)
    runs, answer = list(first.out.glob("run-*")), place / "replay.json"
    if first.code != 0 or not runs:
        return
    words = ("trace", "replay", runs[0], "--buffer-timeout", "0,5ms", "--json", answer)
    done = run(place, *words, environ=environ, user=user)
    yield from ended_well(done)
    if done.code == 0:
        trade_offs = json.loads(answer.read_text())["trade_offs"]
        timeouts = {each["config"]["execution.buffer-timeout.interval"] for each in trade_offs}
        if not timeouts >= {"0 ms", "5 ms"}:
            yield f"the replay answers for {', '.join(sorted(timeouts))}, not for 0 and 5 ms"


CASES: Sequence[Callable[[Path], Iterator[str]]] = (
    clock_set_forward,
    clock_set_back,
    clock_set_back_in_a_job,
    clock_jump_after_a_stop,
    memory_limited,
    disk_full,
    file_limit,
    expired_certificate,
    another_host_name_bench,
    another_host_name_rest,
    no_cache_bench,
    no_cache_replay,
)


def main(arguments: list[str]) -> int:
    """Run the cases. Returns: the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.kills.surroundings", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", default="", help="beginning of a name")
    options = parser.parse_args(arguments)
    failed = 0
    for case in CASES:
        if not case.__name__.startswith(options.only):
            continue
        place = Path(tempfile.mkdtemp(prefix="surroundings-"))
        try:
            faults = list(case(place))
            how = "FAILED" if faults else "ok"
        except SkippedError as error:
            faults, how = [], f"skipped: {error}"
        print(f"{case.__name__:<26} {how}", flush=True)
        for fault in faults:
            print(f"    {fault} ({place})", flush=True)
        failed += bool(faults)
        if not faults:
            shutil.rmtree(place, ignore_errors=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
