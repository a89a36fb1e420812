"""What follows from observed and predicted figures: diagnosis, frontier, targets, caveats.

Plain arithmetic and plain words about a run; traces and Spark are left to other rooms.
"""
