"""Progress of runs: a live view on a terminal, sparse lines anywhere else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import IO, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from flinknet.results import (
    ChannelMeasured,
    ChannelProgress,
    Progress,
    RunResult,
    TaskProgress,
    Validity,
    is_disturbed,
    validity_by,
    without_consequences,
)
from flinknet.units import MISSING, human_bytes, human_count, human_duration

LINE_EVERY_NS = 5_000_000_000
CHANNELS_SHOWN = 12
TASKS_SHOWN = 8


class LineView:
    """A line when a run starts, every few seconds, and when it ends."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._title = ""
        self._next_line_ns = 0

    def __enter__(self) -> LineView:
        return self

    def __exit__(self, *raised: Any) -> None:
        """Nothing is left to put in order."""

    def start_run(self, number: int, total: int, name: str) -> None:
        """Begin a run."""
        self._title = run_title(number, total, name)
        self._next_line_ns = LINE_EVERY_NS
        self._print(f"{self._title}: starting")

    def update(self, progress: Progress) -> None:
        """Print a line when one is due, by the run's own time."""
        if progress.elapsed_ns >= self._next_line_ns and progress.phase != "finished":
            self._next_line_ns = progress.elapsed_ns + LINE_EVERY_NS
            self._print(f"{self._title}: {progress_line(progress)}")

    def finish_run(self, result: RunResult) -> None:
        """Print what a run measured."""
        self._print(f"{self._title}: {result_line(result)}")

    def finish_run_of_demo(self) -> None:
        """Only say that a run is over: an overload is what the demo is for, and its table has the
        rates.
        """
        self._print(f"{self._title}: finished")

    def count_try(self, title: str, chosen: int, tries: int) -> None:
        """Say which try of a run that was repeated counts (from 1)."""
        self._print(f"{title}: try {chosen} of {tries} (counted)")

    def _print(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)


class LiveView(LineView):
    """A panel that follows the run in place; finished runs stay above it as lines."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._live = Live(console=console, transient=True, refresh_per_second=8)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._live.stop()

    def start_run(self, number: int, total: int, name: str) -> None:
        """Begin a run."""
        self._title = run_title(number, total, name)

    def update(self, progress: Progress) -> None:
        """Show where the run stands."""
        self._live.update(panel(self._title, progress))


class ForwardingView(LineView):
    """Shows everything in another view; what extends it does something else with it, too."""

    def __init__(self, view: LineView) -> None:
        self._view = view

    def __enter__(self) -> LineView:
        self._view.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._view.__exit__(*raised)

    def start_run(self, number: int, total: int, name: str) -> None:
        """Begin a run."""
        self._view.start_run(number, total, name)

    def update(self, progress: Progress) -> None:
        """Show where the run stands."""
        self._view.update(progress)

    def finish_run(self, result: RunResult) -> None:
        """Show what a run measured."""
        self._view.finish_run(result)

    def finish_run_of_demo(self) -> None:
        """Only say that a run is over."""
        self._view.finish_run_of_demo()

    def count_try(self, title: str, chosen: int, tries: int) -> None:
        """Say which try counts."""
        self._view.count_try(title, chosen, tries)


def view(console: Console) -> LineView:
    """The view that suits where the console goes."""
    return LiveView(console) if console.is_terminal else LineView(console)


def run_title(number: int, total: int, name: str) -> str:
    """Which run of how many this is."""
    return f"run {number}/{total}" + (f" {name}" if name else "")


def progress_line(progress: Progress) -> str:
    """A run's progress in one line."""
    done = f" {progress.fraction:.0%}" if progress.fraction is not None else ""
    return f"{progress.phase}{done}, {_rates(progress)}"


def result_line(result: RunResult) -> str:
    """A run's result in one line."""
    measured = result.measured
    latency = measured.latency_ns
    doubt = ""
    if result.validity is not Validity.VALID:
        causes = without_consequences(result.warnings)
        found = [each for each in causes if validity_by(each) is result.validity]
        why = next((each for each in found if is_disturbed([each])), found[0])
        what = "disturbed" if is_disturbed([why]) else result.validity.name.lower()
        doubt = f" ({what}: {why.line.rstrip('.')})"
    return (
        f"{human_count(measured.throughput_records_per_s)} records/s,"
        f" p50 {human_duration(latency.p50)}, p99 {human_duration(latency.p99)}{doubt}"
    )


