"""The command line: one file for each command, and the one boundary where errors become lines.

A command imports what it needs inside its function, so that `flinknet --help` answers at once and
only `trace replay`, `convert` and `watch` ever load Spark. Data goes to stdout, talk to stderr.
Exit codes: 0 well, 1 a run failed its checks, a comparison found a regression or a planned job
would not start, 2 the call cannot be understood, 3 inconclusive, 4 any other error that flinknet
knows, 70 an error that it does not know (a bug, with its traceback), 130 ended by Ctrl-C, 143 by
SIGTERM, 129 by SIGHUP, 141 by a closed pipe. A tap is meant to be ended by such a signal, and exits
with 0.

    bench               and its modes: bench_run (sweep: several runs), bench_again, bench_demo
                        (demos: what each runs), bench_channels, bench_config; bench_consume,
                        bench_produce (bench_peer: what they share)
    compare_configs     with configs: as a user names them; compare_runs: what runs, and what it is
                        compared with; compare_notes: what to know of settings that differ;
                        compare_results: where results go, and earlier ones
    plan                with plan_running: of a job on a real cluster
    job                 job_run and job_cluster; the others stand in it
    trace               trace_replay (replay_values: of its options), trace_tap, trace_import,
                        trace_export, trace_convert, trace_watch, trace_synth; the others stand in
                        it
    certificates, doctor

    commands            kinds of commands, with help in sections
    options             that commands share; option_tables: what each is; rest_options: about
                        Flink's REST API; spark_options: about Spark; value_parsers: from text to
                        what a scenario holds; report_options: pages and pictures
    completion          what a shell completes behind options
    wrong_calls         a line about what click does not understand
    missing_packages    that the light form leaves out, and how to add them
    exchange            what its type does to the other settings
    paths               that must be there, or must be new
    json_files          --json, and where its document goes
    result_files        the other forms in which programs read results: CSV, histogram, live values
    run_settings        of a recorded run, in words
    counting_line       progress of work whose end is not known
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

from flinknet import __version__
from flinknet.errors import FlinknetError, Terminated
from flinknet.report.plain_text import asks_for_ascii, fall_back_to_plain_text, printable
from flinknet.runtime.signals import terminations_unwind
from flinknet.starting import EXIT_INTERRUPTED, raise_at_interrupt

from .commands import CommandGroup
from .missing_packages import advice_for
from .wrong_calls import PROGRAM, line_of

_COMMANDS = {
    "bench": ("bench", "Measure an exchange between tasks over real sockets."),
    "trace": ("trace", "Inspect recorded runs, and predict other settings from them."),
    "compare-configs": (
        "compare_configs",
        "Compare configurations: which is better, and with what confidence.",
    ),
    "plan": ("plan", "Show what a job becomes: graphs, channels, sockets, buffers."),
    "job": ("job", "Run jobs, show those that are running, and cancel them."),
    "certificates": ("certificates", "Make certificates for trying TLS."),
    "doctor": ("doctor", "Check this machine: Python, Java, Spark, ports, clock."),
}
"""Command -> module of this room and its line in the overview."""

_ADVICE_BY_ERRNO = {
    errno.ENOSPC: "free some space, or write elsewhere with --out",
    errno.EDQUOT: "the quota is used up; write elsewhere with --out",
    errno.EFBIG: "raise the file size limit (ulimit -f), or write less",
    errno.EIO: "the disk failed, see dmesg; write elsewhere",
    errno.ESTALE: "the network file system lost the file; write elsewhere",
    errno.ENOMEM: "free some memory",
    errno.EACCES: "change its permissions, or choose another path",
    errno.EPERM: "change its permissions, or choose another path",
    errno.EROFS: "the file system is read-only; choose another path",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "a directory is needed there; choose another path",
    errno.EISDIR: "a file is needed there, not a directory",
    errno.EEXIST: "choose another path",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.EADDRINUSE: "choose another port with -D taskmanager.data.port=PORT, or 0 for any",
}
EXIT_KNOWN_ERROR = 4
EXIT_BUG = 70
"""What no code here expects (EX_SOFTWARE of sysexits.h): no other outcome has this code."""
EXIT_PIPE_CLOSED = 128 + 13
"""What a shell reports of a program that SIGPIPE ended."""


class _CommandLine(CommandGroup):
    """Loads a command when it is called for, and turns errors into one line and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _ = _COMMANDS[cmd_name]
        command = getattr(import_module(f".{module}", __name__), module)
        assert isinstance(command, click.Command)
        return command

    def line_of(self, ctx: click.Context, name: str) -> str:
        return _COMMANDS[name][1]

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        def call() -> Any:
            return super(_CommandLine, self).main(
                args, prog_name, complete_var, standalone_mode=False, **extra
            )

        if standalone_mode:
            sys.exit(_exit_code(call))
        return call()

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a reader of its output that has gone is not an error."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _discard_output()
            return EXIT_PIPE_CLOSED


