"""Advice of a replay in words, and how far to trust it: for each situation the setting that meets
the targets; the model's error on the recorded setting, its scope, and doubts."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace

from flinknet.options import BUFFER_TIMEOUT as TIMEOUT_KEY
from flinknet.results import (
    ERROR_TO_BET_ON,
    GOOD_ERROR,
    MACHINE_DELAYED,
    Choice,
    EdgeAnswer,
    JobAnswer,
    ModelError,
    TaskTimeouts,
    TradeOffPoint,
    why_unchecked,
)
from flinknet.units import NS_PER_MS, format_duration_ns, human_change, human_count, human_duration

from .page_parts import Code, Lines, Text
from .trade_words import (
    BUFFER_TIMEOUT,
    label_of,
    settings_of,
    situation_label,
    situation_of,
    timeout_ns_of,
    what_varies,
)

UNSAFE = "closer to the limit than 5% or the model's error on the recorded setting: measure it"
TOO_CLOSE = "too close (5% or the model's error on the recorded setting stay free)"
UNTRIED = (
    "timeouts between these two were not tried: list some with --buffer-timeout, or leave it out"
)
IN_CODE = "in the job's code, on the last operator of each task"
WORTH_SAVING = 0.05
"""Share of the buffers per second that timeouts task by task save at least to be advised."""
UNCHANGED = "nothing to change: its keys are the recorded ones"


Advised = tuple[Text, Code | None]
"""Advice for one situation: a sentence with its remarks, a doubt if nothing can be advised; and
keys for Flink's config.yaml, or calls, to copy."""


UNKNOWN = (
    "a figure is missing (–): too few records support it, it is below the error of the hosts'"
    " clocks, the model is too far off in it, or it was not predicted"
)
TAIL_UNKNOWN = (
    "p99 and all beyond it cannot be answered from this recording: the model is too far off there"
)


def recommendations(job: JobAnswer) -> list[Advised]:
    """The advice for a job, situation by situation, that of its choice first; empty if there is
    none."""
    advice = job.advice
    if advice.withheld:
        head = "no frontier or setting is advised:"
        return [(Text(head, f" {advice.withheld}", is_doubt=True), None)]
    varied = what_varies(job.points)
    situations = sorted(advice.situations, key=lambda each: each.choice != advice.choice)
    found = []
    for each in situations:
        if each.choice is not None:
            where = situation_label(each, varied)
            at = f" at {where}" if where else ""
            found.append(_of_choice(each.choice, each.beyond_keys, job, varied, at))
    if job.by_task is not None and advice.choice is not None and advice.choice.point is not None:
        label = label_of(settings_of(job.points[advice.choice.point]), varied)
        return [_of_tasks(job, job.by_task, found[0], label)]
    return found


def one_for_all(job: JobAnswer) -> str:
    """The keys of Flink for the setting with one timeout for all tasks that meets the targets; a
    comment where the job's code sets timeouts and none has to change."""
    assert job.choice is not None
    assert job.choice.point is not None
    point = job.points[job.choice.point]
    key = f"{TIMEOUT_KEY}: {point.config[TIMEOUT_KEY]}"
    return job.choice.patch or ("# as recorded" if len({*point.timeouts_ns}) > 1 else key)


def is_worth_it(found: TaskTimeouts | None) -> bool:
    """Whether timeouts task by task save more than a prediction is off by."""
    return found is not None and (found.saved or 0.0) >= WORTH_SAVING


def _of_tasks(job: JobAnswer, found: TaskTimeouts, of_all: Advised, label: str) -> Advised:
    """Timeouts task by task, and what twice that of each would do; that for all tasks, with its
    label, where they save little."""
    timeouts = ", ".join(map(task_timeout, found.tasks, found.timeouts_ns))
    saved = f"{found.saved or 0.0:.0%}"
    if not is_worth_it(found):
        remark = f"timeouts task by task ({timeouts}) save {saved} of the buffers/s"
        return replace(of_all[0], notes=(*of_all[0].notes, remark)), of_all[1]
    choice, points = found.choice, job.points
    assert choice.point is not None, "the search ends with one"
    remarks = [] if choice.is_safe else [UNSAFE]
    for task, timeout_ns, longer in zip(found.tasks, found.timeouts_ns, found.longer, strict=True):
        if longer is None:
            remarks.append(f"no longer timeout of {task} was tried")
            continue
        place, margin = longer
        reached = _reached(replace(choice, margin=margin), points[place])
        why = TOO_CLOSE if (margin or 0.0) >= 0 else ""
        text = f"{task_timeout(task, 2 * timeout_ns or NS_PER_MS)} instead{reached}"
        remarks.append(f"{text}: {why}" if why else text)
    if not found.is_ended:
        text = f"the search stopped after {found.settings} settings: longer ones may be possible"
        remarks.append(text)
    head, text = _met(choice, job, "", f"{timeouts}{_reached(choice, points[choice.point])}")
    patch = f"{choice.patch}\n# or one timeout for all tasks:\n{one_for_all(job)}"
    text = f"{text}; {saved} fewer buffers/s than {label} for all"
    return Text(head, text, notes=remarks), Code(IN_CODE, patch)


