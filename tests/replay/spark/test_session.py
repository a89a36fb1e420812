"""What Spark raises, as one line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors.exceptions.captured import CapturedException, PythonException

from flinknet.errors import FlinknetError
from flinknet.replay.spark.session import spark_errors


@pytest.mark.spark
@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (KeyError("channel"), "KeyError: 'channel'"),
        (ValueError("first line\nsecond line"), "ValueError: first line"),
        (AssertionError(), "AssertionError"),
    ],
)
def test_an_exception_of_a_worker_is_one_line(spark: Any, raised: Exception, told: str) -> None:
    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise raised

    with pytest.raises(FlinknetError) as caught, spark_errors():
        spark.range(1).mapInArrow(fail, "id bigint").collect()
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.spark
def test_an_exception_that_fails_to_say_what_it_is_says_what_it_keeps(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: PythonException) -> str:
        raise RuntimeError("the JVM is gone")

    error = PythonException("Traceback\n  File x\nKeyError: 'channel'\n", "at java")
    monkeypatch.setattr(CapturedException, "__str__", fail)
    with pytest.raises(FlinknetError, match="KeyError: 'channel'") as caught, spark_errors():
        raise error
    assert "\n" not in str(caught.value)
