"""One line about a call that click rejects, in the form of all other errors."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import click

PROGRAM = "flinknet"

_NO_COMMAND: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""Exception for a group without a command; click 8.1 prints help instead."""


_NEAR = 0.7


class WholeNumber(click.IntRange):
    """A whole number within a range."""

    name = "N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value!r} is not a whole number; give {self._range()}", param, ctx)
        lowest, highest = self.min or 0, self.max
        if number < lowest or (highest is not None and number > highest):
            self.fail(f"{number} is out of range: give {self._range()}", param, ctx)
        return number

    def _describe_range(self) -> str:
        return self._range()

    def _range(self) -> str:
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
        near = [each for each in error.possibilities or () if _is_near(error.option_name, each)]
        text = error.message.rstrip(".") + did_you_mean(near)
    elif isinstance(error, click.BadParameter) and not isinstance(error, click.MissingParameter):
        text = f"{_name_of(error.param, context)}: {error.message}" if error.param else text
    return f"{text.rstrip('.')} (see {path} --help)"


def did_you_mean(near: Sequence[str]) -> str:
    """The end of a line about an unknown name."""
    return f". Did you mean {' or '.join(map(repr, near))}?" if near else ""


def _is_near(name: str, other: str) -> bool:
    """Whether two options are similar, without their leading dashes."""
    return difflib.SequenceMatcher(a=name.strip("-"), b=other.strip("-")).ratio() >= _NEAR


def _name_of(parameter: click.Parameter, context: click.Context | None) -> str:
    if isinstance(parameter, click.Option):
        return parameter.opts[-1]
    return (parameter.metavar or parameter.human_readable_name).strip("[].")