def _met(
    choice: Choice, job: JobAnswer, by: str, setting: str, *, is_recorded: bool = False
) -> tuple[str, str]:
    targets, margin = ", ".join(choice.targets), choice.recorded_margin
    if is_recorded:
        return "already met", f": {targets}{by} with {setting}"
    if margin is None:
        return targets, f" is met{by} with {setting}"
    recorded = f"{margin:.0%} {_side(choice)} the limit"
    also = "also met with" if costs_more(job, choice) else "cheapest:"
    return "already met", f": {targets}{by} as recorded, {recorded}; {also} {setting}"


def task_timeout(task: str, timeout_ns: int) -> str:
    return f"{task.removeprefix('Source: ')} {format_duration_ns(timeout_ns)}"


def marks_of(job: JobAnswer, index: int) -> list[str]:
    """Marks of a setting in the advice, in words."""
    advice, by_task = job.advice, job.by_task
    choices = [each.choice for each in advice.situations if each.choice]
    has_tasks = by_task is not None and is_worth_it(by_task)
    chosen = [("one for all" if has_tasks else "choice", each) for each in choices]
    if by_task is not None and has_tasks:
        chosen.insert(0, ("choice", by_task.choice))
    marked = [
        *(("also met" if costs_more(job, x) else name, x.point) for name, x in chosen),
        *(("nearest", each.nearest) for each in choices),
    ]
    marks = ["recorded"] if job.points[index].is_recorded else []
    return [*dict.fromkeys([*marks, *(mark for mark, place in marked if place == index)])]


def costs_more(job: JobAnswer, choice: Choice) -> bool:
    """Whether a choice costs more than the recorded setting, which meets the targets, too."""
    return choice.recorded_margin is not None and not job.costs_no_more(choice)


def is_on_frontier(job: JobAnswer, index: int) -> bool:
    """Whether no other setting of its situation beats it; of one that is alone that says
    nothing.
    """
    if index not in job.advice.frontier:
        return False
    own = [each for each in job.points if situation_of(each) == situation_of(job.points[index])]
    return len(own) > 1


def _of_choice(
    choice: Choice, beyond_keys: Sequence[str], job: JobAnswer, varied: Sequence[str], at: str
) -> Advised:
    targets, whole = ", ".join(choice.targets), "" if job.is_exchange else " the job as a whole"
    if choice.point is None:
        closest: list[str] = []
        if choice.nearest is not None:
            near = job.points[choice.nearest]
            closest.append(
                f"closest: {label_of(settings_of(near), varied)}{_reached(choice, near)}"
            )
            delays = [each for each in near.notes if each.startswith(MACHINE_DELAYED)]
            may_be = "the machine may be the reason: it"
            closest += [each.replace("the machine", may_be, 1) for each in delays]
        head, at = "no predicted setting meets", f"{targets}{at}{whole and f' for{whole}'}"
        if choice.nearest is None or not choice.is_known:
            head = "unknown whether a setting meets"
            closest.insert(0, TAIL_UNKNOWN if job.lacks_tail(choice) else UNKNOWN)
        return Text(f"{head} {at}", "", is_doubt=True, notes=closest), None
    point = job.points[choice.point]
    remarks = [*([] if choice.is_safe else [UNSAFE]), *_remarks_on_longer(choice, point)]
    by = f" by{whole}" if whole else ""
    setting = f"{label_of(settings_of(point), varied)}{_reached(choice, point)}"
    head, text = _met(choice, job, by, setting, is_recorded=point.is_recorded)
    remarks += beyond_keys if beyond_keys or choice.patch else [UNCHANGED]
    has_code = choice.patch and not costs_more(job, choice)
    code = Code("for Flink's config.yaml", choice.patch) if has_code else None
    return Text(head, text, notes=remarks), code


