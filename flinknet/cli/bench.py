"""`flinknet bench`: measure an exchange between tasks, in one of several modes.

Each mode is a sub-command. Plain `bench` is `bench run`; it also takes hidden options from before
there were sub-commands: one for each mode, and the options of all modes.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource

from flinknet.errors import ConfigError

from . import job_run
from .bench_again import again
from .bench_demo import demo
from .bench_modes import channels, config, consume, produce
from .bench_run import run
from .commands import CommandGroup, write_sections


@dataclass(frozen=True, slots=True)
class _Mode:
    """An option of plain `bench` that selects a sub-command."""

    option: str
    command: click.Command
    refusal: str = ""
    """Why options of `bench run` that `command` lacks are refused; {} stands for the option."""

    ignored: frozenset[str] = frozenset()
    """Options of `bench run` that do nothing in this mode."""

    @property
    def name(self) -> str:
        """Name of the option's parameter."""
        return self.option.removeprefix("--").replace("-", "_")

    @property
    def argument(self) -> click.Argument | None:
        """Argument of the sub-command that the option sets; None if the option is a flag."""
        arguments = (each for each in self.command.params if isinstance(each, click.Argument))
        return next(arguments, None)

    def hidden_option(self) -> click.Option:
        """The option of plain `bench`."""
        if self.argument is None:
            return click.Option([self.option], is_flag=True, hidden=True)
        return click.Option([self.option], type=self.argument.type, hidden=True)

    def has(self, name: str) -> bool:
        return any(each.name == name for each in self.command.params)


_OUTPUTS = frozenset(
    ("report", "plot", "csv", "histogram", "live_json", "metrics_port", "explain", "details")
)
"""Options for output, which some modes lack."""

_NOT_FLINKNET = ": {} applies only when both ends are flinknet's"
_MODES = (
    _Mode("--demo", demo, "the demo sets {} itself; leave it out", ignored=frozenset(("trace",))),
    _Mode(
        "--from-trace",
        again,
        "{}: --from-trace takes the workload from the trace; leave that out, or run bench without"
        " --from-trace",
        ignored=frozenset(("runs", "seed", "warmup")),
    ),
    _Mode("--as-consumer-of", consume, f"--as-consumer-of{_NOT_FLINKNET}"),
    _Mode("--as-producer", produce, f"--as-producer{_NOT_FLINKNET}"),
    _Mode(
        "--job",
        job_run.run,
        "{}: the program of --job decides the workload; set it there, or pass it as an"
        " argument after --",
    ),
    _Mode("--print-config", config, ignored=frozenset(("runs", "seed", "out", "trace"))),
    _Mode("--print-channels", channels, ignored=frozenset(("runs", "seed", "out", "trace"))),
)
_RUN = _Mode("", run)


class _Bench(CommandGroup):
    """Takes the options and job arguments of plain `bench` if the first word is no sub-command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] in self.commands:
            return super().parse_args(ctx, args)
        ctx.allow_interspersed_args = True
        return click.Command.parse_args(self, ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "[OPTIONS]")
        formatter.write_usage(ctx.command_path, "COMMAND [OPTIONS]", prefix=" " * len("Usage: "))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        elsewhere = f"explained by {ctx.command_path} run --help"
        write_sections(self, ctx, formatter, only_named={"Tasks": elsewhere, "Exchange": elsewhere})


def _plain_options() -> list[click.Parameter]:
    """The options of `bench run` and, hidden, those of the modes."""
    options = {each.name: each for each in run.params}
    for mode in _MODES:
        options[mode.name] = mode.hidden_option()
        for each in mode.command.params:
            if isinstance(each, click.Option) and each.name not in options:
                options[each.name] = hidden = copy.copy(each)
                hidden.hidden = True
    return list(options.values())


@click.group(cls=_Bench, params=_plain_options(), invoke_without_command=True)
@click.pass_context
def bench(ctx: click.Context, /, **values: Any) -> Any:
    """Measure an exchange between tasks over real sockets.

    \b
    flinknet bench
        how fast one producer and one consumer go, and what limits them
    flinknet bench --rate 2k/s --buffer-timeout 0,5ms,100ms,-1
        what waiting for fuller buffers costs in latency
    flinknet bench demo head-of-line
        why there is credit

    Without a command, the options are those of `bench run`. A comma list of values for a network
    setting, as an option or with -D, makes a sweep. Durations (5ms, 3s) and sizes (100b, 32kb) are
    written as in Flink.
    """
    if ctx.invoked_subcommand is not None:
        return None
    given = {
        each.name: each.opts[0]
        for each in bench.params
        if ctx.get_parameter_source(each.name) is ParameterSource.COMMANDLINE
        and values[each.name] != each.default
    }
    mode = _mode_of(given)
    _check_options(mode, given)
    taken = {name: value for name, value in values.items() if mode.has(name)}
    if mode.argument is not None:
        taken[mode.argument.name] = values[mode.name]
    if mode.has("arguments"):
        taken["arguments"] = tuple(ctx.args)
    elif ctx.args:
        _refuse_arguments(ctx)
    return ctx.invoke(mode.command, **taken)


for _command in (run, demo, again, consume, produce, config, channels):
    bench.add_command(_command)


def _mode_of(given: Mapping[str, str]) -> _Mode:
    modes = [mode for mode in _MODES if mode.name in given]
    if len(modes) > 1:
        raise ConfigError(
            f"{modes[0].option} and {modes[1].option} do not go together; give one of them"
        )
    return modes[0] if modes else _RUN


def _check_options(mode: _Mode, given: Mapping[str, str]) -> None:
    """Raises: ConfigError for an option that the sub-command does not have."""
    for name, option in given.items():
        if name == mode.name or mode.has(name) or name in mode.ignored:
            continue
        if name in _OUTPUTS:
            raise ConfigError(f"{option}: not with {mode.option}; leave it out")
        if _RUN.has(name):
            raise ConfigError(mode.refusal.format(option))
        owners = [each.option for each in _MODES if each.has(name)]
        raise ConfigError(f"{option} goes with {' or '.join(owners)}")


def _refuse_arguments(ctx: click.Context) -> None:
    name, *_ = ctx.args
    if name in bench.commands:
        ctx.fail(f"the command {name} comes first: flinknet bench {name} …")
    bench.refuse(ctx, name)
