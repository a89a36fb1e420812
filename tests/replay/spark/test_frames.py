"""Dataclasses as tables: their schema, and the rows that come back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from flinknet.replay.spark import frames


@dataclass(frozen=True)
class Inner:
    name: str
    share: float | None


@dataclass(frozen=True)
class Outer:
    number: int
    inner: Inner
    parts: list[Inner]
    blocks: list[list[int]]
    data: bytes = b""
    is_last: bool = False


@dataclass(frozen=True)
class Odd:
    what: dict[str, int]


OUTER = Outer(1, Inner("a", 0.5), [Inner("b", None), Inner("c", 1.0)], [[1, 2], []], b"\0", True)


def test_a_dataclass_is_a_column_for_each_field() -> None:
    inner = pa.struct([("name", pa.string()), ("share", pa.float64())])
    assert frames.schema_of(Outer) == pa.schema(
        [
            ("number", pa.int64()),
            ("inner", inner),
            ("parts", pa.list_(inner)),
            ("blocks", pa.list_(pa.list_(pa.int64()))),
            ("data", pa.binary()),
            ("is_last", pa.bool_()),
        ]
    )
    with pytest.raises(TypeError, match="has no column type"):
        frames.schema_of(Odd)


def test_rows_come_back_as_they_were_and_other_columns_are_left_out() -> None:
    table = frames.table_of(Outer, [OUTER]).append_column("more", pa.array([7]))
    assert frames.rows_of(Outer, table) == [OUTER]


def test_columns_of_rows_make_a_batch_and_no_rows_make_none() -> None:
    rows = [Inner("a", 0.5), Inner("b", None)]
    schema = frames.schema_of(Inner)
    (batch,) = frames.record_batches(
        [frames.columns_of(Inner, rows), frames.columns_of(Inner, rows[:1])], schema
    )
    assert frames.rows_of(Inner, batch) == [*rows, rows[0]]
    assert frames.record_batches([frames.columns_of(Inner, [])], schema) == []


@pytest.mark.spark
def test_no_units_are_a_table_without_rows(spark: Any) -> None:
    units: list[Outer] = []
    found = frames.map_units(spark, units, lambda _: [], Inner)
    assert (found.columns, found.count()) == (["name", "share"], 0)


@pytest.mark.spark
@pytest.mark.parametrize("is_spark_4", [True, False])
def test_a_table_comes_back_from_spark(
    spark: Any, monkeypatch: pytest.MonkeyPatch, *, is_spark_4: bool
) -> None:
    monkeypatch.setattr(frames, "has_arrow_tables", lambda: is_spark_4)
    inner = [Inner("a", 0.5), Inner("b", None)]
    table = frames.table_of(Nested, [Nested(number, b"\0x", inner[number:]) for number in range(3)])
    frame = frames.frame_of(spark, table)
    assert frame.rdd.getNumPartitions() == 3
    found = frames.arrow_of(frame).select(table.column_names).sort_by("number")
    assert frames.rows_of(Nested, found) == frames.rows_of(Nested, table)


@dataclass(frozen=True)
class Nested:
    number: int
    data: bytes
    inner: list[Inner]


@dataclass(frozen=True)
class Wide:
    number: int
    text: str


@pytest.mark.spark
def test_units_that_are_too_many_for_one_table_of_spark_are_still_spread(
    spark: Any,
) -> None:
    """Above 48 MB Spark makes one partition of 10 000 rows."""
    units = [Wide(number, "x" * (1 << 20)) for number in range(60)]
    seen = frames.map_units(spark, units, _number_of, Number)
    assert seen.rdd.getNumPartitions() == len(units)
    assert sorted(row.number for row in seen.collect()) == list(range(60))


@dataclass(frozen=True)
class Number:
    number: int


def _number_of(unit: Wide) -> list[dict[str, list[int]]]:
    return [{"number": [unit.number]}]
