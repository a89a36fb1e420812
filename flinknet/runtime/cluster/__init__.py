"""The processes of a job (a bench is a job, too): who leads, who runs tasks, what they say.

Who leads:

    launcher        a bench: leads the JobManager of a load in the process of the command
    client          submits jobs to a JobManager in a process of its own (job_process)
    submitted_job   one of them, from its first task to its result
    job_manager     leads the TaskManagers: what job_master decides goes out, what they say comes
                    in, by job (led_job)
    job_master      what is done with a job, and when (job_state). Sans-IO; a bench comes with the
                    places of its tasks (`job.load.plan`)
    placement       where tasks run; input_dependencies: which may begin; restart_strategy: again
    slot_pool, channel_numbers, connection_uses, job_settings    what jobs of one cluster share
    resource_manager, heartbeats, cluster_process, child         the processes of TaskManagers

Who runs tasks:

    task_manager    the process; task_executor: its loop, and what it is told to do
    hosted_job      settings, trace and printed lines of one job there
    attempts        what it runs: prepared_attempts have no task yet, a running_task has;
                    attempt_channels: what they read; task_factory makes the tasks
    task_io         text and files that tasks read and write
    load_run        follows a load; sampling reports where all of it stands

What they say:

    control_messages    the words; reports: of what was measured
    control_connection  as JSON, after a token; control_server: the port on loopback; outbox: in
                        what order

What is made of it:

    collected       what TaskManagers reported, for the results of both kinds of run
    run_result, diagnosis, blocking_exchanges, asked_rate, progress    make the result of a bench
    job_measurements, job_files, job_status, vertex_times, marked_latency, printed_lines    make
                    that of a job; dumps: its tasks in detail
    endings         why a bench failed
    producer_peer, consumer_peer    an exchange one end of which is Flink's: there is no JobManager;
                    peer leads the TaskExecutor of our end, in the process of the command

Data goes over the data ports of the TaskManagers.
"""
