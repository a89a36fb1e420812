"""Load: tasks that move runs of serialised records as fast as the network stack takes them.

    generator   records when they are due, or as fast as they are taken
    operators   the chains: generate, forward, measure      outputs   runs as serialised records
    run_input   runs of records from a gate                 assembly  a workload as StreamTasks

They are StreamTasks like those of programs; what differs is that no record becomes a value of
Python. A run of records of equal length is one numpy view of the buffers it came in.
"""
