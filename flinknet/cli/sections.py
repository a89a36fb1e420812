"""Help in sections: options that answer one question stand together."""

from __future__ import annotations

from collections.abc import Mapping

import click

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "What flows": (
        *("rate", "from-trace", "record-size", "arrivals"),
        *("duration", "records", "warmup", "slow-consumer"),
    ),
    "Between which tasks": (
        *("producers", "consumers", "partitioner", "relays", "relay-delay"),
        *("placement", "task-managers"),
    ),
    "A job instead": ("job", "slots", "detached"),
    "Kind of exchange": ("flow-control", "partition-type", "scheduling"),
    "Network settings, each a value or a list a,b,c that makes a sweep": (
        *("buffer-timeout", "exclusive-buffers", "floating-buffers", "segment-size"),
        *("checkpoint-interval", "define", "flink-conf"),
    ),
    "Runs and results": ("runs", "confidence", "fail-if", "seed", "out", "json", "trace"),
    "One end only: a TaskManager of Flink is the other": (
        *("as-consumer-of", "as-producer", "listen", "partition", "subpartition", "stamped"),
    ),
    "Instead of a measurement": ("demo", "print-config", "print-channels"),
}
"""Heading -> its options by their long name, in this order. One that stands nowhere comes last."""


class SectionedCommand(click.Command):
    """A command with more options than a list of them could teach."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each section that this command has options of."""
        records = {
            (parameter.name or "").replace("_", "-"): record
            for parameter in self.get_params(ctx)
            if isinstance(parameter, click.Option) and (record := parameter.get_help_record(ctx))
        }
        for heading, names in SECTIONS.items():
            own = [records.pop(name) for name in names if name in records]
            if own:
                with formatter.section(heading):
                    formatter.write_dl(own)
        if records:
            with formatter.section("Other options"):
                formatter.write_dl(list(records.values()))
