"""What the two ends of a link spend on sending and receiving."""

from __future__ import annotations

from dataclasses import dataclass

from .cost_model import CostModel


@dataclass(frozen=True, slots=True)
class SendCosts:
    """What handing bytes to the socket takes of the sender's time, in ns.

    Attributes:
        ns_per_go: of what is handed over at one go, beside its messages. It holds up the sender,
            not them: the link's latency begins before.
        is_stream: what is handed over at one go is on its way in parts of TCP_BYTES, each as soon
            as its own bytes are.
    """

    ns_per_message: float = 0.0
    ns_per_byte: float = 0.0
    ns_per_go: float = 0.0
    is_stream: bool = False


@dataclass(frozen=True, slots=True)
class ReceiveCosts:
    """What taking bytes from the socket takes of the receiver's time, in ns.

    Attributes:
        ns_before: until they are taken; what arrives meanwhile is taken, too.
        ns_per_byte: of them, for the same.
        ns_after: until they are decoded.
        ns_per_message: of those that are whole then, for the same.
        is_stream: they are taken as the runtime does it, as many as there is memory for or as it
            reads at one go, wherever messages end; if not, as they were handed over.
    """

    ns_before: float = 0.0
    ns_per_byte: float = 0.0
    ns_after: float = 0.0
    ns_per_message: float = 0.0
    is_stream: bool = False


FREE = ReceiveCosts()

SocketCosts = tuple[SendCosts, ReceiveCosts]


def socket_costs(costs: CostModel) -> tuple[SocketCosts, SocketCosts]:
    """What the two ends of a link cost: the producer's, the consumer's."""
    loop = costs.loop
    if loop is None:
        return (SendCosts(costs.send_ns_per_message, costs.send_ns_per_byte), FREE), (
            SendCosts(),
            FREE,
        )
    return (
        SendCosts(
            costs.send_ns_per_message,
            costs.send_ns_per_byte,
            ns_per_go=loop.send_ns,
            is_stream=True,
        ),
        ReceiveCosts(loop.take_credit_ns, ns_after=loop.pick_ns, is_stream=True),
    ), (
        SendCosts(ns_per_go=loop.announce_ns, is_stream=True),
        ReceiveCosts(
            loop.receive_ns,
            loop.receive_ns_per_byte,
            loop.decode_ns,
            loop.decode_ns_per_buffer,
            is_stream=True,
        ),
    )
