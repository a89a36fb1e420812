"""Finding Flink's jars."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.flink.distribution import class_path, flink_home


def distribution(place: Path, version: str) -> Path:
    (place / "lib").mkdir(parents=True)
    (place / "lib" / f"flink-dist-{version}.jar").touch()
    (place / "lib" / "a.jar").touch()
    return place


def test_flink_home_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = distribution(tmp_path / "flink", "2.3.0")
    monkeypatch.setenv("FLINK_HOME", str(home))
    assert flink_home("2.3.0") == home


def test_flink_home_of_another_release_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLINK_HOME", str(distribution(tmp_path / "flink", "2.3.0")))
    assert flink_home("0.0.0") is None


def test_the_class_path_has_your_folders_first_and_every_jar_in_order(tmp_path: Path) -> None:
    home = distribution(tmp_path / "flink", "2.3.0")
    assert class_path(home, Path("mine")).split(os.pathsep) == [
        "mine",
        str(home / "lib" / "a.jar"),
        str(home / "lib" / "flink-dist-2.3.0.jar"),
    ]
