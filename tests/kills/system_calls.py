"""Let each system call that a bench makes to the files of its run fail once, in a loop:

    python -m tests.kills.system_calls                  every file, call and error
    python -m tests.kills.system_calls --only tm-0.fnt:write:EIO

strace injects the errors into the real processes. A trial fails if anything hangs, if a traceback
is printed, if the exit code is not 0 or 4, or if the run ends with 0 and has a trace that cannot be
read, and did not say so. EINTR must change nothing at all.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from flinknet.errors import FlinknetError
from flinknet.trace.run import open_with_faults
from flinknet.trace.verify import verify_run
from tests.kills.command import manifests
from tests.kills.subjects import FLINKNET

OWN = "own"
"""Part of the name of an unfinished file that nobody else knows; the same one each time here."""

NAMES = f"""import uuid
uuid.uuid4 = lambda: type("Own", (), {{"hex": "{OWN}"}})
"""

FILES = {
    "tm-0.fnt": ("tm-0.fnt",),
    "manifest.json": ("manifest.json", f".manifest.json.{OWN}.unfinished"),
    "metrics.jsonl": ("metrics.jsonl",),
    "result.json": ("result.json", f".result.json.{OWN}.unfinished"),
}
"""Files of a run by what they are opened as."""

CALLS = ("openat", "write", "lseek", "ftruncate", "read", "close", "rename", "newfstatat", "ioctl")
ERRORS = ("EIO", "ENOSPC", "EINTR")
NEVER_INTERRUPTED = ("newfstatat", "lseek")
"""By their manual pages; Python does not repeat them either."""

ENDS_S = 180.0
TIMES_MAX = 60
BENCH = ("bench", "--rate", "20k/s", "--duration", "300ms", "--warmup", "100ms")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kills.system_calls", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", default="", help="FILE[:CALL[:ERROR]]")
    options = parser.parse_args(arguments)
    if shutil.which("strace") is None:
        parser.error("strace is missing")
    outcomes: Counter[str] = Counter()
    failed = 0
    for file in FILES:
        for call in CALLS:
            for error in ERRORS:
                name = f"{file}:{call}:{error}"
                if not name.startswith(options.only):
                    continue
                if error == "EINTR" and call in NEVER_INTERRUPTED:
                    continue
                for number in range(1, TIMES_MAX):
                    faults = _trial(file, call, error, number)
                    if faults is None:
                        break
                    outcomes[name] += 1
                    failed += bool(faults)
                    for fault in faults:
                        print(f"{name} number {number}: {fault}", flush=True)
    for name, count in outcomes.items():
        print(f"{count:>5} {name}")
    print(f"{sum(outcomes.values())} calls failed in turn, {failed} badly")
    return int(failed > 0)


def _trial(file: str, call: str, error: str, number: int) -> list[str] | None:
    """A run whose call of this number fails; what is wrong, None if there is no such call."""
    with tempfile.TemporaryDirectory(prefix="calls-") as place:
        out, log = Path(place, "out"), Path(place, "log")
        Path(place, "sitecustomize.py").write_text(NAMES)
        paths_of_python = filter(None, (place, os.environ.get("PYTHONPATH")))
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(paths_of_python)}
        run = out / "run-0001"
        paths = [part for name in FILES[file] for part in ("-P", str(run / name))]
        command = [
            *("strace", "-f", "-qq", "--seccomp-bpf", "-o", str(log), "-e", "signal=none"),
            *(*paths, "-e", f"trace={call}"),
            *("-e", f"inject={call}:error={error}:when={number}"),
            *(*FLINKNET, *BENCH, "--out", str(out), "--json", str(Path(place, "bench.json"))),
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=ENDS_S, env=environ
            )
        except subprocess.TimeoutExpired:
            return ["it hangs"]
        if "(INJECTED)" not in log.read_text():
            return None
        return list(_faults(done, out, error))


def _faults(done: subprocess.CompletedProcess[str], out: Path, error: str) -> Iterator[str]:
    said = done.stdout + done.stderr
    if "Traceback" in said:
        yield f"a traceback: {said.strip().splitlines()[-1]}"
    if done.returncode not in (0, 4) or (error == "EINTR" and done.returncode):
        yield f"exit code {done.returncode}: {said.strip().splitlines()[-1:]}"
    if done.returncode and not done.stderr.strip():
        yield f"exit code {done.returncode} without a word"
    found = list(_trace_faults(out))
    if found and error == "EINTR":
        yield f"EINTR: {found}"
    elif found and done.returncode == 0 and not _is_reported(out):
        yield f"nothing was said of {found}"


def _trace_faults(out: Path) -> Iterator[str]:
    for manifest in manifests(out):
        try:
            for finding in verify_run(*open_with_faults(manifest.parent)).findings:
                yield finding.text
        except FlinknetError as error:
            yield str(error)
    if not out.exists():
        yield "no run directory"


def _is_reported(out: Path) -> bool:
    """Whether the run says that its trace is not what it should be."""
    results = [*out.glob("result.json"), *out.glob("*/result.json"), *out.parent.glob("*.json")]
    return any('"code": "trace-' in path.read_text() for path in results)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
