"""The second driver of the network stack: virtual time, links, and faults that follow from a seed.

    cluster         a job in virtual time; simulated_job: its subtasks and settings, also of
                    sources and sinks of the load generator; checkpoints: drives their coordinator
    source_plan     the records of a source
    task_manager    an event loop in virtual time, which takes turns as the runtime's does; the
                    tasks of the load generator, with the time that their steps take
    link            two sockets and the wire between them
    cost_model      time that steps take
    channels        the TaskManagers that jobs run on; partitions, gates and connections
    faults          what may go wrong; nothing does, unless tests derive from it

It uses no socket and no clock: equal inputs give equal traces, byte for byte. It knows nothing of
recorded runs; `predict` does, and runs clusters from them.
"""
