"""Commands in containers and sandboxes: without a directory for temporary files, without 127.0.0.1,
with a user that nobody knows, and with spaces in every path.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = "bench --duration 100ms --warmup 0 --rate 1k/s --no-trace --json -"
READ_ONLY = "for d in /tmp /var/tmp; do mount --bind $d $d; mount -o remount,bind,ro $d; done"
ONLY_IPV6 = "ip link set lo up; ip addr del 127.0.0.1/8 dev lo"
NO_LOOPBACK = "this host has no loopback address (127.0.0.1: "
NO_DIRECTORY = "No usable temporary directory found in "

pytestmark = pytest.mark.socket


def flinknet(
    words: str, *, unshared: str, before: str = "true"
) -> subprocess.CompletedProcess[str]:
    """Run a command in new namespaces."""
    unshare = ("unshare", *shlex.split(unshared), "sh", "-c")
    if subprocess.run([*unshare, before], capture_output=True).returncode:
        pytest.skip("no namespaces can be made here")
    command = f"{before}; cd /proc; exec {shlex.quote(sys.executable)} -m flinknet {words}"
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    environ.pop("HOME", None)
    return subprocess.run([*unshare, command], capture_output=True, text=True, env=environ)


@pytest.mark.parametrize(
    ("unshared", "before", "words", "line"),
    [
        ("-m", READ_ONLY, BENCH, NO_DIRECTORY),
        ("-m", READ_ONLY, "trace replay {run}", NO_DIRECTORY),
        ("-n", "true", BENCH, NO_LOOPBACK),
        ("-n", "true", "trace replay {run}", NO_LOOPBACK),
    ],
)
def test_what_a_command_needs_of_its_surroundings_is_one_line(
    unshared: str, before: str, words: str, line: str
) -> None:
    run = Path(__file__).parent.parent.parent / "traces/v1"
    done = flinknet(words.format(run=next(run.glob("*/"))), unshared=unshared, before=before)
    assert done.returncode == 4
    assert done.stderr.splitlines()[-1].startswith(f"flinknet: {line}")
    assert "Traceback" not in done.stderr


@pytest.mark.slow("real processes for each case", first=True)
@pytest.mark.parametrize(
    ("unshared", "before"),
    [("-n", ONLY_IPV6), ("-U --map-user=54321 --map-group=0", "true")],
    ids=["::1 alone", "a user without an entry in /etc/passwd"],
)
def test_a_bench_runs_with_less_than_usual_and_its_commands_can_be_pasted(
    unshared: str, before: str, tmp_path: Path
) -> None:
    out = tmp_path / "my runs"
    words = BENCH.replace("--no-trace", f"--out '{out}'")
    done = flinknet(words, unshared=unshared, before=before)
    assert done.returncode == 0, done.stderr
    (measured,) = json.loads(done.stdout)["runs"]
    assert measured["measured"]["records"] == 100
    assert done.stderr.rstrip().endswith(f"flinknet trace replay '{out}'/run-0001*")


@pytest.mark.parametrize(
    ("unshared", "before", "name", "status", "found"),
    [
        ("-m", READ_ONLY, "temporary files", "missing", NO_DIRECTORY),
        ("-n", "true", "loopback", "missing", NO_LOOPBACK),
        ("-n", ONLY_IPV6, "loopback", "ok", "connected to [::1]:"),
        ("-U --map-user=54321", "true", "user", "ok", "number 54321 has no entry in /etc/passwd"),
    ],
)
def test_doctor_has_a_line_for_it(
    unshared: str, before: str, name: str, status: str, found: str
) -> None:
    done = flinknet("doctor --json", unshared=unshared, before=before)
    answer = json.loads(done.stdout)
    (check,) = (each for each in answer["checks"] if each["name"] == name)
    assert check["status"] == status
    assert check["found"].startswith(found)
    assert done.returncode == (status == "missing")
