"""Kill each kind of process at random instants, and look at what is left:

    python -m tests.kills                        100 trials, of every kind in turn
    python -m tests.kills --times 300 --seed 7   more, and others
    python -m tests.kills --only bench:tm-0:SIGKILL
    python -m tests.kills --first 100            another 100, of the same seed

A trial fails if anything hangs, if a process outlives its command, if the exit code is not one
that the documentation promises, if a traceback is printed or an error without a line that says why,
or if a trace cannot be read up to where it was cut. Exit code 1 if any trial failed; its directory
is kept. A trial is repeated as far as chance allows by its seed.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from flinknet.errors import FlinknetError
from flinknet.trace.run import open_with_faults
from flinknet.trace.verify import verify_run
from tests import tally
from tests.kills.command import manifests
from tests.kills.subjects import CODES, INT, KILL, STOP, SUBJECTS, Running, Subject, used_s

STOPPED_S = 2.0
ENDS_S = 180.0
"""A command whose processes have not worked for so long hangs."""

WORKS_S = 1.0
"""Of processor time within ENDS_S is work; it may go on for WAITS_MAX such periods."""

WAITS_MAX = 10
PEER_ENDS_S = 15.0
"""A command at the other end that goes on waiting for longer does so until Ctrl-C."""

ORPHAN_S = 8.0
"""What a killed command has started ends, or works, within this time."""

CUT = ("there is no trailer", "the file is empty", "could not be written")
"""What verify may find in the trace of a process that was killed."""

Kind = tuple[Subject, str, signal.Signals]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first trial")
    parser.add_argument("--only", default="", help="SUBJECT[:VICTIM[:SIGNAL]]")
    options = parser.parse_args(arguments)
    kinds = [each for each in _kinds() if _name(each).startswith(options.only)]
    if not kinds:
        parser.error(f"nothing is called {options.only}")
    outcomes: Counter[str] = Counter()
    failed, began_s = 0, time.monotonic()
    for number in range(options.first, options.first + options.times):
        kind = kinds[number % len(kinds)]
        seed = f"{options.seed}.{number}"
        place = Path(tempfile.mkdtemp(prefix="kills-"))
        faults = list(_trial(kind, random.Random(seed), place, seed))
        outcomes[f"{_name(kind)} {'FAILED' if faults else 'ok'}"] += 1
        failed += bool(faults)
        for fault in faults:
            print(f"{_name(kind)} seed {seed}: {fault} ({place})", flush=True)
        if not faults:
            shutil.rmtree(place, ignore_errors=True)
    for name, count in sorted(outcomes.items()):
        print(f"{count:>5} {name}")
    print(f"{options.times} trials, {failed} failed")
    tally.add("kills", options.times, time.monotonic() - began_s, failed)
    return int(failed > 0)


def _kinds() -> Iterator[Kind]:
    """Every victim with every signal, subjects in turn so that a short session has all of them."""
    for number in (KILL, signal.SIGTERM, INT, STOP):
        for subject in SUBJECTS.values():
            for victim in subject.victims:
                yield subject, victim, number


def _name(kind: Kind) -> str:
    subject, victim, number = kind
    return f"{subject.name}:{victim}:{number.name}"


def _trial(kind: Kind, dice: random.Random, place: Path, trial: str) -> Iterator[str]:
    """One trial; everything that is wrong."""
    subject, victim, number = kind
    run = Running(f"{trial}-{place.name}", place)
    try:
        subject.start(run)
        process = run.wait_for(victim)
        if process is None:
            yield f"{victim} never appeared"
            return
        command = run.commands.get(victim) or next(iter(run.commands.values()))
        _wait(command, dice.uniform(0, subject.span_s))
        is_hit = _hit(process, number, command)
        yield from _ended(run, subject, victim, number)
        yield from _left(run)
        if subject.leaves_trace:
            yield from _trace_faults(run.out, may_be_cut=is_hit and number != STOP)
    finally:
        for each in list(run.processes()):
            with suppress(psutil.Error):
                each.kill()
        for command in run.commands.values():
            command.wait()


def _hit(process: psutil.Process, number: signal.Signals, command: subprocess.Popen[str]) -> bool:
    """Send the signal; one that stops is taken back, at the latest when the command has ended.
    Returns whether the victim still lived.
    """
    try:
        process.send_signal(number)
        if number == STOP:
            _wait(command, STOPPED_S)
            process.send_signal(signal.SIGCONT)
    except psutil.NoSuchProcess:
        return False
    return True


def _ended(run: Running, subject: Subject, victim: str, number: signal.Signals) -> Iterator[str]:
    """How the commands end: all of them, in time, with a code and a line that say why."""
    allowed = subject.victims[victim][number]
    first = next(iter(run.commands))
    about = victim if victim in run.commands else first
    for name, command in run.commands.items():
        code = _wait_for_end(command, run) if name == about else _wait(command, PEER_ENDS_S)
        if code is None and name != about:  # it may wait for a peer, and says so
            command.send_signal(INT)
            code = _wait_for_end(command, run)
            if code not in (CODES[INT], -INT, 0, 4):  # -2: it was still being imported
                yield f"{name} waits, and does not end by Ctrl-C: {code}"
            continue
        if code is None:
            yield f"{name} hangs"
            continue
        if name == about and code not in allowed:
            yield f"{name} ended with {code}, not {sorted(allowed)}"
        if name != about and code not in (0, 4):
            yield f"{name} ended with {code}, not 0 or 4"
        said = run.stderr(name)
        if "Traceback" in said:
            yield f"{name} printed a traceback: {said.strip().splitlines()[-1]}"
        if code in (1, 2, 4) and not said.strip():
            yield f"{name} ended with {code} and said nothing"


def _wait_for_end(command: subprocess.Popen[str], run: Running) -> int | None:
    """Wait while it works: on a machine that is busy with other things it may take its time."""
    for _ in range(WAITS_MAX):
        before_s = run.processor_s()
        code = _wait(command, ENDS_S)
        if code is not None or run.processor_s() < before_s + WORKS_S:
            return code
    return None


def _wait(command: subprocess.Popen[str], timeout_s: float) -> int | None:
    try:
        return command.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None


def _left(run: Running) -> Iterator[str]:
    """Processes that outlive their command."""
    for _ in range(WAITS_MAX):
        left = {each: used_s(each) for each in run.processes()}
        _, alive = psutil.wait_procs(list(left), timeout=ORPHAN_S)
        if not any(used_s(each) > left[each] for each in alive):
            break
    for each in run.processes():
        with suppress(psutil.Error):
            yield f"orphan {each.pid}: {' '.join(each.cmdline())[-120:]}"


def _trace_faults(out: Path, *, may_be_cut: bool) -> Iterator[str]:
    """What is wrong with the traces."""
    for manifest in manifests(out):
        try:
            verification = verify_run(*open_with_faults(manifest.parent))
        except FlinknetError as error:
            if not may_be_cut or "is not there" not in str(error):
                yield f"trace: {error}"
            continue
        for finding in verification.findings:
            if not may_be_cut or not any(each in finding.text for each in CUT):
                yield f"trace: {finding}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
