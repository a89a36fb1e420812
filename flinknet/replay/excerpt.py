"""The newest part of a run that is still being written, as a finished run.

Whole blocks are copied unchanged, so that all readers of runs can read it, and nothing changes
meanwhile: a ring may drop a file at any time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from flinknet.errors import TraceFormatError
from flinknet.predict.measured_part import LOOK_BACK_NS, longest_life_ns
from flinknet.trace import ProcessInfo, RunManifest, TraceReader, TraceWriter
from flinknet.trace.format import BlockType
from flinknet.trace.growing import WholeBlock, process_of, whole_blocks
from flinknet.trace.run import TRACE_SUFFIX

from .observe.units import even_cuts

MARGIN_NS = 10_000_000_000
"""Time before the part that is copied, too, to know the state of each channel at its begin."""

IDLE_NS = 5_000_000_000
"""Age of the newest event of a process, relative to others, from which on it is idle; a working one
writes its events every second."""

LIFE_MAX_NS = 10_000_000_000
"""Most time by which the end of the part is moved back for the sake of slow records."""


EVENTS_MAX = 20_000_000
"""Most events of the part, and of the time before it; both are shorter where there were more. So a
look takes at most some 20 s of processor time."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a run, in a directory of its own; all is known of [from_ns, to_ns)."""

    directory: Path
    from_ns: int
    to_ns: int


@dataclass(slots=True)
class GrowingRun:
    """A run that is being written, and how far its files are too old to be looked at again.

    Attributes:
        path: of the run directory.
    """

    path: Path
    _old_bytes: dict[str, int] = field(default_factory=dict)
    _has_ended: bool = False

    def excerpt(self, directory: Path, span_ns: int) -> Excerpt:
        """Copy the newest part into a new directory.

        Args:
            span_ns: length of the part, if the run is that old and has not too many events.

        Raises: TraceFormatError if nothing can be said of the run yet, or if it is damaged.
        """
        manifest, _ = RunManifest.load_with_fault(self.path)
        found = {file: self._blocks_of(file) for file in sorted(self.path.glob(f"*{TRACE_SUFFIX}"))}
        known = {file: blocks for file, blocks in found.items() if blocks}
        if not known:
            raise TraceFormatError(f"{self.path}: no event has been written yet")
        processes = {file: process_of(file) for file in known}
        to_ns = _known_to_ns(known, processes)
        from_ns = max(to_ns - span_ns, min(each.first_ns for own in known.values() for each in own))
        from_ns = _from_ns(known, from_ns, to_ns)
        if to_ns <= from_ns:
            raise TraceFormatError(f"{self.path}: too little has been written yet")
        directory.mkdir()
        before_ns = _from_ns(known, from_ns - MARGIN_NS, from_ns)
        copied = []
        for file, blocks in known.items():
            wanted = [each for each in blocks if each.last_ns >= before_ns]
            self._old_bytes[file.name] = wanted[0].from_byte if wanted else blocks[-1].to_byte
            if wanted:
                _copy(file, wanted, directory, processes[file])
                copied.append(processes[file])
        part = replace(
            manifest,
            measured_from_ns=from_ns,
            measured_to_ns=to_ns,
            processes=tuple(copied),
            files={},
        )
        part.save(directory)
        return Excerpt(directory, from_ns, to_ns)

    def has_ended(self) -> bool:
        """Whether the run has ended: its manifest then has the checksums of its files."""
        if not self._has_ended:
            try:
                manifest, _ = RunManifest.load_with_fault(self.path)
            except TraceFormatError:  # not there yet
                return False
            self._has_ended = bool(manifest.files)
        return self._has_ended

    def _blocks_of(self, file: Path) -> list[WholeBlock]:
        try:
            blocks = list(whole_blocks(file, self._old_bytes.get(file.name, 0)))
        except FileNotFoundError:  # dropped by a ring meanwhile
            return []
        return [each for each in blocks if each.type is BlockType.EVENTS]


def _from_ns(known: dict[Path, list[WholeBlock]], from_ns: int, to_ns: int) -> int:
    """From when on a part has EVENTS_MAX events at most, taken as evenly spread in each block."""
    near = [
        each
        for own in known.values()
        for each in own
        if each.last_ns >= from_ns and each.first_ns < to_ns
    ]
    first_ns, last_ns, events = (
        np.array([(each.first_ns, each.last_ns, each.events) for each in near], np.int64)
        .reshape(-1, 3)
        .T
    )
    starts_ns, ends_ns = np.maximum(first_ns, from_ns), np.minimum(last_ns + 1, to_ns)
    counts = events * ((ends_ns - starts_ns) / (last_ns + 1 - first_ns))
    parts = -(-int(counts.sum()) // EVENTS_MAX)
    return (
        even_cuts(from_ns, to_ns, starts_ns, ends_ns, counts, parts)[-2] if parts > 1 else from_ns
    )


def _known_to_ns(known: dict[Path, list[WholeBlock]], processes: dict[Path, ProcessInfo]) -> int:
    """Until when all is known of what the processes that work have done: as far as each of them
    has written, less the time that records took lately."""
    last_ns: dict[tuple[str, int], int] = {}
    for file, blocks in known.items():
        key = processes[file].name, processes[file].pid
        last_ns[key] = max([last_ns.get(key, 0), *(each.last_ns for each in blocks)])
    newest_ns = max(last_ns.values())
    to_ns = min(each for each in last_ns.values() if each >= newest_ns - IDLE_NS) + 1
    life_ns = 0
    for file, blocks in known.items():
        recent = [each for each in blocks if each.last_ns >= newest_ns - LOOK_BACK_NS]
        if recent:
            with TraceReader(file, [each.extent for each in recent]) as reader:
                life_ns = max(life_ns, longest_life_ns(reader, newest_ns - LOOK_BACK_NS, to_ns))
    return to_ns - min(life_ns, LIFE_MAX_NS)


def _copy(file: Path, blocks: list[WholeBlock], directory: Path, process: ProcessInfo) -> None:
    with file.open("rb") as source, TraceWriter(directory / file.name, process) as target:
        for block in whole_blocks(file, blocks[0].from_byte, blocks[-1].to_byte):
            source.seek(block.from_byte)
            target.copy_block(source.read(block.to_byte - block.from_byte))
