"""The tap: a transparent proxy between TaskManagers that records what passes.

How an operator uses it: a TaskManager announces `taskmanager.data.port` and listens on
`taskmanager.data.bind-port`. Set the two apart, start the tap in between, and every consumer comes
through it without knowing:

    taskmanager.data.port: 7001        # what consumers connect to: the tap's port
    taskmanager.data.bind-port: 7101   # where the TaskManager listens

    flinknet trace tap --listen 0.0.0.0:7001 --upstream 127.0.0.1:7101 --out tapped
    flinknet trace info tapped
    flinknet trace verify tapped

The tap must be reachable under `taskmanager.host`, and it must be up before the job starts: a
consumer that finds no listener at the port fails its job. Stopping it breaks the connections
through it, which Flink takes as lost TaskManagers: jobs restart. It records what producers behind
it send to other TaskManagers, not what stays within one. With Flink's internal TLS it needs
a certificate and a key that the cluster trusts, and from Flink 2.3 on a certificate that carries
the host's name.

`relay` moves bytes between two `ends`, `proxy` waits for sockets, `session` does the rest; all of
it is one event loop on one thread. `redirected`: where a connection that the kernel turned away to
the tap was on its way to. `delays`: how long bytes were held up. `view`: what is shown.
`rest_watch` holds the process that asks the JobManager.
"""

from .ends import TlsContexts, create_contexts
from .session import Tap, TapConfig

__all__ = ["Tap", "TapConfig", "TlsContexts", "create_contexts"]
