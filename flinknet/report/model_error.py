"""How far a replay can be trusted, in words: how far the model is off on the recorded setting,
which part of the trace that is of, and what to doubt. The terminal and the page show the same
sentences.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from flinknet.results import ERROR_TO_BET_ON, ReplayAnswer
from flinknet.units import human_change, human_count, human_duration

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
    parts = [f"throughput {FITTED if is_fitted else human_change(error['throughput'])}"]
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
    consequence = f"on the recorded setting only; others may be further off{check}"
    if is_off(buffers):
        consequence = f"do not rely on buffers/s and prices; {consequence}"
    return ModelErrorText(figures, used, consequence, is_doubtful=False)


def model_error_lines(answer: ReplayAnswer) -> list[str]:
    """The model's error as lines for the terminal."""
    found = model_error_text(answer)
    if found.figures is None:
        return [f"model error unknown: {found.consequence}"]
    line = f"model error: {found.figures}  ({found.used})"
    if found.is_doubtful:
        return [line, f"Do not rely on the predictions below: {found.consequence}."]
    return [line, f"  {found.consequence}"]


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
