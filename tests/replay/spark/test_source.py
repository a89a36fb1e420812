"""The data source: every event a row, filters and columns decided before Spark sees a row."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flinknet.core.probe import MessageKind
from flinknet.errors import FlinknetError
from flinknet.replay.spark.session import spark_errors
from flinknet.replay.spark.source import register
from flinknet.trace import TraceReader, open_run
from flinknet.trace.arrow import NAMES
from flinknet.trace.schema import COLUMN_NAMES

MS = 1_000_000
START_NS = 1_000_000 * MS

pytestmark = pytest.mark.spark


@pytest.fixture
def events(spark: Any, sawtooth_run: Path) -> Any:
    register(spark)
    return spark.read.format("flinknet").load(str(sawtooth_run))


def direct(run: Path) -> list[dict[str, int]]:
    """The rows as the reader gives them."""
    rows = []
    for reader in open_run(run).readers():
        with reader:
            for block in reader.events():
                columns = [block[name].tolist() for name in COLUMN_NAMES]
                rows += [
                    dict(zip(COLUMN_NAMES, row, strict=True)) for row in zip(*columns, strict=True)
                ]
    return rows


def test_every_message_kind_has_a_name() -> None:
    assert [MessageKind[name] for name in NAMES["kind"]] == list(range(len(NAMES["kind"])))


@pytest.mark.releases
def test_every_event_is_a_row_with_names_and_nulls(events: Any, sawtooth_run: Path) -> None:
    rows = [row.asDict() for row in events.collect()]
    expected = direct(sawtooth_run)
    assert len(rows) == len(expected) == 1002

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in ("at_ns", "channel", "point", "kind"))

    for row in expected:
        for name, names in NAMES.items():
            row[name] = names[row[name]]  # type: ignore[assignment]
    for row, wanted in zip(sorted(rows, key=key), sorted(expected, key=key), strict=True):
        for name in COLUMN_NAMES:
            assert row[name] == (None if wanted[name] == -1 else wanted[name])


def test_process_connection_and_direction_come_from_manifest_and_kind(events: Any) -> None:
    groups = events.groupBy("process", "connection", "direction", "point", "kind").count().collect()
    counts = {tuple(row[:5]): row["count"] for row in groups}
    assert counts["tm-0", "tm-0->tm-1", "to_consumer", "SENT", "BUFFER_RESPONSE"] == 202
    assert counts["tm-1", "tm-0->tm-1", "to_producer", "SENT", "ADD_CREDIT"] == 200


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({"channels": "1"}, "channel = 1"),
        ({"channels": "0, 5"}, "channel in (0, 5)"),
        ({"channels": "5"}, "channel = 5"),
        ({"kinds": "ADD_CREDIT"}, "kind = 'ADD_CREDIT'"),
        (
            {"kinds": "ADD_CREDIT,CLOSE_REQUEST", "channels": "0"},
            "kind = 'ADD_CREDIT' and channel = 0",
        ),
        (
            {"from_ns": str(START_NS + 100 * MS), "to_ns": str(START_NS + 200 * MS)},
            f"at_ns >= {START_NS + 100 * MS} and at_ns < {START_NS + 200 * MS}",
        ),
    ],
)
@pytest.mark.releases
def test_options_give_the_rows_that_filtering_afterwards_gives(
    spark: Any, events: Any, sawtooth_run: Path, options: dict[str, str], condition: str
) -> None:
    wanted = spark.read.format("flinknet").options(**options).load(str(sawtooth_run))
    afterwards = events.where(condition)
    assert sorted(wanted.collect()) == sorted(afterwards.collect())
    assert events.count() == 1002  # the frame has all rows again


def test_blocks_without_wanted_rows_are_not_even_planned(sawtooth_run: Path) -> None:
    from flinknet.replay.spark.source import TraceDataSource

    def blocks(**options: str) -> int:
        source = TraceDataSource({"path": str(sawtooth_run), **options})
        parts: Sequence[Any] = source.reader(source.schema()).partitions()
        return sum(len(each.blocks) for each in parts)

    assert blocks() == 17
    assert blocks(from_ns=str(START_NS + 900 * MS)) == 4
    assert blocks(channels="7") == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"columns": "at_ns,latency"}, "columns: there is no 'latency'"),
        ({"kinds": "DATA"}, "kinds: there is no 'DATA'"),
        ({"channels": "first"}, "channels: 'first' is not a whole number"),
        ({}, "not a run directory"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    spark: Any, sawtooth_run: Path, tmp_path: Path, options: dict[str, str], complaint: str
) -> None:
    register(spark)
    reader = spark.read.format("flinknet").options(**options)
    with pytest.raises(FlinknetError, match=complaint) as caught, spark_errors():
        reader.load(str(sawtooth_run if options else tmp_path)).count()
    assert "\n" not in str(caught.value)


def test_columns_that_are_asked_for_are_read_alone(spark: Any, sawtooth_run: Path) -> None:
    register(spark)
    reader = spark.read.format("flinknet").option("columns", "connection,value")
    frame = reader.load(str(sawtooth_run))
    assert frame.columns == ["connection", "value"]
    assert frame.where("value = 2").count() == 400
    read = spark.read.format("flinknet").schema("channel INT, at_ns BIGINT")
    assert read.load(str(sawtooth_run)).columns == ["channel", "at_ns"]
    wrong = spark.read.format("flinknet").schema("channel STRING")
    with pytest.raises(FlinknetError, match="channel is int, not string"), spark_errors():
        wrong.load(str(sawtooth_run)).count()


def test_a_directory_of_runs_and_a_file_alone_can_be_read(spark: Any, sawtooth_run: Path) -> None:
    register(spark)
    read = spark.read.format("flinknet")
    assert read.load(str(sawtooth_run.parent)).count() == 1002
    alone = read.load(str(sawtooth_run / "tm-0.fnt"))
    assert alone.where("kind = 'ADD_CREDIT'").select("connection").distinct().collect() == [(None,)]
    with TraceReader(sawtooth_run / "tm-0.fnt") as reader:
        assert alone.count() == sum(block.count for block in reader.blocks())


def test_runs_of_the_same_name_are_told_apart(
    spark: Any, sawtooth_run: Path, tmp_path: Path
) -> None:
    for each in ("first", "second"):
        shutil.copytree(sawtooth_run, tmp_path / each / "run-0001")
    shutil.copytree(sawtooth_run, tmp_path / "second" / "run-0002")
    register(spark)
    rows = spark.read.format("flinknet").load(f"{tmp_path}/*").groupBy("run").count().collect()
    assert {row.run: row["count"] for row in rows} == {
        **{"first/run-0001": 1002, "second/run-0001": 1002, "run-0002": 1002},
    }


@pytest.mark.releases
def test_spark_finds_the_format_by_itself(spark: Any, sawtooth_run: Path) -> None:
    from flinknet.replay.spark.source import TraceDataSource
    from pyspark_flinknet import DefaultSource

    assert DefaultSource is TraceDataSource
    spark.sql(f"CREATE TABLE found USING flinknet OPTIONS (path '{sawtooth_run}', channels '1')")
    try:
        described = {row.col_name: row.comment for row in spark.sql("DESCRIBE found").collect()}
        assert described["run"].startswith("name of the run directory;")
        (row,) = spark.sql("SELECT count(*), min(run), max(channel) FROM found").collect()
        assert tuple(row) == (501, "sawtooth", 1)
    finally:
        spark.sql("DROP TABLE found")
    register(spark)  # once more does no harm


@pytest.mark.releases
def test_a_stream_is_read_in_micro_batches(spark: Any, sawtooth_run: Path, tmp_path: Path) -> None:
    register(spark)
    seen: list[int] = []
    stream = spark.readStream.format("flinknet").option("kinds", "ADD_CREDIT")
    query = (
        stream.load(str(sawtooth_run.parent))
        .writeStream.foreachBatch(lambda frame, _: seen.append(frame.count()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert sum(seen) == 400
