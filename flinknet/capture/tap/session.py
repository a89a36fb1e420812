"""A tap from start to end: proxy, observers, recording, triggers, and the result."""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any, Final

from flinknet.errors import TraceError
from flinknet.graph.running_job import RunningJob
from flinknet.runtime.clock import monotonic_ns, timestamp_epoch_ns, wall_clock_iso
from flinknet.runtime.host import environment, host_id, versions_of
from flinknet.trace import RunManifest
from flinknet.trace.job_names import channel_names, named_edges
from flinknet.trace.manifest import TAP, ClockInfo
from flinknet.units import format_address

from ..channels import ChannelTable, Ends
from ..observer import ConnectionObserver
from ..recording import About, CaptureRecording, Rotation
from ..rest.http_client import RestPlace
from ..rest.names import channels_of, named
from ..stated import Layer, Stated
from ..trigger import Trigger
from .ends import TlsContexts
from .proxy import Proxy
from .redirected import REDIRECTED, Address
from .relay import Relay
from .rest_watch import RestWatch
from .view import Meter, channel_rows

TICK_NS: Final = 250_000_000
LOOK_NS: Final = 1_000_000_000
CONNECTIONS_LISTED_MAX: Final = 200

PROCESS_NAME: Final = "tap"


@dataclass(frozen=True, slots=True)
class TapConfig:
    """Settings of a tap.

    Attributes:
        pairs: listening addresses, each with its upstream; None: the original destination of
            connections that the kernel redirected.
        layout: layout of BufferResponses; None to detect it on each connection.
        stated: settings of the cluster, for the manifest; they are not on the wire.
        duration_ns: None: run until stopped.
        rest: the JobManager's REST API; None: no queries.
    """

    pairs: tuple[tuple[Address, Address | None], ...]
    out: Path
    layout: str | None = None
    counts_records: bool = True
    rotation: Rotation = field(default_factory=Rotation)
    trigger: Trigger | None = None
    duration_ns: int | None = None
    tls: TlsContexts | None = None
    stated: tuple[Layer, ...] = ()
    rest: RestPlace | None = None


