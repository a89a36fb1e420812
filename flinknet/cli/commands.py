"""Kinds of commands: commands whose help has sections of related options, and groups that suggest
the nearest command for an unknown name.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from inspect import cleandoc
from typing import Any

import click

from .completion import complete_paths
from .wrong_calls import did_you_mean

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Comparison": (
        *("fail-if", "baseline", "history", "confidence"),
        *("repeat-disturbed", "fail-on-disturbed"),
    ),
    "Load": (
        *("rate", "record-size", "arrivals", "duration", "records", "warmup", "slow-consumer"),
        *("edge", "control"),
    ),
    "Tasks": (
        *("producers", "consumers", "partitioner", "keys", "key-skew"),
        *("relays", "relay-parallelism", "relay-delay"),
        *("placement", "task-managers", "slots", "cluster"),
    ),
    "Exchange": ("flow-control", "partition-type", "scheduling"),
    "Peer": ("listen", "partition", "subpartition", "stamped"),
    "Network": (
        *("buffer-timeout", "exclusive-buffers", "floating-buffers", "segment-size"),
        *("checkpoint-interval", "define", "flink-conf"),
    ),
    "Output": (
        *("runs", "seed", "out", "trace", "detached"),
        *("json", "markdown", "junit", "csv", "report", "plot"),
        *("histogram", "live-json", "metrics-port", "details", "explain", "reference"),
    ),
}
"""Sections of help: headings with the long names of their options. Other options come last."""

SPARK_SECTION: Mapping[str, tuple[str, ...]] = {
    "Spark": (
        *("master", "remote", "spark-conf", "properties-file", "ship", "spark-ui", "event-log"),
    )
}
"""Section of commands that use Spark."""

_TERM_WIDTH = 26
"""Width of the widest term with its explanation on the same line, in characters."""

_LONGEST_LINE = 200
"""Most characters of a command's first sentence in a list; all sentences are shorter."""


_UNBROKEN_HYPHEN = "\N{NON-BREAKING HYPHEN}"


class _Formatter(click.HelpFormatter):
    """Wraps lines between words, never within the name of an option."""

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", _UNBROKEN_HYPHEN))

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        unbroken = [(term, text.replace("-", _UNBROKEN_HYPHEN)) for term, text in rows]
        super().write_dl(unbroken, col_max, col_spacing)

    def getvalue(self) -> str:
        return super().getvalue().replace(_UNBROKEN_HYPHEN, "-")


class _Context(click.Context):
    formatter_class = _Formatter


class _Named(click.Command):
    """A command whose errors refer to its help, including errors of click's parser."""

    context_class = _Context

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            if error.ctx is None:
                error.ctx = click.Context(self, parent, info_name)
            raise


_ALL = "flinknet.help-all"
"""Key of a context in which every option is explained."""


def _show_all(ctx: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    if is_wanted and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


class SectionedCommand(_Named):
    """A command with many options, whose help has sections.

    Rare options are named in its help and explained by --help-all, which also has the text after a
    form feed in the docstring and in the epilog.

    Attributes:
        sections: headings with their options, as in SECTIONS.
        rare: names of rare options.
    """

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, tuple[str, ...]] = SECTIONS,
        rare: Collection[str] = (),
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self.sections = sections
        self.rare = frozenset(rare)
        if rare:
            option = click.Option(
                ["--help-all"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_show_all,
                help="Explain every option.",
            )
            self.params.append(option)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if ctx.meta.get(_ALL):
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(cleandoc(self.help or "").replace("\f\n", ""))
        else:
            super().format_help_text(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rare: frozenset[str] = frozenset() if ctx.meta.get(_ALL) else self.rare
        write_sections(self, ctx, formatter, sections=self.sections, rare=rare)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.epilog:
            return
        always, _, more = cleandoc(self.epilog).partition("\f\n")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(always + more if ctx.meta.get(_ALL) else always)


def write_sections(
    command: click.Command,
    ctx: click.Context,
    formatter: click.HelpFormatter,
    *,
    sections: Mapping[str, tuple[str, ...]] = SECTIONS,
    only_named: Mapping[str, str] | None = None,
    rare: frozenset[str] = frozenset(),
) -> None:
    """Write the sections for which a command has visible options.

    Args:
        sections: headings with their options, as in SECTIONS.
        only_named: headings of sections that list options without explanations, each with the place
            of the explanations.
        rare: options that are listed without explanations at the end.
    """
    only_named = only_named or {}
    records = {
        (parameter.name or "").replace("_", "-"): record
        for parameter in command.get_params(ctx)
        if isinstance(parameter, click.Option) and (record := parameter.get_help_record(ctx))
    }
    hidden = [records.pop(name)[0].split(",")[0].split()[0] for name in rare & records.keys()]
    for heading, names in sections.items():
        options = [records.pop(name) for name in names if name in records]
        if options and heading in only_named:
            with formatter.section(f"{heading} ({only_named[heading]})"):
                formatter.write_text(", ".join(term.split()[0] for term, _ in options))
        elif options:
            with formatter.section(heading):
                formatter.write_dl(options, col_max=_TERM_WIDTH)
    if hidden:
        with formatter.section("Rare options (explained by --help-all)"):
            formatter.write_text(", ".join(sorted(hidden)))
    if records:
        with formatter.section("Other options"):
            formatter.write_dl(list(records.values()))


class CommandGroup(_Named, click.Group):
    """A group that lists its commands in the order in which they were added."""

    command_class = _Named

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List each command with its whole line, wrapped if it is too long."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self.line_of(ctx, name)) for name in self.list_commands(ctx)]
            )

    def line_of(self, ctx: click.Context, name: str) -> str:
        """The line about a command in the list of commands."""
        command = self.get_command(ctx, name)
        return command.get_short_help_str(_LONGEST_LINE) if command else ""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command. Raises: click.UsageError for an unknown one."""
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            self.refuse(ctx, args[0])
        name, command, rest = super().resolve_command(ctx, args)
        if ctx.resilient_parsing and command is not None:  # called for shell completion
            complete_paths(command)
        return name, command, rest

    def refuse(self, ctx: click.Context, name: str) -> None:
        """Refuse an unknown command. Raises: click.UsageError that suggests similar ones."""
        names = self.list_commands(ctx)
        below = [
            f"{group} {name}"
            for group in names
            if isinstance(command := self.get_command(ctx, group), click.Group)
            and name in command.list_commands(ctx)
        ]
        near = below or difflib.get_close_matches(name, names, n=1)
        ctx.fail(f"No such command {name!r}{did_you_mean(near)}")
