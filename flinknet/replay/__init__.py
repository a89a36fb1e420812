"""Recorded traces in, answers out, computed by Spark.

Here live the pipe and its outcome: `answer` reads runs, has them observed (`observe`), predicts
them under all settings that were asked for (`what_if`, with the model of `predict`; long runs in
`slices`), and draws conclusions (`advise`); `notebook` gives the same as DataFrames. `spark` has
the session and the ways into a trace.

Events never pass through the driver: it makes work units (a file and some of its blocks, or a
candidate setting), executors open the files themselves, and small tables come back. pyspark is
imported inside functions only, so that importing this room costs nothing. Printing lives in
`report`, the traces themselves in `trace`.
"""