class Tap:
    """One tap. `run` returns the result, as plain data.

    Args:
        on_look: called once a second with the current figures.
        on_tick: called several times a second.

    Raises: ConfigError or TraceError if --out cannot be used, LocalTransportError for an address
        that is taken; in both cases before anything is begun.
    """

    def __init__(
        self,
        config: TapConfig,
        on_look: Callable[[dict[str, Any]], None],
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        self._config = config
        self._on_tick = on_tick
        self._on_look = on_look
        self._table = ChannelTable()
        self._connections: list[dict[str, Any]] = []
        self._totals: Counter[str] = Counter()
        self._messages: Counter[str] = Counter()
        self._layouts: set[str] = set()
        self._relayed_bytes = [0, 0]
        self._recording_error: str | None = None
        self._has_warned = False
        self._stopped_by: str | None = None
        self._begun_ns = monotonic_ns()
        self._proxy = Proxy(config.pairs, self._observer_for, self._relay_ended, config.tls)
        host = environment()
        self._about = About(
            origin=TAP,
            name=PROCESS_NAME,
            pid=os.getpid(),
            started_at=host["started_at"],
            host=host,
            versions=versions_of(host),
            scenario={"tap": self._plan()},
            clock=ClockInfo(host_id=host_id(), epoch_ns=timestamp_epoch_ns()),
        )
        self._jobs: tuple[RunningJob, ...] = ()
        self._stated = Stated(given=config.stated)
        try:
            self._recording = CaptureRecording(
                config.out,
                self._about,
                self._table,
                config.rotation,
                self._described,
                may_be_full=True,
            )
        except BaseException:
            self._proxy.close()
            raise
        self._watch = (
            None
            if config.rest is None
            else RestWatch(config.rest, config.out, config.rotation.ring_ns)
        )
        self._names: dict[int, str] = {}
        self._named_channels = 0

    @property
    def addresses(self) -> list[Address]:
        """The listening addresses, with the port that was assigned in place of 0."""
        return self._proxy.addresses

    def run(self, on_start: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """Relay until the duration is over or a signal comes; then close everything.

        Args:
            on_start: called when signals can end the tap properly.

        Returns: the result; `recording_error` has the reason if events were lost.
        """
        config, proxy, recording = self._config, self._proxy, self._recording
        gc.freeze()  # objects that exist now live to the end; garbage collection can skip them
        begun_ns = self._begun_ns = monotonic_ns()
        until_ns = None if config.duration_ns is None else begun_ns + config.duration_ns
        meter, next_tick_ns, next_look_ns = Meter(begun_ns), begun_ns, begun_ns + LOOK_NS
        with self._signals_stop():
            on_start()
            while self._stopped_by is None:
                now_ns = monotonic_ns()
                if until_ns is not None and now_ns >= until_ns:
                    self._stopped_by = "duration"
                    break
                if now_ns >= next_tick_ns:
                    proxy.tick(now_ns)
                    self._guard(self._take_names)
                    self._guard(recording.tick, now_ns)
                    self._warn_of_losses()
                    self._guard(self._on_tick)
                    next_tick_ns = now_ns + TICK_NS
                if now_ns >= next_look_ns:
                    self._guard(self._look, meter, now_ns)
                    next_look_ns = now_ns + LOOK_NS
                wake_ns = next_tick_ns if until_ns is None else min(next_tick_ns, until_ns)
                proxy.run_once(wake_ns - now_ns)
        cut = len(proxy.relays)
        ended_ns = monotonic_ns()
        proxy.close()
        if self._watch is not None:
            self._guard(self._watch.close)
            self._name_channels(self._watch)
        result = self._result(ended_ns, cut)
        self._guard(recording.close, ended_ns)
        result["files"] = [each.path.name for each in recording.files.files]
        result["trace_bytes"] = recording.files.size_bytes
        result["lost_events"] = recording.recorder.dropped_events
        result["recording_error"] = self._recording_error
        return result

    def _observer_for(self, ends: Ends) -> ConnectionObserver:
        return ConnectionObserver(
            self._recording.recorder,
            self._table,
            self._config.layout,
            ends=ends,
            counts_records=self._config.counts_records,
        )

    def _relay_ended(self, relay: Relay) -> None:
        """Add a connection to the totals, and keep its summary if there is room."""
        now_ns = monotonic_ns()
        relay.observer.close(now_ns)
        summary = relay.observer.summary()
        for name in _TOTALS:
            self._totals[name] += getattr(summary, name)
        self._messages.update(summary.messages)
        if summary.layout is not None:
            self._layouts.add(summary.layout)
        self._relayed_bytes[0] += relay.from_server.bytes
        self._relayed_bytes[1] += relay.from_client.bytes
        if len(self._connections) < CONNECTIONS_LISTED_MAX:
            self._connections.append({**summary.to_dict(), "failure": relay.failure})

    def _take_names(self) -> None:
        """Take jobs and settings from the JobManager into the manifest, if they have changed."""
        if self._watch is not None and self._watch.tick():
            self._name_channels(self._watch)

    def _name_channels(self, watch: RestWatch) -> None:
        self._named_channels = len(self._table)
        self._stated = replace(watch.settings, given=self._config.stated)
        self._jobs = watch.jobs
        self._names = channel_names(self._recording.manifest())

    def _described(self, manifest: RunManifest) -> RunManifest:
        """The manifest with jobs and settings, which are not on the wire."""
        return self._stated.put_into(named(manifest, self._jobs))

    def _look(self, meter: Meter, now_ns: int) -> None:
        look = meter.look(self._table, self._proxy, now_ns)
        trigger, recording = self._config.trigger, self._recording
        if trigger is not None and not recording.is_holding:
            why = trigger.reason(look["metrics"])
            if why is not None:
                recording.trigger(why, now_ns)
                if self._watch is not None:
                    self._watch.keep()
        if self._watch is not None and len(self._table) > self._named_channels:
            self._name_channels(self._watch)
        for row in look["channels"]:
            row["name"] = self._names.get(row["channel"])
        look["rest_error"] = None if self._watch is None else self._watch.error
        look["elapsed_ns"] = now_ns - self._begun_ns
        look["trace_bytes"] = recording.files.size_bytes
        look["triggers"] = len(recording.triggers)
        look["warnings"] = list(self._proxy.warnings)
        self._on_look(look)

    def _warn_of_losses(self) -> None:
        """Warn at once that the trace cannot be written; connections continue."""
        recording = self._recording
        why = recording.files.lacking or recording.recorder.error or self._recording_error
        if why is not None and not self._has_warned:
            self._has_warned = True
            self._proxy.warnings[f"recording stopped: {why}; everything is still forwarded"] = None

    def _guard(self, step: Callable[..., None], *arguments: Any) -> None:
        """Run a step; errors of recording and displaying must not stop the connections."""
        try:
            step(*arguments)
        except TraceError as error:
            self._recording_error = str(error)
        except Exception as error:  # fails open: reported at the end
            self._recording_error = f"{type(error).__name__}: {error}"

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
            "layout": config.layout,
            "counts_records": config.counts_records,
            "trigger": None if config.trigger is None else config.trigger.text,
            "ring_ns": config.rotation.ring_ns,
            "is_tls": config.tls is not None,
            "rest": None if config.rest is None else config.rest.place,
        }

    def _result(self, ended_ns: int, cut: int) -> dict[str, Any]:
        channels, proxy = self._table.channels, self._proxy
        largest = max((each.largest_buffer_bytes for each in channels), default=0)
        return {
            "schema_version": 1,
            "origin": TAP,
            "started_at": self._about.started_at,
            "ended_at": wall_clock_iso(),
            "duration_ns": ended_ns - self._begun_ns,
            "stopped_by": self._stopped_by,
            "listening": [format_address(*each) for each in self.addresses],
            "tap": self._plan(),
            "connections": proxy.accepted,
            "connections_cut": cut,
            "connections_refused": proxy.refused,
            "bytes_from_producers": self._relayed_bytes[0],
            "bytes_from_consumers": self._relayed_bytes[1],
            "chunks": proxy.chunks,
            "added_delay_ns": asdict(proxy.delay.summary()),
            "layouts": sorted(self._layouts),
            "messages": {name: self._messages[name] for name in sorted(self._messages)},
            "buffers": sum(each.data_buffers for each in channels),
            "data_bytes": sum(each.data_bytes for each in channels),
            "records": sum(each.records for each in channels),
            "other_elements": sum(each.other_elements for each in channels),
            "uncounted_buffers": sum(each.uncounted_buffers for each in channels),
            "events": sum(each.events for each in channels),
            "largest_buffer_bytes": largest,
            "fan_out": self._table.fan_out(),
            **{name: self._totals[name] for name in _TOTALS},
            "channels_refused": self._table.refused_channels,
            "observer_failures": proxy.observer_failures,
            "tls_connections": proxy.tls_connections,
            "warnings": list(proxy.warnings),
            "incidents": [asdict(each) for each in proxy.incidents],
            "incident_count": proxy.incident_count,
            "triggers": [{"at_ns": at_ns, "why": why} for at_ns, why in self._recording.triggers],
            "rest": self._rest_document(),
            "channels": [
                {**row, "name": self._names.get(row["channel"])}
                for row in channel_rows(channels, max(largest, 1))
            ],
            "per_connection": self._connections,
        }

    def _rest_document(self) -> dict[str, Any] | None:
        """Result of the queries to the JobManager; None if there were none."""
        watch = self._watch
        if watch is None:
            return None
        manifest = self._recording.manifest()
        edges = named_edges(manifest).values()
        return {
            "has_answered": watch.has_answered,
            "error": watch.error,
            "jobs": [_job_document(each) for each in watch.jobs],
            "settings": [
                {"key": key, "value": manifest.flink_keys.get(key), "from": origin}
                for key, origin in (manifest.settings_from or {}).items()
            ],
            "edges": [
                {
                    "number": each.number,
                    "name": each.name,
                    "channels": each.channels,
                    "local_channels": each.local_channels,
                }
                for each in edges
            ],
        }

    @contextmanager
    def _signals_stop(self) -> Iterator[None]:
        """Let Ctrl-C, SIGTERM and, except under nohup, SIGHUP end only the loop."""

        def stop(number: int, _: FrameType | None) -> None:
            self._stopped_by = signal.Signals(number).name

        taken = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            taken.append(signal.SIGHUP)
        before = {each: signal.signal(each, stop) for each in taken}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _job_document(job: RunningJob) -> dict[str, Any]:
    channels, local = channels_of(job)
    return {"id": job.id, "name": job.name, "channels": channels, "local_channels": local}


_TOTALS = (
    *("skipped_bytes", "undecodable", "losses", "sequence_gaps", "unpaid_buffers"),
    *("missed_buffers", "credit_unknown_channels", "unknown_receivers"),
)
