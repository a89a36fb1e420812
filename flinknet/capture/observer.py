"""ConnectionObserver: both directions of one connection become rows of a trace.

The rows are those that the producer's process would have written, at the place of the capture:
BufferResponses are SENT with the credit they take, messages from the consumer are RECEIVED. Every
message is one row, and sequence numbers and credit can be checked as in any trace. Values that only
the processes know (instants of records, pools, consumption of buffers) are -1 or missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from flinknet.core.probe import MessageKind, Probe
from flinknet.core.wire.layout import LAYOUTS, Direction
from flinknet.errors import ConfigError

from .channels import ChannelTable, Ends
from .directions import FromClient, FromServer
from .frame_stream import TLS_NOTE, FrameStream
from .observed_connection import NoteTimes, ObservedConnection

__all__ = ["ConnectionObserver", "ConnectionSummary", "Ends", "layout_of_release"]

SEGMENT_SIZE_BYTES: Final = 32 * 1024
"""Flink's default segment size, in bytes; a data buffer of this size was full when it left."""


def layout_of_release(release: str | None) -> str | None:
    """The layout of a release of Flink; None (detect it) for None.

    Raises: ConfigError for an unknown release.
    """
    if release is None:
        return None
    parts = release.split(".")
    if parts[:2] == ["1", "20"]:
        return "1.20"
    if parts[0] == "2" and (len(parts) == 1 or parts[1] in ("0", "1", "2", "3", "x")):
        return "2.x"
    raise ConfigError(
        f"--flink-version: {release!r} is not known; choose from 1.20, 2.0, 2.1, 2.2, 2.3, or leave"
        " it out to have it detected"
    )


@dataclass(frozen=True, slots=True)
class ConnectionSummary:
    """Totals of a connection: observed, skipped and missing messages.

    Attributes:
        certain_from_ns: instant since which every byte of both directions is understood; None if
            it is not so now.
        credit_unknown_channels: channels whose PartitionRequest was missed, or that lost bytes
            later; their credit is unknown until they are requested again.
        missing_bytes: unobserved bytes of the producer, as far as their number is known.
        skipped_bytes: observed bytes that belong to no message.
        undecodable: messages that could not be read and were skipped.
        losses: how often message boundaries were lost.
        missed_buffers: buffers and events whose headers were not observed, by sequence numbers.
        sequence_gaps, unpaid_buffers: violations of the protocol; most likely lost frames.
    """

    connection: str
    layout: str | None
    bytes_from_server: int
    bytes_from_client: int
    missing_bytes: int
    messages: dict[str, int]
    channels: int
    certain_from_ns: int | None
    credit_unknown_channels: int
    skipped_bytes: int
    undecodable: int
    losses: int
    missed_buffers: int
    sequence_gaps: int
    unpaid_buffers: int
    unknown_receivers: int
    errors: tuple[str, ...]  # texts of ErrorResponses
    notes: tuple[str, ...]  # skipped and lost messages, in words

    def to_dict(self) -> dict[str, Any]:
        """The summary as JSON-ready plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


class ConnectionObserver:
    """Follows one connection; never raises for the bytes it reads.

    Bytes must come in the order in which they were sent, a message before its answer. A capture
    may have the two directions slightly out of order; buffers may then seem to lack credit.

    Args:
        probe: takes the rows.
        channels: the trace's channels, shared by its connections.
        layout: "2.x" or "1.20"; None to detect it from the first BufferResponse.
        ends: names of the two sides.
        is_from_start: the first bytes of both directions are observed.
        counts_records: whether to walk through payloads for the lengths of records.
        note_times: takes the times in a buffer before its row; None: they are not read. They are
            read only where records are counted.
        segment_size_bytes: a data buffer of this size left because it was full.
    """

    def __init__(
        self,
        probe: Probe,
        channels: ChannelTable,
        layout: str | None = None,
        *,
        ends: Ends = Ends("producer", "consumer"),  # noqa: B008 - frozen
        is_from_start: bool = True,
        counts_records: bool = True,
        note_times: NoteTimes | None = None,
        segment_size_bytes: int = SEGMENT_SIZE_BYTES,
    ) -> None:
        self._connection = ObservedConnection(
            probe,
            channels,
            ends,
            counts_records=counts_records,
            note_times=note_times,
            segment_size_bytes=segment_size_bytes,
        )
        self._server = FrameStream(
            Direction.PRODUCER_TO_CONSUMER,
            FromServer(self._connection),
            LAYOUTS[layout] if layout is not None else None,
            is_from_start=is_from_start,
        )
        self._client = FrameStream(
            Direction.CONSUMER_TO_PRODUCER,
            FromClient(self._connection),
            is_from_start=is_from_start,
        )

    @property
    def ends(self) -> Ends:
        """Names of the two sides."""
        return self._connection.ends

    @property
    def layout(self) -> str | None:
        """The layout of BufferResponses; None until the first one shows it."""
        return self._server.layout.name if self._server.layout else None

    @property
    def has_messages(self) -> bool:
        """Whether a message was observed."""
        return bool(self._connection.messages)

    @property
    def is_tls(self) -> bool:
        """Whether the connection uses TLS and cannot be read."""
        return TLS_NOTE in self._connection.notes

    def from_server(self, data: bytes | memoryview, at_ns: int) -> None:
        """Take bytes from the producing TaskManager; the caller may reuse them afterwards."""
        self._server.receive(memoryview(data), at_ns)

    def from_client(self, data: bytes | memoryview, at_ns: int) -> None:
        """Take bytes from the consuming TaskManager."""
        self._client.receive(memoryview(data), at_ns)

    def missing_from_server(self, lost_bytes: int | None, at_ns: int) -> None:
        """Note unobserved bytes from the producer; None: their number is unknown."""
        self._server.lose(lost_bytes, at_ns)

    def missing_from_client(self, lost_bytes: int | None, at_ns: int) -> None:
        """Note unobserved bytes from the consumer; None: their number is unknown."""
        self._client.lose(lost_bytes, at_ns)

    def close(self, at_ns: int) -> None:
        """End the connection and its channels."""
        for channel in self._connection.opened:
            channel.end(at_ns)

    def summary(self) -> ConnectionSummary:
        """The totals so far."""
        observed = self._connection
        since = self._server.certain_from_ns, self._client.certain_from_ns
        known = [each for each in since if each is not None]
        return ConnectionSummary(
            connection=observed.ends.connection,
            layout=self.layout,
            bytes_from_server=self._server.bytes,
            bytes_from_client=self._client.bytes,
            missing_bytes=self._server.missing_bytes,
            messages={
                MessageKind(kind).name: count for kind, count in sorted(observed.messages.items())
            },
            channels=len(observed.opened),
            certain_from_ns=max(known) if len(known) == len(since) else None,
            credit_unknown_channels=sum(each.credits_available is None for each in observed.opened),
            skipped_bytes=self._server.skipped_bytes + self._client.skipped_bytes,
            undecodable=observed.undecodable_messages,
            losses=observed.losses,
            missed_buffers=observed.missed_buffers,
            sequence_gaps=observed.sequence_gaps,
            unpaid_buffers=observed.unpaid_buffers,
            unknown_receivers=observed.unknown_receivers,
            errors=tuple(observed.errors),
            notes=tuple(observed.notes),
        )
