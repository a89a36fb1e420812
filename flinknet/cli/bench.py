"""`flinknet bench`: measure an exchange between tasks, in one of several modes.

Each mode is a sub-command, and plain `bench` is `bench run`. Options from before there were
sub-commands, such as `bench --demo NAME`, stand for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from . import job_run
from .bench_again import again
from .bench_demo import demo
from .bench_modes import channels, config, consume, produce
from .bench_run import run
from .commands import CommandGroup, write_sections

STAND_FOR: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "--demo": ("demo", ("trace",)),
    "--from-trace": ("again", ("runs", "seed", "warmup")),
    "--as-consumer-of": ("consume", ()),
    "--as-producer": ("produce", ()),
    "--job": ("job", ()),
    "--print-config": ("config", ("runs", "seed", "out", "trace")),
    "--print-channels": ("channels", ("runs", "seed", "out", "trace")),
}
"""Options of plain `bench` that stand for a sub-command, with a value for its argument, and the
options of `bench run` that do nothing there."""


class _Bench(CommandGroup):
    """Runs `bench run` if the first word is no sub-command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in self.commands:
            args = self._with_command(ctx, args)
        return super().parse_args(ctx, args)

    def _with_command(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        parts = list(_parts(args[:end]))
        modes = [word.partition("=")[0] for _, (word, *_) in parts]
        modes = [word for word in modes if word in STAND_FOR]
        if len(modes) > 1:
            ctx.fail(f"{modes[0]} and {modes[1]} do not go together; give one of them")
        if modes:
            command, unused = STAND_FOR[modes[0]]
            left_out = [each for name, own in parts if name in unused for each in own]
            if not ctx.resilient_parsing:
                run.make_context("run", left_out, ctx)  # refuses wrong values
            words = [each for name, own in parts if name not in unused for each in own]
            at = next(at for at, each in enumerate(words) if each.partition("=")[0] == modes[0])
            words[at : at + 1] = filter(None, [words[at].partition("=")[2]])
            return [command, *words, *args[end:]]
        for name, (word, *_) in parts:
            if not name and word in self.commands:
                ctx.fail(f"the command {word} comes first: flinknet bench {word} …")
        if {"-h", "--help"} & set(args[:end]) or (not args and ctx.resilient_parsing):
            return args
        return args if args and not args[0].startswith("-") else ["run", *args]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return job_run.run if cmd_name == "job" else super().get_command(ctx, cmd_name)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "[OPTIONS]")
        formatter.write_usage(ctx.command_path, "COMMAND [OPTIONS]", prefix=" " * len("Usage: "))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        elsewhere = f"explained by {ctx.command_path} run --help"
        write_sections(self, ctx, formatter, {"Tasks": elsewhere, "Exchange": elsewhere})


def _parts(args: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The words of a call with the name of their option of `bench run`; empty for other words."""
    options = {
        opt: each
        for each in run.params
        if isinstance(each, click.Option)
        for opt in (*each.opts, *each.secondary_opts)
    }
    words = list(args)
    while words:
        word = words.pop(0)
        option = options.get(word.partition("=")[0])
        has_value = option is not None and not option.is_flag and "=" not in word
        own = [word]
        if has_value and words and not words[0].startswith("--"):
            own.append(words.pop(0))
        yield (option.name or "" if option else ""), own


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


for _command in (run, demo, again, consume, produce, config, channels):
    bench.add_command(_command)
