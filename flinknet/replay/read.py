"""Reads runs: the recordings to replay, and the part of each trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flinknet.core.probe import TracePoint
from flinknet.errors import ConfigError
from flinknet.predict.captured import with_settings
from flinknet.predict.exchange import is_blocking
from flinknet.predict.local_channels import at_places_of
from flinknet.predict.measured_part import FOREVER_NS, measured_part
from flinknet.results import ReplayedRecording, TraceLoss
from flinknet.storage import AnyPath
from flinknet.trace import RunManifest, TraceFile
from flinknet.trace.job_names import Edge, edges_in_flow
from flinknet.trace.manifest import RESULT_NAME
from flinknet.trace.plain_text import read_document
from flinknet.trace.recordings import Recording, RunPlace
from flinknet.units import counted, human_duration

from . import opening
from .executions import Execution, executions_of, start_up_ns
from .joining import Part, Together, groups_of, join, run_of, without_idle


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run directory to replay; `run` is its number in this replay. Only the measured window
    [from_ns, to_ns) counts for answers: warm-up and drain are recorded, too. Each edge of a run
    with several exchanges is a RecordedRun, whose manifest has the channels of that edge alone."""

    run: int
    path: AnyPath
    files: tuple[TraceFile, ...]
    manifest: RunManifest
    from_ns: int
    to_ns: int
    edge: int | None = None  # None where there is one exchange
    until_ns: int = FOREVER_NS  # end of the counted time; the drain follows the measured window
    notes: tuple[str, ...] = ()  # why the measured window is not the whole one
    cut: str = ""  # what ended the measured window; empty where it is all there
    whole_ns: tuple[int, int] | None = None  # recorded interval, where the measured window is less
    is_asked_part: bool = False  # whether the measured window is a requested part
    execution: int = 0  # number of it, in a trace in which jobs come and go
    recordings: tuple[Recording, ...] = ()  # several where taps on several hosts recorded the run
    described: tuple[ReplayedRecording, ...] = ()  # descriptions of several recordings
    losses: tuple[TraceLoss, ...] = ()
    flow: tuple[Edge, ...] = ()  # all edges of the job, in the direction of flow
    others: tuple[int, ...] = ()  # vertices without a recorded edge; listed at the first edge only

    @property
    def ends(self) -> Edge:
        index = self.edge
        if index is None:
            index = next((each.edge for each in self.manifest.channels), 0)
        return next(
            each for each in self.flow or edges_in_flow(self.manifest) if each.index == index
        )

    @property
    def edge_name(self) -> str | None:
        """Name of the edge; None for the only exchange of a run that does not name it."""
        is_named = self.manifest.is_from_between and bool(self.ends.source_tasks)
        return self.ends.name if self.edge is not None or is_named else None

    @property
    def job(self) -> tuple[RunPlace, int]:
        """Key that the edges of one execution of a job have in common."""
        return self.recordings or self.path, self.execution

    @property
    def place(self) -> tuple[Recording, ...]:
        """Paths from which it can be opened again, from any working directory."""
        found = self.recordings or (Recording(str(self.path)),)
        return tuple(each.absolute() for each in found)

    @property
    def is_credit_known(self) -> bool:
        return all(each.kind != opening.CREDIT_UNKNOWN_KIND for each in self.losses)

    @property
    def is_unseen(self) -> bool:
        """Whether it is an edge without recorded events."""
        return not self.manifest.channels

    @property
    def duration_ns(self) -> int:
        return self.to_ns - self.from_ns

    @property
    def counted_at(self) -> TracePoint:
        """The point at which records count, the last one that was recorded: the sending between
        processes, and in a producer whose consumers are those of another run or of a Flink."""
        processes = {each.name for each in self.manifest.processes}
        consumers = {each.consumer_process for each in self.manifest.channels}
        is_seen = not consumers or bool(consumers & processes)
        if self.manifest.is_from_between or not is_seen:
            return TracePoint.SENT
        return TracePoint.CONSUMED


def result_of(run: RecordedRun) -> dict[str, Any]:
    ignored = {file.name for each in run.recordings for file in each.damaged}
    return {} if RESULT_NAME in ignored else read_document(run.path / RESULT_NAME)


def stated_warnings(run: RecordedRun) -> list[dict[str, Any]]:
    found = result_of(run).get("warnings")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


