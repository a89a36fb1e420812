"""The real driver: sockets, clocks, and in `cluster` the processes. One TaskManager is one process
with one event loop, and a thread for each task that calls functions of a program.

    event_loop              sockets, deadlines and tasks in turns; selector: how it waits;
                            task_thread: the thread of a task
    shuffle_environment     what a TaskManager has of the network, whatever its tasks are
    connection_manager      its connections: server, client, shared clients (client_factory)
    transport               a socket on one side, a Connection on the other; sockets: with Flink's
                            options; listener: one that rests when no more can be opened
    protocol                the handlers of the data port; peer_protocol: towards what is not
                            flinknet's; visitors: who has not requested anything yet
    tls                     contexts and handler; pinned_certificates: trusted by fingerprint
    spill_file, record_spill    bytes in files: of blocking partitions, of long records
    fill_meter              how full the six buffering places are
    clock                   the one place that reads a clock
    host, interpreter       the machine and the Python that a run was made with; other_processes:
                            what else used its processors; readiness: is it ready
    manifest, metrics_log   files of the run directory
    metrics_endpoint        live values for Prometheus
    signals                 that reach a process with a run in its hands

Runs the same core and tasks as the simulator.
"""
