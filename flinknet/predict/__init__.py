"""Predictions: a recorded job under other settings, by arithmetic on the columns of a trace.

- Recorded: `job` and `recorded`, a job and one exchange of it; `ramps`, instants of records;
  `intervals`, sets of time; `loading` and `exchange`, of a run that recorded itself; `captured`,
  `captured_rows` and `local_channels`, of messages between processes; `measured_part`, the window
  that counts; `fit`, costs and arrivals.
- What-if: `what_if` chooses between the simulator and the compiled model (`fast_path`, one
  exchange or several; `kernel_edge`, what it covers; `layout`, `kernel`); `job_run`, jobs; `grid`,
  the settings to try.
- Answers: `outcome`.
"""
