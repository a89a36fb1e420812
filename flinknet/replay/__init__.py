"""Recorded traces in, answers out, computed by Spark.

`pipeline` is the whole of it: runs are opened (`read`; `start_up`: how long a job was starting;
`executions`: jobs that came and went in one) and observed (`observe`); `candidates` says what to
predict (`outcome`: one, and what came of it), `simulations` has executors fit and simulate it with
the model of `predict` (`windows` of a run, or all of it in `slices`, spread by `sliced`; `figures`
of each), `predicted` compares, `price` says what it costs, `trade_off` advises (`advise`), and
`answer` puts it together; `job_rows` and `job_answers` do the same for jobs of several exchanges.
`opening` opens what is usable of recordings and says what they lost; `joining` finds out which of
them are one run, and `clocks` how their clocks are related (`recording_sets`, for `trace info`).
`ledger` has where the time of each task went; `verdict` judges by it what holds a job up.
`watch` observes what is still being written (`excerpt`: its newest part, as a run), `convert` makes
a table of all events, `rerun` prepares a recorded run to be sent again. `spark` has the session and
the ways into a trace; `daemon` is the process that its workers are forked from.

Events never pass through the driver: it makes work units (a file and some of its blocks, or a
candidate setting), executors open the files themselves, and small tables come back. pyspark is
imported inside functions only, so that importing this room costs nothing. Printing lives in
`report`, the traces themselves in `trace`.
"""
