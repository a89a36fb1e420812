"""Jobs of a cluster from the REST API of Flink's JobManager: names, places, settings, metrics.

    http_client  the API's answers over HTTP and TLS
    answers      sources of answers: the API itself, a directory of saved ones, one saved answer
                 or plan of a job
    jobs         answers decoded, as values of `graph.running_job`
    settings     settings of the cluster and its jobs that are not on the wire, with their origins
    names        the job in a trace's manifest: its vertices, edges, consumers
    places       names of channels that were open before a capture
    sampler      Flink's own metrics, once a second, as lines of a metrics file
    process      the process that samples for a tap, which must never wait for the JobManager

Everything is read-only: nothing is ever changed on the cluster.
"""
