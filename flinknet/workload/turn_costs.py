"""TurnCosts: what turns of a TaskManager's event loop take, whatever they carry."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TurnCosts:
    """What the parts of a turn took in a run at the highest rate, in ns.

    Attributes:
        take_credit_ns: finding that credit has come, reading it, and picking the buffers it lets
            go.
        send_ns: handing data to the socket once, beside its bytes.
        receive_ns: finding that data has come and taking it from the socket, beside its bytes.
        decode_ns: making buffers of it.
        receive_ns_per_byte: of both.
        announce_ns: handing credit to the socket once.
    """

    take_credit_ns: float
    send_ns: float
    receive_ns: float
    decode_ns: float
    receive_ns_per_byte: float
    announce_ns: float
