"""Configurations that were measured in interleaved rounds, each candidate against the base, and the
decisions of limits."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from flinknet.units import run_numbers

from ..measures import FlushCounts
from ..run import RunResult, has_given_rate
from ..validity import DISTURBED, GIVEN_UP, RATE_NOT_REACHED, Validity, is_disturbed
from .differences import METRICS, RUNS_FEW, Difference, Verdict, difference, label_of
from .limits import Limit, LimitDecision, Outcome


def interleaved_orders(count: int, rounds: int, seed: int) -> list[list[int]]:
    """The order of `count` configurations in each round: a seeded order, rotated by one each round,
    so that over `count` rounds each configuration stands once in each place."""
    order = list(range(count))
    random.Random(seed).shuffle(order)
    return [order[turn % count :] + order[: turn % count] for turn in range(rounds)]


_DIFFERS = (Verdict.BETTER, Verdict.WORSE, Verdict.HIGHER, Verdict.LOWER)
"""Verdicts on a throughput at which less CPU is no merit: it may have had less to do."""

WORST_FIRST = (Outcome.REGRESSION, Outcome.INCONCLUSIVE, Outcome.PASS)

REFUSED = "disturbed runs do not count (--fail-on-disturbed)"
"""Reason why nothing is decided."""

REACHABLE = "choose a --rate that the machine reaches"
"""Step where runs are invalid."""

_RATES = frozenset(("throughput", "throughput_bytes"))
"""Metrics that are as the load has them where its rate is kept."""


@dataclass(frozen=True, slots=True)
class CountedRun:
    """One run that counts; of invalid or disturbed tries the least disturbed valid one does,
    whatever it measured."""

    result: RunResult
    number: int | None = None  # number of the run in its call; None for a run of an earlier result
    tries: int = 1  # number of tries
    discarded: tuple[RunResult, ...] = ()  # the other tries; empty for a run of an earlier result

    @property
    def is_disturbed(self) -> bool:
        """Whether something outside of the run makes its figures doubtful."""
        return is_disturbed(self.result.warnings)

    @property
    def is_invalid(self) -> bool:
        """Whether its figures do not measure the requested load."""
        return self.result.validity is Validity.INVALID


@dataclass(frozen=True, slots=True)
class Configuration:
    """One configuration with its runs, in the order of the rounds."""

    name: str
    runs: tuple[CountedRun, ...]

    @property
    def results(self) -> list[RunResult]:
        return [each.result for each in self.runs]

    @property
    def numbers(self) -> list[int]:
        return [each.number for each in self.runs if each.number is not None]

    @property
    def tries(self) -> int:
        return sum(each.tries for each in self.runs)

    @property
    def disturbed(self) -> list[CountedRun]:
        return [each for each in self.runs if each.is_disturbed]

    @property
    def is_mostly_disturbed(self) -> bool:
        """Whether most of its runs waited so long for a CPU that all their figures are doubtful."""
        disturbed = sum(any(x.code == DISTURBED for x in each.warnings) for each in self.results)
        return 2 * disturbed > len(self.results)

    @property
    def invalid(self) -> list[CountedRun]:
        return [each for each in self.runs if each.is_invalid]

    @property
    def validity(self) -> Validity:
        return min(each.validity for each in self.results)

    @property
    def flushes(self) -> FlushCounts:
        """Why buffers left, over all runs that count."""
        counts = (astuple(each.measured.flushes) for each in self.results)
        return FlushCounts(*map(sum, zip(*counts, strict=True)))

    def values(self, metric: str) -> list[float | None]:
        return [METRICS[metric].figure.read(each) for each in self.results]


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting with different values in two configurations, as texts; None: not set."""

    name: str
    base: str | None
    candidate: str | None


@dataclass(frozen=True, slots=True)
class Baseline:
    """An earlier result in the place of the first configuration's runs. If it comes from elsewhere,
    nothing is called better or worse, and no limit is decided."""

    path: str
    config: str  # name of the configuration in the result
    measured_at: str | None
    environment: Mapping[str, Any]
    elsewhere: tuple[str, ...] = ()  # differences of its machine or software from this one
    notes: tuple[str, ...] = ()  # smaller differences that may shift figures a little