@dataclass(frozen=True, slots=True)
class AskedPart:
    """The part to use, as offsets from the start of the measured part; None for its own end."""

    from_ns: int | None = None
    to_ns: int | None = None

    def since(self, later_ns: int) -> AskedPart:
        return AskedPart(
            None if self.from_ns is None else max(self.from_ns - later_ns, 0),
            None if self.to_ns is None else self.to_ns - later_ns,
        )


WHOLE = AskedPart()


def open_runs(
    paths: Sequence[AnyPath],
    asked: AskedPart = WHOLE,
    describe: Callable[[RunManifest], RunManifest] = lambda manifest: manifest,
    *,
    together: Together = Together.AUTO,
    on_damage: opening.OnDamage = opening.OnDamage.STOP,
    reads: opening.FileReads = opening.READ_HERE,
) -> list[RecordedRun]:
    """Open every run directory at the paths or directly below them, numbered in order: the asked
    part of each of its edges. Recordings of one job are one run, see `joining`; `describe` adds the
    job to the manifest of a recording between processes. Raises: TraceFormatError for a path
    without a run, ConfigError for a part that does not exist."""
    runs: list[RecordedRun] = []
    parts, losses = opening.open_parts(paths, on_damage, reads)
    groups, idle = without_idle(groups_of(parts, together))
    losses += [opening.left_out(each.run.path, "no data passed it") for each in idle]
    for group in groups:
        own = {str(part.run.path) for part in group}
        # omitted recordings may belong to the only run, or to each that has several
        is_open = len(groups) == 1 or len(group) > 1
        lost = [x for x in losses if x.path in own or (x.kind == opening.LEFT_OUT_KIND and is_open)]
        run = _recorded_run(group, len(runs), lost, on_damage)
        if not run.manifest.is_from_between:
            runs += edges_of(part_of(run, asked))
            continue
        run = replace(run, manifest=describe(run.manifest))
        for execution, part in executions_in(run, asked):
            manifest, *_ = with_settings(execution.manifest, run.files)
            execution = replace(execution, run=len(runs), manifest=manifest)
            runs += edges_of(part_of(execution, part))
    return runs


def open_recorded_run(path: AnyPath, number: int) -> RecordedRun:
    """Open a run directory for replay. Raises: TraceFormatError if it is none, if its result does
    not belong to it, or if the run was not recorded up to its measured part."""
    return _recorded_run([opening.opened_part(Recording(str(path)))], number)


def _recorded_run(
    group: Sequence[Part],
    number: int,
    losses: Sequence[TraceLoss] = (),
    on_damage: opening.OnDamage = opening.OnDamage.STOP,
) -> RecordedRun:
    """The run that some recordings are."""
    members = join(group) if len(group) > 1 else []
    recordings = [each.recording for each in members if each.recording is not None]
    run = run_of(members) if recordings else group[0].run
    assert run.manifest is not None, "a trace file alone is refused"
    part = measured_part(run, is_cut_used=on_damage is opening.OnDamage.SKIP)
    lost = part.dropped_events, part.missing_ns
    named = [loss for each in group for loss in opening.named_losses(each, *lost)]
    unknown = sum(not each.partition for each in run.manifest.channels)
    notes = part.notes
    if unknown and run.manifest.is_from_between:
        notes += (
            f"{counted(unknown, 'channel')} had been opened before the recording began: which tasks"
            " they connect is unknown, and predictions have a producer and a consumer for each",
        )
    return RecordedRun(
        number,
        run.path,
        run.files,
        run.manifest,
        part.from_ns,
        part.to_ns,
        until_ns=part.until_ns,
        notes=notes,
        cut=part.cut,
        recordings=tuple(recordings) or (group[0].recording,),
        described=opening.described_recordings(members, part.from_ns),
        losses=(*losses, *named),
    )


