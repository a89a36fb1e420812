"""Imports a capture file into a run directory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from flinknet.errors import TraceError, TraceFormatError
from flinknet.trace import ClockInfo
from flinknet.trace.manifest import CAPTURE_NAME

from ..channels import ChannelTable
from ..observer import ConnectionObserver, Ends
from ..recording import About, CaptureRecording
from .clock import CaptureClock
from .connections import CapturedConnection, CapturedConnections
from .segments import Endpoint, PacketCounts, tcp_segments
from .series import CaptureFiles

PROGRESS_PACKETS: Final = 20_000
KINDS_LISTED_MAX: Final = 16

_ENCRYPTED: Final = {"IPsec", "WireGuard"}

CLOCK: Final = "CLOCK_REALTIME"
"""Clock of the instants in captures."""


@dataclass(frozen=True, slots=True)
class ImportedCapture:
    """Summary of an imported capture.

    Attributes:
        directory: the run directory.
        tcp_connections: number of all TCP connections; `connections` describes those of Flink.
        file: all files of the capture, as far as they were read.
        clock: irregularities of the capture's clock, in words.
    """

    directory: Path
    packets: PacketCounts
    tcp_connections: int
    connections: tuple[dict[str, Any], ...]
    file: CaptureFiles
    clock: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The summary as JSON-ready plain data.

        Each connection has its observer's summary and, under `tcp`, the figures of TCP by
        direction: `data` from the producer, `credit` from the consumer. `missing_direction` is the
        direction that the capture lacks, if any. Stalls for lack of credit are in the trace;
        `zero_windows` are the times [from_ns, to_ns] of its clock in which the kernel of the
        consumer (`data`) or of the producer (`credit`) had no room.
        """
        packets = {name: getattr(self.packets, name) for name in self.packets.__slots__}
        packets["unknown_link_types"] = sorted(self.packets.unknown_link_types)
        packets["kinds"] = dict(self.packets.kinds.most_common(KINDS_LISTED_MAX))
        for name in ("unread_blocks", "timeless_packets"):
            packets[name] = getattr(self.file, name)
        return {
            "schema_version": 1,
            "run": str(self.directory),
            "packets": packets,
            "is_truncated": bool(self.file.truncated),
            "truncated_files": self.file.truncated,
            "tcp_connections": self.tcp_connections,
            "clock": list(self.clock),
            "connections": list(self.connections),
        }


def import_capture(
    paths: Sequence[Path],
    directory: Path,
    *,
    layout: str | None = None,
    counts_records: bool = True,
    versions: Mapping[str, str],
    on_progress: Callable[[int], None] = lambda _: None,
) -> ImportedCapture:
    """Read the files of a capture into a new run directory.

    Args:
        layout: layout of BufferResponses; None to detect it.
        on_progress: called with the number of packets read so far.

    Raises: TraceFormatError for a file that is no capture or has no connection of Flink;
        ConfigError or TraceError if the directory cannot be written to.
    """
    file, counts = CaptureFiles(paths), PacketCounts()
    reading = _Import(file, directory, layout, counts_records, versions)
    try:
        for number, captured in enumerate(tcp_segments(file, counts), start=1):
            segment = reading.clock.follow(captured)
            reading.now_ns = max(reading.now_ns, segment.at_ns)
            reading.connections.add(segment)
            if number % PROGRESS_PACKETS == 0:
                reading.tick()
                on_progress(file.packets)
        return reading.finish(counts)
    except BaseException:
        reading.abandon()
        raise


