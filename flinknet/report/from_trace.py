"""The view of a recorded run that was sent again: predictions next to measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from flinknet.results import ProcessorUse, RunWarning, Validity, validity_of
from flinknet.results.figures import Figure, Unit
from flinknet.results.trades import Trade, change_of, ratio_of
from flinknet.units import counted, human_change, parse_duration_ns, run_numbers

from .bench import labels_of
from .charts import Curves, Series
from .page_parts import Lines, Sentence, View, columns_of, last_part, table_of
from .trade_words import trade_text
from .warning_lines import doubts_of_runs, lowered, trust_words

OF_MACHINE = (
    "doubtful: this machine disturbed what was measured in these rows (see the warnings), and the"
    " differences are not the model's alone"
)

MEANING = (
    "Predicted from the trace, measured over sockets now; error: the prediction against what was"
    " measured."
)

SAME = {"throughput": 0.05, "p50": 0.1, "p99": 0.25}
"""Two runs of one setting on one machine can differ by as much."""

SIMILAR = "about as fast as"

_TIMEOUT = "buffer-timeout="

_KINDS = {"predicted": "From the trace.", "measured": "Over sockets, now."}


def _columns(name: str, key: str, unit: Unit) -> list[Figure[Any]]:
    found: list[Figure[Any]] = [
        Figure(name, kind, partial(_value, kind, key), unit, "", meaning)
        for kind, meaning in _KINDS.items()
    ]
    error: Figure[Any] = Figure(name, "error", lambda row: row["error"][key], "change", "",
                   "The prediction against what was measured.")  # fmt: skip
    return [*found, error]


def _value(kind: str, key: str, row: Mapping[str, Any]) -> float | None:
    latency: Mapping[str, float | None] = row[kind]["latency_ns"]
    return latency[key] if key in latency else row[kind]["throughput_records_per_s"]


_FIGURES = [
    *_columns("records/s", "throughput", "count"),
    *(each for name in ("p50", "p99") for each in _columns(name, name, "ns")),
]


def again_view(document: Mapping[str, Any]) -> View:
    """The view of `bench again`, of a document as it stands in prediction.json."""
    rows, recording = document["runs"], document["recording"]
    changes, machine = change_lines(document), machine_lines(document)
    uses = [
        row["processors"]
        and ProcessorUse(**{k: x for k, x in row["processors"].items() if k != "taken_share"})
        for row in rows
    ]
    doubts = doubts_of_runs(
        [(row["name"], [RunWarning(**each) for each in row["warnings"]]) for row in rows],
        uses,
        numbers=range(1, len(rows) + 1),
    )
    asked = document["settings_asked"]
    is_short = not document["is_complete"]
    early = [f"ended early: {len(rows)} of {asked} settings were measured"] if is_short else []
    unlike = [lowered(each) for each in machine[:1] if SIMILAR not in each]
    traded = [each.replace(":", f" {lowered(changes[0])}", 1) for each in changes[1:2]]
    alike = lowered(machine[0]) if machine else "no other process disturbed the runs"
    notes = [
        *([OF_MACHINE] if any(map(is_doubtful, rows)) else []),
        *(f"the recording: {each}" for each in (*recording["notes"], *recording["warnings"])),
    ]
    for note in dict.fromkeys(note for row in rows for note in row["notes"]):
        own = [row["name"] for row in rows if note in row["notes"]]
        notes.append(f"{', '.join(own)}: {note}" if len(own) < len(rows) else note)
    drawn = _in_order(rows)
    labels = labels_of([row["name"] for row in drawn])
    charts = []
    for name in ("p50", "p99"):
        series = [
            Series("measured", [_value("measured", name, row) for row in drawn]),
            Series("predicted", [_value("predicted", name, row) for row in drawn], "orange"),
        ]
        title = f"Latency {name}"
        charts.append(
            Curves(title, labels, series, "ns", is_log=True, by="setting", y=title.lower())
        )
    return View(
        [
            Sentence("sent again", [last_part(document["trace"]), counted(asked, "setting")]),
            Sentence("verdict", _worst(rows), takes_rest=True),
            Sentence("trade-off", traded),
            Sentence("trust", trust_words(doubts, *early, *unlike, good=alike)),
            Sentence("next", ["--details shows changes, doubts and notes"]),
        ],
        [table_of(rows, {"setting": _name, **columns_of(_FIGURES)})],
        [
            Lines([MEANING, *machine]),
            Lines(changes),
            table_of(
                rows,
                {"setting": "name", **{f"buffers/s {x}": f"{x}.buffers_per_s" for x in _KINDS}},
            ),
            Lines([*early, *doubts, *notes], is_doubt=True),
        ],
        charts,
        name="predicted and measured",
        title="Predicted from the trace, and measured over sockets",
        lead=f"The records of {document['trace']}, sent again.",
    )


def _worst(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    found = []
    for key, name in {"throughput": "records/s", "p50": "p50", "p99": "p99"}.items():
        errors = [row["error"][key] for row in rows if row["error"][key] is not None]
        if errors:
            found.append(f"{name} {human_change(max(errors, key=abs))}")
    what = "predictions were off by at most" if len(rows) > 1 else "the prediction was off by"
    return [f"{what} {', '.join(found)}"] if found else []


def _name(row: Mapping[str, Any]) -> str:
    return f"{'! ' * is_doubtful(row)}{row['name']}"


def _in_order(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    def timeout_ns(row: Mapping[str, Any]) -> float:
        value = row["name"].removeprefix(_TIMEOUT).partition(" ")[0]
        ns = parse_duration_ns(value, "a timeout", allow_never=True)
        return ns if ns >= 0 else float("inf")

    is_of_timeouts = all(row["name"].startswith(_TIMEOUT) for row in rows)
    return sorted(rows, key=timeout_ns) if is_of_timeouts else rows


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
    off = [name for name, each in change.items() if abs(each) > SAME[name]]
    slower = {(change[name] < 0) == (name == "throughput") for name in off}
    how = "unlike" if len(slower) > 1 else "slower than" if True in slower else "faster than"
    how = how if slower else SIMILAR
    of = " all of" if recording["is_longer"] else ""
    doubt = ", doubtful" if is_doubtful(control) else ""
    where = f" in {' and '.join(off)}" if off else ""
    first = (
        f"This machine is now {how} that of the recording{where}: {_changes(change)} (the recorded"
        f" setting now{doubt}, against{of} the recording)."
    )
    error = _known(recording["model_error"])
    own = f" Against the recording, the model's error is {_changes(error)}." if error else ""
    if not slower:
        return [first, f"So the errors in the table are mostly the model's.{own}"]
    use = " The changes below the table are between runs made now." if len(rows) > 1 else ""
    return [first, f"The errors in the table include that, not the model's alone.{own}{use}"]


def _known(figures: Mapping[str, float | None] | None) -> dict[str, float]:
    return {name: each for name, each in (figures or {}).items() if each is not None}


def _changes(change: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {human_change(each)}" for name, each in change.items())


def change_lines(document: Mapping[str, Any]) -> list[str]:
    """How each setting differs from the recorded one, as both were measured now, and as predicted;
    nothing if the recorded one was not run."""
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
        lines.append(f"{row['name']}: measured {measured}{end}; predicted {predicted}")
    return [f"Instead of {base['name']}:", *lines] if lines else []


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
    return _validity(row) is not Validity.VALID


def _validity(row: Mapping[str, Any]) -> Validity:
    return validity_of(RunWarning(**each) for each in row["warnings"])
