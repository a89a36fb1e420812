"""The tap: a transparent proxy between TaskManagers that records their traffic.

A TaskManager announces `taskmanager.data.port` and listens on `taskmanager.data.bind-port`. Set the
two to different ports and start the tap in between; then every consumer connects through it:

    taskmanager.data.port: 7001        # the tap's port, to which consumers connect
    taskmanager.data.bind-port: 7101   # where the TaskManager listens

    flinknet trace tap --listen 0.0.0.0:7001 --upstream 127.0.0.1:7101 --out tapped

With Flink's internal TLS the tap needs a certificate and a key that the cluster trusts; from Flink
2.3 on, the certificate must carry the host's name. docs/capture.md has the rest.

`relay` moves bytes between two `ends` and measures the added delay, `proxy` waits for sockets,
`session` does the rest with `capture.session`; all of it is one event loop on one thread. `ends`
also finds the original destination of connections that the kernel redirected to the tap.
"""

from .ends import TlsContexts, create_contexts
from .session import Tap, TapConfig

__all__ = ["Tap", "TapConfig", "TlsContexts", "create_contexts"]
