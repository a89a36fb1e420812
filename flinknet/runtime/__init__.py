"""The real driver: sockets, clocks, and in `cluster` the processes. One TaskManager is one process
with one event loop, and a thread for each task that calls functions of a program.

    event_loop              sockets, deadlines and tasks in turns; task_thread: the thread of a
                            task
    shuffle_environment     the network state of a TaskManager, independent of its tasks, and
                            bytes in files: of blocking partitions, of long records
    connection_manager      its connections: server, client, shared clients, and what creates their
                            ends, also for peers that are not flinknet's
    visitors                accepted connections that have not shown yet that they belong here
    transport               between a socket and a Connection; sockets: with Flink's options, and
                            how the loop waits for them
    tls                     contexts and handler
    fill_meter              how full the six buffering places are
    clock                   the one place that reads a clock
    host                    the machine and the Python of a run, and whether they are ready;
                            other_processes: the CPU use of others, and when this process was
                            stopped
    link                    an emulated wire, without sockets; link_process: the process that
                            forwards the data connections over it
    metrics_log             metrics in a file of the run directory; metrics_endpoint: for Prometheus
    signals                 signals during a run

It runs the same core and tasks as the simulator.
"""
