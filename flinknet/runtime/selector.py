"""Selectors by the names of Flink's transports, and a precise sleep.

Flink: the choice between Netty's NIO and epoll event loops; 2.x uses epoll where available.
"""

from __future__ import annotations

import select
import selectors

from flinknet.errors import ConfigError

AUTO, NIO, EPOLL = "auto", "nio", "epoll"


def create_selector(transport: str) -> selectors.BaseSelector:
    """Create a selector: `epoll`, `nio` (the portable one, here select(2)), or `auto`: epoll where
    available.

    select(2), not poll(2), since its time-outs are exact to the microsecond. It holds 1024
    descriptors; a TaskManager has two connections for each other one.

    Raises: ConfigError for another name, or for epoll where it is not available.
    """
    name = transport.lower()
    has_epoll = hasattr(selectors, "EpollSelector")
    if name not in (AUTO, NIO, EPOLL):
        raise ConfigError(
            f"taskmanager.network.netty.transport: {transport!r} is not known; choose from"
            f" {AUTO}, {NIO}, {EPOLL}"
        )
    if name == EPOLL and not has_epoll:
        raise ConfigError(
            f"taskmanager.network.netty.transport: this system has no {EPOLL}; use {AUTO}"
        )
    if name == NIO or not has_epoll:
        return selectors.SelectSelector()
    return selectors.EpollSelector()


def sleep_until_ready(
    selector: selectors.BaseSelector, timeout_s: float
) -> list[tuple[selectors.SelectorKey, int]]:
    """Wait for registered sockets with microsecond precision: an epoll wait alone rounds up to a
    millisecond.
    """
    if isinstance(selector, selectors.SelectSelector):
        return selector.select(timeout_s)
    select.select([selector.fileno()], [], [], timeout_s)  # type: ignore[attr-defined]
    return selector.select(0)
