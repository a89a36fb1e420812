"""Compare the answers of this checkout with stored ones, byte for byte:

    python -m tests.same              compare; exit code 1 where something differs
    python -m tests.same --accept     store the answers of this checkout
    python -m tests.same --only tap   only answers whose name contains a text

A change that only moves code changes no answer. A change that is meant to change answers stores the
new ones in the same commit, where they can be read and argued.

Compared are a hash of the trace of each of some simulated exchanges, by seed; and the answers of
`trace info` and `trace replay` about committed and made-up recordings (terminal, JSON, CSV, and the
data of the page). Figures of JSON are rounded to SIGNIFICANT_DIGITS, since processors add up in
different orders; facts about the machine that replays are left out.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

from tests.same.replays import replayed_answers
from tests.same.simulated import simulated_answers

STORED = Path(__file__).parent / "answers"
TERMINAL = {"COLUMNS": "100", "LINES": "60", "NO_COLOR": "1", "TERM": "dumb"}
DIFFERENCES_MAX = 12
"""Differing lines that are printed of each answer."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.same", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--accept", action="store_true", help="store the answers of this checkout")
    parser.add_argument("--only", default="", metavar="TEXT", help="answers whose name contains it")
    options = parser.parse_args(arguments)
    began, differing, found = monotonic(), [], set()
    for name, text in _answers(options.only):
        found.add(name)
        stored = STORED / name
        before = stored.read_text(encoding="utf-8") if stored.exists() else ""
        if text == before:
            continue
        differing.append(name)
        if options.accept:
            stored.write_text(text, encoding="utf-8")
        print(f"{'stored' if options.accept else 'differs'}: {name}")
        for line in _differences(before, text):
            print(f"    {line}")
    gone = [each for each in STORED.iterdir() if each.name not in found and not options.only]
    for each in gone:
        print(f"{'removed' if options.accept else 'no such answer any more'}: {each.name}")
        if options.accept:
            each.unlink()
    wrong = [] if options.accept else [*differing, *gone]
    print(f"{len(found)} answers in {monotonic() - began:.0f} s: ", end="")
    print(f"{len(wrong)} differ" if wrong else f"{len(differing)} stored" if differing else "same")
    if wrong:
        print("where that is meant: make same ACCEPT=1, and argue the change in its commit")
    return bool(wrong)


def _answers(only: str) -> Iterator[tuple[str, str]]:
    STORED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="flinknet-same-") as directory:
        os.environ |= TERMINAL
        os.chdir(directory)
        yield from simulated_answers(only)
        yield from replayed_answers(Path(directory), only)


def _differences(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    changed = [each[:160] for each in lines if not each.startswith(("---", "+++", "@@"))]
    more = len(changed) - DIFFERENCES_MAX
    return changed[:DIFFERENCES_MAX] + ([f"… {more} more lines"] if more > 0 else [])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