def _exit_code(call: Callable[[], Any]) -> int:
    """Call a command; a bug has its traceback and an exit code of its own, as Python's own, 1, is
    that of a broken limit.
    """
    try:
        return _known_exit_code(call)
    except Exception:
        import traceback

        with suppress(OSError):  # of a terminal that is gone
            traceback.print_exc()
            _say("a bug in flinknet: please report it with the lines above", EXIT_BUG)
        return EXIT_BUG


def _known_exit_code(call: Callable[[], Any]) -> int:
    """Call a command; what goes wrong in a way that flinknet knows becomes one line."""
    for stream in (sys.stdout, sys.stderr):  # of every console and every line of any command
        fall_back_to_plain_text(stream, is_ascii=asks_for_ascii(os.environ))
    if not os.path.isabs(os.path.expanduser("~")):  # else libraries make a directory of that name
        os.environ["HOME"] = "/"
    try:
        raise_at_interrupt()
        with terminations_unwind():
            code = call()
    except (click.Abort, KeyboardInterrupt) as error:
        return _say(_noted("interrupted", error.__cause__ or error), EXIT_INTERRUPTED)
    except Terminated as end:
        with suppress(OSError):  # of a terminal that is gone
            click.echo(f"flinknet: {_noted('terminated', end)}", err=True)
        raise
    except click.UsageError as error:
        return _say(line_of(error), error.exit_code)
    except click.ClickException as error:
        return _say(error.format_message(), error.exit_code)
    except FlinknetError as error:
        return _say(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        line = advice_for(error)
        if line is None:
            raise
        return _say(line, EXIT_KNOWN_ERROR)
    except OSError as error:
        advice = _ADVICE_BY_ERRNO.get(error.errno or 0)
        if advice is None:
            raise
        where = f"{error.filename}: " if error.filename else ""
        return _say(f"{where}{error.strerror}; {advice}", EXIT_KNOWN_ERROR)
    return code if isinstance(code, int) else 0


def _discard_output() -> None:
    """What is still buffered would fail again when the interpreter ends."""
    with open(os.devnull, "w") as nowhere:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BrokenPipeError:
                os.dup2(nowhere.fileno(), stream.fileno())


def _noted(what: str, error: BaseException) -> str:
    """What ended a command, and what was noted on the way up."""
    return "; ".join([what, *getattr(error, "__notes__", ())])


def _say(text: str, exit_code: int) -> int:
    """Put one line on stderr, whatever `text` holds."""
    click.echo("flinknet: " + printable(" ".join(text.split())), err=True)
    return exit_code


@click.group(
    PROGRAM,
    cls=_CommandLine,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name=PROGRAM)
@click.pass_context
def main(ctx: click.Context) -> None:
    """Show, measure and predict what Apache Flink's network stack does between two tasks.

    \b
    flinknet bench                            how fast, how late, and why
    flinknet bench --rate 1k/s --buffer-timeout 0,5ms,100ms
    flinknet trace replay flinknet-runs/*/    what other settings would do
    flinknet compare-configs base execution.buffer-timeout.interval=5ms

    Shell completion: eval "$(_FLINKNET_COMPLETE=bash_source flinknet)" (zsh: zsh_source).
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
