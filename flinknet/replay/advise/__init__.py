"""What follows from observed and predicted figures: diagnosis, frontier, targets, caveats.

- `advice`, `targets`, `frontier`: which settings are worth having, which one meets a target.
- `diagnose`: a verdict for each edge, from `channel_times`; `caveats`: what to doubt.
- `edges`, `order`, `job_graph`: the edges of a job, and which is behind which.
- `bottleneck`, of a job that recorded itself (`task_use`), and `between`, of one that was recorded
  between its processes; `judged`: all verdicts on the edges of a job.

Plain arithmetic and plain words about a run; traces and Spark are left to other rooms.
"""
