"""A tap from start to end: a session whose bytes come from a proxy."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import inf
from typing import Any

from flinknet.errors import TraceError
from flinknet.runtime.clock import monotonic_ns, timestamp_epoch_ns
from flinknet.runtime.host import environment, host_id, versions_of
from flinknet.runtime.signals import interrupts_noted
from flinknet.trace.manifest import TAP, ClockInfo
from flinknet.units import format_address

from ..channels import ChannelTable
from ..recording import About
from ..session import LOOK_NS, TICK_NS, Session, SessionConfig
from .ends import REDIRECTED, Address, TlsContexts
from .proxy import Proxy
from .relay import Relay


@dataclass(frozen=True, slots=True, kw_only=True)
class TapConfig(SessionConfig):
    """Settings of a tap: listening addresses, each with its upstream; None: the original
    destination of connections that the kernel redirected."""

    pairs: tuple[tuple[Address, Address | None], ...]
    tls: TlsContexts | None = None


class Tap:
    """One tap. `run` returns the result, as plain data.

    Args:
        on_look: called once a second with the current figures.

    Raises: ConfigError or TraceError if --out cannot be used, LocalTransportError for an address
        that is taken; in both cases before anything is begun.
    """

    def __init__(self, config: TapConfig, on_look: Callable[[dict[str, Any]], None]) -> None:
        self._config = config
        self._on_look = on_look
        self._relayed_bytes = [0, 0]
        self._recording_error: str | None = None
        self._has_warned = False
        self._proxy = Proxy(
            config.pairs, lambda ends: self._session.observer(ends), self._relay_ended, config.tls
        )
        self.addresses = self._proxy.addresses
        host = environment()
        about = About(
            origin=TAP,
            name=TAP,
            pid=os.getpid(),
            started_at=host["started_at"],
            host=host,
            versions=versions_of(host),
            scenario={"tap": self._plan()},
            clock=ClockInfo(host_id=host_id(), epoch_ns=timestamp_epoch_ns()),
        )
        try:
            self._session = Session(
                config, about, ChannelTable(), begun_ns=monotonic_ns(), may_be_full=True
            )
        except BaseException:
            self._proxy.close()
            raise

    def run(self, on_start: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """Relay until the duration is over or a signal comes; then close everything.

        Args:
            on_start: called when signals can end the tap properly.

        Returns: the result; `recording_error` has the reason if events were lost.
        """
        config, proxy, session = self._config, self._proxy, self._session
        gc.freeze()  # objects that exist now live to the end; garbage collection can skip them
        begun_ns = session.begun_ns = monotonic_ns()
        until_ns = inf if config.duration_ns is None else begun_ns + config.duration_ns
        next_tick_ns, next_look_ns = begun_ns, begun_ns + LOOK_NS
        with interrupts_noted() as signals:
            on_start()
            while not signals:
                now_ns = monotonic_ns()
                if now_ns >= next_tick_ns:
                    proxy.tick(now_ns)
                    self._guard(session.take_names)
                    self._guard(session.recording.tick, now_ns)
                    self._warn_of_losses()
                    next_tick_ns = now_ns + TICK_NS
                if now_ns >= next_look_ns:
                    self._guard(self._look, now_ns)
                    next_look_ns = now_ns + LOOK_NS
                if now_ns >= until_ns:
                    break
                proxy.run_once(min(next_tick_ns, until_ns) - now_ns)
        ended = {
            "stopped_by": signal.Signals(signals[0]).name if signals else "duration",
            "connections_cut": len(proxy.relays),
        }
        ended_ns = monotonic_ns()
        proxy.close()
        self._guard(session.end_watch)
        result = session.result(ended_ns) | ended | self._figures()
        self._guard(session.recording.close, ended_ns)
        return result | session.written() | {"recording_error": self._recording_error}

    def _warn_of_losses(self) -> None:
        """Warn at once that the trace cannot be written; connections continue."""
        recording = self._session.recording
        why = recording.files.lacking or recording.recorder.error or self._recording_error
        if why is not None and not self._has_warned:
            self._has_warned = True
            self._proxy.warnings[f"recording stopped: {why}; everything is still forwarded"] = None

    def _relay_ended(self, relay: Relay) -> None:
        relay.observer.close(monotonic_ns())
        self._relayed_bytes[0] += relay.from_server.bytes
        self._relayed_bytes[1] += relay.from_client.bytes
        self._session.end_connection(relay.observer, failure=relay.failure)

    def _look(self, now_ns: int) -> None:
        proxy = self._proxy
        delay = proxy.turn.take_recent()
        figures = {
            "connections": len(proxy.relays),
            "accepted": proxy.accepted,
            "incidents": proxy.incident_count,
            "last_incident": proxy.incidents[-1]["text"] if proxy.incidents else None,
            "delay_ns_p50": delay.percentile(0.5) if delay.count else None,
            "delay_ns_p99": delay.percentile(0.99) if delay.count else None,
            "warnings": list(proxy.warnings),
        }
        metrics: dict[str, float] = {"connections": len(proxy.relays)}
        if delay.count:
            metrics["added_delay"] = delay.percentile(0.99) or 0.0
        self._on_look(self._session.look(now_ns, figures, metrics))

    def _guard(self, step: Callable[..., None], *arguments: Any) -> None:
        try:
            step(*arguments)
        except Exception as error:  # fails open: reported at the end
            is_known = isinstance(error, TraceError)
            self._recording_error = str(error) if is_known else f"{type(error).__name__}: {error}"

    def _plan(self) -> dict[str, Any]:
        config = self._config
        return {
            "pairs": [
                {
                    "listen": format_address(*own),
                    "upstream": REDIRECTED if up is None else format_address(*up),
                }
                for own, up in config.pairs
            ],
            "is_tls": config.tls is not None,
            "counts_records": config.counts_records,
            "has_times": config.has_times,
            "trigger": config.trigger and config.trigger.text,
            "ring_ns": config.ring_ns,
            "rest": config.rest and config.rest.place,
        }

    def _figures(self) -> dict[str, Any]:
        proxy = self._proxy
        return {
            "listening": [format_address(*each) for each in self.addresses],
            "tap": self._plan(),
            "connections": proxy.accepted,
            "connections_refused": proxy.refused,
            "bytes_from_producers": self._relayed_bytes[0],
            "bytes_from_consumers": self._relayed_bytes[1],
            "chunks": proxy.turn.chunks,
            "added_delay_ns": asdict(proxy.turn.summary()),
            "observer_failures": proxy.observer_failures,
            "tls_connections": proxy.tls_connections,
            "warnings": list(proxy.warnings),
            "incidents": list(proxy.incidents),
            "incident_count": proxy.incident_count,
        }
