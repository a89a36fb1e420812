"""Observations of a recorded run: latency, throughput, backlog, credit, regimes.

`question` declares what a question is and how its rows are merged. `units` cuts runs into units of
work, `tree` puts all questions to a unit at once and merges the answers, `observed` gathers the
tables and the summary of each run, `measured` computes its figures and the parts of an answer.

- Questions: `traffic`, `latency`, `stretches`, `checkpoints`, `regimes`, `credit`,
  `record_times`; `flink_metrics` reads the metrics that Flink reported. `kernels` are compiled
  sums.
- For regimes events are copied from blocks, with channels end to end (`channel_events`), and read
  beyond the slice where needed (`widening`).
- `details` has more of the same for the page and for notebooks.

Predictions and advice belong to other rooms.
"""
