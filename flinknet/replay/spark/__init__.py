"""Spark: the session, the JVM under it, and the ways into a trace.

There are two ways: work units, which executors turn into small tables (`frames`; `units` reads the
indexes before, and keeps results), and the data source `flinknet` (`source`; `event_rows`: its rows
and the conditions of queries), for SQL and notebooks. `session` starts Spark with the `settings` of
flinknet, the platform and the user on this machine or elsewhere, and `jvm` the JVM below it
(`installed`: which Spark and Java, and what lets them start faster). `worker` starts and tunes the
Python processes of Spark. Questions to a run belong to other rooms.
"""
