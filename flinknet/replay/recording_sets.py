"""Which of some recordings are one run, for `trace info`: nothing of their events is read but what
relates their clocks."""

from __future__ import annotations

from collections.abc import Sequence

from flinknet.results import RecordingSet
from flinknet.storage import AnyPath
from flinknet.trace import file_index
from flinknet.trace.recordings import Recording

from .joining import Part, described_recordings, groups_of, join, run_of
from .opening import named_losses


def sets_of(paths: Sequence[AnyPath]) -> list[RecordingSet]:
    """The sets among the run directories at some paths.

    Raises: TraceFormatError for one that cannot be opened.
    """
    if len(paths) < 2:
        return []
    recordings = [Recording(str(path)) for path in paths]
    opened = [Part(each, each.open()) for each in recordings]
    parts = [each for each in opened if each.manifest.is_from_between]
    return [_set_of(group) for group in groups_of(parts) if len(group) > 1]


def _set_of(group: Sequence[Part]) -> RecordingSet:
    parts = join(group)
    run = run_of(parts)
    assert run.manifest is not None
    from_ns, to_ns = run.manifest.measured_from_ns, run.manifest.measured_to_ns
    return RecordingSet(
        str(run.path),
        described_recordings(parts, from_ns or 0),
        len(run.manifest.channels),
        len({each.edge for each in run.manifest.channels}),
        None if from_ns is None or to_ns is None else to_ns - from_ns,
        tuple(loss for part in group for loss in named_losses(part, _dropped_events(part))),
    )


def _dropped_events(part: Part) -> dict[str, int]:
    return {file.path: file_index(file).dropped_events or 0 for file in part.run.files}
