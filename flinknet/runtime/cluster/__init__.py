"""The processes of a job (a bench is a job, too): who leads, who runs tasks, what they say.

    launcher        a bench: leads the JobManager of a load in the process of the command
    job_process     a job: the process of its JobManager; client submits to it
    job_manager     leads the TaskManagers: what job_master decides goes out, what they say comes in
    job_master      what is done with a job, and when; slot_pool, restart_delay. Sans-IO. A bench
                    comes with the places of its tasks (`job.load.plan`)
    resource_manager, heartbeats, cluster_process, child: the processes of TaskManagers
    task_executor   the process of a TaskManager: its loop, and what it is told. attempts: what it
                    runs (task_factory makes the tasks, running_task is an attempt);
                    attempt_channels: what these read; load_run follows a load; sampling reports
                    where all of it stands
    control_messages    what is said; control_connection: as JSON, after a token; control_server:
                    the port on loopback; outbox: in what order
    collected       what TaskManagers told of a bench or a job: what the results of both say of it;
    measure, diagnosis, stages, asked_rate, progress    the rest of that of a bench (RunResult)
    measurements, job_files, job_status                 and of that of a job (JobResult)
    endings         why a bench failed
    producer_peer, consumer_peer    an exchange one end of which is Flink's: there is no JobManager;
                    peer leads the TaskExecutor of our end, in the process of the command

Data goes over the data ports of the TaskManagers.
"""
