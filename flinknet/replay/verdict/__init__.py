"""Rules over the ledger of a job that say what holds it up, in the order in which they are asked.

- `saturated`: tasks without time left, tasks that lack buffers, and a healthy job.

A rule reads the ledger alone, so that it cannot contradict a metric of the recording.
"""
