"""Opens recordings: their usable parts, and known losses.

Damage ends a replay, or is passed over; then the answer states its cost, as it always states the
losses that recordings themselves report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import Any

from flinknet.errors import TraceDamagedError, TraceError, TraceFormatError
from flinknet.results import RecordingSet, ReplayedRecording, TraceLoss
from flinknet.storage import AnyPath, all_at, matching, path_of
from flinknet.trace import RunManifest, TraceFile, TraceReader, file_index, find_runs
from flinknet.trace.index import read_indexes, stamp_of
from flinknet.trace.manifest import CAPTURE, CAPTURE_NAME, MANIFEST_NAME, RESULT_NAME
from flinknet.trace.metrics import METRICS_NAME
from flinknet.trace.plain_text import read_document
from flinknet.trace.recordings import DamagedFile, Recording
from flinknet.trace.run import TRACE_SUFFIX, faults_of_documents, open_with_faults, refuse
from flinknet.units import counted, human_duration, human_number

from .joining import JoinedPart, Part, groups_of, join, labels_of, run_of

LEFT_OUT_KIND = "left_out"
"""Kind of a loss: a recording that is not used at all."""

CREDIT_UNKNOWN_KIND = "credit_unknown_channels"
"""Kind of a loss after which waits for credit are unknown."""

NAMED_LOSSES: Mapping[str, str] = {
    "missing_bytes": "bytes from producers missing in the capture",
    "losses": "places where the messages of a connection could not be followed",
    "skipped_bytes": "bytes that could not be read as messages",
    "undecodable": "messages that could not be decoded",
    "missed_buffers": "buffers and events whose headers are missing",
    "sequence_gaps": "gaps in sequence numbers",
    "unpaid_buffers": "buffers without credit, as where messages are missing or out of order",
    CREDIT_UNKNOWN_KIND: "channels with unknown credit; waits for it are unknown, at least in part",
    "observer_failures": "connections that were not observed to their end",
    "channels_refused": "channels more than it has room for",
    "one_way": "connections with one direction in the capture; what the other end sent is unknown",
    "unread_blocks": "blocks of the capture that were not read, with what packets they held",
}
_WITHOUT = {
    METRICS_NAME: "Flink's metrics are not used",
    RESULT_NAME: "its warnings and losses are unknown",
}


class OnDamage(StrEnum):
    STOP = "stop"
    SKIP = "skip"


def damaged_blocks(files: Sequence[TraceFile]) -> list[list[int]]:
    """The numbers of the blocks of each file that cannot be read."""
    found: list[list[int]] = []
    for file in files:
        found.append([])
        with TraceReader(file) as reader:
            for number in range(len(reader.blocks())):
                try:
                    reader.check_block(number)
                except TraceDamagedError:
                    found[-1].append(number)
    return found


@dataclass(frozen=True, slots=True)
class FileReads:
    """Readers of indexes for `trace.file_index`, and finders of damaged blocks."""

    indexes: Callable[[Sequence[TraceFile]], None] = read_indexes
    damaged: Callable[[Sequence[TraceFile]], Sequence[Sequence[int]]] = damaged_blocks


READ_HERE = FileReads()


def open_parts(
    paths: Sequence[AnyPath], on_damage: OnDamage = OnDamage.STOP, reads: FileReads = READ_HERE
) -> tuple[list[Part], list[TraceLoss]]:
    """Open every recording at some paths, or directly below them: the usable ones, and the losses
    of all of them. Raises: TraceFormatError for a path that is no recording; for a damaged one,
    unless damage is passed over; and if none can be used."""
    found = list(dict.fromkeys(run for path in paths for run in find_runs(path)))
    losses = list(_without_manifest(paths))
    if on_damage is OnDamage.STOP:
        parts = all_at(found[0], lambda path: opened_part(Recording(str(path))), found)
        return _with_indexes(parts, reads), losses
    recordings = []
    failures = []
    for path in found:
        try:
            recordings.append(_usable(path))
        except TraceError as error:
            failures.append(error)
            losses.append(left_out(path, str(error).removeprefix(f"{path}: ")))
    if not recordings:
        raise failures[0]
    opened = [opened_part(each, is_checked=True) for each in recordings]
    files = [file for part in opened for file in part.run.files]
    damaged = dict(zip((file.path for file in files), reads.damaged(files), strict=True))
    parts = []
    for part in opened:
        found_in = ((file.name, list(damaged[file.path])) for file in part.run.files)
        own = [DamagedFile(name, blocks) for name, blocks in found_in if blocks]
        for each in part.recording.damaged:
            if each.name == CAPTURE_NAME:
                continue  # see named_losses
            what = _WITHOUT.get(each.name, f"{each.name} is left out")
            text = f"{what}: missing or damaged"
            losses.append(TraceLoss(str(part.run.path), each.name, "damaged_file", None, text))
        losses += [_skipped(part, each) for each in own]
        recording = replace(part.recording, damaged=[*part.recording.damaged, *own])
        parts.append(Part(recording, recording.open()) if own else part)
    return _with_indexes(parts, reads), losses


def _with_indexes(parts: Sequence[Part], reads: FileReads) -> list[Part]:
    """The recordings, with files as they are now, whose indexes were read."""

    def stamped(file: TraceFile) -> TraceFile:
        with suppress(OSError):  # its reader says what is wrong
            return replace(file, stamp=[*stamp_of(file)])
        return replace(file, stamp=[])

    files = [file for part in parts for file in part.run.files]
    files = all_at(path_of(files[0].path), stamped, files) if files else []
    reads.indexes(files)
    rest = iter(files)
    own = (tuple(islice(rest, len(part.run.files))) for part in parts)
    return [replace(part, run=replace(part.run, files=next(own))) for part in parts]


def named_losses(
    part: Part, dropped_events: Mapping[str, int], missing_ns: Mapping[str, int]
) -> Iterator[TraceLoss]:
    """Losses that a recording reports itself, events that it could not write, and time that is
    missing at the end, by file."""
    path = str(part.run.path)
    for file in part.run.files:
        if count := dropped_events.get(file.path):
            text = f"{count:,} events could not be written when they were recorded"
            yield TraceLoss(path, file.name, "dropped_events", count, text)
        if lost_ns := missing_ns.get(file.path):
            text = f"the last {human_duration(lost_ns)} of the file are missing"
            yield TraceLoss(path, file.name, "cut_off", None, text)
    if not part.manifest.is_from_between:
        return
    stated = _stated(part)
    if part.manifest.origin == CAPTURE and not _document(part, CAPTURE_NAME):
        text = "what the capture lacks is unknown, and how long data waited for credit"
        text += ": missing or damaged"
        yield TraceLoss(path, CAPTURE_NAME, CREDIT_UNKNOWN_KIND, None, text)
    for name, what in NAMED_LOSSES.items():
        count = stated.get(name)
        if isinstance(count, int) and count > 0:
            noun, rest = what.split(" ", 1)
            text = f"{counted(count, noun.removesuffix('s'))} {rest}"
            if name == "missing_bytes":
                share = count / (count + stated.get("bytes_from_server", 0))
                text += f" ({human_number(100 * share)}%)"
            yield TraceLoss(path, None, name, count, text)
    if part.manifest.origin == CAPTURE:
        steps = _document(part, CAPTURE_NAME).get("clock")
        for step in steps if isinstance(steps, list) else []:
            yield TraceLoss(path, None, "clock", None, str(step))


def left_out(path: AnyPath, why: str) -> TraceLoss:
    return TraceLoss(str(path), None, LEFT_OUT_KIND, None, f"left out: {why}")


def _document(part: Part, name: str) -> dict[str, Any]:
    """A document of a recording, unless it is left out."""
    return read_document(part.run.path / name) if part.recording.is_used(name) else {}


def _stated(part: Part) -> Mapping[str, Any]:
    """The final counts of a recording between processes; empty without its document."""
    if part.manifest.origin != CAPTURE:
        return _document(part, RESULT_NAME)
    document = _document(part, CAPTURE_NAME)
    connections, packets = document.get("connections"), document.get("packets")
    counts = packets.items() if isinstance(packets, dict) else ()
    sums = Counter({name: count for name, count in counts if isinstance(count, int)})
    for each in connections if isinstance(connections, list) else []:
        stated = each if isinstance(each, dict) else {}
        sums["one_way"] += stated.get("missing_direction") is not None
        sums["connections"] += 1
        for name in (*NAMED_LOSSES, "bytes_from_server"):
            count = stated.get(name)
            sums[name] += count if isinstance(count, int) else 0
    return sums


def opened_part(recording: Recording, *, is_checked: bool = False) -> Part:
    """Open a recording. Raises: TraceFormatError if it is none, or if its run left other files."""
    run = recording.open()
    if run.manifest is None:
        TraceReader(run.path).close()  # what is no trace at all is refused as such
        raise TraceFormatError(
            f"{run.path}: a trace file alone does not say what was measured; give the run directory"
            " with its manifest.json"
        )
    if not is_checked:
        refuse(run, faults_of_documents(run))
    part = Part(recording, run)
    stated = _stated(part) if run.manifest.origin == CAPTURE else {}
    why = None
    if stated.get("timeless_packets"):  # of imports that gave them another's instant
        why = "has packets without an instant, so rates and times are unknown"
    elif stated and stated.get("one_way", 0) >= stated.get("connections", 1):
        why = (
            "has one direction of its connections, so what waited for credit, and for whom, is"
            " unknown"
        )
    if why is not None:
        raise TraceFormatError(
            f"{run.path}: the capture {why}; `flinknet trace info` shows what was captured. A"
            " replay needs another capture"
        )
    return part


def _usable(path: AnyPath) -> Recording:
    """A recording without unusable files. Raises: TraceError if no file can be used."""
    if path.is_file():
        return Recording(str(path))
    manifest = RunManifest.load(path)
    names = [each.file for each in manifest.processes]
    damaged = {name for name in names if not (path / name).is_file()}
    run, faults = open_with_faults(path, left_out=damaged)
    for fault in faults:
        if fault.file not in names:
            raise TraceFormatError(f"{path / fault.file}: {fault.text}")
        damaged.add(fault.file)
    for file in run.files:
        try:
            TraceReader(file).close()
        except TraceError:
            damaged.add(file.name)
    if damaged.issuperset(names):
        raise TraceFormatError(f"{path}: none of its trace files can be read")
    damaged.update(fault.file for fault in faults_of_documents(run))
    return Recording(str(path), damaged=[DamagedFile(name, []) for name in sorted(damaged)])


def _skipped(part: Part, file: DamagedFile) -> TraceLoss:
    """Losses by damaged blocks, by the index of their file."""
    with TraceReader(path_of(part.recording.path) / file.name) as reader:
        blocks = reader.blocks()
    lost = [blocks[number] for number in file.blocks]
    count = sum(each.count for each in lost)
    channels = {
        channel for each in lost for channel in each.channels["channel"].tolist() if channel >= 0
    }
    share = f"{len(lost):,} of {counted(len(blocks), 'block')} damaged and skipped"
    text = f"{share}: lost {counted(count, 'event')} of {counted(len(channels), 'channel')}"
    lost_ns, until_ns = 0, -1
    for each in sorted(lost, key=lambda block: block.first_ns):
        lost_ns += max(each.last_ns - max(each.first_ns, until_ns), 0)
        until_ns = max(each.last_ns, until_ns)
    text += f" in {human_duration(lost_ns)}" if lost_ns else ""
    return TraceLoss(str(part.run.path), file.name, "damaged_blocks", count, text)


def _without_manifest(paths: Sequence[AnyPath]) -> Iterator[TraceLoss]:
    """Directories of traces among the recordings that are none, for they lack their manifest."""
    for path in (found for given in paths for found in matching(given)):
        if not path.is_dir() or (path / MANIFEST_NAME).is_file():
            continue
        for directory in sorted({each.parent for each in path.glob(f"*/*{TRACE_SUFFIX}")}):
            if not (directory / MANIFEST_NAME).is_file():
                why = f"it has trace files and no {MANIFEST_NAME}; copy it back"
                yield left_out(directory, why)


def described_recordings(
    members: Sequence[JoinedPart], from_ns: int
) -> tuple[ReplayedRecording, ...]:
    """Descriptions of the recordings of a run whose measured part starts at `from_ns`."""
    labels = labels_of(each.part.run.path for each in members) if members else []
    found = []
    for label, each in zip(labels, members, strict=True):
        manifest, since_ns = each.part.manifest, each.clock.offset_ns - from_ns
        from_to = each.part.measured
        start_ns, end_ns = (ns + since_ns for ns in from_to) if from_to else (None, None)
        counts = len(manifest.channels), each.channels_counted
        path, started_at = str(each.part.run.path), manifest.started_at
        about = path, label, started_at, *counts
        found.append(ReplayedRecording(*about, start_ns, end_ns, each.clock))
    return tuple(found)


def sets_of(paths: Sequence[AnyPath]) -> list[RecordingSet]:
    """The sets of recordings that are one run among some run directories, for `trace info`. Events
    are read only to relate clocks. Raises: TraceFormatError for one that cannot be opened."""
    if len(paths) < 2:
        return []
    recordings = [Recording(str(path)) for path in paths]
    opened = [Part(each, each.open()) for each in recordings]
    parts = [each for each in opened if each.manifest.is_from_between]
    found = []
    for group in (each for each in groups_of(parts) if len(each) > 1):
        members = join(group)
        run = run_of(members)
        assert run.manifest is not None
        from_ns, to_ns = run.manifest.measured_from_ns, run.manifest.measured_to_ns
        files = [file for part in group for file in part.run.files]
        dropped = {each.path: file_index(each).dropped_events or 0 for each in files}
        found.append(
            RecordingSet(
                str(run.path),
                described_recordings(members, from_ns or 0),
                len(run.manifest.channels),
                len({each.edge for each in run.manifest.channels}),
                None if from_ns is None or to_ns is None else to_ns - from_ns,
                tuple(loss for part in group for loss in named_losses(part, dropped, {})),
            )
        )
    return found
