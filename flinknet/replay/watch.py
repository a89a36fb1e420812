"""Observation of traces that are still being written: the newest part of every run is observed and
judged as in a replay, again and again.

Nothing is predicted, and Spark is not needed: a part has a bounded number of events, and is
processed in the units of a replay, one after the other. Whole blocks are copied unchanged into a
finished run, so that all readers of runs can read it, and nothing changes meanwhile: a ring may
drop a file at any time.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from flinknet.errors import ConfigError, TraceError, TraceFormatError
from flinknet.predict.captured import waits_at_most
from flinknet.predict.measured_part import LOOK_BACK_NS, longest_life_ns
from flinknet.results import LatencyBounds, TraceLoss, WatchedEdge, WatchLook
from flinknet.trace import ProcessInfo, RunManifest, TraceReader, TraceWriter
from flinknet.trace.format import BlockType
from flinknet.trace.manifest import CAPTURE_NAME, MANIFEST_NAME, RESULT_NAME
from flinknet.trace.metrics import FETCHED_NS, METRICS_NAME, is_within
from flinknet.trace.run import TRACE_SUFFIX, WholeBlock, process_of, trace_files, whole_blocks
from flinknet.trace.run_directory import is_being_written

from .advise.judged import JudgedEdge, judged
from .observe.flink_metrics import flink_metrics
from .observe.measured import ObservedRun, regime_shares
from .observe.observed import observe_here
from .observe.units import even_cuts
from .opening import CREDIT_UNKNOWN_KIND
from .read import WHOLE, AskedPart, RecordedRun, open_runs

UNKNOWN = "how long data waited for credit is unknown, as is the credit of some channels"

MARGIN_NS = 10_000_000_000
"""Time before the part that is copied, too, to know the state of each channel at its begin."""

IDLE_NS = 5_000_000_000
"""Age of an idle process's newest event, relative to others; a working one writes each second."""

LIFE_MAX_NS = 10_000_000_000
"""Most time by which the end of the part is moved back for the sake of slow records."""

EVENTS_MAX = 20_000_000
"""Most events of the part, and of the time before it; both are shorter where there were more. So a
look takes at most some 20 s of processor time."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a run, in a directory of its own; all is known of [from_ns, to_ns). What passed is
    known for `behind_ns` more, in which records may be under way that have not been consumed."""

    directory: Path
    from_ns: int
    to_ns: int
    behind_ns: int


@dataclass(slots=True)
class GrowingRun:
    """A run that is being written, and how far its files are too old to be looked at again."""

    path: Path
    events: int = 0  # number of those that were written until the last excerpt
    _old_bytes: dict[str, int] = field(default_factory=dict)
    _counted_bytes: dict[str, int] = field(default_factory=dict)
    _has_ended: bool = False
    _whole: RecordedRun | None = None  # the part that a replay uses, of a run that has ended

    def excerpt(self, directory: Path, span_ns: int) -> Excerpt:
        """Copy the newest part into a new directory, up to `span_ns` and EVENTS_MAX of it; of a run
        that has ended that of what a replay uses. Raises: TraceFormatError if nothing can be said
        of the run yet, or if it is damaged or files of it are missing."""
        manifest, _ = RunManifest.load_with_fault(self.path)
        self._has_ended |= bool(manifest.files)
        known: dict[Path, list[WholeBlock]] = {}
        for file in sorted(self.path.glob(f"*{TRACE_SUFFIX}")):
            with suppress(FileNotFoundError):  # dropped by a ring meanwhile
                blocks = list(whole_blocks(file, self._old_bytes.get(file.name, 0)))
                if events := [each for each in blocks if each.type is BlockType.EVENTS]:
                    known[file] = events
                    counted = self._counted_bytes.get(file.name, 0)
                    self.events += sum(each.events for each in events if each.to_byte > counted)
                    self._counted_bytes[file.name] = events[-1].to_byte
        if not known:
            raise TraceFormatError(f"{self.path}: no event has been written yet")
        processes = {file: process_of(file) for file in known}
        first_ns = min(each.first_ns for own in known.values() for each in own)
        known_to_ns, life_ns = _known_to_ns(known, processes)
        to_ns = known_to_ns - life_ns
        if self._has_ended:
            self._whole = self._whole or open_runs([self.path], AskedPart(from_ns=0))[0]
            first_ns, to_ns, life_ns = self._whole.from_ns, self._whole.to_ns, 0
        from_ns = max(to_ns - span_ns, first_ns)
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
        self._copy_metrics(directory, before_ns - FETCHED_NS)
        part = replace(manifest, measured_from_ns=from_ns, measured_to_ns=to_ns, files={})
        replace(part, processes=tuple(copied)).save(directory)
        return Excerpt(directory, from_ns, to_ns, life_ns)

    def _copy_metrics(self, directory: Path, from_ns: int) -> None:
        """Copy what Flink's metrics have been since an instant, if the run has any."""
        with suppress(FileNotFoundError), open(self.path / METRICS_NAME, "rb") as source:
            source.seek(self._old_bytes.get(METRICS_NAME, 0))
            while (line := source.readline()).endswith(b"\n") and not _is_since(line, from_ns):
                self._old_bytes[METRICS_NAME] = source.tell()
            with open(directory / METRICS_NAME, "wb") as target:
                target.write(line)
                shutil.copyfileobj(source, target)

    def has_ended(self) -> bool:
        """Whether the run has ended: it then has its result, or checksums of its files."""
        if not self._has_ended:
            with suppress(TraceFormatError):  # not there yet
                self._has_ended = bool(RunManifest.load_with_fault(self.path)[0].files)
            results = (self.path / name for name in (RESULT_NAME, CAPTURE_NAME))
            self._has_ended |= any(each.is_file() for each in results)
        return self._has_ended


