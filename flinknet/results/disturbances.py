"""Which warnings say that something outside of a run disturbed it."""

from __future__ import annotations

from collections.abc import Iterable

from .measures import RunWarning
from .processors import DISTURBED, P99_DISTURBED, STOOD_STILL
from .strangers import DISTURBED_BY_STRANGERS

_DISTURBANCES = frozenset((DISTURBED, P99_DISTURBED, DISTURBED_BY_STRANGERS, STOOD_STILL))


def is_disturbed(warnings: Iterable[RunWarning]) -> bool:
    """Whether other processes, the host, strangers or a standstill make figures doubtful."""
    return any(each.code in _DISTURBANCES for each in warnings)
