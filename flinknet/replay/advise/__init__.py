"""What follows from observed and predicted figures: diagnosis, frontier, targets, caveats.

- `advice`, `targets`, `frontier`: which settings are worth having, which one meets a target.
- `judged`: the verdict on a job and on each edge; `diagnose`: on an edge alone; `caveats`: doubts.
- `edges`, `order`, `job_graph`: the edges of a job, and which is behind which.

Plain arithmetic and plain words about a run; traces and Spark are left to other rooms.
"""
