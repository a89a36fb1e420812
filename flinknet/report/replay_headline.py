"""A replay in six lines: recording, verdict, trade-off of another timeout, trust, next step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from shlex import quote

from flinknet import results
from flinknet.options.what_if import network_of
from flinknet.results.trades import SAME_LATENCY
from flinknet.units import NS_PER_MS, counted, human_change, human_count, human_duration

from . import advice
from . import trade_words as words
from .observed_tables import held_back
from .page_parts import NAME_WIDTH, WIDTH, Sentence, clauses_of, last_part
from .recordings import MISSING_POOR, recording_lines
from .warning_lines import alike, merged_text

PART_USED = "part used"
"""Beginning of the remark on the part of a trace that counts, which the first line states."""

_NOTHING = "not predicted: "

_MEND = "mend what holds the job up, then record again"

RATE_KEPT = 0.005
"""Error of records/s that is not worth a word: where a rate was set, it follows from the input."""

LOSS_COLUMNS = 60
"""Columns of the first line for what was lost; if they do not do, its number has to."""

TIMEOUTS_MIN = 20
"""Length of a recording, in buffer timeouts, below which a few beats of the flusher decide."""


def replay_sentences(job: results.JobAnswer) -> list[Sentence]:
    """The sentences about a recorded job."""
    is_healthy = _is_healthy(job)
    return [
        Sentence("recorded", _recorded(job), is_list=True),
        Sentence("verdict", _verdict(job), " ", takes_rest=not is_healthy),
        *(Sentence("watermark", [each]) for each in held_back(job.answers)),
        replace(_trade_off(job), takes_rest=is_healthy),
        Sentence("trust", _trust(job)),
        Sentence("next", _next(job)),
    ]


def _is_healthy(job: results.JobAnswer) -> bool:
    found = job.answers[0].bottleneck
    return found is None or found.is_healthy


def why_not_printed(job: results.JobAnswer) -> str | None:
    """Why no prediction is printed; None if some are."""
    found = job.answers[0].bottleneck
    if found is not None and found.why_unpredictable is not None:
        return found.why_unpredictable
    why = advice.why_no_latency(job)
    if why is None and not job.model_error.counting:
        return results.why_unchecked(job.points)
    return why or job.model_error.misses


def _recorded(job: results.JobAnswer) -> list[str]:
    trace, part = job.answers[0].trace, job.answers[0].trace.part
    name = last_part(trace.path)
    used, whole = human_duration(part.to_ns - part.from_ns), human_duration(part.whole_ns)
    rate = job.observed.throughput_records_per_s
    found = [
        used if part.is_whole else f"{used} used of {whole}",
        f"{human_count(rate)} records/s" if rate is not None else "",
    ]
    if job.edges:
        named = f"{name}: {_chain(job.edges)}"
        is_short = len("; ".join([named, *found])) <= WIDTH - NAME_WIDTH
        name, found = (named, found) if is_short else (name, [*found, _chain(job.edges)])
    found += [
        f"link {trace.link}" if trace.link else "",
        f"buffer timeout {words.timeout_text(trace.config)}",
    ]
    losses = [
        f"{last_part(each.path)}: " * (bool(trace.recordings) or each.path != trace.path)
        + _brief(each.text)
        for each in trace.losses[:1]
    ]
    more = len(trace.losses[1:])
    losses += [counted(more, "more loss", "more losses")] if more else []
    if sum(map(len, losses)) > LOSS_COLUMNS:
        losses = [counted(len(trace.losses), "loss", "losses")]
    briefs = [_brief(each) for each in recording_lines(replace(trace, losses=()))]
    own = [
        (each.trace.edge or "", _brief(doubt))
        for each in job.answers
        for doubt in advice.doubts_of(each)
        if not doubt.startswith((results.TAKEN_ALONE, PART_USED))
    ]
    for same in alike(own):
        edges = [*dict.fromkeys(edge for edge, _ in same)]
        where = "" if len(edges) == len(job.answers) else f"{', '.join(edges)}: "
        briefs.append(where + merged_text([brief for _, brief in same]))
    return [x for x in dict.fromkeys([name, *part.cut, *losses, *found, *briefs]) if x]


def _brief(doubt: str) -> str:
    return doubt.split("; ")[0].split(": ")[0]


def _chain(edges: Sequence[str]) -> str:
    tasks = [each.split(" → ") for each in edges]
    if any(len(each) != 2 for each in tasks):
        return ", ".join(edges)
    if all(before[1] == after[0] for before, after in pairwise(tasks)):
        return " → ".join([tasks[0][0], *(each[1] for each in tasks)])
    return f"{len(edges)} edges"


def _verdict(job: results.JobAnswer) -> list[str]:
    found = next((each.bottleneck for each in job.answers if each.bottleneck is not None), None)
    if found is not None:
        return [f"{results.state_of(found.cause)}:", *found.clauses]
    said = [text for each in job.answers for found in each.diagnosis for text in found.clauses]
    if not said and any(each.observed.credits.starved_ns is None for each in job.answers):
        said = ["how long data waited for credit was not seen"]
    return [f"{results.state_of(None)}:", *said] if said else []


def _trade_off(job: results.JobAnswer) -> Sentence:
    why = why_not_printed(job)
    if why is not None:
        begin = [_MEND] if _is_mended_first(job) else []
        for edge in job.edges:  # the details say which one it is
            why = why.removeprefix(f"{edge}: ")
        asked = "" if job.choice is None else f"{', '.join(job.choice.targets)} undecided, "
        return Sentence("trade-off", clauses_of(asked + _NOTHING + "; ".join([*begin, why])), " ")
    advised = advised_for(job)
    if advised is not None:
        text, others = advised[0], advice.recommendations(job)[1:]
        none = [other.name for other, _ in others if other.is_doubt]
        clauses = [text.name + text.text, *none, *text.notes]
        return Sentence("trade-off", clauses)
    found = words.trades(job)
    if not found:
        return Sentence("trade-off", [_range_of(job.points)])
    chosen = found[0]
    if advice.is_off(job.model_error.buffers_per_s):
        unpriced = replace(chosen.trade, buffers_ratio=None, messages_per_s=None, cpu_cores=None)
        chosen = replace(chosen, trade=unpriced)
    is_assumed = job.cpu_cost is not None and not job.cpu_cost.is_learnt
    rate = words.rate_parts(chosen.trade)
    cost = words.cost_parts(chosen.trade, is_cpu_assumed=is_assumed)
    first, *more = [*rate, *_latencies(chosen), *cost]
    setting = chosen.setting.removeprefix(f"{words.BUFFER_TIMEOUT} ")
    return Sentence("trade-off", [f"{setting} instead of {chosen.before}: {first}", *more], ", ")


def _latencies(chosen: words.NamedTrade) -> list[str]:
    trade = chosen.trade
    both = (("p50", chosen.p50_ns, trade.p50_range_ns), ("p99", chosen.p99_ns, trade.p99_range_ns))
    known = [
        (name, before_ns, after_ns, ends_ns)
        for name, (before_ns, after_ns), ends_ns in both
        if before_ns and after_ns
    ]
    if known and all(abs(after / before - 1) <= SAME_LATENCY for _, before, after, _ in known):
        return ["no effect on latency"]
    found = [
        f"{name} {words.from_to(before, after, ends if name == known[-1][0] else None)}"
        for name, before, after, ends in known
    ]
    return [f"latency {found[0]}", *found[1:]] if found else ["latency unknown"]


def _range_of(points: Sequence[results.TradeOffPoint]) -> str:
    known = [each for each in points if each.latency_ns.p50 is not None]
    if len(known) < 2:
        return "no other setting was tried"
    varied = words.what_varies(points)
    known.sort(key=lambda each: each.latency_ns.p50 or 0.0)
    ends = [
        f"{human_duration(each.latency_ns.p50)} ({words.label_of(words.settings_of(each), varied)})"
        for each in (known[0], known[-1])
    ]
    return f"p50 is between {' and '.join(ends)}"


def advised_for(job: results.JobAnswer) -> advice.Advised | None:
    """Advice for the given limits in the situation of the job's choice; None without any."""
    if not any(each.choice for each in job.advice.situations):
        return None
    return advice.recommendations(job)[0]


