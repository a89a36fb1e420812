"""The six places between two tasks, in which data can be: on a page, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple

from flinknet.options import SEGMENT_SIZE
from flinknet.results import Buffering, ChannelLevels, FillSample, RunResult
from flinknet.units import parse_size_bytes

from .charts import Color, OverTime, Places, PlacesChannel, PlacesRun, PlacesStep, TimeSeries
from .live import channel_name
from .page_parts import Section

PLACES = (
    ("1 subpartitions", "Written by the producer, and not handed to the connection yet."),
    ("2 Netty, sender", "Handed to the connection, and not accepted by the socket yet."),
    ("3 socket, sender", "In the kernel, at the sender."),
    ("4 socket, receiver", "In the kernel, at the receiver."),
    ("5 Netty, receiver", "Read from the socket, and waiting for a buffer."),
    ("6 input channels", "In buffers of the consumer, and not read by its task yet."),
)
"""Names and meanings of the places, in the order in which a record passes them."""

QUOTA = "taskmanager.network.memory.max-buffers-per-channel"

BLOCKED = (
    "A socket is not read: its receiver has no buffer.",
    "A socket is full.",
    "A writer waits for a buffer: its channel holds max-buffers-per-channel, or its pool is empty.",
)
"""States of sockets and writers that wait."""

CHANNEL_COLORS: Sequence[Color] = ("green", "purple", "gold", "blue")


def places_section(result: RunResult) -> list[Section]:
    """The places of a run; none if there are no samples."""
    buffering = result.buffering
    if buffering is None or not buffering.samples:
        return []
    split = result.channels if any(each.channels for each in buffering.samples) else ()
    has_edges = any(each.edge for each in split)
    channels = {each.channel: channel_name(each, has_edges=has_edges) for each in split}
    total = total_over_time("all six places", buffering)
    curve = OverTime("Bytes between the tasks", [total], "bytes", y="bytes")
    places = places_of({"All connections": result}, curve, channels)
    lead = "The six places between producers and consumers; move the slider through the run."
    return [Section("places", "Where the data waited", lead, [places])]


def total_over_time(
    name: str, buffering: Buffering | None, color: Color = "blue", to_ns: float = float("inf")
) -> TimeSeries:
    """Bytes in all six places until an instant."""
    known = [each for each in (buffering.samples if buffering else ()) if each.at_ns < to_ns]
    totals = [each.levels.total_bytes for each in known]
    return TimeSeries(name, [each.at_ns for each in known], totals, color)


def blocked_lines(sample: FillSample, texts: Sequence[str] = BLOCKED) -> list[str]:
    """Sentences about sockets and writers that wait."""
    free = (sample.is_reading, sample.is_writable, sample.is_writing)
    return [text for text, is_free in zip(texts, free, strict=True) if not is_free]


def places_of(
    runs: Mapping[str, RunResult],
    curve: OverTime,
    channels: Mapping[int, str] | None = None,
    *,
    ends: Sequence[Sequence[str]] = (),
    lines: Callable[[str, FillSample], list[str]] = lambda _, sample: blocked_lines(sample),
    notes: Sequence[str] = (),
) -> Places:
    """The six places of the runs that have samples, by name, step by step, below a curve.

    Args:
        channels: numbers and names of channels, each of which has a colour in the first and in the
            last place.
        ends: names of the writers and of the readers of these channels, all on one connection: the
            first and the last place are apart for each of them.
        lines: sentences about a run at the instant of a sample.
    """
    colors = zip((channels or {}).values(), CHANNEL_COLORS, strict=False)
    numbers = list(channels or ())[: len(CHANNEL_COLORS)]
    writers, readers = ends or ((), ())
    places = [*_apart(PLACES[0], writers), *PLACES[1:-1], *_apart(PLACES[-1], readers)]
    found = []
    for name, result in runs.items():
        buffering, steps, count = result.buffering, [], len(writers) or 1
        if buffering is None:
            continue
        sockets = (count + 1, count + 2) if ends else ()  # of one connection, which stands still
        for each in buffering.samples:
            levels, split = _levels_of(each, numbers, is_apart=bool(ends))
            full = () if each.is_reading or each.is_writable else sockets
            steps.append(PlacesStep(each.at_ns, levels, lines(name, each), split, full))
        pool, *between, last = astuple(buffering.bounds)
        fullest = max((max(each.levels[:count]) for each in steps), default=0)
        first = min(max(_quota_bytes(result) // count or pool, fullest), pool // count)
        bounds = [*[first] * count, *between, *[last // count] * count]
        found.append(PlacesRun(name, bounds, steps))
    return Places(
        [name for name, _ in places],
        [meaning for _, meaning in places],
        found,
        curve,
        notes,
        (", ".join(writers), ", ".join(readers)) if ends else ("producers", "consumers"),
        [PlacesChannel(*each) for each in colors],
    )


def _quota_bytes(result: RunResult) -> int:
    """Most that all channels may hold in the first place, which is less than the size of the pools;
    0 where it is not known."""
    if QUOTA not in result.config:
        return 0
    size = parse_size_bytes(result.config[SEGMENT_SIZE], SEGMENT_SIZE)
    return len(result.channels) * int(result.config[QUOTA]) * size


def _apart(place: tuple[str, str], names: Sequence[str]) -> list[tuple[str, str]]:
    return [(f"{place[0]}, {each}", place[1]) for each in names] or [place]


def _levels_of(
    sample: FillSample, numbers: Sequence[int], *, is_apart: bool
) -> tuple[list[int], list[list[int]]]:
    """Bytes in each place, and those of each channel there; only the first and the last place know
    the channel."""
    known = {each.channel: each for each in sample.channels}
    own = [known.get(number, ChannelLevels(number)) for number in numbers]
    written, queued = [x.subpartition_bytes for x in own], [x.input_channel_bytes for x in own]
    _, *between, _ = levels = [*astuple(sample.levels)]
    unknown: list[list[int]] = [[] for _ in between]
    if is_apart:
        alone = [[[x if n == at else 0 for n in range(len(own))] for at, x in enumerate(levels)]
                 for levels in (written, queued)]  # fmt: skip
        return [*written, *between, *queued], [*alone[0], *unknown, *alone[1]]
    return levels, [written, *unknown, queued] if sample.channels and own else []
