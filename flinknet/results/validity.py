"""How far a measurement can be used, by its warnings; and which of several warnings of one event
to show.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from .measures import RunWarning
from .processors import CORES_SHARED, DISTURBED, P99_DISTURBED, STOOD_STILL
from .strangers import DISTURBED_BY_STRANGERS, STRANGERS


class Validity(IntEnum):
    """Of a measurement, or of a warning what it makes of one."""

    INVALID = 0
    """It is not of what was asked for."""
    DOUBTFUL = 1
    """It may be off."""
    VALID = 2


GIVEN_UP, RATE_NOT_REACHED = "given-up", "rate-not-reached"
SCHEDULE_MISSED, FEW_SAMPLES = "schedule-missed", "few-samples"
"""Codes of warnings that say what happened to the load."""

_INVALID = frozenset((GIVEN_UP, RATE_NOT_REACHED, "trace-incomplete"))

OF_SETTINGS = frozenset(
    (
        *("option-not-acted-on", "fixed-in-flink-2", "deprecated-key", "keys-left-out"),
        *("acts-in-blocking-exchanges", "value-rounded", "no-total-size"),
    )
)
"""Codes of what is known of the given settings before anything runs."""

_NOTES = frozenset(
    (
        *OF_SETTINGS,
        *("compresses-too-well", "no-checkpoints", "no-json-plan"),
        *("idle-task-manager", STRANGERS),
    )
)
"""Codes of what is good to know, and makes no figure doubtful."""

_CAUSES = {
    SCHEDULE_MISSED: {
        *(GIVEN_UP, RATE_NOT_REACHED, CORES_SHARED, DISTURBED, P99_DISTURBED),
        *(DISTURBED_BY_STRANGERS, STOOD_STILL),
    },
    RATE_NOT_REACHED: {GIVEN_UP},
    FEW_SAMPLES: {GIVEN_UP},
}
"""Code of a warning -> codes of those that report the same event, and more of it."""


def validity_by(warning: RunWarning) -> Validity:
    """What a warning makes of a measurement."""
    if warning.code in _INVALID:
        return Validity.INVALID
    return Validity.VALID if warning.code in _NOTES else Validity.DOUBTFUL


def validity_of(warnings: Iterable[RunWarning]) -> Validity:
    """How far a measurement with these warnings can be used."""
    return min(map(validity_by, warnings), default=Validity.VALID)


def without_consequences(warnings: Iterable[RunWarning]) -> list[RunWarning]:
    """One warning for each event: those that another one explains are left out."""
    known = list(warnings)
    codes = {each.code for each in known}
    return [each for each in known if not codes & _CAUSES.get(each.code, set())]