def panel(title: str, progress: Progress) -> RenderableType:
    """Progress, rates, latency, the backlog and credit of each channel, the times of each task."""
    heading = Text.assemble((title, "bold"), f"  {progress.phase}")
    rates = Text("  " + _rates(progress))
    bar = ProgressBar(total=1.0, completed=progress.fraction or 0.0, width=20)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2))
    for name in ("channel", "records/s", "backlog", "credit"):
        table.add_column(name, justify="right", style="dim" if name == "channel" else "")
    # The channels with most backlog first: there the pressure is.
    busiest = sorted(progress.channels, key=lambda each: -(each.backlog_buffers or 0))
    for channel in sorted(busiest[:CHANNELS_SHOWN], key=lambda each: each.channel):
        table.add_row(
            channel_name(channel, has_edges=any(each.edge for each in progress.channels)),
            human_count(channel.throughput_records_per_s),
            _level(channel.backlog_buffers),
            _level(channel.credits_available),
        )
    hidden = len(progress.channels) - CHANNELS_SHOWN
    more = Text(f"  and {hidden} more channels" if hidden > 0 else "", style="dim")
    return Group(heading, bar, rates, table, more, _task_table(progress.tasks))


def _task_table(tasks: Sequence[TaskProgress]) -> Table:
    """Time of each task by activity, and how full its pools are; the most pressed first."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2))
    for name in ("task", "busy", "idle", "back-pressured", "in pool", "out pool"):
        table.add_column(name, justify="right", style="dim" if name == "task" else "")
    pressed = sorted(tasks, key=lambda each: -each.back_pressured)[:TASKS_SHOWN]
    for task in (each for each in tasks if each in pressed):
        shares = (task.busy, task.idle, task.back_pressured, task.in_pool_usage)
        table.add_row(task.name, *(_share(each) for each in (*shares, task.out_pool_usage)))
    return table


def channel_name(channel: ChannelMeasured | ChannelProgress, *, has_edges: bool) -> str:
    """Its two ends, its edge where there are several, and whether it is local."""
    edge = f"edge {channel.edge + 1}: " if has_edges else ""
    local = " local" if channel.is_local else ""
    return f"{edge}{channel.producer} → {channel.consumer}{local}"


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _rates(progress: Progress) -> str:
    scope = " over all channels" if len(progress.channels) > 1 else ""
    return (
        f"{human_count(progress.throughput_records_per_s)} records/s,"
        f" {human_bytes(progress.throughput_bytes_per_s)}/s,"
        f" p50 {human_duration(progress.latency_ns_p50)},"
        f" p99 {human_duration(progress.latency_ns_p99)}{scope}"
    )


def _level(buffers: int | None) -> str:
    """A number of buffers with a bar of that length."""
    return MISSING if buffers is None else f"{'▮' * min(buffers, 12)} {buffers:>3}"


class LiveJson(ForwardingView):
    """Writes a line when a run starts, some times a second while it goes on, and when it has ended;
    passes all on to another view.

    Every line has `schema_version`, `event` (started, progress, finished), the number of the run,
    how many `runs` there are, and the `setting`. A line of progress has the fields of `Progress`
    in addition; the last line of a run has its figures.
    """

    def __init__(self, view: LineView, stream: IO[str]) -> None:
        super().__init__(view)
        self._stream = stream
        self._run: dict[str, Any] = {}

    def start_run(self, number: int, total: int, name: str) -> None:
        """Begin a run."""
        self._run = {"run": number, "runs": total, "setting": name}
        self._write("started", {})
        super().start_run(number, total, name)

    def update(self, progress: Progress) -> None:
        """Write where the run stands."""
        self._write("progress", asdict(progress))
        super().update(progress)

    def finish_run(self, result: RunResult) -> None:
        """Write what a run measured."""
        document = result.to_dict()
        names = ("validity", "measured", "limited_by", "warnings", "trace")
        self._write("finished", {name: document[name] for name in names})
        super().finish_run(result)

    def _write(self, event: str, values: dict[str, Any]) -> None:
        from .export import SCHEMA_VERSION  # which imports what a replay shows

        line = {"schema_version": SCHEMA_VERSION, "event": event, **self._run, **values}
        self._stream.write(json.dumps(line) + "\n")
        self._stream.flush()
