"""What is said beside the numbers of a run, and numbers that need saying: runs that were cut, parts
that are simulated, blocking exchanges, barriers, taps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.predict.grid import Grid
from flinknet.replay.advise.caveats import caveats, warnings_of
from flinknet.replay.ledger import ledger_of
from flinknet.replay.observe.observed import observe_here
from flinknet.replay.pipeline import replay_runs
from flinknet.replay.read import open_runs
from flinknet.report.export import replay_document
from flinknet.trace import ProcessInfo, TraceReader, TraceWriter
from flinknet.trace.schema import COLUMN_NAMES
from tests.edited_manifest import edit_manifest
from tests.predict.test_captured import write_tapped
from tests.recorded_run import MS, START_NS, event, rows_of, write_run
from tests.replay_documents import documents


def answer_of(spark: Any, *paths: Path, **options: Any) -> dict[str, Any]:
    return replay_document(replay_runs(spark, open_runs(paths), Grid(), **options).jobs)


def add_events(run: Path, name: str, events: list[tuple[int, ...]]) -> None:
    """Write the trace of a process anew with more events."""
    file = run / f"{name}.fnt"
    with TraceReader(file) as reader:
        process = reader.process
        for block in reader.events():
            columns = (block[column].tolist() for column in COLUMN_NAMES)
            events = [*events, *zip(*columns, strict=True)]
    file.unlink()
    with TraceWriter(file, ProcessInfo(name, file.name, process.pid)) as writer:
        writer.write_events(rows_of(events))


@pytest.mark.spark
def test_an_interrupted_run_is_answered_up_to_there(spark: Any, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", buffers=60)
    edit_manifest(run, lambda manifest: manifest.update(measured_to_ns=None))
    answer = answer_of(spark, run)
    assert "interrupted" in answer["remarks"][0]
    assert answer["remarks"][1].startswith("not sealed: changes of manifest.json")
    assert answer["observed"]["throughput_records_per_s"] == pytest.approx(2_000, rel=0.05)
    assert answer["trade_offs"][0]["throughput_records_per_s"] == pytest.approx(2_000, rel=0.05)


@pytest.mark.spark
def test_a_blocking_exchange_is_not_predicted(spark: Any, tmp_path: Path) -> None:
    # All leaves behind the measured part, as if it had been written before.
    window_ns = (START_NS, START_NS + 5 * MS)
    run = write_run(tmp_path / "run", buffers=10, window_ns=window_ns)
    edit_manifest(
        run, lambda manifest: manifest["scenario"]["workload"].update(partition_type="blocking")
    )
    answer = answer_of(spark, run, split=3)
    assert set(answer["model_error"].values()) == {None}
    assert all(each["latency_ns"]["p50"] is None for each in answer["trade_offs"])
    assert all("blocking" in " ".join(each["notes"]) for each in answer["trade_offs"])
    (verdict,) = answer["diagnosis"]
    assert verdict["cause"] == "blocking"
    # The first buffer leaves after 10 ms; its records are done with 70 us later.
    assert verdict["share"] == pytest.approx(1, abs=0.01)


@pytest.mark.spark
def test_over_time_goes_on_until_the_last_record(spark: Any, tmp_path: Path) -> None:
    # One buffer of 100 ms in a measured part of 10 ms: its records come within, it leaves later.
    window_ns = (START_NS, START_NS + 10 * MS)
    run = write_run(tmp_path / "run", period_ns=100 * MS, buffers=2, window_ns=window_ns)
    (answer,) = documents(replay_runs(spark, open_runs([run]), Grid(), details=True))
    windows = answer["over_time"]
    assert len(windows) <= 60
    assert windows[-1]["from_ns"] + windows[-1]["width_ns"] == answer["observed"]["duration_ns"]
    carried = sum(each["throughput_records_per_s"] * each["width_ns"] / 1e9 for each in windows)
    assert carried == pytest.approx(20)  # the buffers that hold its records
    details = answer["details"]
    assert details["duration_ns"] == answer["observed"]["duration_ns"] == 100 * MS + 70_000
    assert [sum(each["windows"]["records"]) for each in details["channels"]] == [10, 10]


@pytest.mark.spark
def test_what_was_seen_in_passing_counts_where_it_was_seen(spark: Any, tmp_path: Path) -> None:
    path = write_tapped(tmp_path / "run")
    (answer,) = documents(replay_runs(spark, open_runs([path]), Grid(), details=True))
    kinds = {each["kind"]: each["messages"] for each in answer["messages"]}
    assert kinds["ADD_CREDIT"] == answer["observed"]["credits"]["messages"] > 0
    for channel in answer["channels"]:
        assert channel["messages"]["ADD_CREDIT"] == kinds["ADD_CREDIT"] // 2
        assert channel["records"] == 60 * 40
        assert channel["throughput_records_per_s"] == pytest.approx(
            answer["observed"]["throughput_records_per_s"] / 2
        )
    assert [each["channel"] for each in answer["details"]["channels"]] == [0, 1]
    assert all(each["windows"]["buffers"] for each in answer["details"]["channels"])


def remarks_of(run: Path) -> list[str]:
    (observed,) = observe_here(open_runs([run]))
    return list(caveats(observed))


@pytest.mark.parametrize(
    ("barriers", "interval_ns", "begin", "end"),
    [
        (
            3,
            None,
            "3 checkpoint barriers, which may end buffers early, passed;",
            "predict with them",
        ),
        (
            1,
            50 * MS,
            "1 checkpoint barrier, which may end buffers early, passed;",
            "checkpoints at the recorded interval",
        ),
    ],
)
def test_barriers_are_named_with_the_checkpoints_of_predictions(
    tmp_path: Path, barriers: int, interval_ns: int | None, begin: str, end: str
) -> None:
    run = write_run(tmp_path / "run", buffers=20)
    assert not any("barrier" in each for each in remarks_of(run))
    barrier = {"kind": MessageKind.BUFFER_RESPONSE, "point": TracePoint.SENT, "channel": 0}
    barrier |= {"data_type": DataType.ALIGNED_CHECKPOINT_BARRIER, "sequence_number": 1000}
    at = [START_NS + number * 50 * MS + 3 * MS for number in range(barriers)]
    add_events(run, "tm-0", [event(**barrier, at_ns=at_ns) for at_ns in at])
    known = {"checkpoint_interval_ns": interval_ns}
    edit_manifest(run, lambda each: each["scenario"]["network"].update(known))
    (remark,) = [each for each in remarks_of(run) if "barrier" in each]
    assert remark.startswith(begin)
    assert remark.endswith(end)


def test_what_the_run_said_to_doubt_it_is_repeated(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", buffers=20)
    warning = {"code": "disturbed", "text": "a TaskManager waited for a CPU"}
    measured = {"records": 300, "throughput_records_per_s": 1_500.0}
    result = json.dumps({"warnings": [warning], "measured": measured})
    for text, said in (("not JSON", []), (result, ["a TaskManager waited for a CPU"])):
        (run / "result.json").write_text(text)
        (opened,) = open_runs([run])
        assert warnings_of(opened) == said
    (count,) = [each for each in remarks_of(run) if "counted" in each]
    assert "300 records" in count


@pytest.mark.parametrize(
    "result",
    [
        {"measured": {"records": "x", "throughput_records_per_s": "y"}, "warnings": 5},
        {"measured": {"records": 300, "throughput_records_per_s": "y"}, "warnings": ["z", {}]},
        {"measured": [], "warnings": [{"code": []}]},
    ],
)
def test_a_result_of_another_form_is_no_failure(tmp_path: Path, result: dict[str, Any]) -> None:
    run = write_run(tmp_path / "run", buffers=20)
    (run / "result.json").write_text(json.dumps(result))
    (opened,) = open_runs([run])
    assert warnings_of(opened) == []
    assert all("x records" not in each for each in remarks_of(run))
    assert not ledger_of(observe_here([opened])).is_behind


def test_time_without_credit_is_told_apart_from_waiting_for_it(sawtooth_run: Path) -> None:
    (remark,) = [each for each in remarks_of(sawtooth_run) if "starved" in each]
    assert remark.startswith("'starved' is not 'waiting for credit': over all channels, producers")
    assert "no credit for 241 ms;" in remark
