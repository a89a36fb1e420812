"""What follows from observed and predicted figures: verdicts, frontier, targets, caveats.

- `advice`, `targets`, `frontier`: which settings are worth having, which one meets a target.
- `judged`: the verdict on a job and on each of its edges, by the rules of `results.verdict`.
- `caveats`: why to doubt the figures.

Plain arithmetic and plain words about a run; traces and Spark are left to other rooms.
"""
