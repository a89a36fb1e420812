"""What was recorded of a source: through files and back, and in any portions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flinknet.arrays import RecordedLoad
from flinknet.config import RECORDED
from flinknet.job.load.arrivals import RecordedArrivals, RecordedSelector, RecordedSizes


def test_columns_come_back_from_the_start_of_the_run_on(tmp_path: Path) -> None:
    instants = np.array([-20, -5, 0, 7])
    whole = RecordedLoad(instants, np.array([10, 11, 12, 13]), np.array([0, 1, 0, 2], np.int32))
    whole.save(tmp_path, 3)
    load = RecordedLoad.load(f"{RECORDED}{tmp_path}", 3, start_ns=990, measured_from_ns=1000)
    assert RecordedArrivals(load.instants_ns).take(2000, 10).tolist() == [995, 1000, 1007]
    assert load.value_bytes is not None
    take_sizes = RecordedSizes(load.value_bytes).take
    selector = RecordedSelector(load.subpartitions)
    assert [take_sizes(2).tolist(), take_sizes(2).tolist()] == [[11, 12], [13]]
    split = [
        (channel, np.arange(3)[picked].tolist()) for channel, picked in selector.split(3, None)
    ]
    assert split == [(0, [1]), (1, [0]), (2, [2])]


def test_only_the_instants_need_to_be_known(tmp_path: Path) -> None:
    RecordedLoad(np.array([1, 2])).save(tmp_path, 0)
    load = RecordedLoad.load(f"{RECORDED}{tmp_path}", 0, start_ns=0, measured_from_ns=0)
    assert (load.value_bytes, load.subpartitions) == (None, None)
    with pytest.raises(FileNotFoundError, match=r"arrivals-1\.npy"):
        RecordedLoad.load(f"{RECORDED}{tmp_path}", 1, start_ns=0, measured_from_ns=0)


def test_routes_of_one_record_at_a_time_are_those_of_all() -> None:
    routes = np.array([2, 0, 0, 1], np.int32)
    selector = RecordedSelector(routes)
    taken = [selector.split(1, None) for _ in routes]
    assert taken == [[(channel, slice(0, 1))] for channel in routes.tolist()]
    assert RecordedSelector(None, 5).split(3, None) == [(5, slice(0, 3))]
