"""Help in sections: options that answer one question stand together."""

from __future__ import annotations

from collections.abc import Mapping

import click

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Load": (
        *("rate", "record-size", "arrivals", "duration", "records", "warmup", "slow-consumer"),
    ),
    "Tasks": (
        *("producers", "consumers", "partitioner", "relays", "relay-delay"),
        *("placement", "task-managers", "slots", "cluster"),
    ),
    "Exchange": ("flow-control", "partition-type", "scheduling"),
    "Peer": ("listen", "partition", "subpartition", "stamped"),
    "Network": (
        *("buffer-timeout", "exclusive-buffers", "floating-buffers", "segment-size"),
        *("checkpoint-interval", "define", "flink-conf"),
    ),
    "Output": ("runs", "confidence", "fail-if", "seed", "out", "json", "trace", "detached"),
}
"""Heading -> its options by their long name, in this order. One that stands nowhere comes last."""

_TERM_WIDTH = 26
"""The widest term that has its explanation on the same line."""


class SectionedCommand(click.Command):
    """A command with more options than a list of them could teach."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_sections(self, ctx, formatter)


def write_sections(
    command: click.Command, ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """Write each section that a command has visible options of."""
    records = {
        (parameter.name or "").replace("_", "-"): record
        for parameter in command.get_params(ctx)
        if isinstance(parameter, click.Option) and (record := parameter.get_help_record(ctx))
    }
    for heading, names in SECTIONS.items():
        options = [records.pop(name) for name in names if name in records]
        if options:
            with formatter.section(heading):
                formatter.write_dl(options, col_max=_TERM_WIDTH)
    if records:
        with formatter.section("Other options"):
            formatter.write_dl(list(records.values()))
