"""What tasks need around them: who runs where, pools and gates, checkpoints, times.

The tasks themselves are `jobs.StreamTask`. Sans-IO: a driver (runtime or simulator) steps a task
with an instant and learns when to step it again. The tasks of a TaskManager take turns on its event
loop.
"""
