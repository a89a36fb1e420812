"""Damage to a run directory, the manifest included: each is found, or changes no answer.

    python -m tests.trace.damage                       1000 times, to a run made for it
    python -m tests.trace.damage --times 10000 RUN     to a copy of a recorded run

Exit code 1 if one was silent; it is printed with what repeats it.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flinknet.errors import TraceError
from flinknet.trace.run import open_with_faults
from flinknet.trace.run_directory import seal_run
from flinknet.trace.verify import verify_run
from tests import tally
from tests.sample_traces import summary
from tests.synthetic_trace import write_run

FOUND, REFUSED, HARMLESS = "found", "refused", "harmless"

RESULT = {"warnings": [{"code": "few", "text": "few records"}], "measured": {"records": 1000}}
METRICS = "".join(
    json.dumps({"at_ns": at, "task_manager": "tm-0", "task": f"source {at}", "inPoolUsage": 0.5})
    + "\n"
    for at in range(4)
)

Files = dict[Path, bytes]
"""What the files of a run hold."""


def write_sealed(directory: Path, data_buffers: int = 10) -> Path:
    """A run that ended, with everything that answers rest on."""
    write_run(directory, data_buffers=data_buffers)
    (directory / "result.json").write_text(json.dumps(RESULT | {"path": str(directory)}, indent=1))
    (directory / "metrics.jsonl").write_text(METRICS)
    seal_run(directory)
    return directory


def flip(dice: random.Random, files: Files) -> Files:
    """One bit."""
    path, data = _one(dice, files)
    at = dice.randrange(8 * len(data))
    changed = bytearray(data)
    changed[at // 8] ^= 1 << at % 8
    return {path: bytes(changed)}


def cut(dice: random.Random, files: Files) -> Files:
    """The end is missing."""
    path, data = _one(dice, files)
    return {path: data[: dice.randrange(len(data))]}


def swap(dice: random.Random, files: Files) -> Files:
    """Two pieces of one length change places."""
    path, data = _one(dice, files)
    length = dice.randint(1, len(data) // 4)
    first = dice.randrange(len(data) - 2 * length + 1)
    second = dice.randrange(first + length, len(data) - length + 1)
    one, other = data[first : first + length], data[second : second + length]
    between = data[first + length : second]
    return {path: data[:first] + other + between + one + data[second + length :]}


def zero(dice: random.Random, files: Files) -> Files:
    """A piece is zeros, as a block that a disk has lost."""
    path, data = _one(dice, files)
    length = dice.randint(1, min(512, len(data)))
    at = dice.randrange(len(data) - length + 1)
    return {path: data[:at] + bytes(length) + data[at + length :]}


def insert(dice: random.Random, files: Files) -> Files:
    """A piece stands there twice."""
    path, data = _one(dice, files)
    length = dice.randint(1, min(512, len(data)))
    at = dice.randrange(len(data) - length + 1)
    return {path: data[: at + length] + data[at:]}


def exchange(dice: random.Random, files: Files) -> Files:
    """Two files change places."""
    one, other = dice.sample(sorted(files), 2)
    return {one: files[other], other: files[one]}


DAMAGES: tuple[Callable[[random.Random, Files], Files], ...] = (
    *(flip, cut, swap, zero, insert, flip, cut, exchange),
)


def _one(dice: random.Random, files: Files) -> tuple[Path, bytes]:
    path = dice.choice(sorted(files))
    return path, files[path]


def answers(run: Path) -> Any:
    """Everything that is read in a run."""
    result = run / "result.json"
    return summary(run), json.loads(result.read_text()) if result.is_file() else None


def campaign(run: Path, *, seed: int, times: int) -> Counter[str]:
    """Damage a run so many times, each time it alone; counts what came of it."""
    whole, dice = answers(run), random.Random(seed)
    files = {path: path.read_bytes() for path in sorted(run.iterdir()) if path.is_file()}
    outcomes: Counter[str] = Counter()
    for number in range(times):
        damage = DAMAGES[number % len(DAMAGES)]
        damaged = damage(dice, files)
        for path, data in damaged.items():
            path.write_bytes(data)
        outcome = _outcome(run, whole)
        if outcome is None:
            names = " and ".join(path.name for path in damaged)
            outcome = f"silent: {damage.__name__} of {names}, number {number} of seed {seed}"
        outcomes[outcome] += 1
        for path in damaged:
            path.write_bytes(files[path])
    return outcomes


def _outcome(run: Path, whole: Any) -> str | None:
    """What came of a damage; None if it changed an answer and nobody noticed."""
    try:
        if verify_run(*open_with_faults(run)).findings:
            return FOUND
        return HARMLESS if answers(run) == whole else None
    except TraceError:
        return REFUSED


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trace.damage", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN")
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="damage-") as place:
        run = Path(place) / "run"
        if options.run is None:
            write_sealed(run)
        else:
            shutil.copytree(options.run, run)
        outcomes = campaign(run, seed=options.seed, times=options.times)
    for outcome, count in outcomes.most_common():
        print(f"{count:>7} {outcome}")
    silent = outcomes.keys() - {FOUND, REFUSED, HARMLESS}
    tally.add("damage", options.times, time.monotonic() - began_s, len(silent))
    return int(bool(silent))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
