"""What happened in a recorded run: latency, throughput, backlog, credit, regimes.

Each question has a file of its own, with what it needs of a block and how its answers add up;
`one_pass` puts all of them to the blocks of a time slice at once, `tree` merges what they found,
`observed` gathers the tables and each run's share of them (`observed_run`), `measured` its figures,
and `summaries` makes the parts of an answer from their rows.

- of channels: `arrivals`, `latency` (`latency_kernel`, `few_latencies`), `messages`, `credit`,
  `regimes`, `windowed` (`uncounted`), `checkpoints` (`reported_checkpoints`), `blocking`,
  `unanswered`; of tasks: `task_times`, `flink_metrics`.
- `time_slices` are what the pass is cut into, by events; for regimes blocks are `set_aside`, with
  channels end to end (`channel_events`), and read beyond the slice where that is needed
  (`widening`); `sums` and `sums_kernel` add rows up.
- `page_details` and `notebook_tables` have more of the same, for those who look closer.

What would have happened otherwise, and what to do about it, is not known here.
"""
