"""Who survives: `python -m tests.mutants`; see docs/campaign.md.

Each mutant is looked for by a campaign first, and by the unit tests if that does not find it. What
was found is kept in `.campaign/mutants.jsonl`, and `--go-on` looks for the others:

    python -m tests.mutants                            all of them; half an hour on two processors
    python -m tests.mutants --go-on --seconds 120      some more; as often as it takes
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

from .kept import keep, kept
from .mutants import FLINKNET, MUTANTS
from .source import SWITCH, install

SIMULATION_FLOOR = 0.95
UNIT_TESTS = ("tests/core", "tests/job")
FINDERS = ("simulation", "unit", "nobody")


def main() -> int:
    """Look for mutants. Returns: the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--runs", type=int, default=4000, help="of a campaign, at most")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--first", type=int, default=1, help="first seed")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of mutants")
    parser.add_argument("--simulation", action="store_true", help="no unit tests")
    parser.add_argument("--go-on", action="store_true", help="not those that were looked for")
    parser.add_argument("--seconds", type=float, help="begin with no other one after so long")
    parser.add_argument("--hunt", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.hunt is not None:
        return _hunt(arguments.hunt, arguments.first, arguments.runs)
    numbers = arguments.only or range(len(MUTANTS))
    known = kept() if arguments.go_on else {}
    until_s = None if arguments.seconds is None else monotonic() + arguments.seconds

    def look(number: int) -> str | None:
        """Who finds a mutant; None if there is no time for that."""
        if number in known:
            return known[number]
        if until_s is not None and monotonic() > until_s:
            return None
        by = _who_finds(number, arguments)
        keep(number, by)
        return by

    found: Counter[str] = Counter()
    with ThreadPoolExecutor(arguments.processes) as threads:
        for number, by in zip(numbers, threads.map(look, numbers), strict=True):
            if by is not None:
                found[by.partition(" ")[0]] += 1
                mutant = MUTANTS[number]
                print(f"| {number} | {mutant.what} | `{mutant.path}` | {by} |", flush=True)
    simulation, unit, nobody = (found[each] for each in FINDERS)
    looked_for = simulation + unit + nobody
    share = simulation / max(1, looked_for)
    print(
        f"{looked_for} mutants: {simulation} found by simulation ({share:.0%}),"
        f" {unit} more by unit tests, {nobody} by nobody"
    )
    if looked_for < len(numbers):
        print(f"{len(numbers) - looked_for} are left for --go-on")
    return int(share < SIMULATION_FLOOR or nobody > 0)


def _who_finds(number: int, arguments: argparse.Namespace) -> str:
    """Who finds a mutant, and after how long."""
    began_s = monotonic()
    root = FLINKNET.parent
    hunt = [
        *(sys.executable, "-m", "tests.mutants", "--hunt", str(number)),
        *("--first", str(arguments.first), "--runs", str(arguments.runs)),
    ]
    hunted = subprocess.run(hunt, cwd=root, capture_output=True, text=True)
    if hunted.returncode == 1:
        runs = hunted.stdout.strip().rpartition("\n")[2]
        return f"simulation ({runs})"
    if hunted.returncode:
        raise RuntimeError(hunted.stderr)
    if arguments.simulation:
        return "nobody"
    tests = [
        *(sys.executable, "-m", "pytest", "-x", "-q", "-p", "tests.mutants.source"),
        *("-p", "no:cacheprovider", "-n", "0", *UNIT_TESTS),
    ]
    environment = os.environ | {SWITCH: str(number), "PYTHONPATH": str(root)}
    tested = subprocess.run(tests, cwd=root, env=environment, capture_output=True, text=True)
    return f"unit tests ({monotonic() - began_s:.0f} s)" if tested.returncode == 1 else "nobody"


def _hunt(number: int, first: int, runs: int) -> int:
    """Run trials with a mutant until one fails. Returns: 1 if one does."""
    install(number)
    from tests.campaign.trial import failure_of

    for run in range(runs):
        failure = failure_of(first + run, Counter())
        if failure is not None:
            print(failure.kind)
            print(f"run {run + 1}")
            return 1
    print(f"{runs} runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
