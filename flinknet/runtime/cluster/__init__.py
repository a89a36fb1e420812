"""The processes of a job (a bench is a job, too): who leads, who runs tasks, what they say.

    launcher        a bench: leads the JobManager of a load in the process of the command
    job_process     jobs: the process of their JobManager; client submits to it. submitted_job: one
                    of them, from its first task to its result
    job_manager     leads the TaskManagers: what job_master decides goes out, what they say comes
                    in, by job (led_job)
    job_master      what is done with a job, and when; slot_pool, restart_delay. Sans-IO. A bench
                    comes with the places of its tasks (`job.load.plan`)
    slot_pool, channel_numbers, connection_uses, job_settings: what jobs of one cluster share
    resource_manager, heartbeats, cluster_process, child: the processes of TaskManagers
    task_executor   the process of a TaskManager: its loop, and what it is told. attempts: what it
                    runs (task_factory makes the tasks, running_task is an attempt), by job
                    (hosted_job: its settings, trace, printed lines);
                    attempt_channels: what these read; load_run follows a load; sampling reports
                    where all of it stands
    control_messages    what is said; control_connection: as JSON, after a token; control_server:
                    the port on loopback; outbox: in what order
    collected       what TaskManagers reported, for the results of both kinds of run
    run_result, diagnosis, blocking_exchanges, asked_rate, progress    make the result of a bench
    job_measurements, job_files, job_status                            make that of a job
    endings         why a bench failed
    producer_peer, consumer_peer    an exchange one end of which is Flink's: there is no JobManager;
                    peer leads the TaskExecutor of our end, in the process of the command

Data goes over the data ports of the TaskManagers.
"""
