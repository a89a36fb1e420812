"""Selection: the part of a run to export, its buffers channel by channel, and the files for it."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, cast

import numpy as np

from flinknet.arrays import EventColumns, IntArray
from flinknet.errors import ConfigError, TraceFormatError
from flinknet.storage import AnyPath
from flinknet.trace import ChannelInfo, Run, TraceReader
from flinknet.trace.buffers import BUFFER_COLUMNS, ChannelBuffers, paired_buffers, read_channel
from flinknet.trace.job_names import edges_in_flow
from flinknet.whole_files import whole_file


@dataclass(frozen=True, slots=True)
class Selection:
    """A run, with the channels and the time to export.

    Instants are those of the trace. `origin_ns` is zero on the user's time scale: the start of the
    measured part or, without one, the first event.
    """

    run: Run
    channels: tuple[int, ...] | None  # None: all, and the events of whole connections
    from_ns: int | None  # None: from the first event
    to_ns: int | None  # exclusive; None: to the last event
    origin_ns: int
    first_ns: int  # of all events
    last_ns: int
    cut_files: tuple[str, ...]  # names of files without an end, whose whole blocks are exported

    @property
    def connections(self) -> dict[int, str]:
        """The name of each channel's connection; empty without a manifest."""
        return {each.index: each.connection for each in self._infos}

    @property
    def channel_infos(self) -> tuple[ChannelInfo, ...]:
        """The wanted channels.

        Raises: TraceFormatError for a single trace file, which has one side of its channels.
        """
        if self.run.manifest is None:
            raise TraceFormatError(
                f"{self.run.path}: a trace file alone holds one side of its channels; give the run"
                " directory with its manifest.json"
            )
        return tuple(
            each for each in self._infos if self.channels is None or each.index in self.channels
        )

    @property
    def _infos(self) -> tuple[ChannelInfo, ...]:
        return self.run.manifest.channels if self.run.manifest is not None else ()


def select(
    run: Run,
    channels: Sequence[int] | None = None,
    from_ns: int | None = None,
    to_ns: int | None = None,
) -> Selection:
    """Select some channels and some time of a run, counted from the start of the measured part;
    None: all of them, from the first event, to the last one.

    Raises: ConfigError for an unknown channel or a time without events, TraceFormatError if the run
    has no event.
    """
    known: set[int] = set()
    spans: list[tuple[int, int]] = []
    cut_files = []
    for file in run.files:
        with TraceReader(file) as reader:
            if not reader.is_whole:
                cut_files.append(file.name)
            for block in reader.blocks():
                known.update(block.channels["channel"].tolist())
                spans.append((block.first_ns, block.last_ns))
    if not spans:
        raise TraceFormatError(f"{run.path}: no event can be read in it; see flinknet trace verify")
    manifest = run.manifest
    if manifest is not None:
        known.update(each.index for each in manifest.channels)
    unknown = sorted(set(channels or ()) - known)
    if unknown:
        raise ConfigError(
            f"--channel: {unknown[0]} is not in the trace; its channels are"
            f" {min(known - {-1}, default=0)} to {max(known)}"
        )
    first_ns, last_ns = min(first for first, _ in spans), max(last for _, last in spans)
    origin_ns = first_ns
    if manifest is not None and manifest.measured_from_ns is not None:
        origin_ns = manifest.measured_from_ns
    begin_ns = None if from_ns is None else origin_ns + from_ns
    end_ns = None if to_ns is None else origin_ns + to_ns
    lowest_ns = first_ns if begin_ns is None else begin_ns
    highest_ns = last_ns + 1 if end_ns is None else end_ns
    if lowest_ns >= highest_ns or lowest_ns > last_ns or highest_ns <= first_ns:
        raise ConfigError(
            "--from, --to: there is nothing between them; the events of the run lie between"
            f" {(first_ns - origin_ns) / 1e9:.3f}s and {(last_ns - origin_ns) / 1e9:.3f}s"
        )
    wanted = None if channels is None else tuple(sorted(set(channels)))
    return Selection(run, wanted, begin_ns, end_ns, origin_ns, first_ns, last_ns, tuple(cut_files))


def channels_read(
    selection: Selection, columns: Sequence[str] = ()
) -> Iterator[tuple[ChannelInfo, EventColumns, ChannelBuffers]]:
    """Yield each wanted channel with its events and its buffers, one channel in memory at a time.
    `columns` are read in addition to those of buffers. Buffers that were sent or consumed outside
    the selection are left out.
    """
    wanted, within = (*BUFFER_COLUMNS, *columns), (selection.from_ns, selection.to_ns)
    for info in selection.channel_infos:
        events = read_channel(selection.run.files, info.index, wanted, *within)
        yield info, events, paired_buffers(events)


def begun_ns(buffers: ChannelBuffers) -> IntArray:
    """Begin of each buffer's life, in ns: its first record, or SENT if the trace lacks instants of
    records."""
    begun: IntArray = np.where(
        buffers.first_record_ns >= 0,
        np.minimum(buffers.first_record_ns, buffers.sent_ns),
        buffers.sent_ns,
    )
    return begun


def channel_titles(selection: Selection) -> dict[int, str]:
    """Title of each wanted channel, with its two ends and, if there are several edges, its edge."""
    manifest = selection.run.manifest
    edges = () if manifest is None else edges_in_flow(manifest)
    titles = {each.index: f"edge {each.title}, " for each in edges} if len(edges) > 1 else {}
    found = {}
    for info in selection.channel_infos:
        where = "local" if info.is_local else info.connection
        ends = f"channel {info.index}: {info.producer} → {info.consumer} ({where})"
        found[info.index] = titles.get(info.edge, "") + ends
    return found


COMPRESSED_SUFFIX = ".gz"


@contextmanager
def whole_packed_file(path: AnyPath) -> Iterator[IO[bytes]]:
    """A `whole_file`, compressed if its name ends with .gz."""
    with whole_file(path) as file:
        if path.suffix == COMPRESSED_SUFFIX:
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0, compresslevel=6) as compressed:
                yield cast(IO[bytes], compressed)
        else:
            yield file


@contextmanager
def whole_text_file(path: AnyPath) -> Iterator[IO[str]]:
    """A `whole_packed_file` for text in UTF-8."""
    with whole_packed_file(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        try:
            yield text
            text.flush()
        finally:
            text.detach()
