"""Imports packets of capture files, or of a live capture, into a run directory."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from flinknet.errors import TraceError, TraceFormatError
from flinknet.runtime.clock import monotonic_ns, timestamp_epoch_ns
from flinknet.runtime.signals import interrupts_noted
from flinknet.trace import ClockInfo
from flinknet.trace.manifest import CAPTURE, CAPTURE_NAME
from flinknet.trace.run_directory import seal_result

from ..channels import ChannelTable, Ends
from ..observer import ConnectionObserver
from ..recording import About
from ..session import CONNECTIONS_LISTED_MAX, LOOK_NS, TICK_NS, Session, SessionConfig
from ..sniff import Sniffer
from .clock import CaptureClock
from .connections import CapturedConnection, CapturedConnections
from .files import CaptureFiles
from .segments import Endpoint, PacketCounts, tcp_segments

PROGRESS_PACKETS: Final = 20_000
KINDS_LISTED_MAX: Final = 16

DRAIN_NS: Final = 5_000_000_000
"""Longest time in which a live source may end by itself after it was to end, in ns."""

_STREAM_FIGURES: Final = (
    *("bytes", "is_from_start", "retransmitted_segments", "retransmitted_bytes"),
    *("out_of_order_segments", "gaps", "missing_bytes"),
)

_ENCRYPTED: Final = {"IPsec", "WireGuard"}


@dataclass(frozen=True, slots=True)
class Live:
    """How to read packets while they come."""

    follows: bool = False  # the only file grows; else the source is a pipe
    on_look: Callable[[dict[str, Any]], None] = lambda _: None  # once a second, the figures
    sniffer: Sniffer | None = None  # writes to the pipe; None: somebody else started the writer


class Import:
    """Reads the files of a capture, or the one source of a live capture, into a new run directory;
    the recording begins with the first connection of Flink.

    Args:
        on_progress: called with the number of packets read so far.
        live: for a live capture, which ends with its source, its duration or a signal.

    capture.json has the packets, the figures of the recording, and each connection with its
    observer's summary and, under `tcp`, the figures of TCP by direction: `data` from the producer,
    `credit` from the consumer. `missing_direction` is the direction that the capture lacks, if any.
    Stalls for lack of credit are in the trace; `zero_windows` are the times [from_ns, to_ns] of its
    clock in which the kernel of the consumer (`data`) or of the producer (`credit`) had no room.
    `clock` has irregularities of the capture's clock.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        config: SessionConfig,
        *,
        versions: Mapping[str, str],
        on_progress: Callable[[int], None] = lambda _: None,
        live: Live | None = None,
    ) -> None:
        turn, follows = (None, False) if live is None else (self._turn, live.follows)
        self._file = CaptureFiles(paths, turn, follows=follows)
        if live is not None and live.sniffer is not None:
            self._file.files[0].name = live.sniffer.name
        self._counts = PacketCounts()
        self._config = config
        self._versions = versions
        self._on_progress = on_progress
        self._live = live or Live()
        self._connections = CapturedConnections(self._create_observer)
        self._channels = ChannelTable()
        self._clock = CaptureClock()
        self._session: Session | None = None
        self._described: list[dict[str, Any]] = []
        self._now_ns = 0  # by the clock of the capture
        self._begun_ns = self._come_ns = self._next_tick_ns = monotonic_ns()
        self._next_look_ns = self._begun_ns + LOOK_NS
        self._signals = list[int]()
        self._stopped_by: str | None = None
        self._stopped_ns = 0
        self._is_live = live is not None

    def run(self) -> dict[str, Any]:
        """Import all. If that fails, the data before the failure becomes a complete trace. Returns:
        the contents of capture.json.

        Raises: TraceFormatError for a file that is no capture or has no connection of Flink;
            ConfigError or TraceError if the directory cannot be written to.
        """
        try:
            with (
                interrupts_noted() if self._is_live else nullcontext(self._signals) as self._signals
            ):
                self._read()
                return self._finish()
        except BaseException:
            if self._session is not None:
                with suppress(TraceError):
                    self._session.end_watch()
                    self._session.recording.close(self._now_ns)
            raise

    def _read(self) -> None:
        for number, captured in enumerate(tcp_segments(self._file, self._counts), start=1):
            segment = self._clock.follow(captured)
            self._now_ns = max(self._now_ns, segment.at_ns)
            self._connections.add(segment)
            if number % PROGRESS_PACKETS == 0:
                self._on_progress(self._file.total("packets"))
                self._record_until(self._now_ns)

    def _finish(self) -> dict[str, Any]:
        self._connections.finish()
        session, file, sniffer = self._session, self._file, self._live.sniffer
        dropped, warnings = (0, list[str]()) if sniffer is None else sniffer.ended()
        if session is None:
            has_failed = bool(warnings) and self._stopped_by is None
            raise TraceFormatError(warnings[0] if has_failed else self._nothing_found())
        session.recording.within = self._clock.finish()
        self._take_finished(session)
        session.end_watch()
        result = session.result(self._now_ns)
        session.recording.tick(self._now_ns)
        self._session = None  # to be closed once
        session.recording.close(self._now_ns)
        counts = asdict(self._counts) | {
            "unknown_link_types": sorted(self._counts.unknown_link_types),
            "kinds": dict(self._counts.kinds.most_common(KINDS_LISTED_MAX)),
            "unread_blocks": file.total("unread_blocks"),
            "dropped_packets": max(file.total("dropped_packets"), dropped),
        }
        cut = [each.name for each in file.files if each.is_truncated and self._stopped_by is None]
        del result["per_connection"]
        imported = result | {
            "run": str(self._config.out),
            "stopped_by": self._stopped_by,
            "warnings": warnings,
            "packets": counts,
            "is_truncated": bool(cut),
            "truncated_files": cut,
            "tcp_connections": self._connections.count,
            "flink_connections": self._connections.flink_count,
            "silent_connections": self._connections.silent,
            "clock": list(self._clock.steps),
            "connections": self._described,
            **session.written(),
        }
        path = self._config.out / CAPTURE_NAME
        try:
            path.write_text(json.dumps(imported, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise TraceError(
                f"{path} cannot be written ({error.strerror}); the trace next to it is complete"
            ) from error
        seal_result(self._config.out, CAPTURE_NAME)
        return imported

    def _record_until(self, now_ns: int) -> None:
        """Keep the run directory up to date. Raises: TraceError as soon as events are lost."""
        if self._session is not None:
            self._take_finished(self._session)
            recording = self._session.recording
            recording.tick(now_ns)
            if recording.recorder.error is not None:
                raise recording.recorder.error

    def _take_finished(self, session: Session) -> None:
        """Describe the connections that have ended; further ones than CONNECTIONS_LISTED_MAX are
        added up in the last one, so that a capture of days does not grow by them."""
        for each in self._connections.take_finished():
            if each.observer is not None:
                session.end_connection(each.observer)
            self._described.append(_describe(each))
        while len(self._described) > CONNECTIONS_LISTED_MAX:
            last = self._described.pop()
            others = _sum(self._described.pop(), last)
            count = self._connections.flink_count - len(self._connections.of_flink)
            others["connection"] = f"{count - len(self._described)} others"
            self._described.append(others | {"certain_from_ns": None})

    def _turn(self, has_come: bool) -> float | None:
        """See `sources.Turn`."""
        now_ns = monotonic_ns()
        if has_come:
            self._come_ns = now_ns
        if self._should_end(now_ns, has_come):
            return None
        if now_ns >= self._next_tick_ns:
            self._next_tick_ns = now_ns + TICK_NS
            self._tick(now_ns)
        return (self._next_tick_ns - now_ns) / 1e9

    def _should_end(self, now_ns: int, has_come: bool) -> bool:
        """Whether to read no more. After a signal the source may have more, and ends by itself, as
        the signal went to its writer, too, or is asked to."""
        config, sniffer = self._config, self._live.sniffer
        if self._stopped_by is None:
            if self._signals:
                self._stopped_by = signal.Signals(self._signals[0]).name
            elif config.duration_ns is not None and now_ns >= self._begun_ns + config.duration_ns:
                self._stopped_by = "duration"
            else:
                return False
            self._stopped_ns = now_ns
            if sniffer is not None:
                sniffer.ask_to_end()
            return sniffer is None and not self._signals
        is_quiet = not has_come and now_ns >= self._stopped_ns + TICK_NS
        is_over = now_ns >= self._stopped_ns + DRAIN_NS or len(self._signals) > 1
        return is_over or (is_quiet and sniffer is None)

    def _tick(self, now_ns: int) -> None:
        # between two packets the clock of the capture goes on
        session, at_ns = self._session, self._now_ns + now_ns - self._come_ns
        if session is not None:
            session.take_names()
            self._record_until(at_ns)
        if now_ns >= self._next_look_ns:
            self._next_look_ns = now_ns + LOOK_NS
            open_now = sum(not each.is_ended for each in self._connections.of_flink)
            figures: dict[str, Any] = {
                "connections": open_now,
                "accepted": self._connections.flink_count,
                "packets": self._file.total("packets"),
                "incidents": 0,
                "elapsed_ns": now_ns - self._begun_ns,
            }
            if session is not None:
                figures = session.look(at_ns, figures, {"connections": open_now}) | figures
            self._live.on_look(figures)

    def _create_observer(
        self, producer: Endpoint, consumer: Endpoint, is_from_start: bool
    ) -> ConnectionObserver:
        if self._session is None:
            about = About(
                origin=CAPTURE,
                name="capture",
                pid=0,
                started_at=datetime.fromtimestamp(self._now_ns / 1e9, UTC).isoformat(),
                host={"capture": ", ".join(Path(each.name).name for each in self._file.files)},
                versions=self._versions,
                clock=ClockInfo("CLOCK_REALTIME"),
            )
            self._session = Session(
                self._config,
                about,
                self._channels,
                begun_ns=self._now_ns,
                epoch_ns=timestamp_epoch_ns(),
            )
        ends = Ends(str(producer), str(consumer))
        return self._session.observer(ends, is_from_start=is_from_start)

    def _nothing_found(self) -> str:
        counts, name, connections = self._counts, self._file.name, self._connections.count
        packets = self._file.total("packets")
        if not packets and self._stopped_by is not None:
            return f"{name}: nothing came before it was ended ({self._stopped_by})"
        if counts.unknown_link_types:
            kinds = ", ".join(map(str, sorted(counts.unknown_link_types)))
            advice = "capture on Ethernet, loopback or `-i any`"
            return f"{name}: link type {kinds} is not known; {advice}"
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in counts.kinds.most_common(3))
        others = f" ({kinds})" if kinds else ""
        if unread := self._file.total("unread_blocks"):
            others += f"; {unread:,} blocks of packets without an instant, or of unknown kinds"
        if counts.kinds.keys() & _ENCRYPTED:
            others += (
                "; what a tunnel encrypts can be captured before it, on the interface of a pod"
            )
        if not counts.tcp_segments:
            return f"{name}: no TCP in {packets:,} packets{others}; capture the data ports"
        return (
            f"{name}: none of its {connections} TCP connections speaks Flink's data-port protocol"
            f"{others}; were the data ports captured, with whole packets (`-s 0`), and is"
            " security.ssl.internal.enabled off?"
        )


def _sum(one: Any, other: Any) -> Any:
    """The sum of two descriptions: of numbers; of lists the first ones; else what both have."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {
            name: _sum(one[name], other[name]) if name in one and name in other else value
            for name, value in {**one, **other}.items()
        }
    if type(one) is int and type(other) is int:
        return one + other
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return [*one, *other][:KINDS_LISTED_MAX]
    return one if one == other else None


def _describe(connection: CapturedConnection) -> dict[str, Any]:
    assert connection.observer is not None
    server = connection.server
    tcp = {
        name: {
            **{each: getattr(connection.streams[sender], each) for each in _STREAM_FIGURES},
            "zero_window_ns": connection.zero_window_ns[1 - sender],
            "zero_windows": [list(each) for each in connection.zero_windows[1 - sender]],
        }
        for name, sender in (("data", server), ("credit", 1 - server))
    }
    missing = {"missing_direction": connection.missing_direction}
    return connection.observer.summary() | missing | {"tcp": tcp}
