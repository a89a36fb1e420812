# mypyc
"""PartitionRequests: the partition requests of one connection until their channels are open:
unsent, sent, or to be repeated because the producer does not have the partition.
"""

from __future__ import annotations

from flinknet.errors import LocalTransportError, TransportError

from .input_channel import RemoteInputChannel
from .request_backoff import RequestBackoff, RequestBackoffPolicy


class PartitionRequests:
    """Requests of one connection (Flink: NettyPartitionRequestClient.requestSubpartition with the
    backoff of its channels).

    Attributes:
        policy: backoff of repeated requests.
    """

    def __init__(self) -> None:
        self.policy = RequestBackoffPolicy()
        self._unsent: list[RemoteInputChannel] = []
        self._are_handed_over = False
        self._backoffs: dict[bytes, RequestBackoff] = {}
        self._repetitions: dict[bytes, int] = {}

    def add(self, channel: RemoteInputChannel) -> None:
        """Add a request, which goes out with the next bytes."""
        self._unsent.append(channel)
        self._are_handed_over = False

    def hand_over(self) -> None:
        """Note that the driver takes the bytes to send; on the next call it has sent them."""
        if self._unsent:
            if self._are_handed_over:
                self._unsent.clear()
            self._are_handed_over = True

    def fail_unsent(self, peer: str, loss: TransportError) -> list[RemoteInputChannel]:
        """Fail and return the channels whose request may not have been sent, after the connection
        is lost.
        """
        unsent, self._unsent = self._unsent, []
        for channel in unsent:
            text = f"channel {channel.index}: its partition request to {peer} was not sent"
            channel.fail(LocalTransportError(f"{text}; the connection {loss}"))
        return unsent

    def next_deadline_ns(self) -> int | None:
        """When the next repetition is due."""
        return min(self._repetitions.values()) if self._repetitions else None

    def take_due(self, *, now_ns: int) -> list[bytes]:
        """Receivers whose request is to be repeated now."""
        due = [each for each, due_ns in self._repetitions.items() if now_ns >= due_ns]
        for receiver_id in due:
            del self._repetitions[receiver_id]
        return due

    def not_found(self, receiver_id: bytes, *, now_ns: int) -> int | None:
        """Schedule a repetition: the producer does not have the partition.

        Returns: delay until `take_due` returns the request; 0 to repeat at once, None to give up.
        """
        backoff = self._backoffs.setdefault(receiver_id, RequestBackoff(self.policy))
        delay_ns = backoff.next_delay_ns()
        if delay_ns:
            self._repetitions[receiver_id] = now_ns + delay_ns
        return delay_ns

    def forget(self, receiver_id: bytes) -> None:
        """Remove a closed channel."""
        self._backoffs.pop(receiver_id, None)
        self._repetitions.pop(receiver_id, None)
