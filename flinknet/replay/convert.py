"""Conversion of traces into a table of Parquet files or Delta Lake: every event a row, written by
Spark's executors, in directories by run, hour and channel bucket.

A query that names a run, an hour or a channel reads these directories alone. Within a file rows are
sorted by channel and instant, so that their statistics say which parts of it hold a channel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from flinknet.errors import ConfigError

from .spark.installed import check_data_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARQUET, DELTA = "parquet", "delta"
FORMS = (PARQUET, DELTA)

HOUR_NS = 3_600_000_000_000

RECORDS_PER_FILE = 20_000_000
"""Rows of a file at most: some 300 MB of Parquet."""

PARTITIONED_BY = ("run", "hour", "channel_bucket")


def convert(
    spark: SparkSession,
    paths: Sequence[str],
    out: str,
    *,
    form: str = PARQUET,
    buckets: int = 16,
    options: Mapping[str, str] | None = None,
) -> int:
    """Write the events of all runs at some paths into a new table in one of FORMS, in a directory
    or at a URI that Spark can write to; a channel is in bucket channel mod `buckets`. Options are
    those of the data source, such as channels. Returns: the number of rows. Raises: ConfigError
    where this Spark has no Delta Lake."""
    events = _with_partitions(_events(spark, paths, options or {}), buckets)
    balanced = events.hint("rebalance", *PARTITIONED_BY)
    writer = (
        balanced.sortWithinPartitions(*PARTITIONED_BY, "channel", "at_ns")
        .write.format(form)
        .partitionBy(*PARTITIONED_BY)
        .option("maxRecordsPerFile", RECORDS_PER_FILE)
        .option("compression", "zstd")
    )
    try:
        writer.save(out)
    except Exception as error:
        if form == DELTA and ("DATA_SOURCE_NOT_FOUND" in str(error) or "delta." in str(error)):
            raise ConfigError(
                f"--format {DELTA}: this Spark has no Delta Lake; give it the package"
                " io.delta:delta-spark (spark.jars.packages), or write parquet"
            ) from None
        raise
    written = spark.read.format(form)
    return (written if form == DELTA else written.schema(events.schema)).load(out).count()


def _events(spark: SparkSession, paths: Sequence[str], options: Mapping[str, str]) -> DataFrame:
    check_data_source()
    from .spark.source import register

    register(spark)
    return spark.read.format("flinknet").options(**options).load(list(paths))


def _with_partitions(events: DataFrame, buckets: int) -> DataFrame:
    """The events with `hour`, of the clock of their instants, and `channel_bucket`; those of whole
    connections, which have no channel, are in bucket -1."""
    from pyspark.sql import functions

    channel = functions.coalesce(functions.col("channel") % buckets, functions.lit(-1))
    return events.withColumns(
        {
            "hour": functions.expr(f"at_ns div {HOUR_NS}").cast("int"),
            "channel_bucket": channel.cast("int"),
        }
    )
