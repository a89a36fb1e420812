"""Load: tasks that move runs of serialised records as fast as the network stack takes them.

    plan        a scenario as a job: graph, placement, descriptors of its tasks
    arrivals    intended instants of records, computed or recorded; random keys and sizes
    payload     layout of the records
    outputs     emit records when due, or at the highest rate; chains of tasks: generate, forward,
                measure; serialise runs
    run_input   reads runs of records from a gate           sink  checks and times them
    load_tasks  builds the StreamTasks of a load

The tasks are StreamTasks like those of programs, but no record becomes a Python value: a run of
records of equal length is one numpy view of the buffers it arrived in. Randomness is seeded, and
there are no clocks: instants are arguments.
"""
