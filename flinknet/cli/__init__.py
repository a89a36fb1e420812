"""The command line: a file for each command, and one place that turns errors into one line.

A command imports its modules inside its function, so that `flinknet --help` answers at once and
only `trace replay` loads Spark. Data goes to stdout, messages to stderr.
Exit codes: 0 success, 1 a run failed its checks, a comparison found a regression or a planned job
would not start, 2 wrong call, 3 inconclusive, 4 any other known error, 70 an unknown error (a bug,
with its traceback), 130 ended by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP, 141 by a closed pipe. A tap
normally ends by such a signal, and exits with 0.

    bench               with a module for each mode: bench_run (sweep: several runs), bench_again,
                        bench_demo, bench_modes (bench config, consume and produce), bench_find
                        (--find, of compare_configs, too)
    compare_configs     with configs: the CONFIG arguments and settings of recorded runs;
                        compare_runs: plans and the comparison, earlier results
    plan                with plan_running: a job on a real cluster
    job                 with job_run; job.py has the other commands
    trace               with trace_replay, trace_tap, trace_import (trace sniff, too), trace_export
                        trace_watch, trace_share; trace.py has the others
    worker              with the workers of other commands
    doctor

    commands            kinds of commands, with help in sections; completion in a shell; one line
                        about a rejected call or a missing package
    option_tables       options as texts; those that several commands have are in options.txt
    options             the settings of a call; value_parsers: parsers of values; replay_options:
                        values of options of commands that read recordings
    files               checks of paths, what a call writes and prints, a progress line that counts
    metrics_port        live values for Prometheus
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import click

from flinknet import __version__
from flinknet.errors import FlinknetError, Terminated
from flinknet.report.plain_text import printable
from flinknet.runtime.signals import terminations_unwind
from flinknet.starting import EXIT_INTERRUPTED, raise_at_interrupt

from .commands import PROGRAM, CommandGroup, advice_for, line_of

_COMMANDS = {
    "bench": ("bench", "Measure an exchange between tasks over real sockets."),
    "trace": ("trace", "Inspect recorded runs, and predict other settings from them."),
    "compare-configs": (
        "compare_configs",
        "Compare configurations: which is better, and with what confidence.",
    ),
    "plan": ("plan", "Show what a job becomes: graphs, channels, sockets, buffers."),
    "job": ("job", "Run jobs, show those that are running, and cancel them."),
    "worker": ("worker", "Host TaskManagers for commands on other machines."),
    "doctor": ("doctor", "Check this machine: Python, Java, Spark, ports, clock."),
}
"""Commands, each with its module in this package and its line in the overview."""

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
    errno.EISDIR: "give the path of a file",
    errno.EEXIST: "choose another path",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.EADDRINUSE: "choose another port with -D taskmanager.data.port=PORT, or 0 for any",
}
EXIT_KNOWN_ERROR = 4
EXIT_BUG = 70
"""Exit code of a bug (EX_SOFTWARE of sysexits.h); no other outcome has it."""
EXIT_PIPE_CLOSED = 128 + 13
"""Exit code that a shell reports for a program ended by SIGPIPE."""


class _CommandLine(CommandGroup):
    """Turns errors into one line and an exit code."""

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
        """Run the command; a closed output pipe is not an error."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _discard_output()
            return EXIT_PIPE_CLOSED


def _exit_code(call: Callable[[], Any]) -> int:
    """Call a command. A bug prints its traceback and has a separate exit code, as Python's own, 1,
    means a broken limit.
    """
    try:
        return _known_exit_code(call)
    except Exception:
        import traceback

        with suppress(OSError):  # the terminal may be gone
            traceback.print_exc()
            _say("a bug in flinknet: please report it with the lines above", EXIT_BUG)
        return EXIT_BUG


def _known_exit_code(call: Callable[[], Any]) -> int:
    """Call a command and print known errors as one line. Returns: the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and "utf" not in stream.encoding.lower():
            stream.reconfigure(errors="replace")  # what its encoding lacks is "?"
    if not os.path.isabs(os.path.expanduser("~")):  # else libraries make a directory named "~"
        os.environ["HOME"] = "/"
    try:
        raise_at_interrupt()
        with terminations_unwind():
            code = call()
    except (click.Abort, KeyboardInterrupt) as error:
        return _say(_noted("interrupted", error.__cause__ or error), EXIT_INTERRUPTED)
    except Terminated as end:
        with suppress(OSError):  # the terminal may be gone
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
    """Discard buffered output, which would fail again when the interpreter ends."""
    with open(os.devnull, "w") as nowhere:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BrokenPipeError:
                os.dup2(nowhere.fileno(), stream.fileno())


def _noted(what: str, error: BaseException) -> str:
    return "; ".join([what, *getattr(error, "__notes__", ())])


def _say(text: str, exit_code: int) -> int:
    """Print a text on stderr as one line. Returns: the exit code."""
    click.echo("flinknet: " + printable(" ".join(text.split())), err=True)
    return exit_code


@click.group(
    PROGRAM,
    cls=_CommandLine,
    loaded=_COMMANDS,
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
