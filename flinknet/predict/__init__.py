"""Predictions: a recorded exchange, what is fitted to it, and what it would have done under other
settings.

In the order of their use:

- the data that fit and model share: `recorded`, an exchange, and `ramps`, when its records came;
  `simulated`, what a prediction answers; `grid`, which settings to try; `measured_part`, the window
  that counts; `intervals`, sets of time.
- from a trace to the contract: `exchange`, and `captured` for traces of messages between processes
  (`captured_rows`: these messages; `captured_settings`: of the cluster; `captured_arrivals`: when
  records may have come; `tapped_consumers`: who reads a channel; `local_channels`: those that
  nobody saw; `recorded_sizes`: of records; `disturbed`: when something delayed them that is not
  there in other runs); what they fit is in `fit`, also for runs at the highest rate.
- what-if: `what_if` chooses between the simulator with the real core and the compiled model:
  `fast_path` (what it covers), `layout` (its memory; `layout_head`: numbers that do not change),
  `kernel`. `full_speed`: in which batches records are written at the highest rate.
  `outcome_probes` note what a simulation sends; `likely` makes an interval of several; `flushes`:
  how often buffers pass.
- jobs of several exchanges: `recorded_job`, `captured_job`, `job_run` (end to end; `passing_on`:
  from one edge to the next; `joined_run`: edges that wait for each other), `job_checked` (which
  edges can be predicted; `job_unknown`: why others cannot), `job_outcome`.
- `synth`: made-up traces with known laws.

Arithmetic on the columns of a trace: no Spark, no sockets, no clocks. What is predicted for whole
runs, and with what error, is put together in `replay`.
"""