@dataclass(frozen=True, slots=True)
class Candidate:
    """One configuration against the base."""

    configuration: Configuration
    differences: Mapping[str, Difference]
    unlike: tuple[str, ...]  # options in which its workload differs from that of the base
    changes: tuple[SettingChange, ...]  # settings that differ; none: it is the same configuration
    decisions: tuple[LimitDecision, ...]
    invalid: str = ""  # invalid runs of it and of the base, as a text; with any, no limit can hold
    notes: tuple[str, ...] = ()  # differing settings that this load hardly shows

    @property
    def name(self) -> str:
        return self.configuration.name


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a call of compare-configs."""

    base: Configuration
    candidates: tuple[Candidate, ...]
    confidence: float
    seed: int
    environment: Mapping[str, Any]
    baseline: Baseline | None = None
    fails_on_disturbed: bool = False

    @property
    def configurations(self) -> tuple[Configuration, ...]:
        return (self.base, *(each.configuration for each in self.candidates))

    @property
    def measured_here(self) -> tuple[Configuration, ...]:
        """Configurations whose runs belong to this call."""
        return self.configurations[self.baseline is not None :]

    @property
    def repeated(self) -> int:
        """Number of disturbed or invalid tries of this call that were repeated."""
        return sum(each.tries - len(each.runs) for each in self.measured_here)

    @property
    def decisions(self) -> list[tuple[Candidate, LimitDecision]]:
        """Decisions of all limits; undecided where disturbed runs forbid a verdict."""
        found = [(each, decision) for each in self.candidates for decision in each.decisions]
        if not self.is_refused:
            return found
        return [
            (each, replace(own, outcome=Outcome.INCONCLUSIVE,
                           reason=f"{REFUSED}; {own.reason}".rstrip("; ")))
            for each, own in found
        ]  # fmt: skip

    @property
    def disturbed(self) -> int:
        return sum(len(each.disturbed) for each in self.configurations)

    @property
    def is_mostly_disturbed(self) -> bool:
        """Whether most runs that count are disturbed, so that all figures are doubtful."""
        return 2 * self.disturbed > sum(len(each.runs) for each in self.configurations)

    @property
    def invalid(self) -> int:
        return sum(len(each.invalid) for each in self.configurations)

    @property
    def is_poor(self) -> bool:
        """Whether runs are invalid, or all of a configuration are disturbed."""
        counts = ((len(each.disturbed), len(each.runs)) for each in self.configurations)
        return self.invalid > 0 or any(disturbed == runs for disturbed, runs in counts)

    @property
    def is_elsewhere(self) -> bool:
        """Whether the baseline is from another machine or version."""
        return self.baseline is not None and bool(self.baseline.elsewhere)

    @property
    def is_refused(self) -> bool:
        """Whether disturbed runs forbid a verdict (--fail-on-disturbed)."""
        return self.fails_on_disturbed and self.disturbed > 0

    @property
    def outcome(self) -> Outcome:
        """The worst outcome: a regression, then an inconclusive limit, then a pass; refused
        disturbed runs outweigh all of them."""
        outcomes = {decision.outcome for _, decision in self.decisions}
        if self.is_refused:
            return Outcome.INCONCLUSIVE
        return next((each for each in WORST_FIRST if each in outcomes), Outcome.PASS)

    def baseline_lines(self) -> list[str]:
        if self.baseline is None:
            return []
        known = self.baseline
        lines = []
        if known.elsewhere:
            lines.append(
                f"The baseline was measured elsewhere ({' and '.join(known.elsewhere)}), so nothing"
                " is called better or worse, and no limit is decided: measure the baseline here."
            )
        lines.append(
            f"Baseline: {known.config} in {known.path}, {len(self.base.runs)} runs, measured"
            f" {known.measured_at or 'at an unknown time'}; the interval does not cover how much"
            " this machine differs from day to day."
        )
        return lines + [f"Since the baseline: {note}." for note in known.notes]

    def invalid_lines(self) -> list[str]:
        if not self.invalid:
            return []
        end = ", so no limit can hold" if self.decisions else ""
        return [f"Invalid: {_invalid_runs(self.configurations)}{end}."]

    def few_runs_lines(self) -> list[str]:
        """A line if two runs of each do not show how far runs differ."""
        few = [each.name for each in self.configurations if len(each.runs) <= RUNS_FEW]
        if not few:
            return []
        whose = "each" if len(few) == len(self.configurations) else " and ".join(few)
        doubt = "an interval may be far too narrow or too wide; use --runs 5 or more"
        return [f"{RUNS_FEW} runs of {whose} hardly show how far runs differ: {doubt}."]

    def disturbed_lines(self) -> list[str]:
        runs = sum(len(each.runs) for each in self.measured_here)
        lines = []
        if self.repeated:
            again = [(each.tries - len(each.runs), each.name) for each in self.measured_here]
            names = ", ".join(f"{count} of {name}" for count, name in again if count)
            lines.append(
                f"Disturbed or invalid runs were repeated: {self.repeated} more for {runs} runs"
                f" ({names}); the least disturbed valid try of each counts, whatever it measured."
            )
        if self.disturbed:
            own = [(each.disturbed, each) for each in self.configurations if each.disturbed]
            end = (
                "; intervals, and how many runs would decide, are of these: find a quieter machine"
            )
            end += " before adding runs"
            end = ", so the result is undecided" if self.is_refused else end
            lines.append(f"Still disturbed: {', '.join(_which(*each) for each in own)}{end}.")
        return lines


def compare(
    base: Configuration,
    candidate: Configuration,
    *,
    limits: Sequence[Limit],
    confidence: float,
    unlike: Sequence[str] = (),
    changes: Sequence[SettingChange] = (),
    baseline: Baseline | None = None,
    notes: tuple[str, ...] = (),
    neutral: Collection[str] = (),
) -> Candidate:
    """Compare a candidate with the base, within rounds or against an earlier result; `neutral`
    metrics are neither good nor bad here.

    Invalid runs of the candidate leave a limit broken if only the candidate can be the cause: all
    runs of the base are valid, and no invalid run is disturbed. Otherwise nothing is called better
    or worse, and no limit is decided.
    """
    is_elsewhere = baseline is not None and bool(baseline.elsewhere)
    invalid = _invalid_runs((base, candidate))
    is_uncertain = bool(base.invalid) or any(
        x.is_invalid and x.is_disturbed for x in candidate.runs
    )
    is_undirected = bool(unlike) or is_elsewhere or is_uncertain
    results = (*base.results, *candidate.results)
    codes = {each.code for result in results for each in result.warnings}
    is_kept = not codes & {GIVEN_UP, RATE_NOT_REACHED}
    is_kept &= all(has_given_rate(each.workload) for each in results)
    given = _RATES if is_kept else frozenset[str]()
    disturbed = sum(each.is_disturbed for each in (*base.runs, *candidate.runs))
    runs = len(base.runs) + len(candidate.runs)
    remedy = "every run was disturbed: find a quieter machine" if disturbed == runs else ""

    def differ(name: str, *, is_neutral: bool = False) -> Difference:
        metric = METRICS[name]
        is_directed = not (is_undirected or is_neutral or name in {*neutral, *given})
        return difference(
            base.values(name),
            candidate.values(name),
            direction=metric.figure.better if is_directed else 0,
            confidence=confidence,
            is_paired=baseline is None,
            resolution=metric.resolution,
            negligible_amount=metric.negligible_amount,
            remedy=remedy,
        )

    differences = {name: differ(name) for name in METRICS}
    if differences["throughput"].verdict in _DIFFERS:
        differences["cpu"] = differ("cpu", is_neutral=True)
    for name in given:  # the load sets them, so more runs need not decide
        if differences[name].verdict is Verdict.UNCLEAR:
            differences[name] = replace(differences[name], verdict=Verdict.KEPT)
    decisions = []
    for limit in limits:
        decision = limit.decision(differences[limit.metric])
        if differences[limit.metric].change is None and METRICS[limit.metric].records_min:
            records = min(each.measured.latency_ns.count for each in results)
            needs = f"{label_of(limit.metric)} needs {METRICS[limit.metric].records_min} records"
            step = "use a longer --duration, a higher --rate, or another metric"
            decision = replace(decision, reason=f"{needs}, a run had {records}", step=step)
        if is_elsewhere:
            why = "the baseline was measured elsewhere", "measure the baseline here"
            decision = LimitDecision(limit, Outcome.INCONCLUSIVE, *why)
        elif invalid and (is_uncertain or decision.outcome is not Outcome.REGRESSION):
            decision = LimitDecision(limit, Outcome.INCONCLUSIVE, f"invalid: {invalid}", REACHABLE)
        elif decision.outcome is not Outcome.INCONCLUSIVE and 2 * disturbed > runs:
            decision = replace(decision, reason=f"{disturbed} of {runs} runs were disturbed")
        decisions.append(decision)
    return Candidate(
        candidate, differences, tuple(unlike), tuple(changes), tuple(decisions), invalid, notes
    )


def _invalid_runs(configurations: Sequence[Configuration]) -> str:
    return ", ".join(_which(each.invalid, each) for each in configurations if each.invalid)


def _which(runs: Sequence[CountedRun], configuration: Configuration) -> str:
    known = [each.number for each in runs if each.number is not None]
    total = len(configuration.runs)
    which = f" ({run_numbers(known)})" if known and len(known) < total else ""
    return f"{len(runs)} of {total} runs of {configuration.name}{which}"
