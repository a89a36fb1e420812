"""The process that Spark forks its Python workers from (spark.python.daemon.module): PySpark's own,
but with what they need loaded already, the compiler and the compiled functions among it.

Loading takes a second and a half of CPU time, which Spark's first job would wait for. So a session
starts this process next to its JVM (`spark.early_daemon`), and what Spark starts later only lets it
take its place. Where there is none, that process loads by itself.
"""

from __future__ import annotations

import gc

from .spark.early_daemon import Early, hand_over


def load() -> None:
    """Import what workers need, and what that imports at its first use."""
    import pandas  # type: ignore[import-untyped]  # noqa: F401  # pyarrow does, given an array
    import pyspark.worker  # noqa: F401

    import flinknet.predict.fast_kernel.run
    import flinknet.predict.fast_path  # noqa: F401
    from flinknet.predict.fast_kernel.compiling import load_kept

    from . import pipeline  # noqa: F401
    from .observe import kernels  # noqa: F401

    load_kept()
    gc.collect()
    gc.freeze()


def main() -> None:
    """Be the daemon: of the session that has started this process, or of the JVM that has."""
    early = Early.asked_for()
    if early is None and hand_over():
        return
    load()
    if early is None or early.take_place():
        from pyspark.daemon import manager

        manager()


if __name__ == "__main__":
    main()
