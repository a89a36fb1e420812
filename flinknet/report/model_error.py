"""How far a replay can be trusted, in words: the model's error on the recorded setting, its scope,
and doubts; recordings that make up a run, and data they are known to lack."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from shlex import quote

from rich.console import Console
from rich.markup import escape

from flinknet.results import (
    ERROR_TO_BET_ON,
    ClockRelation,
    ModelError,
    RecordingSet,
    ReplayAnswer,
    ReplayedRecording,
    TraceDescription,
    TraceLoss,
)
from flinknet.results.recordings import ASSUMED, MESSAGES, SAME_CLOCK, WALL_CLOCKS
from flinknet.units import counted, human_change, human_count, human_duration

from .console import console_for, print_part
from .page_parts import Head, Lines, Row, Table

FITTED = "fitted to the recorded one"
"""Instead of the error of a throughput that the model was fitted to."""

UNPREDICTED = "the recorded setting could not be predicted"
OFF_TOO_FAR = f"the model is off by more than {ERROR_TO_BET_ON:.0%} where the answer is known"
"""Why not to rely on predictions."""


def is_off(error: float | None) -> bool:
    """Whether the model is off too far in a figure to print it."""
    return error is not None and abs(error) > ERROR_TO_BET_ON


@dataclass(frozen=True, slots=True)
class ModelErrorText:
    """The model's error of each recorded figure, its scope, and the consequence.

    Attributes:
        figures: None where the recorded setting could not be predicted.
        is_doubtful: that is so, or the model is off too far to rely on.
    """

    figures: str | None
    used: str
    consequence: str
    is_doubtful: bool


def model_error_text(answer: ReplayAnswer) -> ModelErrorText:
    """The model's error as text."""
    error, simulated = asdict(answer.model_error), answer.simulated
    used = f"{human_count(simulated.records)} records"
    if not simulated.is_whole:
        used += f", {_simulated_part(answer)}"
    if all(value is None for value in error.values()):
        return ModelErrorText(None, used, UNPREDICTED, is_doubtful=True)
    is_of_run = answer.trace.is_of_run
    buffers = answer.model_error.buffers_per_s
    is_fitted = answer.trace.is_max_rate and error["throughput"] is None
    parts = [f"records/s {FITTED if is_fitted else human_change(error['throughput'])}"]
    if is_of_run:
        parts += [f"{name} {human_change(error[name])}" for name in ("p50", "p99")]
    if buffers is not None or not is_of_run:
        parts.append(f"buffers/s {human_change(buffers)}")
    if not is_of_run:
        parts.append(_latency_of_backlog(answer))
    figures = ", ".join(parts)
    if any(map(is_off, answer.model_error.counting)):
        return ModelErrorText(figures, used, OFF_TOO_FAR, is_doubtful=True)
    check = " (check: flinknet bench again RUN)" if is_of_run and not answer.trace.edge else ""
    consequence = f"other settings may be further off{check}"
    if is_off(buffers):
        consequence = f"do not rely on buffers/s and prices; {consequence}"
    return ModelErrorText(figures, used, consequence, is_doubtful=False)


def model_error_part(answer: ReplayAnswer) -> Lines:
    """The model's error as a banner."""
    found = model_error_text(answer)
    known = f" on the recorded setting: {found.figures}"
    why = "predictions are not shown: " if found.is_doubtful and found.figures is not None else ""
    lines = [
        f"model error{' unknown' if found.figures is None else known}",
        f"from {found.used}; {why}{found.consequence}",
    ]
    return model_error_banner(lines, answer.model_error, is_doubt=found.is_doubtful)


ERROR_SMALL = 0.1
"""Model error up to which its banner is green."""


def model_error_banner(lines: Sequence[str], error: ModelError, *, is_doubt: bool) -> Lines:
    """Lines about the model's error: green only where every figure was recorded and its error is
    small."""
    errors = (error.throughput, error.p50, error.p99, error.buffers_per_s or 0.0)
    is_small = all(each is not None and abs(each) <= ERROR_SMALL for each in errors)
    meaning = (
        "(predicted − observed) / observed, for the setting that was recorded: the one prediction"
        " that can be checked."
    )
    return Lines(lines, is_doubt, True, is_plain=not is_small, meaning=meaning, id="model-error")


