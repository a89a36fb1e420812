"""`flinknet compare-configs`: finds out which of several configurations is better."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from flinknet.errors import FlinknetError, RunFailedError
from flinknet.results.comparison import Outcome

from .bench_find import find_rates, is_search
from .commands import SectionedCommand, WholeNumber
from .files import Outputs
from .option_tables import KEYS, WORKERS, options

if TYPE_CHECKING:
    from .sweep import Executor

_EPILOG = """\b
--fail-if METRIC>CHANGE is broken when the whole interval lies beyond the
limit, and holds when it lies within. The metrics are
  throughput throughput_bytes mean p50 p99 p99_9 backlog
  buffers (per second) cpu (cores)

The change has a sign: p99>+10% is ten percent more than the baseline, throughput<-5% five percent
less. At a fixed rate that consumers keep up with, a gate detects what timeouts and segment sizes do
to latency; for a shortage of buffers use --rate max and a limit on throughput.

\b
Exit codes:
  0    every limit holds
  1    a limit is broken; or, with limits, a candidate cannot start
  2    the call is wrong
  3    undecided; the answer says why, and how many runs would decide
  4    nothing was compared: a run failed, or a port, a file or the disk did
\f
  70   a bug in flinknet
  130, 143   ended by Ctrl-C or SIGTERM

