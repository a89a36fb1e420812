"""The real driver: sockets, clocks, and in `cluster` the processes. One TaskManager is one process
with one event loop, and a thread for each task that calls functions of a program.

    event_loop              sockets, deadlines and tasks in turns; selector: how it waits;
                            task_thread: the thread of a task
    shuffle_environment     the network state of a TaskManager, independent of its tasks
    connection_manager      its connections: server, client, shared clients (client_factory),
                            and those that have not requested anything yet
    transport               between a socket and a Connection; sockets: with Flink's options
    protocol                the handlers of the data port, also for peers that are not flinknet's
    tls                     contexts and handler; pinned_certificates: trusted by fingerprint
    spill_file              bytes in files: of blocking partitions, of long records
    fill_meter              how full the six buffering places are
    clock                   the one place that reads a clock
    host                    the machine and the Python of a run; other_processes: the CPU use of
                            others, and when this process was stopped; readiness: whether the
                            machine is ready
    manifest, metrics_log   files of the run directory
    metrics_endpoint        live values for Prometheus
    signals                 signals during a run

It runs the same core and tasks as the simulator.
"""
