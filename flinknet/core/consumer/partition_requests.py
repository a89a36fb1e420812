# mypyc
"""PartitionRequests: what has become of the requests of one connection, until their channels are
open: not sent yet, sent, or to be repeated because the producer does not have the partition.
"""

from __future__ import annotations

from flinknet.errors import LocalTransportError, TransportError

from .input_channel import RemoteInputChannel
from .request_backoff import RequestBackoff, RequestBackoffPolicy


class PartitionRequests:
    """Flink: NettyPartitionRequestClient.requestSubpartition with the backoff of its channels.

    Attributes:
        policy: how patient channels are.
    """

    def __init__(self) -> None:
        self.policy = RequestBackoffPolicy()
        self._unsent: list[RemoteInputChannel] = []
        self._are_handed_over = False
        self._backoffs: dict[bytes, RequestBackoff] = {}
        self._repetitions: dict[bytes, int] = {}

    def add(self, channel: RemoteInputChannel) -> None:
        """A request is among the bytes that go out next."""
        self._unsent.append(channel)
        self._are_handed_over = False

    def hand_over(self) -> None:
        """The driver takes what is to be sent. Who asks for more has sent what it took before."""
        if self._unsent:
            if self._are_handed_over:
                self._unsent.clear()
            self._are_handed_over = True

    def fail_unsent(self, peer: str, loss: TransportError) -> list[RemoteInputChannel]:
        """The connection is lost: fail and return the channels whose request may not have been
        sent.
        """
        unsent, self._unsent = self._unsent, []
        for channel in unsent:
            text = f"channel {channel.index}: its partition request to {peer} was not sent"
            channel.fail(LocalTransportError(f"{text}; the connection {loss}"))
        return unsent

    def next_deadline_ns(self) -> int | None:
        """When the first request for a partition that was not found is to be repeated."""
        return min(self._repetitions.values()) if self._repetitions else None

    def take_due(self, *, now_ns: int) -> list[bytes]:
        """Receivers whose request is to be repeated now."""
        due = [each for each, due_ns in self._repetitions.items() if now_ns >= due_ns]
        for receiver_id in due:
            del self._repetitions[receiver_id]
        return due

    def not_found(self, receiver_id: bytes, *, now_ns: int) -> int | None:
        """The producer does not have the partition.

        Returns: how long the request waits before it is repeated, of which `take_due` tells; 0 for
            at once, None if it is not repeated any more.
        """
        backoff = self._backoffs.setdefault(receiver_id, RequestBackoff(self.policy))
        delay_ns = backoff.next_delay_ns()
        if delay_ns:
            self._repetitions[receiver_id] = now_ns + delay_ns
        return delay_ns

    def forget(self, receiver_id: bytes) -> None:
        """The channel is closed."""
        self._backoffs.pop(receiver_id, None)
        self._repetitions.pop(receiver_id, None)
