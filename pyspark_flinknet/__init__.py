"""Where Spark 4 finds the data source `flinknet` by itself: it looks for a `DefaultSource` in each
package on its Python path whose name begins with `pyspark_`."""

from contextlib import suppress

with suppress(ImportError):  # a Python without what flinknet needs, which only looks around
    from flinknet.replay.spark.source import TraceDataSource as DefaultSource

__all__ = ["DefaultSource"]
