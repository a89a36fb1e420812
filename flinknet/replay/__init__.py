"""Recorded traces in, answers out, computed by Spark.

`pipeline` is the whole of it: runs are opened (`read`; `opening`: what is usable, and losses;
`joining`: which recordings are one run, and how their clocks are related; `executions`: jobs that
came and went in one, and their start) and observed (`observe`). `plans` says what to predict from
how much of the recording; executors fit and simulate it with the model of `predict`
(`simulations`; long runs in `slices`), and `predictions` are the rows that come back. `advise` has
the advice, `price` the costs, `task_timeouts` the search for timeouts task by task; `answers` puts
it together. `ledger` has where the time of each task and channel went; the rules of
`results.verdict` judge by it what holds a job up. `edges`: the edges of a job and their order.
`watch` observes the newest part of what is still being written, and `rerun` prepares a recorded run
to be sent again. `spark` has the session and the ways into a trace.

Events never pass through the driver: it makes work units (a file and some of its blocks, or a
candidate setting), executors open the files themselves, and small tables come back. pyspark is
imported inside functions only, so that importing this room costs nothing.
"""
