"""`flinknet bench`: measure an exchange between tasks, in one of several modes, each a sub-command;
plain `bench` is `bench run`.
"""

from __future__ import annotations

from typing import Any

import click

from .bench_again import again
from .bench_demo import demo
from .bench_modes import config, consume, produce
from .bench_run import run
from .commands import CommandGroup, write_sections


class _Bench(CommandGroup):
    """Runs `bench run` if the first word is an option, or there is none."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_run = args[0].startswith("-") if args else not ctx.resilient_parsing
        if is_run and not {"-h", "--help"} & {*args}:
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "[OPTIONS]")
        formatter.write_usage(ctx.command_path, "COMMAND [OPTIONS]", prefix=" " * len("Usage: "))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        elsewhere = f"explained by {ctx.command_path} run --help"
        write_sections(self, ctx, formatter, {"Tasks": elsewhere, "Exchange": elsewhere})


@click.group(cls=_Bench, params=run.params, invoke_without_command=True)
def bench(**_: Any) -> None:
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


for _command in (run, demo, again, consume, produce, config):
    bench.add_command(_command)
