"""Predictions next to measurements, as a terminal table. Takes the JSON-ready document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flinknet.results import ProcessorUse, RunWarning, Validity, validity_of
from flinknet.results.trades import Trade, change_of, ratio_of
from flinknet.units import human_change, human_count, human_duration, run_numbers

from .page_parts import Head, Lines, Part, Row, Table
from .trade_words import trade_text
from .warning_lines import doubts_of_runs

OF_MACHINE = (
    "! doubtful: this machine disturbed what was measured in these rows (see the warnings), and the"
    " differences are not the model's alone"
)

MEANING = (
    "Predicted from the trace, measured over sockets now; error: the prediction against what was"
    " measured."
)

SAME = {"throughput": 0.05, "p50": 0.1, "p99": 0.25}
"""Two runs of one setting on one machine can differ by as much."""


def prediction_parts(document: dict[str, Any]) -> list[Part]:
    """One row for each setting, then the notes of the predictions and what to doubt of the
    measurements.
    """
    rows = document["runs"]
    lines = [MEANING]
    if any(map(is_doubtful, rows)):
        lines.append(OF_MACHINE)
    if not document["is_complete"]:
        measured_of_asked = f"{len(rows)} of {document['settings_asked']}"
        lines.append(f"! ended early: {measured_of_asked} settings were measured")
    lines += change_lines(document)
    recording = document["recording"]
    lines += [f"! the recording: {x}" for x in (*recording["notes"], *recording["warnings"])]
    of_note: dict[str, list[str]] = {}
    for row in rows:
        for note in row["notes"]:
            of_note.setdefault(note, []).append(row["name"])
    for note, settings in of_note.items():
        where = f"{', '.join(settings)}: " if len(settings) < len(rows) else ""
        lines.append(f"  {where}{note}")
    warnings = [[RunWarning(**each) for each in row["warnings"]] for row in rows]
    names = [row["name"] for row in rows]
    uses = [_processor_use(row["processors"]) for row in rows]
    numbers = range(1, len(rows) + 1)
    lines += doubts_of_runs(list(zip(names, warnings, strict=True)), uses, numbers=numbers)
    return [Lines(machine_lines(document)), _table(rows), Lines(lines)]


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    columns = [
        Head(name, group=what)
        for what in ("records/s", "p50", "p99")
        for name in ("predicted", "measured", "error")
    ]
    found = []
    for row in rows:
        predicted, measured, error = row["predicted"], row["measured"], row["error"]
        cells = [
            ("! " if is_doubtful(row) else "") + row["name"],
            human_count(predicted["throughput_records_per_s"]),
            human_count(measured["throughput_records_per_s"]),
            human_change(error["throughput"]),
        ]
        for name in ("p50", "p99"):
            cells.append(human_duration(predicted["latency_ns"][name]))
            cells.append(human_duration(measured["latency_ns"][name]))
            cells.append(human_change(error[name]))
        found.append(Row(cells))
    return Table([Head("setting"), *columns], found)


def machine_lines(document: Mapping[str, Any]) -> list[str]:
    """Lines that compare this machine with that of the recording, by the recorded setting, and say
    what this means for the errors; empty if it is unknown."""
    recording, rows = document["recording"], document["runs"]
    control = next((row for row in rows if row.get("is_recorded")), None)
    change = _known(recording.get("change"))
    if control is None or not change:
        return []
    if _validity(control) is Validity.INVALID:
        return ["This machine cannot be compared with that of the recording: invalid control."]
    slower = [-x if name == "throughput" else x for name, x in change.items()]
    limits = [SAME[name] for name in change]
    is_slower = any(x > limit for x, limit in zip(slower, limits, strict=True))
    is_faster = any(-x > limit for x, limit in zip(slower, limits, strict=True))
    how = "about as fast as"
    if is_slower or is_faster:
        how = "unlike" if is_slower and is_faster else "slower than" if is_slower else "faster than"
    of = " all of" if recording["is_longer"] else ""
    doubt = ", doubtful" if is_doubtful(control) else ""
    first = (
        f"This machine is now {how} that of the recording: {_changes(change)} (the recorded setting"
        f" now{doubt}, against{of} the recording)."
    )
    error = _known(recording["model_error"])
    own = f" Against the recording, the model's error is {_changes(error)}." if error else ""
    if not is_slower and not is_faster:
        return [first, f"So the errors in the table are mostly the model's.{own}"]
    use = " The changes below the table are between runs made now." if len(rows) > 1 else ""
    return [first, f"The errors in the table include that, not the model's alone.{own}{use}"]


def _known(figures: Mapping[str, float | None] | None) -> dict[str, float]:
    return {name: each for name, each in (figures or {}).items() if each is not None}


def _changes(change: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {human_change(each)}" for name, each in change.items())


def change_lines(document: Mapping[str, Any]) -> list[str]:
    """How each setting differs from the recorded one, as both were measured now, and as predicted;
    nothing if the recorded one was not run.
    """
    rows = document["runs"]
    base = next((row for row in rows if row.get("is_recorded")), None)
    if base is None:
        return []
    lines = []
    for row in rows:
        if row is base:
            continue
        predicted = trade_text(_trade(row, base, "predicted"))
        if invalid := [each["name"] for each in (row, base) if _validity(each) is Validity.INVALID]:
            why = f"not comparable, invalid: {', '.join(invalid)}"
            lines.append(f"{row['name']}: measured {why}; predicted {predicted}")
            continue
        measured = trade_text(_trade(row, base, "measured"))
        unsure = [rows.index(each) + 1 for each in (row, base) if is_doubtful(each)]
        end = f" (doubtful: {run_numbers(unsure)})" if unsure else ""
        name = row["name"]
        lines.append(f"{name}: measured {measured}{end}; predicted {predicted}")
    if lines:
        lines.insert(0, f"Instead of {base['name']}:")
    return lines


def _trade(row: Mapping[str, Any], base: Mapping[str, Any], kind: str) -> Trade:
    now, before = row[kind], base[kind]
    then = before["latency_ns"]
    cpu = [x["processors"] and x["processors"]["cpu_cores"] for x in (row, base)]
    return Trade(
        ratio_of(now["throughput_records_per_s"], before["throughput_records_per_s"]),
        change_of(now["latency_ns"]["p50"], then["p50"]),
        change_of(now["latency_ns"]["p99"], then["p99"]),
        ratio_of(now["buffers_per_s"], before["buffers_per_s"]),
        change_of(*cpu) if kind == "measured" else None,
    )


def is_doubtful(row: Mapping[str, Any]) -> bool:
    """Whether the machine, or the run itself, makes the measurement doubtful."""
    return _validity(row) is not Validity.VALID


def _validity(row: Mapping[str, Any]) -> Validity:
    return validity_of(RunWarning(**each) for each in row["warnings"])


def _processor_use(document: dict[str, Any] | None) -> ProcessorUse | None:
    if document is None:
        return None
    return ProcessorUse(**{name: each for name, each in document.items() if name != "taken_share"})