def _trust(job: results.JobAnswer) -> list[str]:
    """How far the model is off, and what a verdict rests on that must be mended, or that stands
    without predictions."""
    if why_not_printed(job):
        return _basis(job)
    error, timeouts = job.model_error, _timeouts(job.answers[0])
    is_kept = error.throughput is not None and abs(error.throughput) < RATE_KEPT
    shown = replace(error, throughput=None) if is_kept else error
    left_out = {"p99": error.p99 or 0.0} if error.is_tail_off else {}
    if error.buffers_per_s is not None and advice.is_off(error.buffers_per_s):
        left_out["buffers/s"] = error.buffers_per_s
    figures = advice.error_figures(shown, left_out)
    figures = figures or "records/s 0%" * is_kept
    if not figures:
        return []
    fitted = "records/s fitted, " * advice.is_fitted(job)
    unchecked = ", latency unchecked" if error.p50 is None and error.p99 is None else ""
    found = [f"{name} left out ({human_change(x)})" for name, x in left_out.items()]
    found.append(f"model error as recorded: {fitted}{figures}{unchecked}")
    grade = error.grade
    if timeouts < TIMEOUTS_MIN:
        grade = "poor"
        found.insert(0, f"only {counted(round(timeouts), 'buffer timeout')} long")
    missed = sum(x.count or 0 for x in job.answers[0].trace.losses if x.kind == "missed_buffers")
    known = sum(each.observed.buffers + each.observed.events for each in job.answers)
    if missed > MISSING_POOR * (missed + known):
        grade = "poor"
        found.insert(0, f"{missed / (missed + known):.0%} of the buffers and events are missing")
    open_tails = sum(x.startswith(results.OPEN_TAIL) for each in job.points for x in each.notes)
    if open_tails:
        of_all = f" at {open_tails} of {len(job.points)} settings" * (open_tails < len(job.points))
        found.append(f"{results.OPEN_TAIL}{of_all}")
    if any(each.buffers_low_per_s for each in job.points):
        is_paused = any(each.startswith(results.PAUSES_NOTED) for each in job.notes)
        found.append(f"{'other ' * is_paused}host delays come on top")
    return [f"{grade}: {found[0]}", *found[1:], *([] if _is_healthy(job) else _basis(job))]


