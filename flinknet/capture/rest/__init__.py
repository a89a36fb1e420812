"""Jobs of a cluster from the REST API of Flink's JobManager: names, places, settings, metrics.

    http_client  the API's answers over HTTP and TLS
    answers      sources of answers: the API itself, or a directory of saved ones
    jobs         answers decoded, as values of `graph.running_job`
    plans        one saved answer about a job, or its plan, in place of an API
    settings     settings of the cluster, and of each job's checkpoints
    names        the job in a trace's manifest: its vertices, edges, consumers
    sampler      Flink's own metrics, once a second, as lines of a metrics file
    process      the process that samples for a tap, which must never wait for the JobManager

Everything is read-only: nothing is ever changed on the cluster.
"""