class _Import:
    """An import in progress; the recording begins with the first connection of Flink."""

    def __init__(
        self,
        file: CaptureFiles,
        directory: Path,
        layout: str | None,
        counts_records: bool,
        versions: Mapping[str, str],
    ) -> None:
        self.now_ns = 0
        self.connections = CapturedConnections(self._create_observer)
        self._file = file
        self._directory = directory
        self._layout = layout
        self._counts_records = counts_records
        self._versions = versions
        self._channels = ChannelTable()
        self.clock = CaptureClock(self._channels.are_open)
        self._recording: CaptureRecording | None = None

    def tick(self) -> None:
        """Keep the run directory up to date."""
        if self._recording is not None:
            self._recording.tick(self.now_ns)

    def abandon(self) -> None:
        """End an import that failed; the data before the failure becomes a complete trace."""
        if self._recording is not None:
            with suppress(TraceError):
                self._recording.close(self.now_ns)

    def finish(self, counts: PacketCounts) -> ImportedCapture:
        """End the import after the last packet."""
        self.connections.finish()
        if self._recording is None:
            raise TraceFormatError(self._nothing_found(counts))
        self._recording.within = self.clock.finish(self._channels.data_span())
        self._recording.tick(self.now_ns)
        self._recording.close(self.now_ns)
        imported = ImportedCapture(
            self._directory,
            counts,
            len(self.connections.all),
            tuple(_describe(each) for each in self.connections.of_flink),
            self._file,
            () if self._file.timeless_packets else tuple(self.clock.steps),
        )
        text = json.dumps(imported.to_dict(), indent=1) + "\n"
        (self._directory / CAPTURE_NAME).write_text(text, encoding="utf-8")
        return imported

    def _create_observer(
        self, producer: Endpoint, consumer: Endpoint, is_from_start: bool
    ) -> ConnectionObserver:
        if self._recording is None:
            about = About(
                origin="capture",
                name="capture",
                pid=0,
                started_at=datetime.fromtimestamp(self.now_ns / 1e9, UTC).isoformat(),
                host={"capture": self._file.short_names},
                versions=self._versions,
                clock=ClockInfo(CLOCK),
            )
            self._recording = CaptureRecording(self._directory, about, self._channels)
        return ConnectionObserver(
            self._recording.recorder,
            self._channels,
            self._layout,
            ends=Ends(str(producer), str(consumer)),
            is_from_start=is_from_start,
            counts_records=self._counts_records,
        )

    def _nothing_found(self, counts: PacketCounts) -> str:
        name, connections = self._file.name, len(self.connections.all)
        if counts.unknown_link_types:
            kinds = ", ".join(map(str, sorted(counts.unknown_link_types)))
            return (
                f"{name}: link type {kinds} is not known; capture on Ethernet, loopback or `-i any`"
            )
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in counts.kinds.most_common(3))
        others = f" ({kinds})" if kinds else ""
        if counts.kinds.keys() & _ENCRYPTED:
            others += (
                "; what a tunnel encrypts can be captured before it, on the interface of a pod"
            )
        if not counts.tcp_segments:
            return (
                f"{name}: no TCP in {self._file.packets:,} packets{others}; capture the data ports"
            )
        return (
            f"{name}: none of its {connections} TCP connections speaks Flink's data-port protocol"
            f"{others}; were the data ports captured, with whole packets (`-s 0`), and is"
            " security.ssl.internal.enabled off?"
        )


def _describe(connection: CapturedConnection) -> dict[str, Any]:
    assert connection.observer is not None
    data, credit = connection.server_stream, connection.client_stream
    return {
        **connection.observer.summary().to_dict(),
        "missing_direction": connection.missing_direction,
        "tcp": {
            name: {
                "bytes": stream.bytes,
                "is_from_start": stream.is_from_start,
                "retransmitted_segments": stream.retransmitted_segments,
                "retransmitted_bytes": stream.retransmitted_bytes,
                "out_of_order_segments": stream.out_of_order_segments,
                "gaps": stream.gaps,
                "missing_bytes": stream.missing_bytes,
                "zero_window_ns": zero_window_ns,
                "zero_windows": [
                    [each.from_ns, each.to_ns]
                    for each in connection.zero_windows
                    if each.is_data == (stream is data)
                ],
            }
            for name, stream, zero_window_ns in (
                ("data", data, connection.consumer_zero_window_ns),
                ("credit", credit, connection.producer_zero_window_ns),
            )
        },
    }
