"""Replay for notebooks: DataFrames in, DataFrames out. Nothing is computed before a table is read.

    from flinknet.replay import notebook

    events = notebook.events(spark, "runs/run-0001")
    tables = notebook.observed(spark, "runs/run-0001")
    tables.latency.where("channel >= 0").select("channel", "p50", "p99").show()
    notebook.predicted(spark, "runs/run-0001", buffer_timeouts_ns=[0, 5_000_000]).show()

`spark` is any session, of this machine or a cluster that sees the runs under the same paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .answer import open_runs
from .exchange import is_max_rate, recorded_setting
from .grid import Grid
from .observed import ObservedTables, observe
from .what_if import Candidate, predict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PREDICTED_FROM_S = 5.0


def events(spark: SparkSession, path: str, **options: str) -> DataFrame:
    """Every event of a run as a row; see `replay.source` for the columns and options.

    Raises: FlinknetError for a path that holds no run.
    """
    from .source import register

    register(spark)
    return spark.read.format("flinknet").options(**options).load(path)


def observed(spark: SparkSession, *paths: str, split: int | None = None) -> ObservedTables:
    """What happened: one table for each question, over all runs at the paths; the column `run` is
    the number of a run in their order.

    Args:
        split: stretches of time that each run is cut into; None for what suits.

    Raises: FlinknetError for a path that holds no run.
    """
    return observe(spark, open_runs([Path(path) for path in paths]), split)


def predicted(
    spark: SparkSession,
    *paths: str,
    seconds: float = PREDICTED_FROM_S,
    **lists: Sequence[Any],
) -> DataFrame:
    """What other settings would do: a row for each run and setting, see `what_if.predict`.

    Args:
        seconds: of the measured part whose arrivals are used.
        lists: of `grid.Grid`, such as buffer_timeouts_ns or floating_buffers; all combinations.

    Raises: FlinknetError for a path that holds no run, ConfigError for too many settings.
    """
    grid = Grid(**{name: tuple(values) for name, values in lists.items()})
    grid.check()
    candidates = []
    for run in open_runs([Path(path) for path in paths]):
        to_ns = min(run.to_ns, run.from_ns + round(seconds * 1e9))
        recorded = recorded_setting(run.manifest)
        settings = grid.settings(recorded, is_max_rate=is_max_rate(run.manifest))
        candidates += [Candidate(run, number, each, to_ns) for number, each in enumerate(settings)]
    return predict(spark, candidates)
