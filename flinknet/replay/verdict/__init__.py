"""What holds a job up: rules over the ledger of a job, in the order in which they are asked.

- `saturated`: tasks without time left, tasks that lack buffers, and a healthy job.

A rule reads the ledger alone, so that it cannot contradict a metric of the recording.
"""
