"""Recorded traces in, answers out, computed by Spark.

`pipeline` is the whole of it: runs are opened (`read`) and observed (`observe`); `candidates` says
what to predict, `what_if` has executors fit and simulate it with the model of `predict` (long runs
in `slices`, spread by `sliced`), `predicted` compares, `trade_off` advises (`advise`), and `answer`
puts it together. `notebook` gives the same as DataFrames, `rerun` prepares a recorded run to be
sent again. `spark` has the session and the ways into a trace.

Events never pass through the driver: it makes work units (a file and some of its blocks, or a
candidate setting), executors open the files themselves, and small tables come back. pyspark is
imported inside functions only, so that importing this room costs nothing. Printing lives in
`report`, the traces themselves in `trace`.
"""
