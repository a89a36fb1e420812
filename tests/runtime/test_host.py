"""Facts about the host, and where a process runs."""

from __future__ import annotations

import os

import pytest

from flinknet.runtime import host


@pytest.mark.parametrize(("number", "core"), [(0, 3), (1, 5), (2, 3)])
def test_a_process_stays_on_one_of_the_cores_it_may_use(
    number: int, core: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[set[int]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {5, 3})
    monkeypatch.setattr(os, "sched_setaffinity", lambda _pid, cores: chosen.append(cores))
    host.stay_on_core(number)
    assert chosen == [{core}]


def test_what_makes_records_cost_more_is_reported_by_name() -> None:
    here = host.environment()
    there = {**here, "cores": 64, "core": "hand-made", "load_average": -1}
    assert host.differences_from(there, here) == [
        f"core hand-made there, {here['core']} here",
        f"cores 64 there, {here['cores']} here",
    ]
    assert host.differences_from(here, here) == []
    assert host.differences_from({}, here) == []
