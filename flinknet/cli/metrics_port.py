"""`--metrics-port` of a bench and of a recording: live values for Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from flinknet.errors import ConfigError
from flinknet.loopback import loopback
from flinknet.units import format_address

from .value_parsers import PORT_MAX

if TYPE_CHECKING:
    from rich.console import Console


def serve_metrics(text: str, talk: Console) -> Callable[[str], None]:
    """Serve metrics until the command ends, and print the address.

    Returns: a function that takes the metrics.
    Raises: ConfigError, LocalTransportError.
    """
    from flinknet.runtime.metrics_endpoint import MetricsEndpoint

    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > PORT_MAX:
        raise ConfigError(f"--metrics-port: {text!r} is not a port; write 9249 or 0.0.0.0:9249")
    endpoint = MetricsEndpoint(host.strip("[]") or loopback(), int(port))
    click.get_current_context().call_on_close(endpoint.close)
    talk.print(
        f"metrics: http://{format_address(*endpoint.address)}/metrics",
        soft_wrap=True,
        highlight=False,
        style="dim",
    )
    return endpoint.publish
