"""Replay for notebooks: DataFrames in, DataFrames out. Nothing is computed before a table is read.

    from . import notebook

    events = notebook.events(spark, "runs/run-0001")
    tables = notebook.observed(spark, "runs/run-0001")
    tables.latency.where("channel >= 0").select("channel", "p50", "p99").show()
    tables.buffers.selectExpr("consumed_ns - received_ns as queued_ns").show()
    notebook.predicted(spark, "runs/run-0001", buffer_timeouts_ns=[0, 5_000_000]).show()

What is computed later fails later, deep in Spark; `errors` makes that one error of one line, such
as the file and the block that are damaged:

    with notebook.errors():
        tables.latency.show()

`spark` is any session, of this machine or a cluster that sees the runs under the same paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

from flinknet.config import FLOW_CONTROLS
from flinknet.errors import ConfigError
from flinknet.predict.grid import Grid
from flinknet.storage import path_of
from flinknet.trace import find_runs, open_run
from flinknet.units import parse_duration_ns

from .candidates import candidates_of
from .job_answers import plan_jobs
from .job_rows import predict_jobs
from .observe import notebook_tables
from .observe.observed import ObservedTables, collect, observe
from .opening import FileReads
from .read import RecordedRun, open_runs
from .simulations import predict
from .spark.indexes import read_indexes
from .spark.session import spark_errors
from .spark.settings import check_data_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PREDICTED_FROM_S = 5.0

errors = spark_errors
"""Around what computes tables: what goes wrong there is a FlinknetError of one line."""

_DURATIONS = ("buffer_timeouts_ns", "round_trips_ns")

_NUMBERS: dict[str, tuple[tuple[type, ...], str]] = {
    "debloatings": ((bool,), "True or False"),
    "flow_controls": ((str,), " or ".join(FLOW_CONTROLS)),
    "consumer_speeds": ((int, float), "factors such as 0.5"),
    "rate_factors": ((int, float), "factors such as 2"),
}
"""Of a list that holds no whole numbers: types, and what they mean."""


@dataclass(frozen=True)
class Tables:
    """The observed tables of some runs as DataFrames: those of `observed.ObservedTables` under
    their names, computed together in one pass when one is read; and `buffers`, `credit` and
    `buffer_sizes` of `observe.notebook_tables`, each on its own.
    """

    spark: SparkSession
    runs: tuple[RecordedRun, ...]
    split: int | None
    summaries: ObservedTables

    def __getattr__(self, name: str) -> DataFrame:
        if name.startswith("_") or name not in {each.name for each in fields(ObservedTables)}:
            names = ", ".join(self.named())
            raise AttributeError(f"there is no table {name!r}; there are {names}")
        table: DataFrame = getattr(self.summaries, name)
        return table

    @property
    def buffers(self) -> DataFrame:
        """Each data buffer with its life, see `notebook_tables.buffers`."""
        return notebook_tables.buffers(self.spark, self.runs, self.split)

    @property
    def credit(self) -> DataFrame:
        """The producer's credit, window by window, see `notebook_tables.credit`."""
        return notebook_tables.credit(self.spark, self.runs)

    @property
    def buffer_sizes(self) -> DataFrame:
        """What debloating announced, see `notebook_tables.buffer_sizes`."""
        return notebook_tables.buffer_sizes(self.spark, self.runs)

    def named(self) -> dict[str, DataFrame]:
        """All tables by name."""
        return self.summaries.named() | {
            "buffers": self.buffers,
            "credit": self.credit,
            "buffer_sizes": self.buffer_sizes,
        }


def events(spark: SparkSession, path: str, **options: str) -> DataFrame:
    """Every event of a run as a row; see `replay.spark.source` for the columns and options.

    Raises: FlinknetError for a path that holds no run.
    """
    check_data_source()
    from .spark.source import register

    for run in find_runs(path_of(path)):
        open_run(run)
    register(spark)
    return spark.read.format("flinknet").options(**options).load(path)


def observed(spark: SparkSession, *paths: str, split: int | None = None) -> Tables:
    """What happened: one table for each question, over all runs at the paths; the column `run` is
    the number of a run in their order.

    Args:
        split: slices of time that each run is cut into; None for as many as suit its size.

    Raises: FlinknetError for a path that holds no run.
    """
    runs = tuple(_opened(spark, paths))
    return Tables(spark, runs, split, observe(spark, runs, split))


def predicted(
    spark: SparkSession,
    *paths: str,
    seconds: float = PREDICTED_FROM_S,
    **lists: Sequence[Any],
) -> DataFrame:
    """What other settings would do: a row for each run and setting, see `simulations.predict`.

    Args:
        seconds: of the measured part whose arrivals are used.
        lists: of `grid.Grid`, such as buffer_timeouts_ns or floating_buffers; all combinations.
            Durations may be written as text with a unit, such as "5ms".

    Raises: FlinknetError for a path that holds no run, ConfigError for a list that does not exist,
        a value that cannot be used, and too many settings.
    """
    grid = Grid(**{name: _values(name, values) for name, values in lists.items()})
    grid.check()
    candidates = []
    for run in _opened(spark, paths):
        to_ns = min(run.to_ns, run.from_ns + round(seconds * 1e9))
        candidates += candidates_of(run, grid, to_ns)
    return predict(spark, candidates)


def predicted_jobs(spark: SparkSession, *paths: str, **lists: Sequence[Any]) -> DataFrame:
    """What other settings would do to jobs of several exchanges from end to end: a row for each
    setting and the job (edge -1), and each of its edges; see `job_rows.JobRow`.

    Args:
        lists: as of `predicted`.

    Raises: as `predicted`.
    """
    grid = Grid(**{name: _values(name, values) for name, values in lists.items()})
    grid.check()
    runs = _opened(spark, paths)
    observed = collect(observe(spark, runs, None), runs)
    return predict_jobs(spark, plan_jobs(observed, grid, (), max_records=None))


def _opened(spark: SparkSession, paths: Sequence[str]) -> list[RecordedRun]:
    """Raises: ConfigError without a path."""
    if not paths:
        raise ConfigError("no run is named; give the path of a run directory, or of one above runs")
    reads = FileReads(partial(read_indexes, lambda: spark))
    return open_runs([path_of(path) for path in paths], reads=reads)


def _values(name: str, values: Any) -> tuple[Any, ...]:
    """The values of one list of a grid; raises ConfigError."""
    names = [each.name for each in fields(Grid)]
    if name not in names:
        raise ConfigError(f"{name}: there is no such list; there are {', '.join(names)}")
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ConfigError(f"{name}: {values!r} is not a list; write {name}=[…]")
    return tuple(_value(name, each) for each in values)


def _value(name: str, value: Any) -> Any:
    if name in _DURATIONS and isinstance(value, str):
        return parse_duration_ns(
            value, name, bare_unit=None, allow_never=name == "buffer_timeouts_ns"
        )
    types, meaning = _NUMBERS.get(name, ((int,), "whole numbers"))
    if name in _DURATIONS:
        meaning = 'whole numbers of ns, or text such as "5ms"'
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise ConfigError(f"{name}: {value!r} cannot be used; give {meaning}")
    if name == "flow_controls" and value not in FLOW_CONTROLS:
        raise ConfigError(f"{name}: {value!r} is not one of {', '.join(FLOW_CONTROLS)}")
    return value
