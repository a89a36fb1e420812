"""Finer steps: timeouts between the one that was chosen for some targets and the next longer one,
in whole milliseconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flinknet.predict.recorded import Setting
from flinknet.units import NS_PER_MS

STEPS_MAX = 9
"""Timeouts between two others that are predicted at most."""


def finer_settings(
    worlds: Iterable[Mapping[str, Any]], settings: Sequence[Setting]
) -> list[Setting]:
    """The chosen setting of each world of an advice with each finer timeout.

    Args:
        settings: by the index that the advice knows them under.
    """
    finer = []
    for choice in (world["choice"] for world in worlds if not world["is_alike"]):
        if choice is None or choice["point"] is None or choice["next_longer_ns"] is None:
            continue
        chosen = settings[choice["point"]]
        timeouts_ns = between(chosen.network.buffer_timeout_ns, choice["next_longer_ns"])
        finer += [
            replace(chosen, network=replace(chosen.network, buffer_timeout_ns=each))
            for each in timeouts_ns
        ]
    return [each for each in dict.fromkeys(finer) if each not in settings]


def between(low_ns: int, high_ns: int) -> list[int]:
    """Whole milliseconds between two timeouts, neither of them included; spread evenly if there are
    more than `STEPS_MAX`."""
    first, last = low_ns // NS_PER_MS + 1, -(-high_ns // NS_PER_MS) - 1
    count = last - first + 1
    if count <= STEPS_MAX:
        return [each * NS_PER_MS for each in range(first, last + 1)]
    steps = range(1, STEPS_MAX + 1)
    gap = last - first + 2
    return [(first - 1 + gap * step // (STEPS_MAX + 1)) * NS_PER_MS for step in steps]