A candidate cannot start if Flink refuses its file or its keys, or finds no total size of memory,
but starts with the baseline's. The outcome is undecided if an interval reaches across a limit; if
the baseline was measured on another machine or version; if a run is still invalid (if only the
candidate's are, a limit can still be broken); or if a run is disturbed, with --fail-on-disturbed.

The verdict is "no difference" if the whole interval lies within 1%. It is "unclear" if the
interval is wider than that and includes 0%, or if the change is below 1%; more --runs narrow the
interval. The confidence applies to each metric and limit separately: with 95%, one metric in twenty
differs by chance. Verdicts do not change the exit code; limits do.

Configurations whose bench options make the workload differ (rate, record size, number of tasks) are
compared with a warning: their changes are "higher" or "lower" instead of better or worse, and
--fail-if is refused, because a limit makes sense only between equal workloads. --flow-control,
--placement, --task-managers, --partition-type, --scheduling and --partitioner (other than
broadcast) may differ.

A limit that only a better candidate could break (p99<+10%), or no candidate, is refused.
"""


_EXIT_CODES = {Outcome.PASS: 0, Outcome.REGRESSION: 1, Outcome.INCONCLUSIVE: 3}


@click.command("compare-configs", cls=SectionedCommand, epilog=_EPILOG)
@click.argument("configs", metavar="CONFIG...", nargs=-1)
@options(
    f"""
    --fail-if --baseline
    ~ --confidence --repeat-disturbed --fail-on-disturbed
    --rate --record-size
    ~ --arrivals
    --duration
    ~ --records --warmup --slow-consumer
    --producers --consumers
    ~ --partitioner --keys --key-skew --relays --relay-parallelism --relay-delay --placement
    ~ --task-managers {WORKERS} --link --flow-control --partition-type --scheduling
    --buffer-timeout
    ~ --exclusive-buffers --floating-buffers
    --segment-size
    ~ --checkpoint-interval
    {KEYS}
    --runs N = 5
        Runs of each configuration.
    ~ --seed --out
    ~ --trace/--no-trace
        Record every message, for `trace`. [default: no-trace]
    --json --markdown
    ~ --junit
    ~ --csv FILE|-
        Write a line for each run, as CSV; - prints only that.
    --report
    ~ --plot
    --details
    ~ --find --find-within
    """,
    runs=WholeNumber(2),
)
@click.pass_obj
def compare_configs(executor: Executor | None, /, configs: tuple[str, ...], **values: Any) -> int:
    """Interleave runs of configurations: which is better, and with what confidence?

    \b
    flinknet compare-configs base buffer-timeout=5ms --rate 2k/s
        what a buffer timeout of 5 ms changes, compared with the default
    flinknet compare-configs old.toml new.toml --runs 10 --json main.json
        two files; more runs can decide smaller differences
    flinknet compare-configs main.yaml conf/config.yaml --rate 2k/s \\
        --fail-if 'p99>+10%'
        a gate for CI with main.yaml as the baseline: exits with 1 if the
        limit is broken, with 3 if undecided
    flinknet compare-configs conf/config.yaml --baseline main.json \\
        --fail-if 'p99>+10%' --markdown comment.md --junit junit.xml \\
        --report page.html
        a gate against an earlier result, with reports

    \b
    CONFIG is one of
      base                      the options of this call, unchanged
      KEY=VALUE[,KEY=VALUE...]  Flink keys or bench options on top of them:
                                buffer-timeout=5ms is the same as
                                execution.buffer-timeout.interval=5ms
      NAME:KEY=VALUE[,...]      the same under a name
      FILE.toml                 [network] with Flink keys,
                                [workload] with bench options
      FILE.yaml                 a config.yaml of Flink, FlinkDeployment, ConfigMap
      NAME:FILE                 a file under a name

    Give two or more; the first is the baseline. With --baseline, which names an earlier result, one
    is enough.
    """
    from flinknet.report.comparison import comparison_view
    from flinknet.report.comparison_files import comparison_junit, comparison_markdown
    from flinknet.report.console import console_for
    from flinknet.report.export import comparison_document, runs_csv, write_json
    from flinknet.report.live import RunsView
    from flinknet.report.page_parts import Page

    from . import sweep
    from .compare_runs import Task
    from .configs import CannotStartError

    outputs = replace(Outputs.of(values, "markdown", "junit", "csv"), step=_try)
    try:
        task = Task.of(configs, values)
    except CannotStartError as error:
        if not values["fail_if"]:
            raise
        _report_not_started(outputs, error.name, error.why)
        return _EXIT_CODES[Outcome.REGRESSION]
    if is_search(values):
        try:
            return find_rates(task.plans, executor, values, task.confidence)
        except RunFailedError as error:  # its own exit code would mean that no rate keeps the limit
            raise FlinknetError(f"a run failed: {error}") from error
    executor, out, environment = sweep.begin(task.plans, executor, values, outputs)
    for note in dict.fromkeys((*chain(*task.notes.values()), *task.of_all)):
        click.echo(f"Note: {note}", err=outputs.takes_stdout)
    with RunsView(console_for(sys.stderr)) as watcher:
        runs = sweep.run_all(
            task.plans,
            executor,
            rounds=values["runs"],
            seed=values["seed"],
            trace=values["trace"],
            out=out,
            watcher=watcher,
            repeats=values["repeat_disturbed"],
        )
        try:
            finished = list(runs)
        except RunFailedError as error:  # its own exit code would mean a broken limit
            raise FlinknetError(f"nothing was compared, a run failed: {error}") from error
    comparison = task.comparison(finished, environment, values)
    view, document = comparison_view(comparison), comparison_document(comparison)
    outputs.write(
        view,
        document,
        lambda: Page("compare-configs", [view]),
        markdown=lambda: comparison_markdown(comparison, view),
        junit=lambda: comparison_junit(comparison, view),
        csv=lambda: runs_csv(comparison.measured_here),
    )
    if out is not None:
        _try("--out", partial(write_json, out / "compare.json", document))
    talk = f"seed {values['seed']}" + (f"; runs: {out}" if out else "")
    click.echo(talk, err=True)
    return _EXIT_CODES[comparison.outcome]


def _report_not_started(outputs: Outputs, name: str, why: str) -> None:
    """Report a candidate that cannot start, on stderr, in Markdown and in JUnit XML. The other
    formats are for measurements, and there are none.
    """
    from flinknet.report.comparison_files import not_started_junit, not_started_markdown
    from flinknet.report.comparison_texts import not_started_line

    texts = {"markdown": not_started_markdown, "junit": not_started_junit}
    outputs.put({each: partial(text_of, name, why) for each, text_of in texts.items()})
    click.echo(f"flinknet: {not_started_line(name)} {name}: {why}", err=True)


def _try(option: str, write: Callable[[], None]) -> None:
    """Write a file; report a failure on stderr, as it does not change the verdict."""
    try:
        write()
    except (FlinknetError, OSError) as error:
        click.echo(f"flinknet: {option} was not written: {error}", err=True)
