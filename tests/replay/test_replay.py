"""Runs in, answers out: predictions next to what was observed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flinknet.core.probe import FlushReason
from flinknet.errors import TraceFormatError
from flinknet.predict.exchange import QUEUES_START_EMPTY, recorded_setting
from flinknet.predict.fit.flusher import ASSUMED_FLUSH_OVERHEAD_NS, flush_overhead_ns
from flinknet.predict.fit.window_rows import read_window
from flinknet.predict.grid import Grid
from flinknet.predict.loading import load_alone, load_exchange
from flinknet.predict.what_if import simulate
from flinknet.replay.pipeline import replay_runs
from flinknet.replay.read import open_recorded_run, open_runs
from flinknet.replay.simulations import GROWS, predict_here
from flinknet.report.export import replay_document
from flinknet.trace import open_run
from tests.edited_manifest import edit_manifest
from tests.page_answer import answer as plain_answer
from tests.page_answer import typed
from tests.recorded_run import write_run
from tests.replay_documents import documents

MS = 1_000_000
START_NS = 1_000_000 * MS


def timeouts(*timeouts_ns: int) -> Grid:
    return Grid(buffer_timeouts_ns=timeouts_ns)


@pytest.mark.spark
def test_the_recorded_setting_is_predicted_too_and_its_error_stated(
    spark: Any, sawtooth_run: Path
) -> None:
    grid = timeouts(0, 100 * MS, -1)
    replay = replay_runs(spark, open_runs([sawtooth_run]), grid)
    answer = replay_document(replay.jobs)
    assert [point["is_recorded"] for point in answer["trade_offs"]] == [False, True, False, False]
    assert answer["model_error"]["p50"] == pytest.approx(0, abs=0.05)
    assert answer["model_error"]["p99"] == pytest.approx(0, abs=0.05)
    # What the last records waited for the beat counts on neither side.
    assert answer["model_error"]["throughput"] == pytest.approx(0, abs=1e-9)
    shortest, recorded, longer, never = answer["trade_offs"]
    assert shortest["buffers_per_s"] == pytest.approx(2000, rel=0.01)
    assert recorded["buffers_per_s"] == pytest.approx(200, rel=0.05)
    medians_ns = [each["latency_ns"]["p50"] for each in (shortest, recorded, longer)]
    assert medians_ns == pytest.approx([0, 5 * MS, 45 * MS], rel=0.1, abs=MS)
    assert never["config"]["execution.buffer-timeout.enabled"] == "false"
    assert any("evenly spread" in note for note in shortest["notes"])
    assert not any("evenly spread" in note for note in longer["notes"])


@pytest.mark.spark
def test_the_answer_has_the_names_of_bench_and_the_numbers_of_the_trace(
    spark: Any, sawtooth_run: Path
) -> None:
    runs = open_runs([sawtooth_run])
    (answer,) = documents(replay_runs(spark, runs, Grid()))
    assert answer["schema_version"] == 2
    seen = answer["observed"]
    assert (seen["records"], seen["bytes"], seen["buffers"], seen["events"]) == (
        2000,
        200_000,
        200,
        2,
    )
    assert seen["duration_ns"] == 1000 * MS + 70_000
    assert seen["flushes"] == {"full": 100, "timeout": 100, "event": 0}
    assert seen["backlog_buffers"] == {"mean": pytest.approx(2 * 25 * 3 / 200), "max": 3}
    assert seen["credits"] == {
        "announced": 400,
        "messages": 200,
        "starved_ns": 2 * 24 * (5 * MS + 20_000),
    }
    assert seen["latency_uncorrected_ns"]["p50"] is None
    assert answer["messages"][0]["messages"] == 200
    assert {row["kind"] for row in answer["messages"]} == {
        "DATA_BUFFER",
        "ADD_CREDIT",
        "END_OF_PARTITION",
    }
    assert [row["channel"] for row in answer["channels"]] == [0, 1]
    windows = answer["over_time"]
    assert len(windows) == 50
    assert windows[-1]["width_ns"] == 20 * MS + 70_000
    carried = [each["throughput_records_per_s"] * each["width_ns"] / 1e9 for each in windows]
    assert carried == pytest.approx([20, *[40] * 48, 60])
    assert answer["simulated"] == {
        "records": 2000,
        "window_ns": 1000 * MS,
        "is_whole": True,
        "windows": 1,
    }


@pytest.mark.spark
def test_over_time_leaves_no_window_out_and_the_last_may_be_shorter(
    spark: Any, tmp_path: Path
) -> None:
    # A buffer of ten records each 100 ms, in windows of 20 ms.
    window_ns = (START_NS, START_NS + 1010 * MS)
    run = write_run(
        tmp_path / "run", period_ns=100 * MS, buffers=10, channels=1, window_ns=window_ns
    )
    (answer,) = documents(replay_runs(spark, open_runs([run]), Grid()))
    windows = answer["over_time"]
    assert [window["from_ns"] for window in windows] == list(range(0, 1010 * MS, 20 * MS))
    assert [window["width_ns"] for window in windows] == [20 * MS] * 50 + [10 * MS]
    rates = [window["throughput_records_per_s"] for window in windows]
    assert rates == [0.0 if number % 5 or not number else 500.0 for number in range(50)] + [1000.0]
    assert windows[1]["backlog_buffers"] == {"mean": None, "max": None}


@pytest.mark.spark
def test_a_long_run_is_simulated_in_part_and_compared_with_that_part(
    spark: Any, sawtooth_run: Path
) -> None:
    runs = open_runs([sawtooth_run])
    (answer,) = documents(replay_runs(spark, runs, Grid(), max_records=500))
    assert answer["simulated"] == {
        "records": 500,
        "window_ns": 250 * MS,
        "is_whole": False,
        "windows": 1,
    }
    assert answer["observed"]["records"] == 2000
    assert answer["trade_offs"][0]["latency_ns"]["count"] == 500
    assert answer["model_error"]["p50"] == pytest.approx(0, abs=0.05)
    assert answer["model_error"]["throughput"] == pytest.approx(0, abs=0.01)


@pytest.mark.spark
def test_several_runs_give_a_list(spark: Any, tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", buffers=20)
    write_run(tmp_path / "runs" / "b", buffers=20, period_ns=5 * MS)
    runs = open_runs([tmp_path / "runs", tmp_path / "runs" / "a"])
    answer = replay_document(replay_runs(spark, runs, timeouts(MS)).jobs)
    assert list(answer) == ["schema_version", "replays"]
    assert [Path(each["trace"]["path"]).name for each in answer["replays"]] == ["a", "b"]
    recorded = [
        point["config"]["execution.buffer-timeout.interval"].replace(" ", "")
        for each in answer["replays"]
        for point in each["trade_offs"]
        if point["is_recorded"]
    ]
    assert recorded == ["10ms", "5ms"]


@pytest.mark.spark
def test_a_setting_that_cannot_be_simulated_is_a_note_and_leaves_the_rest(
    spark: Any, sawtooth_run: Path
) -> None:
    runs = open_runs([sawtooth_run])
    (answer,) = documents(replay_runs(spark, runs, Grid(exclusive_buffers=(10**6,))))
    recorded, greedy = answer["trade_offs"]
    assert recorded["latency_ns"]["p50"] is not None
    assert greedy["throughput_records_per_s"] is None
    assert greedy["latency_ns"]["p50"] is None
    assert any("not predicted: " in note for note in greedy["notes"])
    assert answer["observed"]["records"] == 2000


def test_arrivals_and_costs_are_those_of_the_trace(sawtooth_run: Path) -> None:
    exchange = load_exchange(sawtooth_run, START_NS, START_NS + 1000 * MS)
    assert (exchange.producers, exchange.consumers, len(exchange.channels)) == (1, 2, 2)
    assert not exchange.is_max_rate
    assert exchange.network.buffer_timeout_ns == 10 * MS
    for channel in exchange.channels:
        assert np.array_equal(channel.arrivals_ns, START_NS + np.arange(1000) * MS)
        assert channel.record_wire_bytes == 105
        assert channel.connection == 0
    assert exchange.costs.transit_ns == 20_000
    consumed_ns = (
        exchange.costs.receive_ns_per_message + 10 * exchange.costs.consume_ns_per_record[0]
    )
    assert consumed_ns == pytest.approx(50_000)


def test_the_period_of_the_flusher_is_that_of_the_rows() -> None:
    at_ns = np.arange(50) * 10_150_000
    rows = {"at_ns": at_ns, "channel": at_ns * 0, "reason": at_ns * 0 + FlushReason.FLUSH}
    assert flush_overhead_ns(rows, 10 * MS) == 150_000
    few = {name: values[:5] for name, values in rows.items()}
    assert flush_overhead_ns(few, 10 * MS) == ASSUMED_FLUSH_OVERHEAD_NS
    assert flush_overhead_ns(rows, 0) == ASSUMED_FLUSH_OVERHEAD_NS


def test_only_records_intended_in_the_window_arrive(sawtooth_run: Path) -> None:
    exchange = load_exchange(sawtooth_run, START_NS + 15 * MS, START_NS + 42 * MS)
    assert exchange.records == 2 * 27
    assert exchange.channels[0].arrivals_ns[[0, -1]].tolist() == [
        START_NS + 15 * MS,
        START_NS + 41 * MS,
    ]


def test_time_that_writers_waited_is_known(tmp_path: Path) -> None:
    run = open_run(
        write_run(tmp_path / "run", waits_ns=[(START_NS + 100 * MS, START_NS + 900 * MS)])
    )
    from_ns, to_ns = START_NS, START_NS + 1000 * MS
    rows = read_window(
        run.files,
        None,
        from_ns,
        to_ns,
        until_ns=None,
        rows_max=1_000_000,
        rows_to_ns=to_ns,
        with_arrivals=False,
    ).rows
    assert rows.waited_ns(from_ns, to_ns) == 800 * MS


@pytest.mark.parametrize(("waited_ms", "is_incident"), [(0, True), (9, True), (11, False)])
def test_writers_that_waited_for_a_moment_change_no_model(
    tmp_path: Path, waited_ms: int, is_incident: bool
) -> None:
    from_ns = START_NS + 500 * MS
    waits_ns = [(from_ns, from_ns + waited_ms * MS)] if waited_ms else []
    run = write_run(tmp_path / "run", waits_ns=waits_ns)
    exchange = load_exchange(run, START_NS, START_NS + 1000 * MS)
    assert (exchange.wakeups is not None) is is_incident
    assert (QUEUES_START_EMPTY not in exchange.notes) is is_incident


def test_records_before_the_part_fill_queues_where_writers_wait(tmp_path: Path) -> None:
    from_ns = START_NS + 500 * MS
    run = write_run(tmp_path / "run", waits_ns=[(from_ns, from_ns + 100 * MS)])
    exchange = load_alone(run, from_ns, START_NS + 1000 * MS).edges[0].exchange
    assert exchange.measured_from_ns == START_NS
    channel, _ = exchange.channels
    count = channel.arrivals.take(slice(*channel.counted)).total_records
    assert 2 * count == simulate(exchange, exchange.network).records < exchange.records


@pytest.mark.parametrize("cores", [2, 1, "2", None])
def test_task_managers_poll_where_each_has_a_core(tmp_path: Path, cores: Any) -> None:
    run = write_run(tmp_path / "run", host={} if cores is None else {"cores": cores})
    exchange = load_exchange(run, START_NS, START_NS + 1000 * MS)
    assert exchange.wakeups.may_poll is (cores == 2)


def test_that_debloating_begins_small_is_told(sawtooth_run: Path) -> None:
    run = open_recorded_run(sawtooth_run, 0)
    recorded = recorded_setting(run.manifest)
    on = replace(recorded, network=replace(recorded.network, debloating_enabled=True))
    rows = predict_here(run, [recorded, on], 1000 * MS)
    assert [[note for note in row.point.notes if "debloating" in note] for row in rows] == [
        [],
        [GROWS.format("1.00 KiB")],
    ]


def test_predictions_of_a_run_across_hosts_have_the_error_of_its_clocks(tmp_path: Path) -> None:
    """Latencies that are shorter than it are unknown; others are intervals that it widens."""
    error_ns, found = 2 * MS, []
    for name in ("one host", "two hosts"):
        path = write_run(tmp_path / name, buffers=60)
        if name == "two hosts":
            edit_manifest(path, lambda manifest: manifest["clock"].update(error_ns=error_ns))
        run = open_recorded_run(path, 0)
        recorded = recorded_setting(run.manifest)
        short = replace(recorded, network=replace(recorded.network, buffer_timeout_ns=1 * MS))
        found.append([each.point for each in predict_here(run, [recorded, short], 600 * MS)])
    unknown = 0
    for sure, other in zip(*found, strict=True):
        for each in ("min", "p50", "p99", "max"):
            value_ns, known_ns = (getattr(x.latency_ns, each) for x in (sure, other))
            unknown += known_ns is None
            assert known_ns == (value_ns if value_ns >= error_ns else None)
            if known_ns is None:
                continue
            low_ns, high_ns = other.latency_low_ns, other.latency_high_ns
            least_ns = getattr(sure.latency_low_ns or sure.latency_ns, each)
            most_ns = getattr(sure.latency_high_ns or sure.latency_ns, each)
            assert getattr(low_ns, each) == max(least_ns - error_ns, 0)
            assert getattr(high_ns, each) == most_ns + error_ns
    assert 0 < unknown < 8


def test_a_trace_file_alone_is_refused_with_advice(sawtooth_run: Path) -> None:
    with pytest.raises(TraceFormatError, match="give the run directory"):
        open_recorded_run(sawtooth_run / "tm-0.fnt", 0)


def test_fields_that_do_not_apply_are_left_out() -> None:
    plain = plain_answer()
    of_run = replay_document([typed(plain | {"details": None}).alone])
    assert not {"is_bottleneck", "details"} & of_run.keys()
    assert list(of_run["model_error"]) == ["throughput", "p50", "p99", "buffers_per_s"]
    edge = replay_document([typed(plain | {"trace": {"edge": "a → b", "origin": "tap"}}).alone])
    assert {"is_bottleneck", "bottleneck", "details"} <= edge.keys()
    assert edge["model_error"]["buffers_per_s"] is None
