"""The processes of a job and of a bench, which is one: who leads, who runs tasks, what they say.

    launcher        a bench: leads the JobManager of a load in the process of the command
    job_process     a job: the process of its JobManager; client submits to it
    job_manager     leads the TaskManagers: what job_master decides goes out, what they say comes in
    job_master      what is done with a job, and when; slot_pool, restart_delay. Sans-IO
    resource_manager, heartbeats, cluster_process, child: the processes of TaskManagers
    task_executor   the process of a TaskManager; task_factory makes its tasks, running_task is an
                    attempt, load_run follows a load, sampling tells where all of it stands
    control_*       what is said, as JSON with a token, over a port on loopback; outbox: in order
    measure, diagnosis, stages, asked_rate, progress    from what TaskManagers told to a RunResult
    measurements, job_files, job_status                 and to a JobResult
    endings         why a bench failed

Data goes over the data ports of the TaskManagers.
"""
