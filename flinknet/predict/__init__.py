"""Predictions: a recorded job under other settings.

- Recorded: `job`, the edges of a job and what tasks pass on; `recorded`, one exchange; `ramps`, the
  instants of its records; `loading` loads a job from a part of a recording.
- From a trace: `exchange`, of a run that recorded itself; `captured`, `captured_rows`, of messages
  between processes; `local_channels`, which no tap sees;
  `measured_part`, the window that counts; `intervals`, sets of time; `fit`, costs and arrivals.
- What-if: `what_if` chooses between the simulator with the real core and the compiled model
  (`fast_path`: what is known; `layout`, `layout_head`: its memory; `kernel`); `full_speed`: batches
  at the highest rate; `job_run`, a job from end to end; `joined_run`, edges that wait for each
  other; `grid`, the settings to try.
- Answers: `outcome`, of an edge and of a job; `likely`, the interval of several draws.
- `synth`: made-up traces with known laws.

Arithmetic on the columns of a trace: no Spark, no sockets, no clocks.
"""
