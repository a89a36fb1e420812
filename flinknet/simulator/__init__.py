"""The second driver of the network stack: virtual time, links, and faults that follow from a seed.

    cluster         a job in virtual time; simulated_job: what it runs; deployed_tasks: its tasks;
                    stages: vertices that are deployed one after the other; checkpoints: their
                    coordinator; debloating: the buffer sizes of its gates
    load            the load generator as such a job; source_plan: all that a source will emit;
                    stepped_tasks: its tasks, with the time that their steps take
    job_cluster     the job of a program
    scheduler       virtual time
    task_manager    an event loop, which takes turns as the runtime's does
    link            two sockets and the wire between them; direction: that wire, one way
    cost_model      what steps take
    hosts           the TaskManagers that jobs run on; wiring, channels: what joins them
    faults          what goes wrong, as data; disturbances: what of it happens to a cluster;
                    host_clock: a clock that stands, jumps or drifts
    debloating      gates get smaller buffers, when it is time
    checkers        what must hold in every run, seen from outside; protocol_checker: of messages

No socket, no clock; the same inputs give the same trace, byte for byte. It knows nothing of
recorded runs: `predict` does, and runs clusters of its own.
"""
