"""What Flink's JobManager says of its jobs through its REST API: names, places, counters.

    http_client  the API's answers over HTTP and TLS
    answers      where answers come from: the API itself, or a directory of saved ones
    jobs         answers decoded, as values of `graph.running_job`
    plans        one saved answer about a job, or its plan, in place of an API
    settings     how the cluster is set, and each job's checkpoints
    names        the job in a trace's manifest: its vertices, edges, consumers
    sampler      Flink's own metrics, once a second, as lines of a metrics file
    process      both in a process of its own, so that a tap never waits for the JobManager

Everything is read; nothing is ever changed on the cluster.
"""