def _basis(job: results.JobAnswer) -> list[str]:
    """What the verdict rests on, and for how long that was seen; nothing without a verdict or
    a record."""
    first = job.answers[0]
    part, origin = first.trace.part, first.trace.origin
    seen = "its own events" if first.trace.is_of_run else f"the messages of the {origin}"
    if _is_busy_known(job):
        seen = f"Flink's own metrics and {seen}"
    over = human_duration(part.to_ns - part.from_ns)
    is_seen = any(each.observed.records for each in job.answers)
    return [f"the verdict rests on {seen}, over {over}"] if is_seen and _verdict(job) else []


def _is_mended_first(job: results.JobAnswer) -> bool:
    return not (_is_healthy(job) or _lacks_metrics(job) or why_not_printed(job) is None)


def _lacks_metrics(job: results.JobAnswer) -> bool:
    """Whether nobody saw how busy the tasks are, and Flink's metrics would show it."""
    return not (job.answers[0].trace.is_of_run or _has_metrics(job))


def _has_metrics(job: results.JobAnswer) -> bool:
    """Whether Flink reported metrics; without any, it may still have named the tasks."""
    flink = job.answers[0].flink
    return _is_busy_known(job) or (flink is not None and bool(flink.task_managers))


def _is_busy_known(job: results.JobAnswer) -> bool:
    """Whether Flink reported how busy tasks are, which a verdict rests on."""
    flink = job.answers[0].flink
    vertices = () if flink is None else flink.vertices
    return any(task.busy is not None for each in vertices for task in each.tasks)


