"""unaligned: a checkpoint barrier waits for the data before it, or overtakes that data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from flinknet.config import WorkloadConfig
from flinknet.results import CheckpointSummary
from flinknet.units import human_bytes, human_duration

from ..page_parts import Curves, Head, Row, Series, Table
from .shown import DemoRun, DemoShown, asked_rate, doubts_of

ALIGNED, UNALIGNED = "aligned", "unaligned"

FASTER = 0.5
"""Largest duration of an unaligned checkpoint, as a share of an aligned one's, at which the effect
has been shown."""


def unaligned(runs: Sequence[DemoRun], workload: WorkloadConfig) -> DemoShown:
    """Make the output from two runs, aligned and unaligned."""
    found = {each.name: each.result.measured.checkpoints for each in runs}
    table = Table(
        [
            Head("checkpoints"),
            Head("completed"),
            Head("duration", "Mean, from the trigger to the last acknowledgement."),
            Head("barrier travel", "Mean, from when it was written to when it was read."),
            Head(
                "overtaken",
                "Mean of the data that a checkpoint stores.",
            ),
        ],
        [Row([name, *_cells(each)]) for name, each in found.items()],
        notes=_notes(found[ALIGNED], found[UNALIGNED]),
    )
    chart = Curves(
        "How long a checkpoint takes",
        list(found),
        [
            Series("duration", [_duration_ns(each) for each in found.values()]),
            Series(
                "barrier travel",
                [None if each is None else each.travel_ns.mean for each in found.values()],
                "orange",
            ),
        ],
        unit="ns",
        is_bars=True,
    )
    return DemoShown(
        "unaligned",
        "A barrier overtakes",
        f"{workload.producers} producers write {asked_rate(workload.rate_per_s)} each to"
        " one consumer that cannot keep up, so all buffers between them are full when a checkpoint"
        " begins.",
        table,
        [chart],
        _lesson(found[ALIGNED], found[UNALIGNED]),
        doubts_of([(each.name, each.result) for each in runs]),
        {name: None if each is None else asdict(each) for name, each in found.items()},
    )


def _notes(aligned: CheckpointSummary | None, other: CheckpointSummary | None) -> list[str]:
    notes = [
        "Duration: from the trigger to the last acknowledgement. Barrier travel: from when it was"
        " written to when it was read. Overtaken: data that each checkpoint stores.",
    ]
    if aligned is not None and other is not None and aligned.triggered < other.triggered:
        notes.append(
            "Fewer aligned checkpoints were started: the next one waits until the last is complete."
        )
    return notes


def _duration_ns(checkpoints: CheckpointSummary | None) -> float | None:
    return None if checkpoints is None else checkpoints.duration_ns.mean


def _cells(checkpoints: CheckpointSummary | None) -> list[str]:
    if checkpoints is None:
        return ["0", *[human_duration(None)] * 3]
    return [
        f"{checkpoints.completed} of {checkpoints.triggered}",
        human_duration(checkpoints.duration_ns.mean),
        human_duration(checkpoints.travel_ns.mean),
        human_bytes(checkpoints.overtaken_bytes_mean),
    ]


def _lesson(aligned: CheckpointSummary | None, overtaking: CheckpointSummary | None) -> list[str]:
    slow_ns, fast_ns = _duration_ns(aligned), _duration_ns(overtaking)
    if not slow_ns or fast_ns is None or overtaking is None or fast_ns > FASTER * slow_ns:
        return [
            "Unexpected: unaligned checkpoints should be much faster here. Try a quiet machine or a"
            " longer --duration."
        ]
    return [
        f"Aligned, a barrier waits until all data ahead of it is processed: a checkpoint takes"
        f" {human_duration(slow_ns)}. Unaligned, it overtakes that data:"
        f" {human_duration(fast_ns)}.",
        f"The price is {human_bytes(overtaking.overtaken_bytes_mean)} of overtaken data that each"
        " checkpoint has to store.",
    ]
