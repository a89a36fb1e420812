"""What tasks take for a record, by the time that Flink says they were busy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flinknet.config import NetworkConfig
from flinknet.predict.fit.queued import busy_ns_per_record, consuming_tasks
from flinknet.predict.fit.round_trips import NO_WORK, WORK_UNKNOWN
from flinknet.predict.loading import load_exchange
from flinknet.predict.outcome import Outcome
from flinknet.predict.recorded import RecordedExchange
from flinknet.predict.what_if import simulate
from flinknet.trace import open_run
from flinknet.trace.metrics import METRICS_NAME
from tests.recorded_run import START_NS, event
from tests.tapped_run import exchange_of, save_tapped, write_tapped_exchange

MS, US = 1_000_000, 1_000
SECOND_NS = 1_000 * MS

TIMEOUT_20MS = NetworkConfig(buffer_timeout_ns=20 * MS)
WORK_NS = 800 * US


def slow_sinks(path: Path, consumers: int = 2) -> tuple[Path, RecordedExchange]:
    """A tap of 600 records a second to each of some sinks that work 0.8 ms on each."""
    arrivals_ns = [np.arange(3_000) * SECOND_NS // 600 for _ in range(consumers)]
    truth = exchange_of(
        arrivals_ns, TIMEOUT_20MS, duration_ns=5 * SECOND_NS, consume_ns_per_record=WORK_NS
    )
    return write_tapped_exchange(path, truth), truth


def add_metrics(
    path: Path,
    busy_ms_per_s: Sequence[float],
    records_per_s: float,
    *,
    bytes_per_s: tuple[float, float] = (0, 0),
    idle_ms_per_s: float = 0.0,
) -> None:
    """Describe the job, and say each second how busy and idle its sinks are, and what local and
    remote bytes they took."""
    local, remote = bytes_per_s
    tasks = [f"sink ({n + 1}/{len(busy_ms_per_s)})" for n in range(len(busy_ms_per_s))]
    vertices: list[dict[str, Any]] = [
        {"index": 0, "name": "source", "tasks": ["source (1/1)"], "job": "j", "id": "v0"},
        {"index": 1, "name": "sink", "tasks": tasks, "job": "j", "id": "v1"},
    ]
    job = {"vertices": vertices, "edges": [{"index": 0, "source": 0, "target": 1}]}
    manifest = open_run(path).manifest
    assert manifest is not None
    replace(manifest, scenario={**manifest.scenario, "job": job}).save(path)
    with (path / METRICS_NAME).open("w", encoding="utf-8") as file:
        for second in range(6):
            for task, busy_ms in zip(tasks, busy_ms_per_s, strict=True):
                line = {"at_ns": START_NS + second * SECOND_NS, "task": task, "task_manager": "tm"}
                line |= {"job": "j", "vertex": "v1", "accumulateBusyTimeMs": second * busy_ms}
                line |= {"numRecordsIn": second * records_per_s}
                line |= {"accumulateIdleTimeMs": second * idle_ms_per_s}
                line |= {"numBytesInLocal": second * local, "numBytesInRemote": second * remote}
                file.write(json.dumps(line) + "\n")


def busy_by_metrics(path: Path, edge: int | None = 0) -> dict[int, float]:
    manifest = open_run(path).manifest
    assert manifest is not None
    span = START_NS, START_NS + 5 * SECOND_NS
    return busy_ns_per_record(consuming_tasks(path, manifest, edge, *span))


def p50_ns(outcome: Outcome) -> float:
    found = outcome.latency.summary().p50
    assert found is not None
    return found


def test_tasks_that_flink_reports_as_idle_are_named_so(tmp_path: Path) -> None:
    path, _ = slow_sinks(tmp_path / "run")
    whole = START_NS, START_NS + 5 * SECOND_NS
    add_metrics(path, [-1.0, -1.0], 600, idle_ms_per_s=999.0)
    fit = load_exchange(path, *whole)
    assert any(NO_WORK in each for each in fit.notes)
    assert not any(WORK_UNKNOWN in each for each in fit.notes)
    add_metrics(path, [-1.0, -1.0], 600, idle_ms_per_s=700.0)
    fit = load_exchange(path, *whole)
    assert any(WORK_UNKNOWN in each for each in fit.notes)


def test_records_wait_for_the_work_on_those_before_them(tmp_path: Path) -> None:
    path, truth = slow_sinks(tmp_path / "run")
    whole = START_NS, START_NS + 5 * SECOND_NS
    wanted_ns = p50_ns(simulate(truth, TIMEOUT_20MS))
    unnamed = load_exchange(path, *whole)
    assert any(WORK_UNKNOWN in each for each in unnamed.notes)
    assert p50_ns(simulate(unnamed, TIMEOUT_20MS)) < 0.8 * wanted_ns
    add_metrics(path, [480.0, 480.0], 600)
    named = load_exchange(path, *whole)
    assert not any(WORK_UNKNOWN in each for each in named.notes)
    assert named.costs.consume_ns_per_record == pytest.approx([WORK_NS, WORK_NS], rel=0.02)
    assert p50_ns(simulate(named, TIMEOUT_20MS)) == pytest.approx(wanted_ns, rel=0.05)


def test_each_sink_has_its_own(tmp_path: Path) -> None:
    path, _ = slow_sinks(tmp_path / "run")
    add_metrics(path, [480.0, 60.0], 600)
    exchange = load_exchange(path, START_NS, START_NS + 5 * SECOND_NS)
    first_ns, second_ns = exchange.costs.consume_ns_per_record
    assert first_ns == pytest.approx(WORK_NS, rel=0.02)
    assert second_ns == pytest.approx(100 * US, rel=0.1)
    drawn = [exchange.drawn(n).costs.consume_ns_per_record for n in range(1, 9)]
    ratios = [first / second for first, second in drawn]
    assert ratios == pytest.approx([first_ns / second_ns] * 8)
    assert len({first for first, _ in drawn}) == 8


@pytest.mark.parametrize(
    ("busy_ms", "bytes_per_s", "times"),
    [
        pytest.param(480.0, (0, 100), 1.0, id="all remote"),
        pytest.param(480.0, (100, 100), 1.304, id="half of it local"),
        pytest.param(960.0, (100, 100), 2.0, id="so busy that all of it counts"),
        pytest.param(1000.0, (10**9, 100), 10.0, id="next to nothing remote"),
    ],
)
def test_records_in_the_trace_wait_for_local_ones(
    tmp_path: Path, busy_ms: float, bytes_per_s: tuple[float, float], times: float
) -> None:
    path = save_tapped(
        tmp_path / "run",
        [event(at_ns=START_NS, point=0, kind=0)],
        to_ns=START_NS + 5 * SECOND_NS,
        keys={},
    )
    add_metrics(path, [busy_ms], 600, bytes_per_s=bytes_per_s)
    found = busy_by_metrics(path)
    assert found == pytest.approx({0: times * busy_ms * MS / 600}, rel=0.001)


def test_what_flink_did_not_count_is_missing(tmp_path: Path) -> None:
    path, _ = slow_sinks(tmp_path / "run")
    assert busy_by_metrics(path) == {}
    add_metrics(path, [480.0, 480.0], 0)
    assert busy_by_metrics(path) == busy_by_metrics(path, None) == {}
