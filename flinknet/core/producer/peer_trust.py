# mypyc
"""PeerTrust: how far a consumer is trusted, by its requests so far; answers it with errors."""

from __future__ import annotations

from collections.abc import Mapping

from flinknet.core.probe import ControlMessages, MessageKind
from flinknet.core.wire.frames import FRAME_BYTES_MAX, FrameDecoder
from flinknet.core.wire.ids import InputChannelID
from flinknet.core.wire.java_errors import JavaThrowable
from flinknet.core.wire.messages import ErrorResponse
from flinknet.errors import RemoteProtocolError

FIRST_FRAME_BYTES_MAX = 4096
"""Longest frame before a connection has requested something of the run; a PartitionRequest has 97
bytes."""

STRANGE_REQUESTS_MAX = 128
"""Most requests for unknown receivers; a connection that makes more is closed."""

UNSENT_ERRORS_BYTES_MAX = 64 * 1024
"""A peer that leaves more unread is not read any further (Netty's high water mark)."""

_ERROR_RESPONSE = int(MessageKind.ERROR_RESPONSE)


class PeerTrust:
    """Counts a peer's requests outside the run.

    Attributes:
        is_of_run: whether it has requested something of the run.
        strange_requests: number of messages for unknown receivers.
        is_read: False while too many errors are waiting to be sent.
    """

    def __init__(
        self, decoder: FrameDecoder, control: ControlMessages, channel_of: Mapping[bytes, int]
    ) -> None:
        self._decoder = decoder
        self._control = control
        self._channel_of = channel_of
        self.unsent_errors_bytes = 0
        self.is_of_run = False
        self.is_read = True
        self.strange_requests = 0

    def channel_of(self, receiver_id: bytes | None) -> int:
        """Index of a channel in the run; -1 if it is unknown."""
        return -1 if receiver_id is None else self._channel_of.get(receiver_id, -1)

    def admit(self) -> None:
        self.is_of_run = True
        self._decoder.frame_bytes_max = FRAME_BYTES_MAX

    def count_request(self, receiver_id: bytes) -> None:
        """Count a message of an unknown receiver. Raises: RemoteProtocolError after too many."""
        if receiver_id in self._channel_of:
            return
        self.strange_requests += 1
        if self.strange_requests > STRANGE_REQUESTS_MAX:
            raise RemoteProtocolError(
                f"more than {STRANGE_REQUESTS_MAX} requests for receivers that are not of this run"
            )

    def send_error(self, class_name: str, text: str, receiver_id: bytes | None = None) -> None:
        """Answer with an ErrorResponse, for one receiver or (None) fatal for the connection."""
        receiver = InputChannelID(receiver_id) if receiver_id is not None else None
        answer = ErrorResponse(JavaThrowable(class_name, text), receiver).encode()
        self._control.send(answer, _ERROR_RESPONSE, self.channel_of(receiver_id))
        self.unsent_errors_bytes += len(answer)
        if self.unsent_errors_bytes > UNSENT_ERRORS_BYTES_MAX:
            self.is_read = False

    @property
    def may_resume_reading(self) -> bool:
        """Whether it was not read, but has since read its answers."""
        return not self.is_read and not self.unsent_errors_bytes
