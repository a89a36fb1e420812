"""Masters of standalone Spark clusters: whether one answers, before a JVM waits a minute for it."""

from __future__ import annotations

import socket

from flinknet.errors import ConfigError, FlinknetError

_SCHEME = "spark://"
_ANSWER_WAIT_S = 5.0
_PORT_MAX = 65_535


def check_master(master: str) -> None:
    """See that one of the hosts of a spark:// URL takes connections; other masters are not asked.

    Raises: ConfigError if the URL names no host and port; FlinknetError if none of them answers.
    """
    if not master.startswith(_SCHEME):
        return
    silent = []
    for host, port in _addresses(master):
        try:
            socket.create_connection((host, port), _ANSWER_WAIT_S).close()
            return
        except (OSError, UnicodeError) as error:  # the latter of what cannot be a host's name
            why = getattr(error, "strerror", None) or error
            silent.append(f"{_SCHEME}{host}:{port} ({why})")
    raise FlinknetError(
        f"no Spark master answers at {', '.join(silent)}; see that it runs there, or give another"
        " --master"
    )


def _addresses(master: str) -> list[tuple[str, int]]:
    """The hosts and ports of spark://HOST:PORT,HOST:PORT…; with several masters one is in charge
    and the others stand by.
    """
    addresses = []
    for text in master.removeprefix(_SCHEME).split(","):
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) <= _PORT_MAX:
            raise ConfigError(f"--master: {master!r} is no master; write spark://HOST:PORT")
        addresses.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return addresses
