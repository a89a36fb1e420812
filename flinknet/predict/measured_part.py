"""The measured part of a run, as far as its trace is complete.

A file that was cut, and a run that was interrupted, end it earlier. The fate of records shortly
before such an end is unknown, so the measured part ends before it, by the time that the records of
the last buffers took.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from flinknet.core.probe import MessageKind, TracePoint
from flinknet.errors import TraceFormatError
from flinknet.trace import Run, TraceFile, TraceReader, file_index
from flinknet.trace.manifest import IS_PART
from flinknet.units import human_duration

FOREVER_NS = np.iinfo(np.int64).max

LOOK_BACK_NS = 5_000_000_000
"""Time before the end of a file in which buffers show how long records take."""

_COLUMNS = ("at_ns", "point", "kind", "first_record_ns")


@dataclass(frozen=True, slots=True)
class MeasuredPart:
    """The window [from_ns, to_ns) that counts."""

    from_ns: int
    to_ns: int
    until_ns: int = FOREVER_NS  # end of the known part; the drain follows the measured part
    notes: tuple[str, ...] = ()  # why it is shorter than the measured part of the run
    dropped_events: Mapping[str, int] = field(default_factory=dict)  # not written, by file's path
    cut: str = ""  # what ended it, such as a file that is cut off; empty where it is all there
    missing_ns: Mapping[str, int] = field(default_factory=dict)  # lacked at the end, by file's path


@dataclass(frozen=True, slots=True)
class _FileSpan:
    """First and last instant of a trace file, and the instant until which it is complete."""

    name: str
    first_ns: int
    last_ns: int
    is_cut: bool
    known_to_ns: int
    dropped_events: int


def measured_part(run: Run, *, is_cut_used: bool = False) -> MeasuredPart:
    """The measured part of a run that has a manifest. If `is_cut_used`, a file that was cut ends it
    only where no file goes on. Raises: TraceFormatError if the run did not get there, if nothing of
    it is whole, or if the files hold nothing of it, for they are another run's."""
    manifest = run.manifest
    assert manifest is not None
    if manifest.measured_from_ns is None:
        why = "the run ended before its measured part; record it again"
        if manifest.is_from_between and not manifest.channels:
            why = (
                "nothing was recorded: no channel of Flink passed; record it again, and check what"
                " the tap prints at its end"
            )
        elif manifest.is_from_between:
            why = (
                "no data buffer was recorded whole; record it again, a capture with whole packets"
                " (`-s 0`)"
            )
        raise TraceFormatError(f"{run.path}: {why}")
    from_ns, to_ns = manifest.measured_from_ns, manifest.measured_to_ns
    if manifest.scenario.get(IS_PART) and from_ns == to_ns:
        raise TraceFormatError(
            f"{run.path}: the clock of the capture stood all the time: it shows what was sent and"
            " not when, so there is nothing to replay; `flinknet trace export` has the messages"
        )
    is_interrupted = to_ns is None
    how = {"is_interrupted": is_interrupted, "is_cut_used": is_cut_used}
    spans = [_span(file, from_ns, **how) for file in run.files]
    held = [span for span in spans if span.last_ns >= from_ns]
    is_inside = any(to_ns is None or span.first_ns < to_ns for span in held)
    if not is_inside and not (to_ns is not None and _holds_records(run, from_ns, to_ns)):
        raise TraceFormatError(
            f"{run.path}: no event lies in its measured part; its manifest is another run's, or"
            " the run was not recorded up to there"
        )
    files = [*zip(run.files, spans, strict=True)]
    dropped = {file.path: span.dropped_events for file, span in files if span.dropped_events}
    missing_ns = {
        file.path: to_ns - 1 - span.last_ns
        for file, span in files
        if is_cut_used and span.is_cut and to_ns is not None and span.last_ns < to_ns - 1
    }
    if is_cut_used:
        ends = held if is_interrupted or all(span.is_cut for span in held) else []
    else:
        ends = [span for span in spans if span.is_cut or (is_interrupted and span in held)]
    if not ends:
        assert to_ns is not None, "an interrupted run has ends"
        until_ns = to_ns if manifest.scenario.get(IS_PART) else FOREVER_NS
        return MeasuredPart(from_ns, to_ns, until_ns, (), dropped, missing_ns=missing_ns)
    end_of = max if is_cut_used and not is_interrupted else min
    first = end_of(ends, key=lambda span: span.known_to_ns)
    if to_ns is not None and first.known_to_ns >= to_ns:
        return MeasuredPart(from_ns, to_ns, dropped_events=dropped, missing_ns=missing_ns)
    why = f"{first.name} is cut off" if first.is_cut else "the run was interrupted"
    if first.known_to_ns <= from_ns:
        raise TraceFormatError(
            f"{run.path}: {why} before anything of its measured part was done with; record it again"
        )
    known = human_duration(first.known_to_ns - from_ns)
    known += "" if to_ns is None else f" of {human_duration(to_ns - from_ns)}"
    note = f"{why}: the answer is that of the first {known} of the measured part"
    until_ns = end_of(span.last_ns for span in ends) + 1
    return MeasuredPart(from_ns, first.known_to_ns, until_ns, (note,), dropped, why, missing_ns)


def _span(file: TraceFile, from_ns: int, *, is_interrupted: bool, is_cut_used: bool) -> _FileSpan:
    index = file_index(file)
    if index.is_whole and not is_interrupted and len(index.blocks):
        first_ns, last_ns = int(index.blocks["first_ns"].min()), int(index.blocks["last_ns"].max())
        dropped = index.dropped_events or 0
        return _FileSpan(file.title, first_ns, last_ns, False, FOREVER_NS, dropped)
    with TraceReader(file) as reader:
        blocks = reader.blocks()
        if reader.truncation is not None and not is_cut_used:
            blocks = blocks[: reader.truncation.blocks_before_damage]
        first_ns = min((block.first_ns for block in blocks), default=0)
        last_ns = max((block.last_ns for block in blocks), default=-1)
        is_cut = not reader.is_whole
        known_to_ns = FOREVER_NS
        if is_cut or is_interrupted:
            looked_from_ns = max(from_ns, last_ns - LOOK_BACK_NS)
            known_to_ns = last_ns + 1 - longest_life_ns(reader, looked_from_ns, last_ns + 1)
        return _FileSpan(
            file.title, first_ns, last_ns, is_cut, known_to_ns, reader.dropped_events or 0
        )


def _holds_records(run: Run, from_ns: int, to_ns: int) -> bool:
    """Whether records came in a window whose buffers left later, as those of a blocking exchange
    do."""
    columns = ("at_ns", "first_record_ns", "last_record_ns")
    for file in run.files:
        with TraceReader(file) as reader:
            for block in reader.events(columns, from_ns=to_ns):
                keep = (block["first_record_ns"] >= 0) & (block["first_record_ns"] < to_ns)
                if (keep & (block["last_record_ns"] >= from_ns)).any():
                    return True
    return False


def longest_life_ns(reader: TraceReader, from_ns: int, to_ns: int) -> int:
    """The longest time between the first record of a buffer and its last event in a file."""
    longest_ns = 0
    for block in reader.events(_COLUMNS, from_ns=from_ns, to_ns=to_ns):
        keep = (block["kind"] == MessageKind.BUFFER_RESPONSE) & (block["first_record_ns"] >= 0)
        keep &= np.isin(block["point"], (TracePoint.SENT, TracePoint.CONSUMED))
        lives_ns = (block["at_ns"] - block["first_record_ns"])[keep]
        longest_ns = max(longest_ns, int(lives_ns.max(initial=0)))
    return longest_ns