def executions_in(run: RecordedRun, asked: AskedPart) -> list[tuple[RecordedRun, AskedPart]]:
    """Each execution of a job in a recording between processes that lies in the asked part, as a
    run with its own part of that. Raises: ConfigError if the trace has no such part."""
    executions = executions_of(run.manifest, run.files)
    if len(executions) < 2:
        return [(_restarted(run, each, asked), asked) for each in executions] or [(run, asked)]
    if asked != WHOLE:
        _check(run, asked)
    is_one_edge = len({each.edge for each in run.manifest.channels}) < 2
    found = []
    for number, each in enumerate(executions, start=1):
        from_ns, to_ns = max(each.from_ns, run.from_ns), min(each.to_ns, run.to_ns)
        part = asked.since(from_ns - run.from_ns)
        is_before = part.to_ns is not None and part.to_ns <= 0
        if is_before or from_ns + (part.from_ns or 0) >= to_ns:
            continue
        first, last = (human_duration(at_ns - run.from_ns) for at_ns in (from_ns, to_ns))
        note = f"job {number} of {len(executions)} in this trace, {first} to {last} of it"
        own = replace(
            run,
            manifest=replace(run.manifest, channels=each.channels),
            from_ns=from_ns,
            to_ns=to_ns,
            edge=None if is_one_edge else each.channels[0].edge,
            notes=(*run.notes, note),
            execution=number - 1,
        )
        found.append((_restarted(own, each, asked), part))
    if not found:
        raise ConfigError(f"--from, --to: the chosen part of {run.path} lies between jobs")
    return found


def _restarted(run: RecordedRun, execution: Execution, asked: AskedPart) -> RecordedRun:
    """The run, or its longest part without a restart unless a part was asked for."""
    restarts, longest = execution.restarts, execution.longest
    if not restarts:
        return run
    note = f"the job had restarted {'once' if restarts == 1 else f'{restarts} times'}"
    if longest is None or asked != WHOLE:
        between = "; what is between two attempts counts as time of the job" if longest else ""
        return replace(run, notes=(*run.notes, note + between))
    span_ns = longest.from_ns, longest.to_ns
    manifest = at_places_of(run.manifest, run.place, *span_ns, longest.channels)
    from_ns, to_ns = max(longest.from_ns, run.from_ns), min(longest.to_ns, run.to_ns)
    first, last = (human_duration(at_ns - run.from_ns) for at_ns in (from_ns, to_ns))
    note = f"{note}; the answer is about its longest attempt, {first} to {last} (--from 0s: all)"
    return replace(
        run,
        manifest=replace(manifest, channels=longest.channels),
        from_ns=from_ns,
        to_ns=to_ns,
        until_ns=min(run.until_ns, to_ns),
        notes=(*run.notes, note),
    )


def edges_of(run: RecordedRun) -> list[RecordedRun]:
    """The exchanges of a run in the direction of flow, numbered from the run's number on."""
    recorded = {channel.edge for channel in run.manifest.channels}
    edges = edges_in_flow(run.manifest)
    jobs = {each.job for each in edges if each.index in recorded}
    run = replace(run, flow=tuple(each for each in edges if each.job in jobs))
    own = [each for each in run.flow if each.index in recorded]
    recorded_ends = {end for each in own for end in (each.source, each.target)}
    ends = dict.fromkeys(end for each in run.flow for end in (each.source, each.target))
    others = tuple(each for each in ends if each not in recorded_ends)
    if len(recorded) < 2:
        return [replace(run, others=others)]
    first, *following = [
        replace(run, run=run.run + place, manifest=run.manifest.of_edge(index), edge=index)
        for place, index in enumerate(each.index for each in own)
    ]
    return [replace(first, others=others), *following]


def part_of(run: RecordedRun, asked: AskedPart) -> RecordedRun:
    """The run, measured in the part that is used. Raises: ConfigError if there is none."""
    whole_ns = run.from_ns, run.to_ns
    if asked != WHOLE:
        _check(run, asked)
    if asked.to_ns is not None and asked.to_ns < run.duration_ns:
        to_ns = run.from_ns + asked.to_ns
        run = replace(run, to_ns=to_ns, until_ns=min(run.until_ns, to_ns))
    later_ns, why = asked.from_ns or 0, ""
    if asked.from_ns is None and run.manifest.is_from_between:
        later_ns = start_up_ns(run.files, run.from_ns, run.to_ns)
        why = "; before it the job was starting (--from 0s keeps it)" if later_ns else ""
    run = replace(run, from_ns=run.from_ns + later_ns, whole_ns=whole_ns)
    if (run.from_ns, run.to_ns) == whole_ns:
        return run
    edges_ns = run.from_ns, run.to_ns, whole_ns[1]
    first, last, whole = (human_duration(each - whole_ns[0]) for each in edges_ns)
    what = "trace" if run.manifest.is_from_between else "measured part"
    note = f"part used: {first} to {last} of the {what} of {whole}{why}"
    return replace(run, is_asked_part=asked != WHOLE, notes=(*run.notes, note))


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
