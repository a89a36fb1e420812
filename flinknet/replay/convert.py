"""Conversion of traces into a table of Parquet files or Delta Lake: every event a row, written by
Spark's executors, in directories by run, hour and channel bucket.

A query that names a run, an hour or a channel reads these directories alone. Within a file rows are
sorted by channel and instant, so that their statistics say which parts of it hold a channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flinknet.errors import ConfigError

from .spark.installed import check_data_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
) -> int:
    """Write the events of all runs at some paths into a new table in one of FORMS, in a directory
    or at a URI that Spark can write to and that is not there yet; a channel is in bucket channel
    mod `buckets`. Returns: the number of rows. Raises: ConfigError where this Spark has no Delta
    Lake."""
    check_data_source()
    from pyspark.sql import functions as f

    from .spark.source import register

    register(spark)
    events = spark.read.format("flinknet").load(list(paths))
    # Hours are those of the clock of the instants; whole connections, without channel, are in -1.
    channel = f.coalesce(f.col("channel") % buckets, f.lit(-1))
    hour = f.expr(f"at_ns div {HOUR_NS}")
    events = events.withColumns({"hour": hour.cast("int"), "channel_bucket": channel.cast("int")})
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
