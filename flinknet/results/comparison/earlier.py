"""Results of earlier calls, read from their JSON, whichever version wrote it.

Fields that a later version added are ignored, and fields that an earlier one lacks are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, TypeVar, get_type_hints

from flinknet.errors import ConfigError

from ..measures import RunWarning
from ..run import Measured, ProcessorUse, RunResult
from .compared import Configuration, CountedRun

_DECISIVE = {
    "flinknet": "flinknet",
    "core": "core",
    "python": "Python",
    "implementation": "Python implementation",
    "machine": "machine",
    "cpu": "CPU",
    "cores": "cores",
}
"""Fields of an environment that change the cost of records, and their names in sentences."""

_MINOR = {"kernel": "kernel", "numpy": "numpy", "zstandard": "zstandard"}

_SPEED_MIN = 0.1
"""Largest relative difference in speed of machines that count as equally fast."""

NamesOf = Callable[[Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]], Sequence[str]]
"""Names settings, each given as Flink's keys and the workload, by what differs between them."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class EarlierResult:
    """The result of a call of compare-configs or bench in the file `source`. `base` is the name of
    the configuration with which the others were compared; None of a bench."""

    source: str
    environment: Mapping[str, Any]
    measured_at: str | None
    base: str | None
    configurations: tuple[Configuration, ...]

    @property
    def candidates(self) -> list[Configuration]:
        return [each for each in self.configurations if each.name != self.base]


def earlier_result(document: Any, source: str, names_of: NamesOf) -> EarlierResult:
    """Read a document of compare-configs, or of bench, whose settings `names_of` names. Raises:
    ConfigError if it is neither."""
    try:
        return _read(document, source, names_of)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ConfigError(
            f"{source}: not a result of compare-configs or bench (their --json)"
        ) from None


def baseline_in(earlier: EarlierResult, names: Sequence[str]) -> Configuration:
    """The configuration of an earlier result that others are compared with: its candidate; of
    several, the one that has one of these names. Raises: ConfigError if there is none, or if it has
    fewer than two runs."""
    candidates = earlier.candidates
    named = [each for each in candidates if each.name in names]
    chosen = candidates if len(candidates) == 1 else named
    if len(chosen) != 1:
        known = ", ".join(each.name for each in candidates)
        raise ConfigError(
            f"--baseline: {earlier.source} has {len(candidates)} candidates ({known}); give the"
            " CONFIG the name of one of them, such as NAME:KEY=VALUE"
        )
    if len(chosen[0].runs) < 2:
        raise ConfigError(
            f"--baseline: {earlier.source} has one run of {chosen[0].name}; at least two show how"
            " far runs differ"
        )
    return chosen[0]


def elsewhere(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """Decisive differences of machine and software, from which a difference of figures may come."""
    return _differences(_DECISIVE, then, now)


def smaller_changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """Smaller differences that may shift figures: minor versions, and how fast the machine runs
    Python."""
    changes = list(_differences(_MINOR, then, now))
    speeds = then.get("python_operations_per_s"), now.get("python_operations_per_s")
    if all(speeds) and abs(ratio := speeds[1] / speeds[0] - 1) > _SPEED_MIN:  # type: ignore[operator]
        pace = "faster" if ratio > 0 else "slower"
        changes.append(f"this machine runs Python {abs(ratio):.0%} {pace} than it did then")
    return tuple(changes)


def _differences(
    names: Mapping[str, str], then: Mapping[str, Any], now: Mapping[str, Any]
) -> tuple[str, ...]:
    return tuple(
        f"{text} {then[name]} then, {now[name]} now"
        for name, text in names.items()
        if name in then and name in now and then[name] != now[name]
    )


def _read(document: Any, source: str, names_of: NamesOf) -> EarlierResult:
    environment = dict(document["environment"])
    if "configs" in document:
        base = document["base"]
        read = [(each["name"], each["runs"]) for each in document["configs"]]
    else:
        base, read = None, _settings_of(document["runs"], names_of)
    configurations = tuple(
        Configuration(name, tuple(_run(each) for each in runs)) for name, runs in read if runs
    )
    if not any(each.name != base for each in configurations):
        raise ValueError("no candidate")
    return EarlierResult(source, environment, environment.get("started_at"), base, configurations)


def _settings_of(
    runs: Sequence[Mapping[str, Any]], names_of: NamesOf
) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """The runs of a bench by setting, with the name of each."""
    settings: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        workload = {name: value for name, value in run["workload"].items() if name != "seed"}
        settings.setdefault(repr((run["config"], workload)), []).append(run)
    if len(settings) == 1:
        return [("bench", list(runs))]
    names = names_of([(first["config"], first["workload"]) for first, *_ in settings.values()])
    return list(zip(names, settings.values(), strict=True))


def _run(run: Mapping[str, Any]) -> CountedRun:
    cpu_cores = (run.get("processors") or {}).get("cpu_cores")
    result = RunResult(
        config=dict(run["config"]),
        workload=dict(run["workload"]),
        measured=_known(Measured, {**run["measured"], "checkpoints": None}),
        channels=(),
        limited_by="",
        warnings=tuple(_known(RunWarning, x) for x in run.get("warnings", ())),
        trace=None,
        processors=ProcessorUse(busy_share={}, lacked_share={}, cpu_cores=cpu_cores),
    )
    return CountedRun(result, tries=run.get("tries", 1))


def _known(kind: type[_T], document: Mapping[str, Any]) -> _T:
    hints = get_type_hints(kind)
    known = {name: value for name, value in document.items() if name in hints}
    nested = {name: _known(hints[name], known[name]) for name in known if is_dataclass(hints[name])}
    return kind(**known | nested)