def _is_since(line: bytes, from_ns: int) -> bool:
    return is_within(line.decode(errors="replace"), from_ns, None)


def _from_ns(known: dict[Path, list[WholeBlock]], from_ns: int, to_ns: int) -> int:
    """From when on a part has EVENTS_MAX events at most, taken as evenly spread in each block."""
    near = [
        (each.first_ns, each.last_ns, each.events)
        for own in known.values()
        for each in own
        if each.last_ns >= from_ns and each.first_ns < to_ns
    ]
    first_ns, last_ns, events = np.array(near, np.int64).reshape(-1, 3).T
    starts_ns, ends_ns = np.maximum(first_ns, from_ns), np.minimum(last_ns + 1, to_ns)
    counts = events * ((ends_ns - starts_ns) / (last_ns + 1 - first_ns))
    parts = -(-int(counts.sum()) // EVENTS_MAX)
    if parts < 2:
        return from_ns
    return even_cuts(from_ns, to_ns, starts_ns, ends_ns, counts, parts)[-2]


def _known_to_ns(
    known: dict[Path, list[WholeBlock]], processes: dict[Path, ProcessInfo]
) -> tuple[int, int]:
    """Until when all is known of what the processes that work have done: as far as each of them
    has written; and the time that records took lately."""
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
    return to_ns, min(life_ns, LIFE_MAX_NS)


def _copy(file: Path, blocks: list[WholeBlock], directory: Path, process: ProcessInfo) -> None:
    with file.open("rb") as source, TraceWriter(directory / file.name, process) as target:
        for block in whole_blocks(file, blocks[0].from_byte, blocks[-1].to_byte):
            source.seek(block.from_byte)
            target.copy_block(source.read(block.to_byte - block.from_byte))


class Watch:
    """Follows the newest part, `span_ns` long, of each run in a directory, until all have ended.
    Those that had ended before are left out while others continue. Raises: ConfigError for a path
    that is no directory."""

    def __init__(self, path: Path, work_dir: Path, *, span_ns: int) -> None:
        if not path.is_dir():
            raise ConfigError(f"{path}: not a directory; give that of a run, or of several")
        self._path = path
        self._work_dir = work_dir
        self._span_ns = span_ns
        self._excerpts = 0  # readers may remember a file by its path
        self._runs: dict[Path, GrowingRun] = {}
        self._followed: set[Path] = set()
        self._sizes: dict[Path, int] = {}
        self._have_ended = False

    def look(self) -> WatchLook:
        """The newest part of each run."""
        self._sizes = self._file_sizes()
        edges: list[WatchedEdge] = []
        bottlenecks: dict[str, str] = {}
        waiting: dict[str, str] = {}
        directories = sorted({file.parent for file in trace_files(self._path)})
        runs = [self._runs.setdefault(each, GrowingRun(each)) for each in directories]
        going_on = {each.path for each in runs if not each.has_ended()}
        self._have_ended = bool(runs) and not going_on  # others may begin in a directory of several
        has_ended = self._have_ended and not is_being_written(self._path)
        self._followed |= going_on
        for run in [each for each in runs if each.path in self._followed] or runs:
            self._excerpts += 1
            name, directory = run.path.name, self._work_dir / f"newest-{self._excerpts}"
            try:
                found, bottleneck = watched(name, run.excerpt(directory, self._span_ns))
            except FileNotFoundError:
                waiting[name] = "a file was dropped while it was read; look again"
            except TraceError as error:
                waiting[name] = str(error)
            else:
                edges += found
                if bottleneck is not None:
                    bottlenecks[name] = bottleneck
            finally:
                shutil.rmtree(directory, ignore_errors=True)
        events = sum(each.events for each in self._runs.values())
        return WatchLook(events, tuple(edges), bottlenecks, waiting, has_ended)

    def has_grown(self) -> bool:
        """Whether anything has been written since the last look, or all have ended."""
        if self._have_ended and not is_being_written(self._path):
            return True
        return self._file_sizes() != self._sizes

    def _file_sizes(self) -> dict[Path, int]:
        sizes = {}
        files = trace_files(self._path)
        others = (MANIFEST_NAME, RESULT_NAME, CAPTURE_NAME)
        for file in (*files, *(each.parent / name for each in files for name in others)):
            with suppress(FileNotFoundError):  # dropped by a ring meanwhile, or not there yet
                sizes[file] = file.stat().st_size
        return sizes


def watched(name: str, excerpt: Excerpt) -> tuple[list[WatchedEdge], str | None]:
    """Each edge in a part of a run, and what limits its job, in words; None if unknown. Raises:
    TraceFormatError if nothing can be said about a run."""
    is_between = RunManifest.load(excerpt.directory).is_from_between
    # between processes the start of a job counts, too
    runs = open_runs([excerpt.directory], AskedPart(from_ns=0) if is_between else WHOLE)
    runs = [replace(each, losses=_without_credit(each.losses)) for each in runs]
    observed = observe_here(runs, split=None)
    verdicts = judged(observed)
    edges = [_watched(name, excerpt, *each) for each in zip(observed, verdicts, strict=True)]
    said = dict.fromkeys(each.bottleneck.text for each in verdicts if each.bottleneck is not None)
    return edges, "; ".join(said) or None


def _without_credit(losses: Iterable[TraceLoss]) -> tuple[TraceLoss, ...]:
    """Without unknown credit, which a capture states at its end."""
    return tuple(each for each in losses if each.kind != CREDIT_UNKNOWN_KIND)


def _passed_per_s(excerpt: Excerpt, observed: ObservedRun) -> tuple[float, float]:
    """Records and bytes of records that passed per second: as in a replay, or as far as it is known
    where what passed is known for longer than the rest."""
    measured, windows = observed.measured, observed.rows.throughput
    if not excerpt.behind_ns or not windows:
        return measured.throughput_records_per_s or 0.0, measured.throughput_bytes_per_s or 0.0
    width_ns = windows[0].width_ns
    to_ns = (observed.run.duration_ns + excerpt.behind_ns) // width_ns * width_ns
    passed = [each for each in windows if each.from_ns < to_ns]
    records_per_s = sum(each.records for each in passed) * 1e9 / to_ns
    return records_per_s, records_per_s * measured.bytes / max(measured.records, 1)


def _watched(
    name: str, excerpt: Excerpt, observed: ObservedRun, judged_edge: JudgedEdge
) -> WatchedEdge:
    run, rows, measured = observed.run, observed.rows, observed.measured
    records_per_s, bytes_per_s = _passed_per_s(excerpt, observed)
    flink = flink_metrics(run, measured)
    local = 0 if flink is None else flink.share.local_channels or 0
    counted_per_s = flink.share.records_per_s if flink is not None and local else None
    verdict = next(iter(judged_edge.diagnosis), None)
    is_between = run.manifest.is_from_between
    p50, p99 = measured.latency_ns.p50, measured.latency_ns.p99
    bounds = LatencyBounds("consumed", measured.latency_ns.count, p50, p50, p99, p99)
    if is_between:
        waits = waits_at_most(run.place, run.from_ns, run.to_ns, edge=run.edge)
        p50, p99 = (waits.supported_percentile(q) for q in (0.5, 0.99))
        bounds = LatencyBounds("recorded", waits.count, None, p50, None, p99)
    starved = [row.ns / run.duration_ns for row in rows.credit_starved]
    blocked = [row.ns / run.duration_ns for row in rows.blocked]
    return WatchedEdge(
        run=name,
        edge_number=run.ends.number,
        edge=run.edge_name,
        from_ns=run.from_ns,
        to_ns=run.to_ns,
        channels=len(run.manifest.channels),
        records=measured.records,
        records_per_s=records_per_s if counted_per_s is None else counted_per_s,
        bytes_per_s=bytes_per_s,
        latency=bounds,
        backlog_buffers=measured.backlog_buffers,
        regimes=regime_shares(rows),
        starved=min(max(starved), 1.0) if starved else None,
        blocked=min(max(blocked), 1.0) if blocked and is_between else None,
        verdict="unknown" if verdict is None else verdict.cause.value,
        share=0.0 if verdict is None else verdict.share or 0.0,
        why=UNKNOWN if verdict is None else verdict.text,
        is_bottleneck=judged_edge.is_bottleneck,
        behind_ns=excerpt.behind_ns,
        local_channels=0 if counted_per_s is None else local,
        uncounted_channels=local if counted_per_s is None else 0,
    )
