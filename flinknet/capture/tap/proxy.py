"""Proxy: listeners, relays and one selector; the part of the tap that waits for sockets."""

from __future__ import annotations

import errno
import os
import resource
import selectors
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from flinknet.errors import ConfigError, LocalTransportError, TlsError
from flinknet.loopback import family_of
from flinknet.runtime.clock import monotonic_ns
from flinknet.runtime.sockets import Listener
from flinknet.units import format_address

from ..channels import Ends
from ..observer import ConnectionObserver
from .ends import (
    Address,
    End,
    NotRedirectedError,
    PlainEnd,
    TlsContexts,
    TlsEnd,
    check_not_own,
    original_destination,
    plain,
)
from .relay import Relay, Turn

CONNECT_TIMEOUT_NS: Final = 10_000_000_000
"""Limit for connecting to the upstream and for both handshakes, in ns."""

TLS_WARNING: Final = (
    "this is TLS, which is forwarded unread; to record it, end the tap and give it --tls-cert,"
    " --tls-key and --tls-ca"
)

_OPEN_FILES_MAX: Final = 1 << 20
"""Limit of open files to set where the system has none."""

INCIDENTS_KEPT: Final = 100


class Proxy:
    """Relays connections from each listening address to its upstream; without an upstream, to the
    destination from which the kernel redirected the connection to the tap.

    Args:
        ended: called with each relay that has ended.

    Raises: LocalTransportError if an address cannot be listened on; ConfigError if it is also an
        upstream.
    """

    def __init__(
        self,
        pairs: Sequence[tuple[Address, Address | None]],
        observer_for: Callable[[Ends], ConnectionObserver],
        ended: Callable[[Relay], None],
        tls: TlsContexts | None = None,
    ) -> None:
        self._selector = selectors.DefaultSelector()
        self._observer_for = observer_for
        self._ended = ended
        self._tls = tls
        self.turn = Turn()
        self._listeners: list[Listener] = []
        self.relays: list[Relay] = []  # open ones
        self.accepted = self.refused = 0
        self.incidents: deque[dict[str, Any]] = deque(maxlen=INCIDENTS_KEPT)
        self.incident_count = self.observer_failures = self.tls_connections = 0
        self.warnings: dict[str, None] = {}  # problems that somebody should solve, each once
        self.addresses: list[Address] = []
        raise_open_files_limit()
        try:
            for address, upstream in pairs:
                self._listen(address, upstream)
            for _, upstream in pairs:
                if upstream is not None:
                    self._check_upstream(upstream)
        except BaseException:
            self.close()
            raise

    def run_once(self, timeout_ns: float) -> None:
        """Wait for sockets, at most `timeout_ns`, and serve those that are ready."""
        turn = self.turn
        ready = self._selector.select(0)
        if not ready:
            ready = self._selector.select(max(timeout_ns, 0) / 1e9)
            turn.since_ns = monotonic_ns()
        asked_ns = monotonic_ns()
        for key, mask in ready:
            if isinstance(key.data, tuple):
                relay, end = key.data
                self._serve(relay, end, mask)
            else:
                key.data()
        turn.since_ns = asked_ns

    def tick(self, now_ns: int) -> None:
        """Apply timeouts and wake paused listeners; to be called several times a second."""
        self.turn.fold()
        limit_s = CONNECT_TIMEOUT_NS // 10**9
        for relay in list(self.relays):
            if not relay.is_established and now_ns >= relay.opened_ns + CONNECT_TIMEOUT_NS:
                what = "handshake" if relay.is_connected else "upstream"
                self._break(relay, f"no answer of the {what} within {limit_s} s")
        for relay in self.relays:
            self._note_tls(relay)
        for listener in self._listeners:
            listener.wake()

    def close(self) -> None:
        for relay in list(self.relays):
            self._close(relay)
        for listener in self._listeners:
            listener.close()
        self._selector.close()

    def _listen(self, address: Address, upstream: Address | None) -> None:
        sock = socket.socket(family_of(address[0]))
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
            sock.listen(1024)
            sock.setblocking(False)
        except OSError as error:
            sock.close()
            advice = (
                "stop what uses the port, or choose another and set it as taskmanager.data.port"
                if error.errno in (errno.EADDRINUSE, errno.EACCES)
                else "give an address of this machine, such as 0.0.0.0 for all"
            )
            raise LocalTransportError(
                f"--listen {_text(address)}: cannot listen there ({error.strerror}); {advice}"
            ) from error
        listener = Listener(
            sock,
            watch=lambda: self._selector.register(
                sock, selectors.EVENT_READ, lambda: self._accept(listener, upstream)
            ),
            unwatch=lambda: self._selector.unregister(sock),
        )
        self._listeners.append(listener)
        self.addresses.append(sock.getsockname()[:2])

    def _check_upstream(self, upstream: Address) -> None:
        """Refuse an upstream at which the tap itself listens: each connection would open another. A
        name that cannot be resolved is accepted, as it may be resolved later."""
        with suppress(OSError):
            for *_, found in socket.getaddrinfo(*upstream, type=socket.SOCK_STREAM):
                host, port = plain((str(found[0]), int(found[1])))
                for own in map(plain, self.addresses):
                    is_all = own[0] == "::" or (own[0] == "0.0.0.0" and ":" not in host)
                    is_ours = is_all and own[1] == port and _is_of_this_machine(host)
                    if own == (host, port) or is_ours:
                        raise ConfigError(
                            f"--upstream: {_text(upstream)} is the tap's own address, as it listens"
                            f" at {_text(own)}; give the TaskManager another port"
                            " (taskmanager.data.bind-port)"
                        )

    def _accept(self, listener: Listener, upstream: Address | None) -> None:
        taken = listener.accept(socket.socket.accept)
        if taken is None:
            if listener.refusal is not None:  # it pauses until the next tick
                self._note("", listener.refusal)
                self.warnings[f"{listener.refusal}; connections wait"] = None
            return
        sock, peer = taken
        self.accepted += 1
        name = f"{_text(peer)} through {_text(listener.sock.getsockname())}"
        target = upstream
        try:
            if target is None:  # a port of the tap may be one of its client, to another address
                own = {each.server.sock.getsockname()[:2] for each in self.relays}
                check_not_own(peer[:2], own)
                target = original_destination(sock)
            self._open(sock, peer, target, name)
        except OSError as error:
            self.refused += 1
            sock.close()
            text = str(error.strerror)
            if error.errno in (errno.EMFILE, errno.ENFILE):
                text = "too many open files; raise the limit (ulimit -n)"
            elif target is not None and not isinstance(error, NotRedirectedError):
                text = f"upstream {_text(target)}: {error.strerror}; is its TaskManager up?"
            self._note(name, text)

    def _open(self, sock: socket.socket, peer: Address, upstream: Address, name: str) -> None:
        """Begin to connect to the upstream; until then nothing is received from the client."""
        client = server = None
        try:
            client = self._end(sock, is_server=True)
            server = self._end(socket.socket(family_of(upstream[0])), is_server=False)
            code = server.sock.connect_ex(upstream)
            if code not in (0, errno.EINPROGRESS):
                raise OSError(code, os.strerror(code))
        except BaseException:
            sock.close()
            for end in (client, server):
                if end is not None:
                    end.close()
            raise
        observer = self._observer_for(Ends(_text(upstream), _text(peer)))
        relay = Relay(name, client, server, observer, self._tls is not None, monotonic_ns())
        self.relays.append(relay)
        self._watch(relay)

    def _end(self, sock: socket.socket, *, is_server: bool) -> End:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is None:
            return PlainEnd(sock)
        context = self._tls.server if is_server else self._tls.client
        return TlsEnd(sock, context, is_server=is_server)

    def _serve(self, relay: Relay, end: End, mask: int) -> None:
        if relay.is_closed:
            return
        try:
            if not relay.is_established:
                self._establish(relay)
            else:
                if mask & selectors.EVENT_WRITE:
                    relay.handle_writable(end, self.turn)
                if mask & selectors.EVENT_READ:
                    relay.handle_readable(end, self.turn)
        except TlsError as error:
            return self._break(relay, str(error))
        except OSError as error:
            side = "the consumer" if end is relay.client else "the upstream"
            return self._break(relay, f"{error.strerror or error}, at or on the way to {side}")
        except Exception as error:  # close this connection, keep the others
            return self._break(relay, f"a fault of the tap: {type(error).__name__}: {error}")
        if relay.observer_failure is not None and relay.failure is None:
            relay.failure = f"not observed any more: {relay.observer_failure}"
            self.observer_failures += 1
            self._note(relay.name, relay.failure)
        if relay.is_over:
            self._close(relay)
        elif end.sock.fileno() >= 0:
            self._watch(relay)

    def _establish(self, relay: Relay) -> None:
        if not relay.is_connected:
            code = relay.server.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self.refused += 1
                text = f"upstream {relay.observer.ends.producer}: {os.strerror(code)}"
                return self._break(relay, f"{text}; is its TaskManager up?")
            relay.is_connected = True
        relay.shake()

    def _note_tls(self, relay: Relay) -> None:
        """Count a connection of which both ends turn out to use TLS, once."""
        if not relay.is_known_tls and relay.from_server.bytes and relay.observer.is_tls:
            relay.is_known_tls = True
            self.tls_connections += 1
            self.warnings[TLS_WARNING] = None

    def _break(self, relay: Relay, why: str) -> None:
        self._note(relay.name, why)
        self._close(relay, why)

    def _close(self, relay: Relay, failure: str | None = None) -> None:
        if relay.is_closed:
            return
        relay.is_closed = True
        relay.failure = failure or relay.failure
        self._note_tls(relay)
        for end in relay.watched:
            with suppress(KeyError, ValueError):
                self._selector.unregister(end.sock)
        relay.client.close()
        relay.server.close()
        self.relays.remove(relay)
        self._ended(relay)

    def _watch(self, relay: Relay) -> None:
        for end in (relay.client, relay.server):
            reads, writes = relay.wanted(end)
            events = selectors.EVENT_READ * reads | selectors.EVENT_WRITE * writes
            before = relay.watched.get(end, 0)
            if events == before:
                continue
            if not before:
                self._selector.register(end.sock, events, (relay, end))
            elif not events:
                self._selector.unregister(end.sock)
            else:
                self._selector.modify(end.sock, events, (relay, end))
            relay.watched[end] = events

    def _note(self, connection: str, text: str) -> None:
        self.incident_count += 1
        self.incidents.append({"at_ns": monotonic_ns(), "connection": connection, "text": text})


def raise_open_files_limit() -> None:
    """Raise this process's limit of open files as far as allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else hard
    if soft < most:
        with suppress(ValueError, OSError):  # the system may allow less than its hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _is_of_this_machine(host: str) -> bool:
    with socket.socket(family_of(host)) as sock, suppress(OSError):
        sock.bind((host, 0))
        return True
    return False


def _text(address: Address) -> str:
    return format_address(*address[:2])
