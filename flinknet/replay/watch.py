"""What happens in traces that are still being written: Structured Streaming follows them, and after
each micro-batch the newest part of every run is observed and judged as a replay would.

Nothing is predicted. The driver copies and reads that part itself (`excerpt`), for it is small.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinknet.errors import ConfigError, TraceFormatError
from flinknet.predict.captured import waits_at_most
from flinknet.results import LatencyBounds, WatchedEdge, WatchLook
from flinknet.trace.growing import trace_files

from .advise.edges import edge_name
from .advise.judged import JudgedEdge, judged
from .excerpt import Excerpt, GrowingRun
from .observe.observed import ObservedRun, observe_here
from .observe.regimes import REGIMES
from .observe.summaries import regime_shares
from .read import AskedPart, open_runs
from .spark.frames import table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CONSUMED, RECORDED = "consumed", "recorded"

_EVERYTHING = AskedPart(from_ns=0)
"""Of what was recorded between processes its start counts, too."""


@dataclass(frozen=True, slots=True)
class WatchRow:
    """A WatchedEdge as a row of the table, which has the wall-clock time `looked_at`, too."""

    run: str
    edge: str | None
    from_ns: int
    to_ns: int
    channels: int
    records: int
    records_per_s: float
    bytes_per_s: float
    latency_until: str
    latency_p50_min_ns: float | None
    latency_p50_max_ns: float | None
    latency_p99_min_ns: float | None
    latency_p99_max_ns: float | None
    backlog_buffers_mean: float | None
    backlog_buffers_max: int | None
    waiting_for_flush: float | None
    waiting_for_credit: float | None
    blocked_by_alignment: float | None
    in_socket: float | None
    in_receiver_queue: float | None
    idle: float | None
    starved: float | None
    blocked: float | None
    verdict: str
    share: float
    why: str
    is_bottleneck: bool | None


class Watch:
    """Follows the runs at a path.

    Args:
        path: a run directory or a directory of them.
        work_dir: for files that are of no use later.
        span_ns: length of the newest part.
        table: directory or URI of Parquet files that the rows of each look are added to; None for
            no table.
        on_look: called with each look, in a thread of Spark's.

    Raises: ConfigError for a path that is no directory.
    """

    def __init__(
        self,
        spark: SparkSession,
        path: Path,
        work_dir: Path,
        *,
        span_ns: int,
        table: str | None = None,
        on_look: Callable[[WatchLook], None],
    ) -> None:
        if not path.is_dir():
            raise ConfigError(f"{path}: not a directory; give that of a run, or of several")
        self._spark = spark
        self._path = path
        self._work_dir = work_dir
        self._span_ns = span_ns
        self._table = table
        self._on_look = on_look
        self._events = 0
        self._runs: dict[Path, GrowingRun] = {}

    def start(self, every_s: float | None) -> StreamingQuery:
        """Begin with what was written last.

        Args:
            every_s: seconds between two looks at least; None to look once.
        """
        from .spark.source import register

        register(self._spark)
        options = {"columns": "at_ns"}
        newest_ns = [each.newest_ns() for each in self._growing()]
        known_ns = [each for each in newest_ns if each is not None]
        if known_ns:
            options["from_ns"] = str(min(known_ns) - self._span_ns)
        events = self._spark.readStream.format("flinknet").options(**options).load(str(self._path))
        writer = events.writeStream.foreachBatch(self._take).option(
            "checkpointLocation", str(self._work_dir / "checkpoint")
        )
        if every_s is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{round(every_s * 1000)} milliseconds").start()

    def _take(self, events: DataFrame, batch: int) -> None:
        self._events += events.count()
        look = self._look(batch)
        if self._table is not None and look.edges:
            from pyspark.sql.functions import current_timestamp

            rows = table_of(WatchRow, [_row(each) for each in look.edges])
            frame = self._spark.createDataFrame(rows).coalesce(1)
            frame = frame.withColumn("looked_at", current_timestamp())
            frame.write.mode("append").parquet(self._table)
        self._on_look(look)

    def _growing(self) -> list[GrowingRun]:
        """The runs that there are by now, by name."""
        directories = sorted({file.parent for file in trace_files(self._path)})
        return [self._runs.setdefault(each, GrowingRun(each)) for each in directories]

    def _look(self, batch: int) -> WatchLook:
        edges: list[WatchedEdge] = []
        bottlenecks: dict[str, str] = {}
        waiting: dict[str, str] = {}
        for run in self._growing():
            name, directory = run.path.name, self._work_dir / "newest"
            try:
                found = watched(name, run.excerpt(directory, self._span_ns))
            except TraceFormatError as error:
                waiting[name] = str(error)
            else:
                edges += found[0]
                if found[1] is not None:
                    bottlenecks[name] = found[1]
            finally:
                shutil.rmtree(directory, ignore_errors=True)
        return WatchLook(batch, self._events, tuple(edges), bottlenecks, waiting)


def watched(name: str, excerpt: Excerpt) -> tuple[list[WatchedEdge], str | None]:
    """Each edge in a part of a run, and what holds its job up, in words; None where that is
    unknown.

    Args:
        name: of the run.

    Raises: TraceFormatError if nothing of a run can be said of it.
    """
    runs = open_runs([excerpt.directory])
    if runs[0].manifest.is_from_between:
        runs = open_runs([excerpt.directory], _EVERYTHING)
    of_job: dict[Any, list[ObservedRun]] = {}
    for each in observe_here(runs):
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
    verdict = judged_edge.diagnosis[0]
    is_between = run.manifest.is_from_between
    starved = [row.starved_ns / run.duration_ns for row in rows.credit_starved]
    blocked = [row.blocked_ns / run.duration_ns for row in rows.blocked]
    return WatchedEdge(
        run=name,
        edge=edge_name(run.manifest, run.edge),
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
        verdict=verdict.kind,
        share=verdict.share,
        why=verdict.text,
        is_bottleneck=judged_edge.is_bottleneck,
    )


def _bounds(observed: ObservedRun) -> LatencyBounds:
    run, latency = observed.run, observed.measured.latency_ns
    if not run.manifest.is_from_between:
        p50, p99 = latency.p50, latency.p99
        return LatencyBounds(CONSUMED, latency.count, p50, p50, p99, p99)
    waits = waits_at_most(run.path, run.from_ns, run.to_ns, edge=run.edge)
    p50, p99 = (waits.supported_percentile(q) for q in (0.5, 0.99))
    return LatencyBounds(RECORDED, waits.count, None, p50, None, p99)


def _row(edge: WatchedEdge) -> WatchRow:
    latency, backlog = edge.latency, edge.backlog_buffers
    values: dict[str, Any] = asdict(edge)
    for name in ("latency", "backlog_buffers", "regimes"):
        del values[name]
    values |= {name: (edge.regimes or {}).get(name) for name in REGIMES}
    return WatchRow(
        **values,
        latency_until=latency.until,
        latency_p50_min_ns=latency.p50_min_ns,
        latency_p50_max_ns=latency.p50_max_ns,
        latency_p99_min_ns=latency.p99_min_ns,
        latency_p99_max_ns=latency.p99_max_ns,
        backlog_buffers_mean=backlog.mean,
        backlog_buffers_max=backlog.max,
    )
