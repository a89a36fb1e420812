"""Files of a store are fetched in ranges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flinknet.storage import path_of
from flinknet.trace.ranged_files import RANGE_BYTES, RemoteFile, open_ranged
from tests.object_store import ObjectStore


@pytest.mark.socket
def test_a_file_is_fetched_in_ranges(store: ObjectStore, tmp_path: Path) -> None:
    content = np.random.default_rng(1).bytes(20 * RANGE_BYTES)
    (tmp_path / "data").write_bytes(content)
    file = open_ranged(path_of(store.upload(tmp_path, "ranges")) / "data")
    assert isinstance(file, RemoteFile)
    assert file.read(0, 10) == content[:10]
    assert file.read(10, 100) == content[10:110]
    assert (file.requests, file.fetched_bytes) == (1, RANGE_BYTES)
    file.prepare(5 * RANGE_BYTES, 3 * RANGE_BYTES)
    assert (
        file.read(6 * RANGE_BYTES, 2 * RANGE_BYTES) == content[6 * RANGE_BYTES :][: 2 * RANGE_BYTES]
    )
    assert file.read(len(content) - 7, 100) == content[-7:]
    assert file.read(len(content) - 1000, 993) == content[-1000:-7]
    assert (file.requests, file.fetched_bytes) == (3, 5 * RANGE_BYTES)
    file.close()
