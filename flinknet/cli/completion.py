"""Shell completion of options' values: words of a set, Flink's keys, files.

Completers are for `shell_complete` of click's options.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

_PATH_METAVAR = re.compile(r"(FILE|DIR|RUN|TRACE|CAPTURE|URL\|DIR)\b")

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def words(known: Sequence[str]) -> Completer | None:
    """A completer for one of `known`; None if that is empty."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(each) for each in known if each.startswith(incomplete)]

    return complete if known else None


def flink_keys(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete KEY= with the keys that change a run."""
    from flinknet.options.keys import options

    keys = [key for key, option in options().items() if option.is_acted_on]
    return [CompletionItem(f"{key}=") for key in keys if key.startswith(incomplete)]


class CompletedPath(click.types.StringParamType):
    """A parameter's type whose values a shell completes as names of files. Values are not checked
    during completion.
    """

    def __init__(self, own: click.ParamType[Any]) -> None:
        self.own = own

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        is_completing = ctx is not None and ctx.resilient_parsing
        return value if is_completing else self.own.convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


def complete_paths(command: click.Command) -> None:
    """Let a shell complete files for all parameters of a command that are shown as FILE, DIR, TRACE
    and the like.
    """
    for parameter in command.params:
        is_path = _PATH_METAVAR.match(parameter.metavar or "")
        if is_path and not isinstance(parameter.type, CompletedPath):
            parameter.type = CompletedPath(parameter.type)
