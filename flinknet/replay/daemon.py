"""The process that Spark forks its Python workers from (spark.python.daemon.module): PySpark's own,
but with what they need loaded already.

That one has loaded nothing, so that each worker of each session spends a second of CPU time on it.
"""

from __future__ import annotations

import gc

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import flinknet.predict.fast_path  # noqa: F401

from . import pipeline  # noqa: F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()
