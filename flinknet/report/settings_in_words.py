"""A predicted setting in words: everything that can be varied, the differences of several, and the
notes of predictions: each once, with the settings it belongs to unless it belongs to all."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from flinknet.options.what_if import SETTINGS, SITUATION, TIMEOUT, Setting, network_of, words_of
from flinknet.options.what_if import situation_of as values_of_situation
from flinknet.results import SituationAdvice, TradeOffPoint
from flinknet.results.trades import PointSetting
from flinknet.units import MISSING, format_duration_ns

BUFFER_TIMEOUT = TIMEOUT.name

LABELS_SHOWN = 4
"""Settings that are named of a note; the rest is counted, if it is more than one."""


def settings_of(point: TradeOffPoint) -> dict[str, str]:
    """Every setting that can be varied, by name, as spelled in tables."""
    return words_of(Setting(network_of(point.config), **values_of_situation(point)))


def timeout_ns_of(point: TradeOffPoint) -> int:
    """The buffer timeout in ns; -1 for never."""
    return network_of(point.config).buffer_timeout_ns


def compared_settings(points: Sequence[TradeOffPoint]) -> list[PointSetting]:
    """Settings of some points as `results.trades` compares them."""
    found = []
    for each in points:
        others = settings_of(each)
        del others[BUFFER_TIMEOUT]
        found.append(PointSetting(timeout_ns_of(each), situation_of(each), others))
    return found


def situation_of(point: TradeOffPoint | SituationAdvice) -> dict[str, str]:
    """The part of a setting that no key of Flink changes, in words."""
    values = values_of_situation(point)
    shown = (each for each in SETTINGS if each.field in SITUATION)
    return {each.name: each.kind.show(values[each.field]) for each in shown}


def what_varies(points: Sequence[TradeOffPoint]) -> list[str]:
    """Names of what differs between points; the buffer timeout if nothing does."""
    rows = [settings_of(point) for point in points]
    names = list(rows[0]) if rows else []
    return [name for name in names if len({row[name] for row in rows}) > 1] or [BUFFER_TIMEOUT]


def label_of(point: TradeOffPoint, varied: Sequence[str]) -> str:
    """A setting by what varies: "buffer timeout 10ms, rate x2"."""
    names = settings_of(point)
    return ", ".join(f"{name} {names[name]}" for name in varied if names[name] != MISSING)


def situation_label(situation: SituationAdvice, varied: Sequence[str]) -> str:
    """A situation by what varies; nothing where there is only one."""
    names = situation_of(situation)
    return ", ".join(f"{name} {names[name]}" for name in varied if name in names)


def timeout_text(config: Mapping[str, str]) -> str:
    """The buffer timeout in some keys of Flink, as written on the command line."""
    return format_duration_ns(network_of(config).buffer_timeout_ns)


def notes_of(points: Sequence[TradeOffPoint]) -> list[str]:
    """The notes of all predictions of a run, in the order in which they come."""
    varied = what_varies(points)
    rows = [settings_of(point) for point in points]
    noted: dict[str, set[int]] = {}
    for index, point in enumerate(points):
        for note in point.notes:
            noted.setdefault(note, set()).add(index)
    return [
        note if len(of) == len(points) else f"{_where(rows, of, varied)}: {note}"
        for note, of in noted.items()
    ]


def _where(rows: Sequence[Mapping[str, str]], of: Collection[int], varied: Sequence[str]) -> str:
    """Some of the settings, by what distinguishes them from the others."""
    names = _that_matter(rows, of, varied)
    cells = list(dict.fromkeys(tuple(rows[index][name] for name in names) for index in sorted(of)))
    if len(names) == 1:
        values = _some([value for (value,) in cells])
        return values if len(varied) == 1 else f"{names[0]} {values}"
    return _some([" ".join(map(" ".join, zip(names, cell, strict=True))) for cell in cells])


def _that_matter(
    rows: Sequence[Mapping[str, str]], of: Collection[int], varied: Sequence[str]
) -> list[str]:
    """The names needed to distinguish the settings among `of` from the others."""
    names = list(varied)
    for name in reversed(varied):
        fewer = [each for each in names if each != name]
        cells = [tuple(row[each] for each in fewer) for row in rows]
        inside = {cells[index] for index in of}
        if all(index in of or cell not in inside for index, cell in enumerate(cells)):
            names = fewer
    return names


def _some(labels: Sequence[str]) -> str:
    if len(labels) <= LABELS_SHOWN + 1:
        return ", ".join(labels)
    return f"{', '.join(labels[:LABELS_SHOWN])} and {len(labels) - LABELS_SHOWN} more"