def _remarks_on_longer(choice: Choice, point: TradeOffPoint) -> list[str]:
    timeout_ns, longer_ns = timeout_ns_of(point), choice.next_longer_ns
    if timeout_ns < 0:
        return []
    if longer_ns is None:
        return ["no longer timeout was tried"]
    line = f"next longer predicted timeout: {format_duration_ns(longer_ns)}"
    margin = choice.next_longer_margin
    if margin is None:
        return [line]
    line += f", {abs(margin):.0%} {_side(choice) if margin >= 0 else 'past'} the limit"
    line += f": {TOO_CLOSE}" if margin >= 0 else ""
    return [line, *([UNTRIED] if longer_ns - timeout_ns > NS_PER_MS else [])]


def _side(choice: Choice) -> str:
    if len(choice.targets) > 1:
        return "inside"
    return "above" if choice.targets[0].strip().startswith("throughput") else "below"


def _reached(choice: Choice, point: TradeOffPoint) -> str:
    """The value of a single target, and how far from the limit it is; of several the closest."""
    margin = choice.margin or 0.0
    metric = re.split("[<>]", choice.targets[0])[0].strip().replace(".", "_")
    side, value = _side(choice), ""
    if len(choice.targets) == 1 and metric != "throughput":
        latency_ns = getattr(point.latency_high_ns or point.latency_ns, metric)
        value = f"{human_duration(latency_ns)}, " if latency_ns is not None else ""
        if value and point.latency_high_ns:
            is_likely = point.buffers_low_per_s is not None
            bound = "90% interval" if is_likely else "within the clocks' error"
            value = f"up to {value[:-2]} ({bound}), "
    if margin < -1:
        times = f"{1 - margin:,.0f}" if margin < -999 else f"{1 - margin:.3g}"
        return f": {value}{times} times the limit"
    return f": {value}{abs(margin):.0%} {side if margin >= 0 else 'past'} the limit"


FITTED = "fitted to the recorded one"
"""Instead of the error of a throughput that the model was fitted to."""

ERROR_MEANING = (
    "(predicted − observed) / observed, for the setting that was recorded: the one prediction that"
    " can be checked."
)

TAIL_OFF = f"p99 is left out: off by more than {ERROR_TO_BET_ON:.0%}"
"""Remark where only p99 must not be relied on."""


def why_no_latency(job: JobAnswer) -> str | None:
    """Why no setting has a latency; None if one has."""
    points = job.points
    if any(each.latency_ns.p50 is not None for each in points):
        return None
    whys = [each.why_unknown for each in points] + [each.why_no_latency for each in points]
    few = "too few records support a percentile"
    if any(each.latency_ns.is_below_clocks for each in points):
        few = "latencies are below the error of the hosts' clocks"
    return next((each for each in whys if each), few)


def is_off(error: float | None) -> bool:
    """Whether the model is off too far in a figure to print it."""
    return error is not None and abs(error) > ERROR_TO_BET_ON


def is_reliable(error: ModelError) -> bool:
    """Whether the model is near enough on the recorded setting to rely on its predictions."""
    return bool(error.counting) and error.misses is None


def model_error_part(job: JobAnswer) -> Lines:
    """The model's error of each recorded figure, its scope, and the consequence, as a banner: green
    only where every figure was recorded and its error is small."""
    error, used, unknown = job.model_error, _simulated_part(job), _unknown_lines(job)
    answer = job.answers[0]
    is_doubt = bool(unknown) or error.misses is not None or error.is_tail_off
    if all(value is None for value in asdict(error).values()):
        is_doubt = True
        lines = ["model error unknown", f"from {used}; {why_unchecked(job.points)}"]
    else:
        parts = [f"records/s {FITTED}"] if is_fitted(job) else []
        parts += [error_figures(error)] if error_figures(error) else []
        parts += [_latency_of_backlog(job)] if error.p50 is None and error.p99 is None else []
        lines = [f"model error on the recorded setting: {', '.join(parts)}"]
        is_checked = job.is_exchange and answer.trace.is_of_run and not answer.trace.edge
        consequences = [
            *[TAIL_OFF] * error.is_tail_off,
            *["do not rely on buffers/s and prices"] * is_off(error.buffers_per_s),
            f"other settings may be further off{' (check: flinknet bench again RUN)' * is_checked}",
        ]
        if error.misses:
            consequences = [f"predictions are not shown: {error.misses}"]
        if error.misses or why_no_latency(job) is None:
            lines.append("; ".join([f"from {used}", *consequences]))
    errors = (error.throughput, error.p50, error.p99, error.buffers_per_s or 0.0)
    is_small = all(each is not None and abs(each) <= GOOD_ERROR for each in errors)
    lines, is_plain = [*lines, *unknown], not is_small
    return Lines(lines, is_doubt, True, is_plain, meaning=ERROR_MEANING, id="model-error")


