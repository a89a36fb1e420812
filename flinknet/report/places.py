"""The six places between two tasks, in which data can be: on a page, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple

from flinknet.results import Buffering, ChannelLevels, FillSample, RunResult

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

CHANNEL_COLORS: Sequence[Color] = ("green", "purple", "gold", "blue")


def places_section(result: RunResult) -> list[Section]:
    """The places of a run; none if there are no samples."""
    buffering = result.buffering
    if buffering is None or not buffering.samples:
        return []
    split = result.channels if any(each.channels for each in buffering.samples) else ()
    has_edges = any(each.edge for each in split)
    colored = [
        PlacesChannel(channel_name(each, has_edges=has_edges), color)
        for each, color in zip(split, CHANNEL_COLORS, strict=False)
    ]
    curve = OverTime(
        "Bytes between the tasks", [total_over_time("all six places", buffering)], "bytes"
    )
    numbers = [each.channel for each in split]
    places = places_of({"All connections": buffering}, curve, numbers, colored)
    lead = "The six places between producers and consumers; move the slider through the run."
    return [Section("places", "Where the data waited", lead, [places])]


def total_over_time(
    name: str, buffering: Buffering | None, color: Color = "blue", to_ns: float = float("inf")
) -> TimeSeries:
    """Bytes in all six places until an instant."""
    known = [each for each in (buffering.samples if buffering else ()) if each.at_ns < to_ns]
    totals = [each.levels.total_bytes for each in known]
    return TimeSeries(name, [each.at_ns for each in known], totals, color)


def places_of(
    runs: Mapping[str, Buffering],
    curve: OverTime,
    numbers: Sequence[int] = (),
    colored: Sequence[PlacesChannel] = (),
) -> Places:
    """The six places of some runs by name, step by step, below a curve. The first and the last
    place are split by the channels with these numbers and colours."""
    names, meanings = zip(*PLACES, strict=True)
    found = [
        PlacesRun(
            name,
            astuple(buffering.bounds),
            [
                PlacesStep(
                    each.at_ns, astuple(each.levels), _state_of(each), _by_channel(each, numbers)
                )
                for each in buffering.samples
            ],
        )
        for name, buffering in runs.items()
    ]
    return Places(names, meanings, found, curve, channels=colored)


def _state_of(sample: FillSample) -> list[str]:
    """Sentences about sockets and writers that wait."""
    free = {
        "A socket is not read: its receiver has no buffer.": sample.is_reading,
        "A socket is full.": sample.is_writable,
        "A writer waits for a buffer.": sample.is_writing,
    }
    return [text for text, is_free in free.items() if not is_free]


def _by_channel(sample: FillSample, numbers: Sequence[int]) -> list[list[int]]:
    """Bytes of each channel in each place; only the first and the last place have any."""
    known = {each.channel: each for each in sample.channels}
    own = [known.get(number, ChannelLevels(number)) for number in numbers]
    if not sample.channels or not own:
        return []
    written, queued = zip(
        *((x.subpartition_bytes, x.input_channel_bytes) for x in own), strict=True
    )
    return [[*written], *([] for _ in PLACES[1:-1]), [*queued]]
