"""A command of flinknet that runs in other surroundings, and what every case looks at."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from flinknet.errors import FlinknetError
from flinknet.trace.run import open_with_faults
from flinknet.trace.verify import verify_run
from tests.kills.subjects import FLINKNET, STARTED_BY

ENDS_S = 180.0
BENCH = ("bench", "--rate", "5k/s", "--producers", "2", "--consumers", "2")
SHORT = ("--duration", "2s", "--warmup", "200ms")


class SkippedError(Exception):
    """This machine has not the means for a case."""


@dataclass(slots=True)
class Done:
    """A command that has ended; `code` is None if it hung."""

    code: int | None
    said: str
    out: Path
    faults: list[str] = field(default_factory=list)

    @property
    def last_line(self) -> str:
        """The last that it said."""
        return (self.said.strip().splitlines() or ["nothing"])[-1][:200]


def run(
    place: Path,
    *words: object,
    environ: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
    user: int | None = None,
) -> Done:
    """Run a command of flinknet to its end, and look at what every case looks at."""
    out = place / "out"
    mark = f"surroundings-{place.name}"
    environment = os.environ | {STARTED_BY: mark, "PYTHONPATH": os.getcwd(), **(environ or {})}
    log = place / "said"
    options: dict[str, Any] = (
        {} if user is None else {"user": user, "group": user, "extra_groups": []}
    )
    with log.open("w") as file:
        command = subprocess.Popen(
            [*FLINKNET, *map(str, words)],
            env=environment,
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=before,
            **options,
        )
    try:
        code: int | None = command.wait(ENDS_S)
    except subprocess.TimeoutExpired:
        code = None
    done = Done(code, log.read_text(errors="replace"), out)
    if code is None:
        done.faults.append("it hangs")
    if "Traceback" in done.said:
        done.faults.append(f"a traceback: {done.last_line}")
    done.faults += _orphans(mark)
    return done


def _orphans(mark: str) -> list[str]:
    def of_case(process: psutil.Process) -> bool:
        try:
            is_ours = process.environ().get(STARTED_BY) == mark
            return is_ours and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    left = [each for each in psutil.process_iter() if of_case(each)]
    _, alive = psutil.wait_procs(left, timeout=8)
    for each in alive:
        each.kill()
    return [f"orphan {each.pid}" for each in alive]


def ended_well(done: Done) -> Iterator[str]:
    """What is wrong with a command that should have ended well."""
    yield from done.faults
    if done.code != 0:
        yield f"it ended with {done.code}: {done.last_line}"


def manifests(out: Path) -> list[Path]:
    """The manifests of the runs in a directory, or of the run that it is."""
    return [*out.glob("manifest.json"), *out.glob("*/manifest.json")]


def recorded(done: Done, expected: tuple[str, ...] = ()) -> Iterator[str]:
    """What is wrong with what a run has recorded, but for findings with such words."""
    found = manifests(done.out)
    if not found:
        yield "there is no trace"
    for manifest in found:
        try:
            for finding in verify_run(*open_with_faults(manifest.parent)).findings:
                if not any(words in finding.text for words in expected):
                    yield f"trace: {finding.text}"
        except FlinknetError as error:
            yield f"trace: {error}"


def bench_words(place: Path) -> tuple[object, ...]:
    """A short bench whose run directory is `out`."""
    return (*BENCH, *SHORT, "--out", place / "out")
