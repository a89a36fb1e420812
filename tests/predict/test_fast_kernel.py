from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinknet.predict import kernel
from flinknet.predict.kernel.compiling import digest_of, kept_on_disk
from flinknet.predict.kernel.run import run

SOURCES = Path(kernel.__file__).parent


def test_what_is_kept_on_disk_is_that_of_all_source_files() -> None:
    """Of numba's own choice it would be that of the file of `run`, never of its callees."""
    path = Path(run._cache.cache_path)  # type: ignore[attr-defined]
    assert path.name == f"flinknet-kernel-{digest_of(SOURCES)[:16]}"


def test_every_source_file_counts(tmp_path: Path) -> None:
    for file in SOURCES.glob("*.py"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert digest_of(tmp_path) == digest_of(SOURCES)
    for file in tmp_path.iterdir():
        before = digest_of(tmp_path)
        file.write_text(file.read_text() + "\n")
        assert digest_of(tmp_path) != before


def test_another_clone_finds_the_same_machine_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "kept"))
    found = []
    for name in ("one", "other"):
        folder = tmp_path / name / "kernel"
        folder.mkdir(parents=True)
        source = "def twice(number):\n    return 2 * number\n"
        (folder / "functions.py").write_text(source)
        known: dict[str, Any] = {}
        exec(compile(source, folder / "functions.py", "exec"), known)
        found.append(kept_on_disk(known["twice"]))
    first, second = found
    assert first._cache.cache_path == second._cache.cache_path
    assert [first(2), second(3)] == [4, 6]
    assert (sum(first.stats.cache_misses.values()), sum(second.stats.cache_hits.values())) == (1, 1)
