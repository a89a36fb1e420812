"""The part of a trace that is answered from: the one that was asked for, and of a tap or a capture
the one behind the start-up of the job.

A recorded run leaves out its own warm-up. Between processes nobody knows when a job has started,
but it shows: channels open one after another, and the rate climbs or a backlog is worked off. So
the start-up is what comes before every channel has carried data and the bytes of a window are near
those of most windows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from flinknet.arrays import IntArray
from flinknet.core.probe import TracePoint
from flinknet.errors import ConfigError
from flinknet.predict.exchange import is_blocking
from flinknet.trace import TraceReader
from flinknet.trace.event_block import is_data
from flinknet.units import human_duration

from .spark.units import RecordedRun

LOOK_NS = 120_000_000_000
"""The start-up is looked for in the first two minutes of a trace."""

LOOK_MIN_NS = 2_000_000_000
"""A shorter trace has none that could be told from the rest."""

WINDOWS = 40
"""Windows of what is looked at; a quarter of them at most is start-up."""

NEAR = 1.5
"""The bytes of a steady window differ from the median by less than this factor."""

_COLUMNS = ("at_ns", "channel", "point", "kind", "data_type", "payload_bytes")


@dataclass(frozen=True, slots=True)
class AskedPart:
    """What was asked for: offsets from the start of the measured part; None where nothing was."""

    from_ns: int | None = None
    to_ns: int | None = None


WHOLE = AskedPart()


def part_of(run: RecordedRun, asked: AskedPart) -> RecordedRun:
    """The run, with the part that is answered from as its measured window.

    Raises: ConfigError if there is no such part.
    """
    whole_from_ns, whole_to_ns = run.from_ns, run.to_ns
    if asked != WHOLE:
        _check(run, asked)
    if asked.to_ns is not None and asked.to_ns < run.duration_ns:
        to_ns = run.from_ns + asked.to_ns
        run = replace(run, to_ns=to_ns, until_ns=min(run.until_ns, to_ns))
    left_out_ns, why = asked.from_ns or 0, ""
    if asked.from_ns is None and run.manifest.is_from_between:
        left_out_ns, why = start_up_ns(run), "; before it the job was starting (--from 0s keeps it)"
    run = replace(run, from_ns=whole_from_ns + left_out_ns, whole_ns=(whole_from_ns, whole_to_ns))
    if (run.from_ns, run.to_ns) == run.whole_ns:
        return run
    first, last = (human_duration(each - whole_from_ns) for each in (run.from_ns, run.to_ns))
    whole = human_duration(whole_to_ns - whole_from_ns)
    what = "trace" if run.manifest.is_from_between else "measured part"
    note = f"part used: {first} to {last} of the {what} of {whole}{why if left_out_ns else ''}"
    return replace(run, notes=(*run.notes, note))


def start_up_ns(run: RecordedRun) -> int:
    """How long a job that was recorded between processes was starting."""
    looked_ns = min(run.duration_ns, LOOK_NS)
    if looked_ns < LOOK_MIN_NS:
        return 0
    width_ns = looked_ns // WINDOWS
    first_ns: dict[int, int] = {}
    passed_bytes = np.zeros(WINDOWS, np.int64)
    to_ns = run.from_ns + WINDOWS * width_ns
    for file in run.files:
        with TraceReader(file) as reader:
            for block in reader.events(_COLUMNS, None, run.from_ns, to_ns):
                keep = is_data(block, TracePoint.SENT) & (block["channel"] >= 0)
                keep &= (block["at_ns"] >= run.from_ns) & (block["at_ns"] < to_ns)
                at_ns = block["at_ns"][keep] - run.from_ns
                np.add.at(passed_bytes, at_ns // width_ns, block["payload_bytes"][keep])
                _note_first(first_ns, block["channel"][keep], at_ns)
    most = WINDOWS // 4
    opened_ns = [each for each in first_ns.values() if each < most * width_ns]
    opened = max(opened_ns, default=0) // width_ns
    return _first_steady(passed_bytes, opened, most) * width_ns


def _note_first(first_ns: dict[int, int], channels: IntArray, at_ns: IntArray) -> None:
    for channel in np.unique(channels).tolist():
        found_ns = int(at_ns[channels == channel].min())
        first_ns[channel] = min(first_ns.get(channel, found_ns), found_ns)


def _first_steady(passed_bytes: IntArray, opened: int, most: int) -> int:
    """The first window that is like most, from the one on in which the last channel opened; that
    one if there is none, for then the load itself is not steady."""
    middle = float(np.median(passed_bytes))
    for window in range(opened, most + 1):
        if middle / NEAR <= passed_bytes[window] <= middle * NEAR:
            return window
    return opened


def _check(run: RecordedRun, asked: AskedPart) -> None:
    if is_blocking(run.manifest):
        raise ConfigError(
            f"{run.path}: --from and --to cannot be used: a blocking exchange is read only when all"
            " of it was written"
        )
    from_ns = asked.from_ns or 0
    if from_ns >= run.duration_ns:
        raise ConfigError(
            f"--from: {run.path} ends after {human_duration(run.duration_ns)}; give less than that"
        )
    if asked.to_ns is not None and asked.to_ns <= from_ns:
        raise ConfigError("--to: it is not after --from; give a later end")
