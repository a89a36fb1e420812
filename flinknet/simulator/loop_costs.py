"""LoopCosts: what turns of a TaskManager's event loop take, whatever they carry; Jitter: by how
much that varies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, repeat

import numpy as np

from flinknet.arrays import IntArray

TCP_BYTES = 65_483
"""What a socket takes at one go is on its way in parts of this size: what TCP hands to the network
at once, 64 KiB less headers. A reader finds the whole ones, wherever messages end."""


def _none() -> IntArray:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class LoopCosts:
    """What the parts of a turn took in a run at the highest rate, in ns.

    Attributes:
        take_credit_ns: finding that credit has come, and reading it.
        pick_ns: picking the buffers that it lets go.
        send_ns: handing data to the socket once, beside its bytes.
        receive_ns: finding that data has come and taking it from the socket, beside its bytes.
        receive_ns_per_byte: of the same.
        decode_ns: making buffers of it, beside what each takes.
        decode_ns_per_buffer: of the same.
        announce_ns: handing credit to the socket once.
    """

    take_credit_ns: float
    pick_ns: float
    send_ns: float
    receive_ns: float
    receive_ns_per_byte: float
    decode_ns: float
    decode_ns_per_buffer: float
    announce_ns: float


@dataclass(frozen=True, slots=True, eq=False)
class Jitter:
    """What the parts of the turns of one process took more than usual, or less, one after the
    other, in ns; none: nothing.

    Attributes:
        pick_ns: picking the buffers that credit lets go.
        send_ns: handing data to the socket.
        write_ns: of a task that writes, until it has to wait.
        decode_ns: making buffers of what was received.
        announce_ns: handing credit to the socket.
        read_ns: of a task that reads.
    """

    pick_ns: IntArray = field(default_factory=_none)
    send_ns: IntArray = field(default_factory=_none)
    write_ns: IntArray = field(default_factory=_none)
    decode_ns: IntArray = field(default_factory=_none)
    announce_ns: IntArray = field(default_factory=_none)
    read_ns: IntArray = field(default_factory=_none)


NO_JITTER = Jitter()


def over_and_over(values: IntArray) -> Iterator[int]:
    """The values again and again; zeros if there are none."""
    return cycle(values.tolist()) if len(values) else repeat(0)


class RunningJitter:
    """The jitter of one process, each value for what comes next; shared by its ends and tasks."""

    def __init__(self, jitter: Jitter = NO_JITTER) -> None:
        self.pick_ns = over_and_over(jitter.pick_ns)
        self.send_ns = over_and_over(jitter.send_ns)
        self.write_ns = over_and_over(jitter.write_ns)
        self.decode_ns = over_and_over(jitter.decode_ns)
        self.announce_ns = over_and_over(jitter.announce_ns)
        self.read_ns = over_and_over(jitter.read_ns)
