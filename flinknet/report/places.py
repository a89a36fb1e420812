"""The six places between two tasks, in which data can be: on a page, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flinknet.results import Buffering, ChannelLevels, FillLevels, FillSample, RunResult

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
"""The six places between two tasks with what lies there, in the order in which a record passes
them."""

CHANNEL_COLORS: Sequence[Color] = ("green", "purple", "gold", "blue")
"""Colours of the data of different channels."""


def places_section(result: RunResult) -> list[Section]:
    """The places of a run; none if there are no samples."""
    if result.buffering is None or not result.buffering.samples:
        return []
    lines = state_lines(result.buffering)
    samples = result.buffering.samples
    curve = OverTime(
        "Bytes between the tasks",
        [
            TimeSeries(
                "all six places",
                [each.at_ns for each in samples],
                [each.levels.total_bytes for each in samples],
            )
        ],
        unit="bytes",
    )
    split = [each for each in result.channels if any(sample.channels for sample in samples)]
    has_edges = any(each.edge for each in split)
    numbers = [each.channel for each in split]
    places = Places(
        [name for name, _ in PLACES],
        [meaning for _, meaning in PLACES],
        [places_run("All connections", result.buffering, lines, numbers)],
        curve,
        channels=[
            PlacesChannel(channel_name(each, has_edges=has_edges), color)
            for each, color in zip(split, CHANNEL_COLORS, strict=False)
        ],
    )
    lead = "The six places between producers and consumers; move the slider through the run."
    return [Section("places", "Where the data waited", lead, [places])]


def state_lines(buffering: Buffering) -> dict[int, list[str]]:
    """Sentences about sockets and writers that wait, by instant."""
    lines = {}
    for each in buffering.samples:
        said = [] if each.is_reading else ["A socket is not read: its receiver has no buffer."]
        said += [] if each.is_writable else ["A socket is full."]
        said += [] if each.is_writing else ["A writer waits for a buffer."]
        lines[each.at_ns] = said
    return lines


def levels_of(levels: FillLevels) -> tuple[int, ...]:
    """Bytes in the six places, in the order of PLACES."""
    return (
        levels.subpartition_bytes,
        levels.netty_outbound_bytes,
        levels.socket_send_bytes,
        levels.socket_receive_bytes,
        levels.netty_inbound_bytes,
        levels.input_channel_bytes,
    )


def places_run(
    name: str,
    buffering: Buffering,
    lines: Mapping[int, Sequence[str]],
    channels: Sequence[int] = (),
) -> PlacesRun:
    """The six places of a run over time.

    Args:
        lines: sentences by their instant.
        channels: those that the first and the last place are split by.
    """
    steps = [
        PlacesStep(
            each.at_ns,
            levels_of(each.levels),
            lines.get(each.at_ns, ()),
            _by_channel(each, channels),
        )
        for each in buffering.samples
    ]
    return PlacesRun(name, levels_of(buffering.bounds), steps)


def _by_channel(sample: FillSample, channels: Sequence[int]) -> list[list[int]]:
    """Bytes of each channel in the order of PLACES; only the first and the last place have any."""
    known = {each.channel: each for each in sample.channels}
    own = [known.get(channel, ChannelLevels(channel)) for channel in channels]
    if not sample.channels or not own:
        return []
    between: list[list[int]] = [[] for _ in PLACES[1:-1]]
    return [
        [each.subpartition_bytes for each in own],
        *between,
        [each.input_channel_bytes for each in own],
    ]
