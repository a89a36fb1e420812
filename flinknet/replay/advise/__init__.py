"""What follows from observed and predicted figures: verdicts, advice, caveats.

- `advice`: which settings are worth having; `targets`: bounds that one of them shall meet.
- `judged`: the verdict on a job and on each of its edges, by the rules of `results.verdict`.
- `caveats`: why to doubt the figures.

Plain arithmetic and plain words about a run; traces and Spark are left to other rooms.
"""
