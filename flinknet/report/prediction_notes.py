"""Notes of predictions: each once, with the settings it belongs to unless it belongs to all."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from .settings_in_words import settings_of, what_varies

Answer = Mapping[str, Any]

LABELS_SHOWN = 4
"""Settings that are named of a note; the rest is counted, if it is more than one."""


def notes_of(answer: Answer) -> list[str]:
    """The notes of all predictions of a run, in the order in which they come."""
    points = answer["trade_offs"]
    varied = what_varies(points)
    rows = [settings_of(point) for point in points]
    noted: dict[str, set[int]] = {}
    for index, point in enumerate(points):
        for note in point["notes"]:
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
    """The names without which a setting among `of` could be taken for one that is not."""
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
