"""Observation of traces that are still being written: Structured Streaming follows them, and after
each micro-batch the newest part of every run is observed and judged as in a replay.

Nothing is predicted. The driver copies and reads that part itself (`excerpt`): it has a bounded
number of events, and is processed in the units of a replay, one after the other.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import pyarrow as pa

from flinknet.errors import ConfigError, TraceError
from flinknet.predict.captured import waits_at_most
from flinknet.results import LatencyBounds, WatchedEdge, WatchLook
from flinknet.trace import RunManifest
from flinknet.trace.growing import trace_files

from .advise.judged import JudgedEdge, judged
from .excerpt import Excerpt, GrowingRun
from .observe.measured import ObservedRun, regime_shares
from .observe.observed import observe_here
from .observe.regimes import REGIMES
from .read import WHOLE, AskedPart, open_runs
from .spark.frames import arrow_type, frame_of, schema_of
from .spark.installed import check_data_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CONSUMED, RECORDED = "consumed", "recorded"

WORKER_LATE = "Python worker failed to connect back"
"""Spark's message about a Python process of a stream that has not started within 10 s, as on a busy
machine."""

UNKNOWN = "how long data waited for credit is unknown, as is the credit of some channels"

RESTARTS_MAX = 5
"""Most restarts of a stream in a row for that reason."""

_EVERYTHING = AskedPart(from_ns=0)
"""Part for traces recorded between processes: their start counts, too."""


class Following:
    """A stream that continues if its Python process started too late.

    Args:
        start: begins it, or continues it.

    Attributes:
        query: the current query.
    """

    def __init__(self, start: Callable[[], StreamingQuery]) -> None:
        self._start = start
        self.query = start()
        self._restarts = 0

    def has_ended(self, within_s: int) -> bool:
        """Wait for the end of the stream.

        Returns: whether it has ended.

        Raises: exceptions of Spark.
        """
        from pyspark.errors import StreamingQueryException

        try:
            has_ended = bool(self.query.awaitTermination(within_s))
        except StreamingQueryException as error:
            if WORKER_LATE not in str(error) or self._restarts == RESTARTS_MAX:
                raise
            self._restarts += 1
            self.query = self._start()
            return False
        if self.query.lastProgress is not None:
            self._restarts = 0
        return has_ended

    def stop(self) -> None:
        """End it."""
        self.query.stop()


class Watch:
    """Follows the runs at a path. Runs that had ended before are left out while others continue.

    Args:
        path: a run directory or a directory of them.
        work_dir: directory for temporary files.
        span_ns: length of the newest part.

    Raises: ConfigError for a path that is no directory.
    """

    def __init__(self, path: Path, work_dir: Path, *, span_ns: int) -> None:
        if not path.is_dir():
            raise ConfigError(f"{path}: not a directory; give that of a run, or of several")
        self._path = path
        self._work_dir = work_dir
        self._span_ns = span_ns
        self._events = 0
        self._excerpts = 0  # readers may remember a file by its path
        self._runs: dict[Path, GrowingRun] = {}
        self._followed: set[Path] = set()

    def start(
        self,
        spark: SparkSession,
        every_s: float,
        on_look: Callable[[WatchLook], None],
        table: str | None = None,
    ) -> Following:
        """Follow the files, and look after each micro-batch.

        Args:
            every_s: fewest seconds between two micro-batches; without new events there is none.
            on_look: called with each look, in a thread of Spark's.
            table: see `add_to_table`; None for none.
        """
        check_data_source()
        from .spark.source import register

        def take(events: DataFrame, batch: int) -> None:
            found = events.count()
            if not found:  # as in the first one
                return
            self._events += found
            look = self.look(batch)
            if table is not None:
                add_to_table(spark, look, table)
            on_look(look)

        register(spark)
        source = spark.readStream.format("flinknet").option("columns", "at_ns")
        events = source.option("starting", "latest").load(str(self._path))
        checkpoint = str(self._work_dir / "checkpoint")
        writer = events.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint)
        timed = writer.trigger(processingTime=f"{round(every_s * 1000)} milliseconds")
        return Following(timed.start)

    def look(self, batch: int | None = None) -> WatchLook:
        """The newest part of each run.

        Args:
            batch: number of the micro-batch that brought its end; None before the first one.
        """
        edges: list[WatchedEdge] = []
        bottlenecks: dict[str, str] = {}
        waiting: dict[str, str] = {}
        for run in self._going_on():
            self._excerpts += 1
            name, directory = run.path.name, self._work_dir / f"newest-{self._excerpts}"
            try:
                found, bottleneck = watched(name, run.excerpt(directory, self._span_ns))
            except FileNotFoundError:
                waiting[name] = "a file was dropped while it was read; look again"
            except TraceError as error:
                waiting[name] = str(error)
            else:
                edges += found
                if bottleneck is not None:
                    bottlenecks[name] = bottleneck
            finally:
                shutil.rmtree(directory, ignore_errors=True)
        return WatchLook(batch, self._events, tuple(edges), bottlenecks, waiting)

    def _going_on(self) -> list[GrowingRun]:
        """Runs that have not ended, or had not at an earlier look; all if there are none."""
        directories = sorted({file.parent for file in trace_files(self._path)})
        runs = [self._runs.setdefault(each, GrowingRun(each)) for each in directories]
        self._followed |= {each.path for each in runs if not each.has_ended()}
        return [each for each in runs if each.path in self._followed] or runs


def add_to_table(spark: SparkSession, look: WatchLook, table: str) -> None:
    """Add a row for each edge to a table of Parquet files, a directory or a URI."""
    from pyspark.sql.functions import current_timestamp

    if look.edges:
        rows = frame_of(spark, _table(look.edges))
        rows = rows.coalesce(1).withColumn("looked_at", current_timestamp())
        rows.write.mode("append").parquet(table)


def watched(name: str, excerpt: Excerpt) -> tuple[list[WatchedEdge], str | None]:
    """Each edge in a part of a run, and what limits its job, in words; None if unknown.

    Args:
        name: name of the run.

    Raises: TraceFormatError if nothing can be said about a run.
    """
    is_between = RunManifest.load(excerpt.directory).is_from_between
    runs = open_runs([excerpt.directory], _EVERYTHING if is_between else WHOLE)
    of_job: dict[Any, list[ObservedRun]] = {}
    for each in observe_here(runs, split=None):
        of_job.setdefault(each.run.job, []).append(each)
    edges: list[WatchedEdge] = []
    said = []
    for own in of_job.values():
        verdicts = judged(own)
        edges += [_watched(name, *each) for each in zip(own, verdicts, strict=True)]
        if verdicts[0].bottleneck is not None:
            said.append(verdicts[0].bottleneck.text)
    return edges, "; ".join(said) or None


def _watched(name: str, observed: ObservedRun, judged_edge: JudgedEdge) -> WatchedEdge:
    run, rows, measured = observed.run, observed.rows, observed.measured
    seconds = run.duration_ns / 1e9
    verdict = next(iter(judged_edge.diagnosis), None)
    is_between = run.manifest.is_from_between
    starved = [row.ns / run.duration_ns for row in rows.credit_starved]
    blocked = [row.ns / run.duration_ns for row in rows.blocked]
    return WatchedEdge(
        run=name,
        edge_number=run.ends.number,
        edge=run.edge_name,
        from_ns=run.from_ns,
        to_ns=run.to_ns,
        channels=len(run.manifest.channels),
        records=measured.records,
        records_per_s=measured.records / seconds,
        bytes_per_s=measured.bytes / seconds,
        latency=_bounds(observed),
        backlog_buffers=measured.backlog_buffers,
        regimes=regime_shares(rows),
        starved=min(max(starved), 1.0) if starved else None,
        blocked=min(max(blocked), 1.0) if blocked and is_between else None,
        verdict="unknown" if verdict is None else verdict.cause.value,
        share=0.0 if verdict is None else verdict.share or 0.0,
        why=UNKNOWN if verdict is None else verdict.text,
        is_bottleneck=judged_edge.is_bottleneck,
    )


def _bounds(observed: ObservedRun) -> LatencyBounds:
    run, latency = observed.run, observed.measured.latency_ns
    if not run.manifest.is_from_between:
        p50, p99 = latency.p50, latency.p99
        return LatencyBounds(CONSUMED, latency.count, p50, p50, p99, p99)
    waits = waits_at_most(run.place, run.from_ns, run.to_ns, edge=run.edge)
    p50, p99 = (waits.supported_percentile(q) for q in (0.5, 0.99))
    return LatencyBounds(RECORDED, waits.count, None, p50, None, p99)


def _table(edges: Sequence[WatchedEdge]) -> pa.Table:
    """WatchedEdges as a table: fields of nested dataclasses have columns with the name of the outer
    field in front, shares of regimes one for each regime."""
    columns: dict[str, pa.Array] = {}
    for name, kind in get_type_hints(WatchedEdge).items():
        values = [getattr(each, name) for each in edges]
        if is_dataclass(kind) and isinstance(kind, type):
            for inner in schema_of(kind):
                own = [getattr(each, inner.name) for each in values]
                columns[f"{name}_{inner.name}"] = pa.array(own, inner.type)
        elif name == "regimes":
            for regime in REGIMES:
                shares = [(each or {}).get(regime) for each in values]
                columns[regime] = pa.array(shares, pa.float64())
        else:
            columns[name] = pa.array(values, arrow_type(kind))
    return pa.table(columns)
