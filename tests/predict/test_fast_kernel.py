from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import flinknet.predict.fast_kernel as fast_kernel
from flinknet.predict.fast_kernel.compiling import digest_of
from flinknet.predict.fast_kernel.run import run

SOURCES = Path(fast_kernel.__file__).parent


def test_what_is_kept_on_disk_is_that_of_all_source_files() -> None:
    """numba looks at the file of `run` and at what it closes over, never at its callees."""
    written: Callable[..., object] = run.py_func  # type: ignore[attr-defined]
    assert inspect.getclosurevars(written).nonlocals["sources"] == digest_of(SOURCES)


def test_every_source_file_counts(tmp_path: Path) -> None:
    for file in SOURCES.glob("*.py"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert digest_of(tmp_path) == digest_of(SOURCES)
    for file in tmp_path.iterdir():
        before = digest_of(tmp_path)
        file.write_text(file.read_text() + "\n")
        assert digest_of(tmp_path) != before
