"""Which warnings say that something outside of a run disturbed it."""

from __future__ import annotations

from collections.abc import Iterable

from .measures import RunWarning
from .processors import DISTURBED, P99_DISTURBED
from .strangers import DISTURBED_BY_STRANGERS

_DISTURBANCES = frozenset((DISTURBED, P99_DISTURBED, DISTURBED_BY_STRANGERS))


def is_disturbed(warnings: Iterable[RunWarning]) -> bool:
    """Whether other processes, the host or strangers took so much that figures are doubtful."""
    return any(each.code in _DISTURBANCES for each in warnings)