def error_figures(error: ModelError) -> str:
    """The error of each figure for which it is known."""
    figures = {
        "records/s": error.throughput,
        "p50": error.p50,
        "p99": error.p99,
        "buffers/s": error.buffers_per_s,
    }
    known = {name: value for name, value in figures.items() if value is not None}
    return ", ".join(f"{name} {human_change(value)}" for name, value in known.items())


def doubts_of(answer: ReplayAnswer) -> list[str]:
    """Doubts to know before the numbers: warnings of the run, and findings in its trace."""
    trace, remarks = answer.trace, answer.remarks
    damaged = [
        f"{file} is cut off; its whole blocks are used"
        for file in trace.damaged_files
        if not any(remark.startswith(f"{file} is cut off") for remark in remarks)
    ]
    return [*damaged, *trace.warnings, *remarks]


def _latency_of_backlog(answer: ReplayAnswer) -> str:
    """Known bound of the model's error in latency where latency was not recorded."""
    too_low_by = answer.model_error.latency_at_most
    if too_low_by is not None:
        return f"mean latency at least {-too_low_by:.0%} too low, by the recorded backlog"
    recorded = next((each for each in answer.trade_offs if each.is_recorded), None)
    if recorded is not None and recorded.why_no_latency is not None:
        least_ns = recorded.mean_latency_at_least_ns
        if least_ns is None:
            return "latency unknown, by the backlog of another edge"
        return f"latency unknown, its mean at least {human_duration(least_ns)} by the backlog"
    return "latency unknown (not recorded)"


def _simulated_part(answer: ReplayAnswer) -> str:
    part, window_ns = answer.trace.part, answer.simulated.window_ns
    windows = answer.simulated.windows
    what = "measured part" if answer.trace.is_of_run else "trace"
    if windows > 1:
        whole = human_duration(part.to_ns - part.from_ns)
        used = f"{windows} windows, {human_duration(window_ns)} of the {what}'s {whole}"
        return f"{used}, compared with all of it"
    return f"{_span(part.from_ns, part.from_ns + window_ns)} of the {what}"


def observed_part(answer: ReplayAnswer) -> str:
    """The part of the trace that the observed figures are of."""
    part = answer.trace.part
    if _is_ordinary(answer):
        return "in the measured part"
    whole = human_duration(part.whole_ns)
    if part.is_whole:
        return f"in the whole trace of {whole}"
    what = "measured part" if answer.trace.is_of_run else "trace"
    return f"in {_span(part.from_ns, part.to_ns)} of the {what} of {whole}"


def _span(from_ns: int, to_ns: int) -> str:
    if not from_ns:
        return f"the first {human_duration(to_ns)}"
    return f"{human_duration(from_ns)} to {human_duration(to_ns)}"


def _is_ordinary(answer: ReplayAnswer) -> bool:
    """Whether the whole measured part of a run counts."""
    return answer.trace.is_of_run and answer.trace.part.is_whole


LOSSES_SHOWN = 8
NAMES_SHOWN = 5
RECORDINGS_SHOWN = 40

SHORTER_FROM = 0.05
"""Share of the run that a recording lacks at an end, from which on that is stated."""

_BASES = {
    MESSAGES: "by messages that both recorded",
    WALL_CLOCKS: "by the hosts' wall clocks",
    ASSUMED: "assumed: as if their data had begun at the same time",
}


def recording_lines(trace: TraceDescription) -> list[str]:
    """Losses, and the recordings where they are several."""
    labels = {each.path: each.label for each in trace.recordings}
    lines = [loss_line(each, labels.get(each.path)) for each in trace.losses[:LOSSES_SHOWN]]
    if len(trace.losses) > LOSSES_SHOWN:
        lines.append(f"and {len(trace.losses) - LOSSES_SHOWN:,} more losses (--json has all)")
    if not trace.recordings:
        return lines
    lines += [set_line(trace.recordings), *_unused_line(trace), *_short_lines(trace)]
    return [*lines, *clock_lines(trace.recordings)]


def loss_line(loss: TraceLoss, label: str | None = None) -> str:
    """One loss, and where."""
    where = label or loss.path
    return f"{where}{f'/{loss.file}' if loss.file else ''}: {loss.text}"


