"""Wheels with the compiled core, installed into environments of their own (make wheel; minutes)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
LIGHT_BYTES_MAX = 100_000_000


def run(*arguments: str | Path, cwd: Path = ROOT) -> str:
    return subprocess.run(arguments, capture_output=True, text=True, check=True, cwd=cwd).stdout


def installed(wheel: Path, place: Path) -> Path:
    """A new environment with a wheel and what it needs; the directory of its programs."""
    run(sys.executable, "-m", "venv", place)
    pip = (place / "bin/pip", "install", "--disable-pip-version-check", "--quiet", "--no-compile")
    run(*pip, wheel)
    return place / "bin"


def statuses(programs: Path, place: Path) -> dict[str, str]:
    """What doctor finds there, outside of the checkout."""
    done = subprocess.run(
        [programs / "flinknet", "doctor", "--json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=place,
    )
    return {each["name"]: each["found"] for each in json.loads(done.stdout)["checks"]}


def test_the_wheel_brings_the_compiled_core(tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--quiet")
    run(*pip, "--no-deps", "--wheel-dir", tmp_path, ROOT)
    [wheel] = tmp_path.glob("flinknet-*.whl")
    assert "none-any" not in wheel.name

    found = statuses(installed(wheel, tmp_path / "environment"), tmp_path)
    assert found["core"] == "compiled"
    assert found["Spark"].startswith("PySpark ")


def test_the_light_wheel_takes_less_than_100_mb_when_it_is_slim(tmp_path: Path) -> None:
    run("sh", "deploy/light.sh", Path(sys.executable).parent / "pip")
    wheel = max((ROOT / "dist").glob("flinknet_light-*.whl"), key=lambda each: each.stat().st_mtime)
    programs = installed(wheel, place := tmp_path / "environment")
    run("sh", "deploy/slim.sh", place)

    found = statuses(programs, tmp_path)
    assert (found["core"], found["Spark"]) == ("compiled", "not part of flinknet-light")
    run(programs / "flinknet", "bench", "--duration", "200ms", "--rate", "1k/s", cwd=tmp_path)
    [run_dir] = tmp_path.glob("flinknet-runs/*")
    assert run(programs / "flinknet", "trace", "verify", run_dir).startswith("OK ")
    files = [each for each in place.rglob("*") if each.is_file() and not each.is_symlink()]
    assert sum(each.stat().st_size for each in files) < LIGHT_BYTES_MAX
