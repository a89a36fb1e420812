"""Addresses of Spark: masters, and servers of Spark Connect."""

from __future__ import annotations

import re
import socket

from flinknet.errors import ConfigError, FlinknetError

LOCAL_MASTER = "local[*]"

CONNECT_SCHEME = "sc://"

CONNECT_PORT = 15002

_SCHEME = "spark://"

_ANSWER_WAIT_S = 5.0

_PORT_MAX = 65_535


def is_local(master: str) -> bool:
    """Whether driver and executors are one process on this machine."""
    return master.startswith("local")


def is_here(master: str) -> bool:
    """Whether all of Spark is on this machine's loopback."""
    return is_local(master) or re.match(r"spark://(127\.|localhost:|\[::1\])", master) is not None


def check_master(master: str) -> None:
    """See that one of the hosts of a spark:// URL takes connections; other masters are not asked.

    Raises: ConfigError if the URL names no host and port; FlinknetError if none of them answers.
    """
    if master.startswith(CONNECT_SCHEME):
        raise ConfigError(f"--master: a server of Spark Connect is given by --remote {master}")
    if not master.startswith(_SCHEME):
        return
    addresses = _addresses(master)
    silent = []
    for host, port in addresses:
        why = _silence_of(host, port)
        if why is None:
            return
        silent.append(f"{_SCHEME}{host}:{port} ({why})")
    raise FlinknetError(
        f"no Spark master answers at {', '.join(silent)}; see that it runs there, or give another"
        " --master"
    )


def check_remote(remote: str) -> None:
    """See that a server of Spark Connect takes connections: its own client tries for minutes.

    Raises: ConfigError for a URL that names no server; FlinknetError if it does not answer.
    """
    host, port = connect_address(remote)
    why = _silence_of(host, port)
    if why is not None:
        raise FlinknetError(
            f"no Spark Connect server answers at {CONNECT_SCHEME}{host}:{port} ({why}); see that it"
            " runs there, or give another --remote"
        )


def connect_address(remote: str) -> tuple[str, int]:
    """Host and port of sc://HOST[:PORT][/;PARAMETERS]; the parameters may hold a token and are
    not repeated.

    Raises: ConfigError.
    """
    place = remote.removeprefix(CONNECT_SCHEME).partition("/")[0]
    host, colon, port = place.rpartition(":") if not place.endswith("]") else (place, "", "")
    if not colon:
        host, port = place, str(CONNECT_PORT)
    if not remote.startswith(CONNECT_SCHEME) or not host or not _is_port(port):
        raise ConfigError("--remote: this is not a Spark Connect server; write sc://HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _silence_of(host: str, port: int) -> object | None:
    """Why nobody answers there; None if somebody does."""
    try:
        socket.create_connection((host, port), _ANSWER_WAIT_S).close()
    except (OSError, UnicodeError) as error:  # the latter of what cannot be a host's name
        return getattr(error, "strerror", None) or error
    return None


def _addresses(master: str) -> list[tuple[str, int]]:
    """The hosts and ports of spark://HOST:PORT,HOST:PORT…; with several masters one is in charge
    and the others stand by.
    """
    addresses = []
    for text in master.removeprefix(_SCHEME).split(","):
        host, _, port = text.rpartition(":")
        if not host or not _is_port(port):
            raise ConfigError(f"--master: {master!r} is not a master; write spark://HOST:PORT")
        addresses.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return addresses


def _is_port(text: str) -> bool:
    return text.isdecimal() and 0 < int(text) <= _PORT_MAX
