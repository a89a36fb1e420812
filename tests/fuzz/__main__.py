"""Coverage-guided fuzzing of everything that reads bytes from elsewhere, with Atheris:

    python -m tests.fuzz                          a minute of each target, from its corpus
    python -m tests.fuzz --seconds 600 trace      ten minutes of one
    python -m tests.fuzz --some 2                 a minute of two, drawn with a seed that it prints
    python -m tests.fuzz --keep                   and keep what reached new code in the corpus
    python -m tests.fuzz --up-to 10000000         until each has had so many in this checkout
    python -m tests.fuzz --input FILE trace       one input again; - for standard input

It runs the interpreted core, whose lines it can see. Exit code 1 if any input failed; the input is
kept in a file then, and printed in base64, for logs that outlive the file. Each start first fuzzes
a target that fails on purpose, and goes no further unless that is noticed.
"""

from __future__ import annotations

import argparse
import base64
import multiprocessing
import os
import random
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from tests import tally
from tests.fuzz.fork import be_fuzzed
from tests.fuzz.target import PLANTED, Target, read_corpus, write_corpus

HANG_S = 10
MEMORY_MB = 2048
MEMORY = Path("/dev/shm")
"""Where targets write their files, if it is there: faster than a disk."""

PLANTED_RUNS = 100_000
"""Within which a failure that is planted is met."""

WORDS_MAX = 1000
_REACHING = "--reaching"
_INTERPRETED = {"FLINKNET_COMPILED": "0", "PYTHONWARNINGS": "ignore"}

_FORKS = multiprocessing.get_context("forkserver")
"""Forks a process that has imported and instrumented all targets."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one target; `failed` is the input that did, `exit_code` of its process."""

    name: str
    runs: int
    seconds: float
    inputs: int
    failed: Path | None
    exit_code: int | None
    log: str

    @property
    def is_early(self) -> bool:
        """It ended before its runs or its time, and no input is to blame."""
        return self.failed is None and (self.exit_code != 0 or not self.runs)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all by default")
    parser.add_argument("--seconds", type=int, default=60, help="of each target")
    parser.add_argument("--some", type=int, metavar="N", help="only N of the targets, drawn")
    parser.add_argument("--seed", type=int, help="to draw them with; default: a new one")
    parser.add_argument("--runs", type=int, default=-1, help="of each target at most")
    parser.add_argument("--up-to", type=int, metavar="RUNS", help="what the tally lacks of so many")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--keep", action="store_true", help="write new inputs to the corpus")
    parser.add_argument("--input", help="run this file only; - for standard input")
    parser.add_argument("--out", type=Path, default=Path("fuzz-failures"))
    options = parser.parse_args(arguments)
    known = _targets()
    names = options.targets or list(known)
    if not known.keys() >= set(names):
        parser.error(f"targets are {', '.join(known)}")
    if options.some is not None:
        if options.some < 1:
            parser.error("--some: at least 1")
        seed = options.seed if options.seed is not None else secrets.randbits(32)
        names = random.Random(seed).sample(names, min(options.some, len(names)))
        print(f"{', '.join(names)}: drawn with --seed {seed}", flush=True)
    if options.input is not None:
        is_piped = options.input == "-"
        data = sys.stdin.buffer.read() if is_piped else Path(options.input).read_bytes()
        for name in names:
            known[name].run(data)
        return 0
    try:
        import atheris  # noqa: F401
    except ImportError:
        parser.error("Atheris is missing: pip install 'atheris>=3'")
    os.environ |= _INTERPRETED
    _FORKS.set_forkserver_preload(["tests.fuzz.instrumented"])
    if not _notices_a_failure(options):
        print("a failure that was planted was not noticed: none would be")
        return 1
    outcomes = []
    limits = _limits(names, options)
    print(f"{'target':<14} {'runs':>12} {'runs/s':>8} {'inputs':>7}", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        working = [
            pool.submit(_fuzz, known[name], limit, options) for name, limit in limits.items()
        ]
        for done in as_completed(working):
            each = done.result()
            outcomes.append(each)
            tally.add(_kind(each.name), each.runs, each.seconds, int(each.failed is not None))
            rate = each.runs / max(each.seconds, 1e-3)
            print(f"{each.name:<14} {each.runs:>12,} {rate:>8.0f} {each.inputs:>7}", flush=True)
    print(f"{'together':<14} {sum(each.runs for each in outcomes):>12,}")
    for each in outcomes:
        if each.is_early:
            print(f"\n{each.log}\n{each.name} ended early, with {each.exit_code}", flush=True)
        if each.failed is not None:
            print(f"\n{each.log}\n{each.name} failed; once more:")
            print(once_more(each.name, each.failed), flush=True)
    return int(any(each.failed is not None or each.is_early for each in outcomes))


def _notices_a_failure(options: argparse.Namespace) -> bool:
    """Fuzz what fails on purpose. Returns: whether the input that failed was kept."""
    with tempfile.TemporaryDirectory(prefix="flinknet-fuzz-") as out:
        to_there = argparse.Namespace(**{**vars(options), "out": Path(out), "keep": False})
        failed = _fuzz(PLANTED, Limit(PLANTED_RUNS, 0), to_there).failed
        return failed is not None and len(failed.read_bytes()) >= 4


def once_more(name: str, failed: Path) -> str:
    """The commands that run a failed input again: from its file, and without it."""
    again = "python -m tests.fuzz --input"
    text = base64.b64encode(failed.read_bytes()).decode()
    return f"{again} {failed} {name}\necho {text} | base64 -d | {again} - {name}"


@dataclass(frozen=True, slots=True)
class Limit:
    """When the fuzzing of a target ends: after so many runs, or so long; -1 and 0 for never."""

    runs: int
    seconds: int


def _kind(name: str) -> str:
    """A target as the tally has it."""
    return f"fuzz: {name}"


def _limits(names: Iterable[str], options: argparse.Namespace) -> dict[str, Limit]:
    """Targets that have not had their runs yet."""
    if options.up_to is None:
        return dict.fromkeys(names, Limit(options.runs, options.seconds))
    had = tally.totals(tally.entries())
    left = {name: options.up_to - had.get(_kind(name), tally.Total()).runs for name in names}
    return {name: Limit(runs, 0) for name, runs in left.items() if runs > 0}


def _targets() -> dict[str, Target]:
    from tests.fuzz import file_targets, wire_targets

    return {each.name: each for each in (*wire_targets.TARGETS, *file_targets.TARGETS)}


def _fuzz(target: Target, limit: Limit, options: argparse.Namespace) -> Outcome:
    """Fuzz one target in a process of its own."""
    name = target.name
    memory = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="flinknet-fuzz-", dir=memory) as place:
        old, new = Path(place, "old"), Path(place, "new")
        for directory in (old, new):
            directory.mkdir()
        words = Path(place, "words")
        known = [data for _, data in read_corpus(name)]
        given = known or list(target.seeds())
        for number, data in enumerate(given):
            (old / f"{number:05}").write_bytes(data)
        words.write_text(_words(given))
        began = time.monotonic()
        exit_code, ran = _fuzzed(
            name,
            Path(place),
            f"-timeout={HANG_S}",
            f"-rss_limit_mb={MEMORY_MB}",
            f"-max_len={target.max_bytes}",
            f"-max_total_time={limit.seconds}",
            f"-runs={limit.runs}",
            f"-artifact_prefix={place}/",
            "-entropic_scale_per_exec_time=1",
            *([f"-dict={words}"] if words.stat().st_size else []),
            str(new),
            str(old),
        )
        seconds = time.monotonic() - began
        runs = max((int(each) for each in re.findall(r"^#(\d+)", ran, re.M)), default=0)
        failed = _kept(Path(place), options.out, name)
        inputs = len(known)
        if options.keep and failed is None:
            found = _reaching(name, old, new)
            inputs = len(found)
            assert found, "not even the seeds can be read"
            write_corpus(name, [Path(path).read_bytes() for path in found])
    return Outcome(name, runs, seconds, inputs, failed, exit_code, _tail(ran))