def set_line(recordings: Sequence[ReplayedRecording], of_what: str = "") -> str:
    """Sentence on the recordings of a run, and the channels that count.

    Args:
        of_what: what the channels belong to, as words to put behind them.
    """
    names = named([each.label for each in recordings])
    channels = sum(each.channels_counted for each in recordings)
    twice = sum(each.channels - each.channels_counted for each in recordings)
    line = f"one run of {len(recordings):,} recordings ({names}): {counted(channels, 'channel')}"
    line += of_what
    if not twice:
        return line
    left_out = [
        f"{each.channels - each.channels_counted:,} of {each.label}"
        for each in recordings
        if each.channels > each.channels_counted
    ]
    return f"{line}, {twice:,} recorded twice and counted once (left out: {named(left_out)})"


def _unused_line(trace: TraceDescription) -> list[str]:
    unused = [each.label for each in trace.recordings if not each.channels_counted]
    return [f"not used, other recordings have all of its channels: {named(unused)}"] * bool(unused)


def _short_lines(trace: TraceDescription) -> list[str]:
    """Recordings that begin later or end earlier than the run."""
    whole_ns = trace.part.whole_ns
    least_ns = SHORTER_FROM * whole_ns
    short = []
    for each in trace.recordings:
        if each.from_ns is None or each.to_ns is None:
            short.append(f"{each.label} has no data")
        elif each.from_ns > least_ns or each.to_ns < whole_ns - least_ns:
            first, last = (
                human_duration(min(max(at_ns, 0), whole_ns)) for at_ns in (each.from_ns, each.to_ns)
            )
            short.append(f"{each.label} has data from {first} to {last}")
    if not short:
        return []
    return [f"not all recordings cover the {human_duration(whole_ns)} of the run: {named(short)}"]


def clock_lines(recordings: Sequence[ReplayedRecording]) -> list[str]:
    """How their clocks are related; nothing where they have one."""
    others = [each for each in recordings if each.clock.basis != SAME_CLOCK]
    if not others:
        return []
    related = named([f"{each.label} {clock_text(each.clock)}" for each in others], separator="; ")
    return [
        f"clocks of other hosts than {recordings[0].label}'s: {related}. Figures of a channel need"
        " one clock only; sums over time and the part of the run that is used need all"
    ]


def clock_text(clock: ClockRelation) -> str:
    """The offset of a clock and its error."""
    if clock.basis == SAME_CLOCK:
        return "same clock"
    error = "error unknown"
    if clock.error_ns is not None:
        error = f"error at most {human_duration(clock.error_ns)}"
    sign = "-" if clock.offset_ns < 0 else "+"
    return f"{sign}{human_duration(abs(clock.offset_ns))}, {error} ({_BASES[clock.basis]})"


def named(names: Sequence[str], separator: str = ", ") -> str:
    """The first of some names, and how many more there are."""
    more = len(names) - NAMES_SHOWN
    shown = separator.join(names[:NAMES_SHOWN])
    return f"{shown} and {more:,} more" if more > 0 else shown


def print_recording_set(found: RecordingSet, console: Console | None = None) -> None:
    """Print the recordings, the part of each that counts, the relation of their clocks, and
    losses."""
    console = console or console_for(sys.stdout)
    console.print(f"[bold]{escape(found.path)}[/bold]", soft_wrap=True)
    exchanges = "1 exchange" if found.edges == 1 else f"{found.edges:,} exchanges"
    console.print(escape(set_line(found.recordings, f" of {exchanges}")), soft_wrap=True)
    labels = {each.path: each.label for each in found.recordings}
    lost = [loss_line(each, labels.get(each.path)) for each in found.losses]
    for line in [*lost, *clock_lines(found.recordings)]:
        console.print(f"[yellow]![/yellow] {escape(line)}", soft_wrap=True)
    print_part(console, _table(found))
    hidden = len(found.recordings) - RECORDINGS_SHOWN
    if hidden > 0:
        console.print(f"… and {hidden:,} more recordings (--json shows all)")
    one = found.recordings[0].path
    console.print(f"flinknet trace info {escape(quote(one))} shows one of them", soft_wrap=True)


def _table(found: RecordingSet) -> Table:
    names = ("channels", "counted", "data from", "to")
    texts = [Head(name, is_text=True) for name in ("clock", "started at")]
    rows = [
        Row([each.label, *_cells(each), each.started_at])
        for each in found.recordings[:RECORDINGS_SHOWN]
    ]
    return Table([Head("recording"), *map(Head, names), *texts], rows)


def _cells(recording: ReplayedRecording) -> list[str]:
    ends = recording.from_ns, recording.to_ns
    return [
        f"{recording.channels:,}",
        f"{recording.channels_counted:,}",
        *map(human_duration, ends),
        clock_text(recording.clock),
    ]
