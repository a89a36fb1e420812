"""How far a measurement can be used, by its warnings; disturbances of a run from outside; and
foreign connections at its data ports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from enum import IntEnum
from operator import add

from flinknet.units import counted, format_duration_ns, human_bytes, human_duration

from .measures import RunWarning

DISTURBED, P99_DISTURBED = "disturbed", "p99-disturbed"
STOOD_STILL, CORES_SHARED = "stood-still", "cores-shared"
"""Codes of the warnings that other processes used the processors, that TaskManagers were stopped
for a while, and that those of a run had too few cores."""

STRANGERS, DISTURBED_BY_STRANGERS = "strangers", "disturbed-by-strangers"
"""Codes of the warnings about foreign connections, and about those that took much time."""


class Validity(IntEnum):
    """Validity of a measurement, or the effect of a warning on it."""

    INVALID = 0  # it does not measure the requested load
    DOUBTFUL = 1  # it may be wrong
    VALID = 2


CLOCK_ERROR = "clock-error"
"""Code of the note about the error of latencies between hosts."""

GIVEN_UP, RATE_NOT_REACHED = "given-up", "rate-not-reached"
SCHEDULE_MISSED, FEW_SAMPLES = "schedule-missed", "few-samples"
"""Codes of warnings about the load."""

FLUSHES_MIN = 10
"""Fewest flushes by the buffer timeout in a measured part whose figures say something."""

_INVALID = frozenset((GIVEN_UP, RATE_NOT_REACHED, "trace-incomplete"))

OF_SETTINGS = frozenset(
    (
        *("option-not-acted-on", "fixed-in-flink-2", "deprecated-key", "keys-left-out"),
        *("acts-in-blocking-exchanges", "value-rounded", "no-total-size"),
    )
)
"""Codes of warnings about the given settings, known before anything runs."""

_NOTES = frozenset(
    (
        *OF_SETTINGS,
        *("compresses-too-well", "no-checkpoints", "no-json-plan"),
        *("idle-task-manager", STRANGERS, CLOCK_ERROR),
    )
)
"""Codes of notes, which make no figure doubtful."""

_CAUSES = {
    SCHEDULE_MISSED: {
        *(GIVEN_UP, RATE_NOT_REACHED, CORES_SHARED, DISTURBED, P99_DISTURBED),
        *(DISTURBED_BY_STRANGERS, STOOD_STILL),
    },
    RATE_NOT_REACHED: {GIVEN_UP},
    FEW_SAMPLES: {GIVEN_UP},
}
"""Code of a warning, and the codes of warnings that explain the same event."""


def validity_by(warning: RunWarning) -> Validity:
    """Effect of a warning on the validity of a measurement."""
    if warning.code in _INVALID:
        return Validity.INVALID
    return Validity.VALID if warning.code in _NOTES else Validity.DOUBTFUL


def validity_of(warnings: Iterable[RunWarning]) -> Validity:
    """How far a measurement with these warnings can be used."""
    return min(map(validity_by, warnings), default=Validity.VALID)


def without_consequences(warnings: Iterable[RunWarning]) -> list[RunWarning]:
    """One warning for each event: warnings that another one explains are left out."""
    known = list(warnings)
    codes = {each.code for each in known}
    return [each for each in known if not codes & _CAUSES.get(each.code, set())]


def few_flushes(duration_ns: int, timeout_ns: int, remedy: str) -> tuple[RunWarning, ...]:
    """The warning that a measured part has too few flushes by a buffer timeout, with its remedy;
    none if it has enough."""
    if timeout_ns <= 0 or duration_ns >= FLUSHES_MIN * timeout_ns:
        return ()
    length, timeout = human_duration(duration_ns), format_duration_ns(timeout_ns)
    text = f"run too short: {length} is less than {FLUSHES_MIN} flushes of {timeout}; {remedy}"
    return (RunWarning("few-flushes", text),)


def clock_warnings(error_ns: int) -> tuple[RunWarning, ...]:
    """The note that latencies have the error of the clocks of two hosts; none without error."""
    if not error_ns:
        return ()
    error = human_duration(error_ns)
    text = f"latencies between hosts are within ±{error}, the error of their clocks; smaller ones"
    return (RunWarning(CLOCK_ERROR, f"{text} are unknown", f"latencies are within ±{error}"),)


_CONNECTIONS_MANY, _REQUESTS_MANY, _BYTES_MANY = 64, 500, 64 * 1024
"""Connections, requests and bytes of strangers that take some 10 ms of a TaskManager's time, about
p99 of one second."""


@dataclass(frozen=True, slots=True)
class Strangers:
    """Connections that requested nothing of the run, their bytes, and requests over any connection
    for receivers of no task of the run."""

    connections: int = 0
    requests: int = 0
    received_bytes: int = 0

    def __add__(self, other: Strangers) -> Strangers:
        return Strangers(*map(add, astuple(self), astuple(other)))

    def since(self, before: Strangers) -> Strangers:
        """Strangers later than `before`: a connection may since have requested something."""
        return Strangers(
            *(max(0, now - then) for now, then in zip(astuple(self), astuple(before), strict=True))
        )

    @property
    def disturb(self) -> bool:
        """Whether serving them took enough time to make the figures of a run doubtful."""
        return (
            self.connections >= _CONNECTIONS_MANY
            or self.requests >= _REQUESTS_MANY
            or self.received_bytes >= _BYTES_MANY
        )

    def warning(self) -> RunWarning | None:
        """The warning about them; None if there were none."""
        if not self.connections and not self.requests:
            return None
        visitors = counted(self.requests, "foreign request")
        if self.connections:
            visitors = counted(self.connections, "foreign connection")
        sentence = (
            "the data ports had visitors that do not belong to this run:"
            f" {counted(self.connections, 'connection')},"
            f" {counted(self.requests, 'request')}, {human_bytes(self.received_bytes)} received;"
        )
        if not self.disturb:
            text = f"{sentence} find what connects to taskmanager.data.port."
            return RunWarning(STRANGERS, text, f"data ports had {visitors}")
        return RunWarning(
            DISTURBED_BY_STRANGERS,
            f"{sentence} serving them took time from the run, so throughput may be too low and"
            " latency too high: find what connects to taskmanager.data.port, and run again.",
            f"{visitors} took time from the run",
        )


_DISTURBANCES = (STOOD_STILL, DISTURBED, DISTURBED_BY_STRANGERS, P99_DISTURBED)
"""The worst first: the last one affects p99 alone."""


def gravity_of(validity: Validity, code: str) -> tuple[Validity, int]:
    """Place of a kind of warnings in a list of them, the worst first."""
    known = _DISTURBANCES.index(code) if code in _DISTURBANCES else len(_DISTURBANCES)
    return validity, known


def is_disturbed(warnings: Iterable[RunWarning]) -> bool:
    """Whether other processes, the host, strangers or a standstill make the figures doubtful."""
    return any(each.code in _DISTURBANCES for each in warnings)
