"""Spark and what it needs: the session, the JVM under it, and the ways into a trace.

There are two of these: work units (`units`), which executors turn into small tables (`frames`), and
the data source `flinknet` (`source`, and `stream_source` for files that grow; `event_rows`: the
rows of both, `pushdown`: conditions of queries), for SQL and notebooks. `session` starts Spark with
the `settings` of flinknet, the platform and the user at one of the `masters`, and `jvm` the JVM
below it (`java`: which one, `class_archive`: what lets it start faster), or finds it by `connect`
(Spark Connect); `shipping` is what executors elsewhere get of flinknet, `results` what they leave
as Parquet.
`indexes` has executors read the indexes of many files, `damage` look for damaged blocks;
`checkpoint` keeps what units found, and `worker` is for the Python processes that Spark starts
(`early_daemon`: what they are forked from, before Spark asks for it). `tenths` says how far it
has come. The questions to a run are in other rooms.
"""
