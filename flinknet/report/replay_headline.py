"""A replay in six lines: recording, verdict, trade-off of another timeout, trust, next step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from shlex import quote

from flinknet.options.what_if import network_of
from flinknet.results import (
    PAUSES_NOTED,
    TAKEN_ALONE,
    JobAnswer,
    ReplayAnswer,
    TradeOffPoint,
    state_of,
)
from flinknet.results.trades import SAME_LATENCY
from flinknet.units import NS_PER_MS, counted, human_count, human_duration

from .advice import (
    UNPREDICTED,
    Recommendation,
    doubts_of,
    error_figures,
    is_off,
    is_worth_it,
    job_recommendation,
    recommendations,
)
from .observed_tables import held_back
from .page_parts import Sentence, clauses_of, last_part
from .predicted import job_trades
from .recordings import recording_lines
from .trade_words import (
    BUFFER_TIMEOUT,
    NamedTrade,
    cost_parts,
    from_to,
    label_of,
    rate_parts,
    timeout_text,
    trades,
    what_varies,
)

PART_USED = "part used"
"""Beginning of the remark on the part of a trace that counts, which the first line states."""

_NOTHING = "not predicted: "

RATE_KEPT = 0.005
"""Error of records/s that is not worth a word: where a rate was set, it follows from the input."""

TIMEOUTS_MIN = 20
"""Length of a recording, in buffer timeouts, below which a few beats of the flusher decide."""

USUAL_ADVICE = "5ms"
"""Timeout whose price is stated where no limit is given, if it was predicted."""


def replay_sentences(own: Sequence[ReplayAnswer], job: JobAnswer | None) -> list[Sentence]:
    """The sentences about one recording, by an answer for each edge, and that about the job from
    end to end, if it has several."""
    is_healthy = _is_healthy(own[0])
    return [
        Sentence("recorded", _recorded(own, job), "; "),
        Sentence("verdict", _verdict(own), takes_rest=not is_healthy),
        *(Sentence("watermark", [each]) for each in held_back(own)),
        replace(_trade_off(own, job), takes_rest=is_healthy),
        Sentence("trust", _trust(own, job), "; "),
        Sentence("next", _next(own, job), "; "),
    ]


def _is_healthy(answer: ReplayAnswer) -> bool:
    """Whether nothing but the flusher holds records up."""
    return answer.bottleneck is None or answer.bottleneck.is_healthy


def why_not_printed(whole: ReplayAnswer | JobAnswer) -> str | None:
    """Why no prediction is printed; None if some are."""
    points = whole.trade_offs
    whys = [each.why_unknown for each in whole.points] if isinstance(whole, JobAnswer) else []
    if all(each.latency_ns.p50 is None for each in points):
        notes = [note for each in points for note in each.notes if note.startswith(_NOTHING)]
        named = [*whys, *(each.why_no_latency for each in points)]
        named += [note.removeprefix(_NOTHING) for note in notes]
        return next((each for each in named if each), "too few records support a percentile")
    if not whole.model_error.counting:
        return UNPREDICTED
    return whole.model_error.misses


def _recorded(own: Sequence[ReplayAnswer], job: JobAnswer | None) -> list[str]:
    first = own[0]
    trace, part = first.trace, first.trace.part
    name = last_part(trace.path)
    edges = job.edges if job is not None else [trace.edge] if trace.edge else []
    used, whole = human_duration(part.to_ns - part.from_ns), human_duration(part.whole_ns)
    rate = (job or own[-1]).observed.throughput_records_per_s
    found = [
        f"{name}: {_chain(edges)}" if edges else name,
        used if part.is_whole else f"{used} used of {whole}",
        f"{human_count(rate)} records/s" if rate is not None else "",
        f"link {trace.link}" if trace.link else "",
        f"buffer timeout {timeout_text(trace.config)}",
    ]
    doubts = [*recording_lines(trace), *(each for answer in own for each in doubts_of(answer))]
    stated = (TAKEN_ALONE, PART_USED)
    briefs = [each.split("; ")[0].split(": ")[0] for each in doubts if not each.startswith(stated)]
    cut = [each for each in briefs if each.endswith(("is cut off", "was interrupted"))]
    return [each for each in dict.fromkeys([found[0], *cut, *found[1:], *briefs]) if each]


def _chain(edges: Sequence[str]) -> str:
    """The tasks of a job in the direction of flow; the number of its edges where they fork."""
    tasks = [each.split(" → ") for each in edges]
    if any(len(each) != 2 for each in tasks):
        return ", ".join(edges)
    if all(before[1] == after[0] for before, after in pairwise(tasks)):
        return " → ".join([tasks[0][0], *(each[1] for each in tasks)])
    return f"{len(edges)} edges"


def _verdict(own: Sequence[ReplayAnswer]) -> list[str]:
    bottleneck = next((each.bottleneck for each in own if each.bottleneck is not None), None)
    if bottleneck is not None:
        return [f"{state_of(bottleneck.cause)}:", *bottleneck.clauses]
    said = [text for each in own for found in each.diagnosis for text in found.clauses]
    return [f"{state_of(None)}:", *said] if said else []


def _trade_off(own: Sequence[ReplayAnswer], job: JobAnswer | None) -> Sentence:
    """The setting that meets the limits, or the gain and price of another timeout."""
    why = why_not_printed(job or own[0])
    if why is not None:
        return Sentence("trade-off", clauses_of(_NOTHING + why))
    advised = advised_for(own, job)
    if advised is not None:
        return Sentence("trade-off", [advised.head + advised.text, *advised.remarks], "; ")
    found = job_trades(job) if job is not None else trades(own[0])
    if not found:
        return Sentence("trade-off", [_range_of((job or own[0]).trade_offs)])
    usual = (each for each in found if each.setting.endswith(f" {USUAL_ADVICE}"))
    chosen = next(usual, found[0])
    if is_off((job or own[0]).model_error.buffers_per_s):
        unpriced = replace(chosen.trade, buffers_ratio=None, messages_per_s=None, cpu_cores=None)
        chosen = replace(chosen, trade=unpriced)
    first, *more = [*rate_parts(chosen.trade), *_latencies(chosen), *cost_parts(chosen.trade)]
    setting = chosen.setting.removeprefix(f"{BUFFER_TIMEOUT} ")
    return Sentence("trade-off", [f"{setting} instead of {chosen.before}: {first}", *more], ", ")


def _latencies(chosen: NamedTrade) -> list[str]:
    """The latency before and after; the interval is that of the last percentile."""
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
        f"{name} {from_to(before, after, ends if name == known[-1][0] else None)}"
        for name, before, after, ends in known
    ]
    return [f"latency {found[0]}", *found[1:]] if found else ["latency unknown"]


def _range_of(points: Sequence[TradeOffPoint]) -> str:
    """The least and the largest latency of some settings."""
    known = [each for each in points if each.latency_ns.p50 is not None]
    if len(known) < 2:
        return "no other setting was tried"
    varied = what_varies(points)
    ends = [
        f"{human_duration(each.latency_ns.p50)} ({label_of(each, varied)})"
        for each in sorted(known, key=lambda each: each.latency_ns.p50 or 0.0)[:: len(known) - 1]
    ]
    return f"p50 is between {' and '.join(ends)}"


def advised_for(own: Sequence[ReplayAnswer], job: JobAnswer | None) -> Recommendation | None:
    """Advice for the given limits; None without any."""
    if job is not None:
        return job_recommendation(job)
    if not any(each.choice for each in own[0].advice.situations):
        return None
    return recommendations(own[0])[0]


def _trust(own: Sequence[ReplayAnswer], job: JobAnswer | None) -> list[str]:
    """How far the model is off; nothing where no prediction is printed."""
    if why_not_printed(job or own[0]):
        return []
    error = (job or own[0]).model_error
    is_kept = error.throughput is not None and abs(error.throughput) < RATE_KEPT
    figures = error_figures(replace(error, throughput=None) if is_kept else error)
    known = [figures] if figures else []
    if not known and error.throughput is not None:
        known = ["records/s 0%"]
    if not known:
        return []
    if job is None and own[0].trace.is_max_rate and error.throughput is None:
        known.insert(0, "records/s fitted")
    if error.p50 is None and error.p99 is None:
        known.append("latency unchecked")
    found = [f"model error as recorded: {', '.join(known)}"]
    timeouts = _timeouts(own[0])
    if timeouts < TIMEOUTS_MIN:
        found.insert(0, f"only {counted(round(timeouts), 'buffer timeout')} long")
    if any(each.latency_low_ns for each in (job or own[0]).trade_offs):
        is_paused = job is not None and any(n.startswith(PAUSES_NOTED) for n in job.notes)
        found.append(f"{'other ' * is_paused}host delays come on top")
    grade = "poor" if timeouts < TIMEOUTS_MIN else error.grade
    return [f"{grade}: {found[0]}", *found[1:]]


def _timeouts(answer: ReplayAnswer) -> float:
    """Length of the recording in buffer timeouts; infinite where the flusher does not beat."""
    part, timeout_ns = answer.trace.part, network_of(answer.trace.config).buffer_timeout_ns
    return (part.to_ns - part.from_ns) / timeout_ns if timeout_ns > 0 else float("inf")


def _next(own: Sequence[ReplayAnswer], job: JobAnswer | None) -> list[str]:
    whole, first = job or own[0], own[0]
    choice = whole.choice
    if job is not None and is_worth_it(job.by_task):
        return _next_by_task(job, is_own=first.trace.origin == "run")
    if choice is not None and choice.point is not None:
        keys = [each for each in choice.patch.splitlines() if each and not each.startswith("#")]
        if not keys:
            return ["nothing to change: the recorded settings meet the limit"]
        return [
            f"set {', '.join(keys)}" if len(keys) == 1 else "set the keys below",
            "then measure it",
        ]
    if first.trace.origin != "run" and first.flink is None:
        return [
            "record with --rest URL (of the JobManager): Flink's metrics show which task is busy"
        ]
    if not _is_healthy(first):
        return ["mend what the verdict names, record again, then ask for other timeouts"]
    if why_not_printed(whole):
        return ["record more of the job, or use another part of the recording (--from, --to)"]
    if _timeouts(first) < TIMEOUTS_MIN:
        timeout_ns = network_of(first.trace.config).buffer_timeout_ns
        return [f"record {human_duration(TIMEOUTS_MIN * timeout_ns)} or more: this is too short"]
    if choice is not None:
        return ["another limit, or other settings: --buffer-timeout, --floating-buffers"]
    return [f"give a limit, as in --target 'p99<={_half_of_p99(whole)}', for the keys to set"]


def _next_by_task(job: JobAnswer, *, is_own: bool) -> list[str]:
    assert job.by_task is not None
    change = "set the timeouts below in the job's code"
    if not is_own or (place := job.by_task.choice.point) is None:
        return [change, "then measure it"]
    timeouts = zip(job.edge_numbers, job.points[place].timeouts_ns, strict=True)
    asked = ",".join(f"{number}={timeout_ns // NS_PER_MS}ms" for number, timeout_ns in timeouts)
    return [f"flinknet bench again {quote(job.path)} --edge-timeout {asked}", change]


def _half_of_p99(whole: ReplayAnswer | JobAnswer) -> str:
    """Some half of the p99 under the recorded setting, to two digits, as an example of a limit."""
    recorded = next(each for each in whole.trade_offs if each.is_recorded)
    half_ms = (recorded.latency_ns.p99 or recorded.latency_ns.p50 or 40 * NS_PER_MS) / NS_PER_MS / 2
    return f"{float(f'{half_ms:.2g}'):g}ms"
