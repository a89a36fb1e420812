"""Jobs as processes: a client submits a program, one JobManager schedules its tasks, TaskManagers
run them.

Control messages go over a port of their own, as JSON; data goes over the data ports of the
TaskManagers. What the JobManager decides is in `job_master`, which knows no sockets.
"""
