"""Releases of Flink for the tests, or why there are none."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.flink.distribution import class_path, flink_home, java
from tests.interop.exchange import Release

JAVA = Path(__file__).parent / "java"
HARNESS = (JAVA / "FlinkPeer.java", JAVA / "Misbehaved.java")

RECORDS = int(os.environ.get("FLINKNET_INTEROP_RECORDS", "200000"))
"""Of the plain exchanges; `make interop RECORDS=10000000` sets it."""


@pytest.fixture(scope="session")
def release_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Release]:
    """Compiles the harness against a release, once a session; skips the test without it."""
    compiled: dict[str, Release] = {}

    def find(version: str) -> Release:
        if version not in compiled:
            home, runner, compiler = flink_home(version), java(), java("javac")
            if home is None:
                pytest.skip(f"the jars of Flink {version} are not here; make flink installs them")
            if runner is None or compiler is None:
                pytest.skip("there is no JDK: neither JAVA_HOME nor the path has java and javac")
            classes = tmp_path_factory.mktemp(f"flink-{version}")
            subprocess.run(
                [compiler, "-nowarn", "-d", classes, "-cp", class_path(home), *HARNESS],
                check=True,
            )
            compiled[version] = Release(version, runner, home, classes)
        return compiled[version]

    return find


@pytest.fixture
def flink(release_of: Callable[[str], Release]) -> Release:
    """The release whose protocol flinknet speaks."""
    return release_of("2.3.0")


@pytest.fixture(params=["2.3.0", "1.20.5"])
def producing(request: pytest.FixtureRequest, release_of: Callable[[str], Release]) -> Release:
    """Every release that flinknet reads, one of each layout."""
    return release_of(request.param)