def _timeouts(answer: results.EdgeAnswer) -> float:
    """Length of the recording in buffer timeouts; infinite where the flusher does not beat."""
    part, timeout_ns = answer.trace.part, network_of(answer.trace.config).buffer_timeout_ns
    return (part.to_ns - part.from_ns) / timeout_ns if timeout_ns > 0 else float("inf")


def _next(job: results.JobAnswer) -> list[str]:
    first, choice = job.answers[0], job.choice
    if advice.is_worth_it(job.by_task):
        return _next_by_task(job, is_own=first.trace.origin == "run")
    if choice is not None and choice.point is not None:
        keys = [each for each in choice.patch.splitlines() if each and not each.startswith("#")]
        change = f"set {keys[0]}" if len(keys) == 1 else "set the keys below"
        is_same = "nothing to change: the recorded settings meet the limit"
        return _if_needed(choice, job, [change, "then measure it"]) if keys else [is_same]
    if _lacks_metrics(job):
        is_lost = any(each.file == "metrics.jsonl" for each in first.trace.losses)
        how = "copy metrics.jsonl back" if is_lost else "record with --rest URL (of the JobManager)"
        return [f"{how}: Flink's metrics{' in it' * is_lost} show which task is busy"]
    if _is_mended_first(job):
        return []  # the trade-off says so
    if not _is_healthy(job):
        return [f"{_MEND}, and ask for other timeouts"]
    if why_not_printed(job):
        return ["record more of the job, or use another part of the recording (--from, --to)"]
    if _timeouts(first) < TIMEOUTS_MIN:
        timeout_ns = network_of(first.trace.config).buffer_timeout_ns
        return [f"record {human_duration(TIMEOUTS_MIN * timeout_ns)} or more: this is too short"]
    if choice is not None and job.lacks_tail(choice):
        return ["give a limit on p50 or p90, or record again"]
    if choice is not None:
        return ["another limit, or other settings: --buffer-timeout, --floating-buffers"]
    if (limit := words.example_limit(job.points)) is None:
        others = "try others: --buffer-timeout, --floating-buffers"
        return [f"no setting has clearly less latency; {others}"]
    return [f"give a limit, as in --target '{limit}', for the keys to set"]


def _if_needed(choice: results.Choice, job: results.JobAnswer, steps: list[str]) -> list[str]:
    """The steps to a choice; only to lower the cost where the recorded setting meets the limits."""
    if choice.recorded_margin is None:
        return steps
    if advice.costs_more(job, choice):
        return ["nothing has to change"]
    return [f"nothing has to change; for less cost: {steps[0]}", *steps[1:]]


def _next_by_task(job: results.JobAnswer, *, is_own: bool) -> list[str]:
    assert job.by_task is not None
    choice = job.by_task.choice
    change = "set the timeouts below in the job's code"
    if len(keys := advice.one_for_all(job).splitlines()) == 1:
        change += f", or for all tasks {keys[0].removeprefix('# ')}"
    if not is_own or (place := choice.point) is None:
        return _if_needed(choice, job, [change, "then measure it"])
    timeouts = zip(job.edge_numbers, job.points[place].timeouts_ns, strict=True)
    asked = ",".join(f"{number}={timeout_ns // NS_PER_MS}ms" for number, timeout_ns in timeouts)
    again = f"flinknet bench again {quote(job.path)} --edge-timeout {asked}"
    return _if_needed(choice, job, [again, change])
