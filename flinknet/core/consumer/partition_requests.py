# mypyc
"""PartitionRequests: the partition requests of one connection until their channels are open:
unsent, sent, or to be repeated because the producer does not have the partition.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinknet.errors import LocalTransportError, TransportError
from flinknet.units import NS_PER_MS

from .input_channel import RemoteInputChannel


@dataclass(frozen=True, slots=True)
class RequestBackoffPolicy:
    """Settings of repeated requests.

    Attributes:
        initial_ns: taskmanager.network.request-backoff.initial; 0 for no repetition.
        max_ns: taskmanager.network.request-backoff.max.
        listener_timeout_ns: how long producers let an early request wait before they refuse it; 0
            if they refuse at once.
    """

    initial_ns: int = 100 * NS_PER_MS
    max_ns: int = 10_000 * NS_PER_MS
    listener_timeout_ns: int = 10_000 * NS_PER_MS


class RequestBackoff:
    """Backoff of one channel (Flink: InputChannel and RemoteInputChannel.increaseBackoff).

    If producers let requests wait, a refused request is repeated at once, as long as the waits add
    up to less than twice the maximum; by default that is once. If they refuse at once, as before
    Flink 1.19, it is repeated after the initial delay, then after twice that, and so on up to the
    maximum. Differs from Flink 2.x, where a timeout of 0 lets requests wait forever: here it
    selects the older behaviour.
    """

    def __init__(self, policy: RequestBackoffPolicy) -> None:
        self._policy = policy
        self._current_ns = 0

    def next_delay_ns(self) -> int | None:
        """Delay before the next repetition; None if there is none."""
        policy = self._policy
        if policy.listener_timeout_ns > 0:
            self._current_ns += policy.listener_timeout_ns
            return 0 if self._current_ns < 2 * policy.max_ns else None
        if policy.initial_ns <= 0 or self._current_ns >= policy.max_ns:
            return None
        doubled_ns = 2 * self._current_ns or policy.initial_ns
        self._current_ns = min(doubled_ns, policy.max_ns)
        return self._current_ns


class PartitionRequests:
    """Requests of a connection (Flink: NettyPartitionRequestClient.requestSubpartition)."""

    def __init__(self) -> None:
        self.policy = RequestBackoffPolicy()
        self._unsent: list[RemoteInputChannel] = []
        self._are_handed_over = False
        self._backoffs: dict[bytes, RequestBackoff] = {}
        self._repetitions: dict[bytes, int] = {}

    def add(self, channel: RemoteInputChannel) -> None:
        self._unsent.append(channel)
        self._are_handed_over = False

    def hand_over(self) -> None:
        """Note that the driver takes the bytes to send; on the next call it has sent them."""
        if self._unsent:
            if self._are_handed_over:
                self._unsent.clear()
            self._are_handed_over = True

    def fail_unsent(self, peer: str, loss: TransportError) -> list[RemoteInputChannel]:
        """Fail and return the channels whose request may be unsent when the connection is lost."""
        unsent, self._unsent = self._unsent, []
        for channel in unsent:
            text = f"channel {channel.index}: its partition request to {peer} was not sent"
            channel.fail(LocalTransportError(f"{text}; the connection {loss}"))
        return unsent

    def next_deadline_ns(self) -> int | None:
        return min(self._repetitions.values()) if self._repetitions else None

    def take_due(self, *, now_ns: int) -> list[bytes]:
        due = [each for each, due_ns in self._repetitions.items() if now_ns >= due_ns]
        for receiver_id in due:
            del self._repetitions[receiver_id]
        return due

    def not_found(self, receiver_id: bytes, *, now_ns: int) -> int | None:
        """Schedule a repetition. Returns: delay until `take_due` returns the request; 0 to repeat
        at once, None to give up.
        """
        backoff = self._backoffs.setdefault(receiver_id, RequestBackoff(self.policy))
        delay_ns = backoff.next_delay_ns()
        if delay_ns:
            self._repetitions[receiver_id] = now_ns + delay_ns
        return delay_ns

    def forget(self, receiver_id: bytes) -> None:
        self._backoffs.pop(receiver_id, None)
        self._repetitions.pop(receiver_id, None)
