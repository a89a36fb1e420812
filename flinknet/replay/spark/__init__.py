"""Spark and what it needs: the session, the JVM and the Java under it, and the ways into a trace.

There are two of these: work units (`units`), which executors turn into small answers, and the data
source `flinknet` (`source`), for SQL and notebooks. `worker` is for the Python processes that Spark
starts. What is asked of a run is no matter of this room.
"""
