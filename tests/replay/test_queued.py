"""What the recorded backlog says about waiting, and predictions that it contradicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from flinknet.arrays import EventColumns
from flinknet.config import NetworkConfig
from flinknet.options.what_if import Setting
from flinknet.predict.fit.queued import Queued, contradiction, queued
from flinknet.predict.grid import Grid
from flinknet.replay.advise.targets import Target
from flinknet.replay.pipeline import replay_runs
from flinknet.replay.read import open_runs
from flinknet.replay.simulations import predict_here
from flinknet.results import LatencySummary
from tests.page_answer import print_replays
from tests.replay_documents import documents
from tests.tapped_run import exchange_of, write_tapped_exchange

US, MS, S = 1_000, 1_000_000, 1_000_000_000


def sent(at_ns: list[int], backlog: list[int], records: int = 1, channel: int = 0) -> EventColumns:
    count = len(at_ns)
    columns = {
        "at_ns": at_ns,
        "channel": [channel] * count,
        "sequence_number": list(range(count)),
        "backlog_buffers": backlog,
        "records": [records] * count,
    }
    return {name: np.array(values, np.int64) for name, values in columns.items()}


def both(*parts: EventColumns) -> EventColumns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def test_buffers_waited_for_what_the_backlog_says_at_the_rate_of_their_channel() -> None:
    steady = sent([0, 10, 20, 30, 40], [3] * 5)
    assert queued(steady, 100).mean_ns == 3 * 40 / 5
    assert queued(steady, 25).mean_ns == 3 * 20 / 3
    assert queued(sent([0, 10, 20], [0, 0, 0]), 100) == Queued(0.0, 0.0)
    assert queued(sent([0], [5]), 100) == queued(sent([], []), 100) == Queued()


def test_a_batch_that_is_sent_at_once_waited_for_no_more_than_it_took() -> None:
    at_ns = [batch * 1_000 + each for batch in range(10) for each in range(4)]
    assert queued(sent(at_ns, [3, 2, 1, 0] * 10), 100_000).mean_ns == 6 / 4


def test_one_slow_consumer_among_many_shows_in_what_one_record_in_a_hundred_waits() -> None:
    slow = sent([0, 10, 20, 30, 40], [5] * 5, records=4)
    quick = sent([0, 1, 2, 3, 4], [0] * 5, records=96, channel=1)
    found = queued(both(slow, quick), 100)
    assert found == Queued(mean_ns=pytest.approx(0.04 * 40), p99_ns=40)
    rare = sent([0, 10, 20, 30, 40], [5] * 5, records=0)
    assert queued(both(rare, quick), 100).p99_ns == 0


@pytest.mark.parametrize(
    ("mean_ns", "p99_ns", "p99_high_ns", "said"),
    [
        (4 * MS, 5 * MS, 10 * MS, None),
        (6 * MS, 6 * MS, 10 * MS, "a mean latency of at least 7.00 ms"),  # more than predicted
        (4 * MS, 11 * MS, 10 * MS, "a p99 of at least 11.0 ms"),  # more than the greatest
        (4 * MS, 13 * MS, None, None),
        (4 * MS, 14 * MS, None, "a p99 of at least 14.0 ms"),  # half more than predicted
    ],
)
def test_more_waiting_than_was_predicted_contradicts(
    mean_ns: int, p99_ns: int, p99_high_ns: int | None, said: str | None
) -> None:
    latency = LatencySummary(9, mean=5 * MS, p99=9 * MS)
    found = contradiction(Queued(mean_ns, p99_ns), latency, 1 * MS, p99_high_ns)
    assert (found is None) == (said is None)
    assert (said or "") in (found or "")
    assert contradiction(Queued(mean_ns, p99_ns), LatencySummary(0), 1 * MS, None) is None


def test_waiting_and_the_predicted_way_may_be_half_more_than_was_predicted() -> None:
    latency = LatencySummary(9, mean=10 * MS, p99=9 * S)
    assert contradiction(Queued(6 * MS, 0), latency, 8 * MS, 9 * S) is None
    assert contradiction(Queued(8 * MS, 0), latency, 8 * MS, 9 * S) is not None


def tapped(directory: Path, consume_ns_per_record: float) -> Path:
    """20,000 records per second through one channel, and how long its consumer takes for each."""
    exchange = exchange_of(
        [np.arange(0, 1 * S, 50 * US)],
        NetworkConfig(buffer_timeout_ns=10 * MS),
        duration_ns=1 * S,
        consume_ns_per_record=consume_ns_per_record,
    )
    return write_tapped_exchange(directory, exchange)


@pytest.mark.parametrize(("consume_ns_per_record", "is_known"), [(30 * US, True), (90 * US, False)])
def test_of_a_saturated_consumer_no_latency_is_predicted(
    tmp_path: Path, consume_ns_per_record: int, is_known: bool
) -> None:
    (run,) = open_runs([tapped(tmp_path / "run", consume_ns_per_record)])
    settings = [Setting(NetworkConfig(buffer_timeout_ns=each)) for each in (1 * MS, 100 * MS)]
    for row in predict_here(run, settings, run.duration_ns):
        point = row.point
        known = [getattr(point.latency_ns, name) is not None for name in ("p50", "p99", "max")]
        assert known == [is_known] * 3
        assert (point.latency_ns.count > 0) == is_known
        assert (point.latency_low_ns is not None) == is_known
        assert (point.backlog_buffers.mean is not None) == is_known
        assert (point.why_no_latency is None) == is_known
        assert point.throughput_records_per_s is not None
        assert any(note.startswith("latency unknown: ") for note in point.notes) != is_known


@pytest.mark.spark
def test_an_answer_without_latency_says_why_once_and_advises_nothing(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tapped(tmp_path / "run", 90 * US)
    targets = [Target.parse("p99<=1s"), Target.parse("throughput>=1/s")]
    grid = Grid(buffer_timeouts_ns=(1 * MS, 10 * MS), rate_factors=(0.1, 1.0))
    found = replay_runs(spark, open_runs([path]), grid, targets=targets)
    (answer,) = documents(found)
    for point in answer["trade_offs"]:
        assert point["latency_ns"]["p99"] is None
        assert point["latency_low_ns"] is point["latency_high_ns"] is None
        assert point["why_no_latency"].startswith("the recorded backlog implies a mean latency of")
    assert answer["advice"]["withheld"] == "the recorded backlog contradicts the predicted latency"
    print_replays(found.jobs, Console(width=100))
    first = capsys.readouterr().out
    assert "trade-off  not predicted: the recorded backlog implies a mean latency of" in first
    assert "p99" not in first
    print_replays(found.jobs, Console(width=100), details=True)
    printed = capsys.readouterr().out
    assert "advised: the recorded backlog contradicts the predicted latency" in printed
    assert "shorter than recorded" not in printed
