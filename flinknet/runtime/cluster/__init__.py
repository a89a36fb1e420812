"""The processes of a job (a bench is a job, too): JobManager, TaskManagers, and their messages.

The JobManager side:

    launcher        a bench: runs the JobManager of a load in the process of the command
    client          submits jobs to a JobManager in a process of its own (job_process)
    submitted_job   one of them, from its first task to its result
    job_manager     coordinates the TaskManagers: sends what job_master decides, and routes what
                    they report by job
    job_master      schedules a job. Sans-IO; for a bench, the places of the tasks are fixed
                    (`job.load.plan`); job_state: states of a job, which of its tasks may start,
                    when they start again
    placement       where tasks run, in which slots, and the numbers of their channels
    resource_manager, cluster_process    the processes of TaskManagers
    workers         hosts of TaskManagers other than this one: connections, files, and their clocks
                    (host_clock); worker_process: starts TaskManagers there

The TaskManager side:

    task_executor   the process: its loop, and the commands it carries out
    hosted_job      settings, trace, statistics and printed lines of one job there; creates its
                    tasks
    attempts        the attempts it runs, and the channels they read; attempt: one of them, from
                    submission to end
    task_io         text and files that tasks read and write
    load_run        follows a load

The messages:

    control_messages    their types; reports: the measurements they carry
    control_connection  sends them as JSON, after a token; the port on loopback

The results:

    collected       what TaskManagers reported, for the results and the manifest of both kinds of
                    run, and the progress of a bench
    run_result, run_warnings    the result of a bench
    measured_ledger    where the time of any run went, and the verdict on it
    job_measurements, job_files    the result and the status of a job
    peer_ends       the consumer or the producer of an exchange with Flink at the other end: there
                    is no JobManager; peer runs the TaskExecutor of our end in the process of the
                    command

Data goes over the data ports of the TaskManagers.
"""
