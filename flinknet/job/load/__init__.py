"""Load: tasks that move runs of serialised records as fast as the network stack takes them.

    plan        a scenario as a job: its graph, which TaskManager each task is placed on, and what
                its tasks are deployed with
    arrivals    when records are meant to leave             payload   what they are made of
    draws       their keys and sizes                        recorded_load  what a source sent before
    generator   records when they are due, or as fast as they are taken
    chains      what tasks do: generate, forward, measure   outputs   runs as serialised records
    run_input   runs of records from a gate                 sink, counting: check and time them
    load_tasks  descriptors of a load as StreamTasks        forward   runs that are passed on
    peer_plans  plans with one end that is Flink's

They are StreamTasks like those of programs; what differs is that no record becomes a value of
Python. A run of records of equal length is one numpy view of the buffers it came in. Randomness is
seeded, and clocks are not here: instants are arguments.
"""