def _fuzzed(name: str, place: Path, *arguments: str) -> tuple[int | None, str]:
    """Run Atheris on one target. Returns: how its process ended, and what it said."""
    process = _FORKS.Process(target=be_fuzzed, args=(name, arguments, place))
    process.start()
    process.join()
    log = place / "log"
    return process.exitcode, log.read_text(errors="replace") if log.exists() else ""


def _words(inputs: Sequence[bytes]) -> str:
    """The words in some inputs, as a dictionary of libFuzzer's."""
    words = {word for data in inputs for word in re.findall(rb"[A-Za-z][\w.-]{2,40}", data)}
    return "".join(f'"{word.decode()}"\n' for word in sorted(words)[:WORDS_MAX])


def _kept(place: Path, out: Path, name: str) -> Path | None:
    """Keep the input that failed."""
    for kind in ("crash", "timeout", "oom"):
        for path in place.glob(f"{kind}-*"):
            out.mkdir(exist_ok=True)
            kept = out / f"{name}-{path.name}"
            kept.write_bytes(path.read_bytes())
            return kept
    return None


def _tail(log: str) -> str:
    """The end of what a target said: from the traceback on."""
    start = log.find("=== Uncaught")
    return log[start:][:6000] if start >= 0 else log[-2000:]


def _reaching(name: str, *directories: Path) -> list[str]:
    """The files of some directories that `_print_reaching` names, in a process that is not
    instrumented.
    """
    command = [sys.executable, "-m", "tests.fuzz", _REACHING, name, *map(str, directories)]
    done = subprocess.run(command, env=os.environ | _INTERPRETED, capture_output=True, text=True)
    return done.stdout.split()


def _print_reaching(target: Target, directories: Iterable[Path]) -> None:
    """Print the inputs that together reach every step from line to line that any of them reaches,
    the smallest first.
    """
    reached: set[tuple[str, int, int]] = set()
    before = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal before
        if "/flinknet/" not in frame.f_code.co_filename:
            return None
        if event == "line":
            reached.add((frame.f_code.co_filename, before, frame.f_lineno))
            before = frame.f_lineno
        return trace

    inputs = [path for directory in directories for path in directory.iterdir()]
    for path in sorted(inputs, key=lambda path: (path.stat().st_size, path.name)):
        known = len(reached)
        sys.settrace(trace)
        try:
            target.run(path.read_bytes())
        finally:
            sys.settrace(None)
        if len(reached) > known:
            print(path)


if __name__ == "__main__":
    if sys.argv[1:2] == [_REACHING]:
        _print_reaching(_targets()[sys.argv[2]], map(Path, sys.argv[3:]))
    else:
        sys.exit(main(sys.argv[1:]))
