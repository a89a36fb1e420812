"""Several recordings as one run, such as those of taps on several hosts for one job.

Each recording numbers its channels and edges and has a clock of its own. `Recording` maps them into
the run; `joined` creates the run. `replay.joining` decides which recordings belong together, and
how: that requires the ids of the wire, and events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from os.path import commonpath
from pathlib import Path
from typing import Any

import numpy as np

from flinknet.arrays import IntArray
from flinknet.errors import StorageError
from flinknet.storage import AnyPath, StoragePath, path_of

from .index import Stamp, stamp_at
from .manifest import MANIFEST_NAME, RESULT_NAME, SETTINGS_FROM, ChannelInfo, RunManifest
from .metrics import METRICS_NAME, Series, metrics_lines, read_series
from .plain_text import read_document
from .run import Run, open_with_faults, refuse
from .trace_file import LEFT_OUT, ChannelRange, TraceFile


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A file and its damaged blocks, by number; without any, nothing of it is usable."""

    name: str
    blocks: list[int]


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording within a run; with the defaults, it is the whole run.

    Attributes:
        label: its name among the others.
        channels: its channels that count, with their numbers in the run; empty: all, unchanged.
        edges: number in the run of each of its edges.
        offset_ns: added to its instants to get those of the run's clock.
        damaged: files or blocks that are not used.
    """

    path: str
    label: str = ""
    channels: list[ChannelRange] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)
    offset_ns: int = 0
    damaged: list[DamagedFile] = field(default_factory=list)

    def __hash__(self) -> int:
        return hash(self.path)

    def is_used(self, name: str) -> bool:
        return all(each.name != name for each in self.damaged)

    def absolute(self) -> Recording:
        return replace(self, path=str(path_of(self.path).absolute()))

    def open(self) -> Run:
        """Open its run directory, without unusable files. Raises: TraceFormatError."""
        unusable = {each.name for each in self.damaged if not each.blocks}
        run, faults = open_with_faults(path_of(self.path), left_out=unusable)
        refuse(run, [each for each in faults if each.file not in unusable])
        return self.of(run)

    def of(self, run: Run) -> Run:
        """Map its opened run directory into the run."""
        skipped = {each.name: each.blocks for each in self.damaged}
        unusable = {each.name for each in self.damaged if not each.blocks}
        return replace(
            run,
            files=tuple(
                replace(
                    file,
                    channels=self.channels,
                    offset_ns=self.offset_ns,
                    skipped=skipped.get(file.name, []),
                    recording=self.label,
                )
                for file in run.files
                if file.name not in unusable
            ),
        )


RunPlace = AnyPath | list[Recording] | tuple[Recording, ...]
"""The location of a run: its directory, or its recordings."""


def open_recordings(place: RunPlace) -> Run:
    """Open the run at a location; tasks that its manifest does not know have stand-ins. Raises:
    TraceFormatError for a location that is not a run, or files that contradict its manifest.
    """
    recordings = _of(place)
    stamps: list[Stamp | None] = []  # of the manifests
    for each in recordings:
        try:
            stamps.append(stamp_at(path_of(each.path) / MANIFEST_NAME))
        except OSError:
            stamps.append(None)
    return _opened(recordings, tuple(stamps))


def series_within(place: RunPlace, from_ns: int, to_ns: int) -> list[Series]:
    """Metrics of tasks and TaskManagers within [from_ns, to_ns) of the run's clock; of several
    recordings those of the first that has some, since all come from one JobManager."""
    path, offset_ns = _with_metrics(place)
    return [] if path is None else read_series(path, from_ns - offset_ns, to_ns - offset_ns)


def asked_within(place: RunPlace, from_ns: int, to_ns: int) -> IntArray:
    """The instants of Flink's answers about its tasks within [from_ns, to_ns) of the run's clock,
    ascending."""
    lines, offset_ns = _lines_within(place, from_ns, to_ns)
    at_ns = np.array([each["at_ns"] for each in lines if "checkpoint" not in each], np.int64)
    return np.unique(at_ns) + offset_ns


def checkpoints_within(place: RunPlace, from_ns: int, to_ns: int) -> list[dict[str, Any]]:
    """The lines about checkpoints within [from_ns, to_ns) of the run's clock, of the same
    recording."""
    return [each for each in _lines_within(place, from_ns, to_ns)[0] if "checkpoint" in each]


def _lines_within(
    place: RunPlace, from_ns: int, to_ns: int
) -> tuple[Iterable[dict[str, Any]], int]:
    path, offset_ns = _with_metrics(place)
    if path is None:
        return (), 0
    return metrics_lines(path, from_ns - offset_ns, to_ns - offset_ns), offset_ns


def _with_metrics(place: RunPlace) -> tuple[AnyPath | None, int]:
    for each in _of(place):
        path = path_of(each.path)
        if each.is_used(METRICS_NAME) and (path / METRICS_NAME).is_file():
            return path, each.offset_ns
    return None, 0


def _of(place: RunPlace) -> tuple[Recording, ...]:
    return tuple(place) if isinstance(place, list | tuple) else (Recording(str(place)),)


MOST_DELAY_NS = 1_000_000_000
"""A tap adds less; what says otherwise was not written by one."""


def delay_of_tap_ns(place: RunPlace) -> float:
    """Most delay that the tap that recorded a run added to half of what it forwarded, in ns; 0
    where that is not known, and for a run that no tap recorded."""
    return float(np.mean([_delay_ns(each) for each in _of(place)] or [0]))


def _delay_ns(recording: Recording) -> float:
    if not recording.is_used(RESULT_NAME):
        return 0.0
    try:
        delay: Any = read_document(path_of(recording.path) / RESULT_NAME).get("added_delay_ns")
    except StorageError:
        return 0.0
    found: Any = delay.get("p50") if isinstance(delay, dict) else None
    is_known = isinstance(found, int | float) and 0 <= found < MOST_DELAY_NS
    return float(found) if is_known else 0.0


@lru_cache(maxsize=8)
def _opened(recordings: tuple[Recording, ...], _stamps: tuple[Stamp | None, ...]) -> Run:
    """A process opens the same run repeatedly, and each time reads all manifests."""
    runs = [each.open() for each in recordings]
    is_one = len(recordings) == 1 and not recordings[0].channels
    run = runs[0] if is_one else joined(recordings, runs)
    return run if run.manifest is None else replace(run, manifest=run.manifest.with_stand_ins())


def joined(recordings: Sequence[Recording], runs: Sequence[Run]) -> Run:
    """Join recordings, each opened by `Recording.open`, to a run."""
    manifests = [each.manifest for each in runs]
    assert all(each is not None for each in manifests), "a trace file alone is in no set"
    known = [each for each in manifests if each is not None]
    offsets_ns = [each.offset_ns for each in recordings]
    from_ns, to_ns = (
        [end + offset for end, offset in zip(ends, offsets_ns, strict=True) if end is not None]
        for ends in zip(*((e.measured_from_ns, e.measured_to_ns) for e in known), strict=True)
    )
    first = known[0]
    with_keys = next((each for each in known if each.flink_keys), first)
    manifest = replace(
        first,
        scenario=_scenario(recordings, known, with_keys),
        flink_keys=with_keys.flink_keys,
        started_at=min(each.started_at for each in known),
        measured_from_ns=min(from_ns, default=None),
        measured_to_ns=max(to_ns, default=None),
        processes=tuple(process for each in known for process in each.processes),
        channels=tuple(sorted(_channels(recordings, known), key=lambda each: each.index)),
        files={},
        is_sealed=all(each.is_sealed for each in known),
    )
    path = runs[0].path if len(runs) == 1 else common_directory([each.path for each in runs])
    return Run(path, tuple(file for each in runs for file in each.files), manifest)


def common_directory(paths: Sequence[AnyPath]) -> AnyPath:
    """The nearest common directory; of several storages, of the paths in the first one."""
    if len(paths) == 1:
        return paths[0]
    here = [path for path in paths if isinstance(path, Path)]
    first = paths[0]
    if len(here) < len(paths):
        alike = [path for path in paths if isinstance(path, StoragePath) and path.is_near(first)]
        common = commonpath([f"/{path.parent.key}" for path in alike] or ["/"])
        return replace(alike[0], key=common.strip("/")) if alike else first.parent
    if len({path.is_absolute() for path in here}) > 1:
        here = [path.absolute() for path in here]
    return Path(commonpath([path.parent for path in here]) or ".")


def _channels(
    recordings: Sequence[Recording], manifests: Sequence[RunManifest]
) -> Iterator[ChannelInfo]:
    """The channels that count, by their numbers in the run; a channel in several recordings is
    described by the first."""
    names = Counter(
        name
        for manifest in manifests
        for name in {each.producer_process for each in manifest.channels}
    )
    seen: set[int] = set()
    shared: dict[str, str] = {}  # by many channels
    for recording, manifest in zip(recordings, manifests, strict=True):
        indexes = np.array([each.index for each in manifest.channels], np.int64)
        numbers = TraceFile("", recording.channels).numbers_of(indexes).tolist()
        for channel, number in zip(manifest.channels, numbers, strict=True):
            if number == LEFT_OUT or number in seen:
                continue
            seen.add(number)
            producer, consumer = channel.producer_process, channel.consumer_process
            if names[producer] > 1:  # hosts may use the same name for their TaskManagers
                producer = f"{recording.label}/{producer}"
            connection = f"{producer}->{consumer}"
            yield replace(
                channel,
                index=number,
                edge=recording.edges[channel.edge],
                producer_process=shared.setdefault(producer, producer),
                connection=shared.setdefault(connection, connection),
            )


def _scenario(
    recordings: Sequence[Recording], manifests: Sequence[RunManifest], with_keys: RunManifest
) -> dict[str, Any]:
    """The first recording's scenario, with one job merged from all, and the origins of the keys of
    the one that has them."""
    own = ("job", SETTINGS_FROM)
    scenario = {name: value for name, value in manifests[0].scenario.items() if name not in own}
    if with_keys.settings_from is not None:
        scenario[SETTINGS_FROM] = dict(with_keys.settings_from)
    jobs = [
        (recording, manifest.scenario["job"], {each.edge for each in manifest.channels})
        for recording, manifest in zip(recordings, manifests, strict=True)
        if "job" in manifest.scenario
    ]
    return scenario if not jobs else scenario | {"job": _job(jobs)}


def _job(jobs: Sequence[tuple[Recording, Mapping[str, Any], set[int]]]) -> dict[str, Any]:
    """Merge several descriptions of a job, which number the edges each on its own."""
    vertices: dict[tuple[Any, ...], dict[str, Any]] = {}
    edges: dict[int, dict[str, Any]] = {}
    unseen: dict[tuple[int, int], dict[str, Any]] = {}
    for recording, job, own in jobs:
        place: dict[int, int] = {}
        for vertex in job["vertices"]:
            key = vertex.get("job"), vertex.get("id"), vertex["name"]
            known = vertices.setdefault(key, {**vertex, "index": len(vertices)})
            place[vertex["index"]] = known["index"]
        for edge in job["edges"]:
            ends = place[edge["source"]], place[edge["target"]]
            moved = {**edge, "source": ends[0], "target": ends[1]}
            if edge["index"] in own:
                number = recording.edges[edge["index"]]
                edges.setdefault(number, {**moved, "index": number})
            else:
                unseen.setdefault(ends, moved)
    recorded = {(each["source"], each["target"]) for each in edges.values()}
    number = 1 + max((edge for each, *_ in jobs for edge in each.edges), default=-1)
    for ends, edge in unseen.items():
        if ends not in recorded:
            edges[number] = {**edge, "index": number}
            number += 1
    return {
        **jobs[0][1],
        "vertices": list(vertices.values()),
        "edges": [edges[number] for number in sorted(edges)],
    }
