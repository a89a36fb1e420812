"""Where Flink's own network stack does otherwise than the tables say, case by case: measured by
tests/interop/test_misbehaving_peers.py, which fails on a difference that is not listed here.
"""

from __future__ import annotations

from tests.peers import by_consumers as table
from tests.peers.over_sockets import UNFINISHED

_ON = "the channel carries on"
_BOTH_ON = f"{_ON}, its neighbour carries on"

_CANCELLED = (
    "Flink keeps sending to a cancelled channel while it has credit and its task writes; its own"
    " consumer answers each of these buffers with another CancelPartitionRequest. flinknet stops at"
    " once"
)
_ANY_TASK = (
    "Flink delivers an event to any task whose partition is named, even from a peer that does not"
    " read it; flinknet accepts events only from peers that read the task's output"
)
_TWICE = (
    "Flink lets one receiver request two subpartitions and mixes them; flinknet refuses the second"
)
_OVERFLOW = "in Flink the sum of credits overflows to a negative number, and the channel stops"
_ANY_LENGTH = (
    "Flink takes the first four bytes as a length of up to 2 GiB and waits for that many bytes"
    " before it looks at anything else; flinknet checks the magic number and the id first, and"
    " limits the length"
)
_STRANGERS = "Flink has no limits for connections that have requested nothing of its jobs"
_EVENTS = "Flink decodes an event when it arrives, flinknet when its task reads it"
_FAILED = (
    "Flink ignores the same bytes, or answers them with a fatal error, depending on whether the"
    " connection has already noticed the failure"
)

DIFFERENCES: dict[str, tuple[str, str]] = {
    **{f"P{number}": (f"{table.FATAL}, {_ON}", _CANCELLED) for number in (13, 14, 15)},
    **{f"P{number}": (f"{table.IGNORED}, {_ON}", _CANCELLED) for number in (16, 17, 18, 49)},
    **{f"P{number}": (table.TOLD, _ANY_TASK) for number in (26, 27, 29, 30)},
    "P28": (f"{table.TOLD}, {_ON}", _ANY_TASK),
    "P40": (table.IGNORED, _TWICE),
    "P41": (f"{table.IGNORED}, {_ON}", _TWICE),
    "P42": (f"{table.IGNORED}, the channel stops", _OVERFLOW),
    **{
        f"P{number}": (f"{UNFINISHED}, its neighbour carries on", _ANY_LENGTH)
        for number in (52, 53, 54)
    },
    **{f"P{number}": (f"{UNFINISHED}, {_BOTH_ON}", _ANY_LENGTH) for number in (57, 58, 59, 66)},
    "P67": (UNFINISHED, _STRANGERS),
    "P68": (table.IGNORED, _STRANGERS),
    "C65": ("the channel fails", _EVENTS),
}
"""Number of a case -> what Flink 2.3 does, and why we differ."""

NOT_COMPARED: dict[str, str] = dict.fromkeys(("P19", "P20", "P21", "P22"), _FAILED)
"""Number of a case -> why it cannot be compared."""
