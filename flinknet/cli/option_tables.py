"""Options as texts in the form of their help. Those that several commands have are in options.txt.

A table has a line for each option, with its help below, indented:

    [Heading]                       section of the help
    --port PORT[-PORT] ...          names and metavar; "..." may be repeated
    --interface NAME = any          a default, which the help shows
    --out DIR required
    --json [FILE]                   the value may be left out, and is then "-"
    --follow                        without a metavar: a flag
    --trace/--no-trace              a pair: the first is the default, unless its help has another
    -D (define) KEY=VALUE           name of the parameter, where the option does not have it
    ~ --ring TIME                   rare: named in the help, explained by --help-all
    --details --json                without a help: of options.txt, where else is a section
    --rate --link [default: none]   the same with another default in the help
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from inspect import cleandoc
from pathlib import Path
from typing import Any, TypeVar

import click

from flinknet import config
from flinknet import options as flink
from flinknet.options.what_if import WORDS
from flinknet.units import format_duration_ns

from .commands import OTHERS, SectionedOption, WholeNumber, flink_keys, words
from .files import STDOUT

DEFAULT_DURATION_NS = 3_000_000_000

NETWORK_OPTIONS: Mapping[str, str] = {
    "buffer-timeout": flink.BUFFER_TIMEOUT,
    "exclusive-buffers": flink.EXCLUSIVE_BUFFERS,
    "floating-buffers": flink.FLOATING_BUFFERS,
    "segment-size": flink.SEGMENT_SIZE,
    "checkpoint-interval": flink.CHECKPOINT_INTERVAL,
}
"""Options for Flink's keys, by name."""

NETWORK = " ".join(f"--{name}" for name in NETWORK_OPTIONS)
KEYS = "-D --flink-conf"
LOAD = " ".join(
    (
        "--rate --record-size --arrivals --duration --records --warmup --slow-consumer",
        "--producers --consumers --partitioner --keys --key-skew",
        "--relays --relay-parallelism --relay-delay --placement --task-managers",
        f"--link --flow-control --partition-type --scheduling {NETWORK} {KEYS}",
    )
)
WORKERS = "--workers --secret-file --producers-on --consumers-on"
REST_FILES = "--rest-token-file --rest-ca --rest-cert --rest-key"
SPARK = "--master --remote --spark-conf --properties-file --ship"

_WORDS: Mapping[str, str] = {
    "arrivals": "|".join(config.ARRIVAL_LAWS),
    "duration": format_duration_ns(DEFAULT_DURATION_NS),
    "partitioners": ", ".join(config.PARTITIONERS),
    "placements": "|".join(config.PLACEMENTS),
    "flow_controls": "|".join(config.FLOW_CONTROLS),
    "pipelined": ", ".join(config.PARTITION_TYPES[:-1]),
    "blocking": config.PARTITION_TYPES[-1],
    "schedulings": " or ".join((", ".join(config.SCHEDULINGS[:-1]), config.SCHEDULINGS[-1])),
    "others": OTHERS,
}
"""Values of the names in brackets in options.txt."""

_TYPES: Mapping[str, Any] = {
    **{"repeat_disturbed": WholeNumber(0, 10), "subpartition": WholeNumber(0)},
    **{"seed": WholeNumber(0), "runs": WholeNumber(1)},
    **{"slots": WholeNumber(1), "edge": WholeNumber(1)},
    **dict.fromkeys(("cluster", "properties_file"), click.Path(path_type=Path)),
    "start_condition": click.Choice(("all", "any")),
    "ship": click.Choice(("none", "code")),
}
"""Types of the values of shared options; all others are texts."""

_COMPLETED: Mapping[str, Any] = {
    **{each.replace("-", "_"): words(known) for each, known in WORDS.items()},
    "placement": words(config.PLACEMENTS),
    "partitioner": words(config.PARTITIONERS),
    "partition_type": words(config.PARTITION_TYPES),
    "scheduling": words(config.SCHEDULINGS),
    "arrivals": words(config.ARRIVAL_LAWS[:-1]),
    "define": flink_keys,
}
"""Completion of values in a shell."""