def is_fitted(job: JobAnswer) -> bool:
    """Whether the model was fitted to the recorded throughput, which then has no error."""
    is_max_rate = job.is_exchange and job.answers[0].trace.is_max_rate
    return is_max_rate and job.model_error.throughput is None


def _unknown_lines(job: JobAnswer) -> list[str]:
    varied = what_varies(job.points)
    whys: dict[str, list[str]] = {}
    for point in () if job.is_exchange else job.points:
        why = point.why_unknown or point.why_no_latency
        if why is not None:
            label = label_of(settings_of(point), varied)
            whys.setdefault(why, []).append(label.removeprefix(f"{BUFFER_TIMEOUT} "))
    return [
        f"unknown: {why}" if len(of) == len(job.points) else f"unknown at {', '.join(of)}: {why}"
        for why, of in whys.items()
    ]


def error_figures(error: ModelError, left_out: Collection[str] = ()) -> str:
    figures = {
        "records/s": error.throughput,
        "p50": error.p50,
        "p99": error.p99,
        "buffers/s": error.buffers_per_s,
    }
    known = {name: x for name, x in figures.items() if x is not None and name not in left_out}
    return ", ".join(f"{name} {human_change(x)}" for name, x in known.items())


def doubts_of(answer: EdgeAnswer) -> list[str]:
    """Doubts to know before the numbers: warnings of the run, and findings in its trace."""
    trace, remarks = answer.trace, answer.remarks
    damaged = [f"{file} is cut off" for file in trace.damaged_files]
    unsaid = [each for each in damaged if not any(x.startswith(each) for x in remarks)]
    return [*(f"{x}; its whole blocks are used" for x in unsaid), *trace.warnings, *remarks]


def _latency_of_backlog(job: JobAnswer) -> str:
    """Known bound of the model's error in latency where latency was not recorded."""
    too_low_by, is_of_run = job.model_error.latency_at_most, job.answers[0].trace.is_of_run
    if too_low_by is not None:
        return f"mean latency at least {-too_low_by:.0%} too low, by the recorded backlog"
    recorded = next((each for each in job.points if each.is_recorded), None)
    how = "" if is_of_run else " (not recorded)"
    if job.is_exchange and recorded is not None and recorded.why_no_latency is not None:
        least_ns, how = recorded.mean_latency_at_least_ns, ", by the backlog of another edge"
        if least_ns is not None:
            how = f", its mean at least {human_duration(least_ns)} by the backlog"
    return f"latency unknown{how}"


def _simulated_part(job: JobAnswer) -> str:
    answer = job.answers[0]
    part, simulated = answer.trace.part, answer.simulated
    what = "measured part" if answer.trace.is_of_run else "trace"
    if not job.is_exchange:
        what = what if part.is_whole or not job.is_whole else "part used"
        return f"{'all' if job.is_whole else human_duration(job.simulated_ns)} of the {what}"
    records, window_ns = f"{human_count(simulated.records)} records", simulated.window_ns
    if simulated.is_whole:
        return records
    if simulated.windows > 1:
        whole = human_duration(part.to_ns - part.from_ns)
        used = f"{simulated.windows} windows, {human_duration(window_ns)} of the {what}'s {whole}"
        return f"{records}, {used}, compared with all of it"
    return f"{records}, {span(part.from_ns, part.from_ns + window_ns)} of the {what}"


def span(from_ns: int, to_ns: int) -> str:
    if not from_ns:
        return f"the first {human_duration(to_ns)}"
    return f"{human_duration(from_ns)} to {human_duration(to_ns)}"