_LINES = re.compile(r"^(?:\[(.+)\]|(~ )?(-.*)((?:\n    .*)*))$", re.MULTILINE)
_OPTION = re.compile(
    r"(?P<names>-[\w/-]+(?:, -[\w/-]+)*)(?: \((?P<parameter>\w+)\))?"
    r"(?: (?P<metavar>(?!= |\.{3}|required)\S+))?"
    r"(?P<many> \.{3})?(?: = (?P<default>\S+))?(?P<required> required)?"
)
_DEFAULT = " [default: "

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _Entry:
    """An option of a table: its line, split, and its help."""

    section: str
    is_rare: bool
    help: str
    names: str
    parameter: str | None
    metavar: str | None
    many: str | None
    default: str | None
    required: str | None

    @property
    def key(self) -> str:
        """Name of the parameter."""
        first = self.names.partition("/")[0].split(", ")[-1]
        return self.parameter or first.lstrip("-").replace("-", "_")

    def add_to(self, command: _Command, kind: Any, *, is_sweep: bool) -> _Command:
        """Add the option to a command; `kind` is the type of its values."""
        more: dict[str, Any] = {}
        if self.metavar and self.metavar[0] + self.metavar[-1] == "[]":
            more = {"is_flag": False, "flag_value": STDOUT}
        elif "/" in self.names:
            more = {"default": f"{_DEFAULT}no-" not in self.help}
        elif self.metavar is None and kind is None:
            more = {"is_flag": True}
        if self.default is not None:
            value = self.default if kind is None else kind(self.default)
            more |= {"default": value, "show_default": True}
        is_one = self.metavar == "LIST" and self.key.replace("_", "-") in NETWORK_OPTIONS
        return click.option(
            *self.names.split(", "),
            *([self.parameter] if self.parameter else []),
            cls=SectionedOption,
            section=self.section,
            is_rare=self.is_rare,
            metavar="VALUE" if is_one and not is_sweep else self.metavar,
            type=kind,
            multiple=self.many is not None,
            required=self.required is not None,
            help=self.help,
            shell_complete=_COMPLETED.get(self.key),
            **more,
        )(command)


@cache
def _shared() -> Mapping[str, _Entry]:
    text = files(__package__).joinpath("options.txt").read_text("utf-8").format(**_WORDS)
    return {each.names.partition("/")[0]: each for each in _entries(text, {})}


def _entries(text: str, shared: Mapping[str, _Entry]) -> Iterator[_Entry]:
    section = ""
    for heading, tilde, line, more in _LINES.findall(cleandoc(text)):
        section = heading or section
        if more:
            match = _OPTION.fullmatch(line)
            assert match is not None, line
            known = shared.get(match["names"].partition("/")[0])
            own = section or (known.section if known else OTHERS)
            yield _Entry(own, bool(tilde), " ".join(more.split()), **match.groupdict())
        elif line:
            names, _, default = line.partition(_DEFAULT)
            for each in (shared[name] for name in names.split()):
                help_text = each.help.partition(_DEFAULT)[0] + _DEFAULT + default
                yield replace(
                    each,
                    section=section or each.section,
                    is_rare=bool(tilde),
                    help=help_text if default else each.help,
                )


def options(text: str, *, is_sweep: bool = False, **types: Any) -> Callable[[_Command], _Command]:
    """Add the options of a table to a command.

    Args:
        is_sweep: options for Flink's keys may be comma lists.
        types: types of values by parameter; others are those of shared options, or texts.
    """

    def decorate(command: _Command) -> _Command:
        for each in reversed([*_entries(text, _shared())]):
            kind = types.get(each.key, _TYPES.get(each.key))
            command = each.add_to(command, kind, is_sweep=is_sweep)
        return command

    return decorate
