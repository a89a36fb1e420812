"""The job end to end: its exchanges joined, each computed by the compiled kernel in the order in
which records pass them.

What leaves the consumers of one exchange comes to the producers of the next: a buffer's records one
after the other, as their task gets to them, so buffers leave the first exchange whole and reach the
next one as bursts. A record keeps the instant at which it came to the job, so its age at the last
consumer is the latency of the job.

Flushers of different tasks beat at the same period, but nobody knows at what distance from each
other: a record that leaves one exchange with a beat waits for the next beat of the next one, and
that distance stays through a run. So a job is computed several times with other phases, and where
it was recorded between processes with other draws of when its records came (`fit.arrivals`); the
spread is part of the answer.

Where a writer has to wait for buffers, pressure travels upstream: the exchange is computed again
together with those before and behind it (`run_joined`), so that its task reads no more meanwhile.
If more records come than an exchange can carry, the whole job goes on at the rate of that exchange.
Its latency is unknown then, for it grows as long as the job runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from flinknet.arrays import IntArray
from flinknet.histogram import LogLinearHistogram
from flinknet.options.what_if import Setting
from flinknet.results import BacklogSummary

from . import job as jobs
from . import outcome, what_if
from .fast_path import FastOutcome, run_joined
from .job import Departures, RecordedJob
from .kernel_edge import KernelEdge, hold_each_other_up
from .outcome import PHASES, Outcome
from .ramps import Ramps
from .recorded import RecordedChannel, RecordedExchange, flushes_factor

STARTS_WITHIN_NS = 20_000_000
"""Tasks of a stage are deployed together: so far apart were the flushers of most of them in warm
TaskManagers of Flink. Beats of a longer timeout then lie close to each other throughout a run."""

THREADS_WOKEN = 2
"""Threads woken on the way of a buffer between TaskManagers: of the network and of the task. Within
one only the task's is woken. Delays were measured between TaskManagers."""

SATURATED_RECORDS = 50_000
"""Records of the part of an exchange that shows how many of them it can take."""


def simulate_job(job: RecordedJob, settings: Sequence[Setting], *, in_full: bool = True) -> Outcome:
    """The outcome of a job under other settings: in PHASES phases where something is unknown. An
    edge that is alone is simulated with the real core where the kernel does not know it, or if not
    `in_full`, unknown (NO_MODEL). Raises: ConfigError when the buffers of an edge do not fit into
    network memory."""
    has_beats = any(each.network.buffer_timeout_ns > 0 for each in settings)
    is_open = has_beats and len(job.edges) > 1  # how far apart flushers beat
    is_open |= any(each.exchange.unseen is not None for each in job.edges)
    runs = []
    for phase in range(PHASES if is_open else 1):
        runs.append(JobRun(job, settings, phase, in_full=in_full).outcome)
        if any(outcome.has_no_model(each.why_unknown) for each in runs[0].edges):
            break
    found = outcome.joined(runs)
    edges = tuple(
        replace(each, phases=tuple(run.edges[n] for run in runs))
        for n, each in enumerate(found.edges)
    )
    return replace(found, edges=edges, phases=tuple(runs))


class JobRun:
    """A job computed once, edge after edge; those together that wait for each other (`joined`). Of
    each edge the channels have the records that came (`arrived`); None behind a source and where
    that is unknown."""

    def __init__(
        self, job: RecordedJob, settings: Sequence[Setting], phase: int, *, in_full: bool = True
    ) -> None:
        self._job, self._phase, self._in_full = job, phase, in_full
        self._is_alone = len(job.edges) == 1
        self._paused_share = ((phase + 0.5) / PHASES + 0.5) % 1.0  # in the mean over phases half
        self._settings = [
            replace(each, network=replace(each.network, checkpoint_interval_ns=None))
            if what_if.leaves_barriers_out(each) and not self._is_alone
            else each
            for each in settings
        ]
        exchanges = [each.exchange for each in job.edges]
        self._flushes_factor = flushes_factor(exchanges, self._settings)
        self.joined: dict[int, FastOutcome] = {}
        self._tried: set[int] = set()  # first edges of those that were to be joined
        self._fallen_behind: set[int] = set()  # first edges of those that lag ever farther
        self._begin()
        while len(self.hops) < len(job.edges):
            if not self._pass(len(self.hops)):
                self._begin()
        if self._taken_shares:
            self._hold_up(min(self._taken_shares))

    @property
    def outcome(self) -> Outcome:
        return outcome.outcome_of_job(self.hops, self._job.ends, self.latency)

    def _begin(self) -> None:
        self.hops: list[Outcome] = []
        self.latency = LogLinearHistogram()
        self.arrived: list[tuple[RecordedChannel, ...] | None] = []
        self._departed: list[dict[int, Departures]] = []  # by edge and consumer
        self._barriers: list[dict[int, IntArray]] = []  # likewise
        self._taken_shares: list[float] = []  # of what comes to edges that are saturated

    def _pass(self, number: int) -> bool:
        """Compute an edge. Returns: False if edges before it have been computed anew with it."""
        recorded = self._job.edges[number].exchange
        if self._is_alone and (recorded.has_instants or not recorded.records):
            return self._count()
        before = self._job.feeding[number]
        why = self._job.whys_unknown[number]
        if why is None and before is not None and self.hops[before].why_unknown is not None:
            why = self._behind_unknown(number)
        channels = None
        if why is None:
            coming = {} if before is None else self._departed[before]
            barriers = {} if before is None else self._barriers[before]
            exchange, origins = self._exchange(number, coming, barriers)
            fast = self.joined.get(number)
            if fast is None:
                fast = what_if.simulate_part(exchange, self._settings[number].network)
            if fast is None and self._is_alone:
                return self._count()
            if fast is None and self._join(number):
                return False
            channels = exchange.channels if before is not None else None
            if not exchange.records:
                why = outcome.NO_RECORDS
            elif fast is None:
                why = self._why_not(number, exchange)
            else:
                self._take_in(number, exchange, origins, fast)
                beats_ns = sum(max(each.network.buffer_timeout_ns, 0) for each in self._settings)
                window = exchange.measured_from_ns, exchange.duration_ns, beats_ns
                departed = self._departed[-1].values()
                if number in self.joined and jobs.falls_behind(departed, *window):
                    first = self._first(number)
                    for each in [each for each in self.joined if self._first(each) == first]:
                        del self.joined[each]
                    self._fallen_behind.add(first)
                    return False
        self.arrived.append(channels)
        if why is not None:
            self.hops.append(Outcome(why_unknown=why))
            self._departed.append({})
            self._barriers.append({})
        return True

    def _count(self) -> bool:
        """Compute the only edge of a job, whose latencies alone are counted: when its records leave
        it concerns no other edge. Its writers may wait. Returns: True, see `_pass`."""
        exchange, (setting,) = self._job.edges[0].exchange, self._settings
        exchange = exchange.drawn(self._phase) if self._phase else exchange
        simulate = what_if.simulate if self._in_full else what_if.simulate_compiled
        under = exchange.under(setting)
        found = simulate(under, setting.network)
        self.arrived.append(None)
        if found is None:
            why = KernelEdge.of(under, setting.network).why_not_covered
            why = why or "a checkpoint takes too long"
            found = Outcome(why_unknown=f"{why}; {outcome.NO_MODEL}")
        else:
            found = what_if.with_delays(found, exchange, setting)
        self.hops.append(found)
        self.latency = found.latency
        return True

    def _join(self, number: int) -> bool:
        """Compute the edges together that wait for each other, from behind a source on, each with
        as many records as will come to it. Returns: whether that is possible, and all records are
        taken in the end."""
        feeding, first = self._job.feeding, self._first(number)
        if first in self._tried:
            return False
        self._tried.add(first)
        places: dict[int, int] = {}  # among those that are joined
        edges: list[KernelEdge] = []
        for each in range(first, len(self._job.edges)):
            before = feeding[each]
            is_behind = each == first or before in places
            if not is_behind or self._job.whys_unknown[each] is not None:
                continue
            own = None if each == first or before is None else places[before]
            counts = {} if own is None else edges[own].taken
            start_ns = self._job.edges[each].exchange.measured_from_ns
            coming = {
                consumer: Departures(np.full(count, start_ns), np.zeros(count, np.int64))
                for consumer, count in counts.items()
            }
            exchange, _ = self._exchange(each, coming, {})
            passages = self._job.passages[each].items()
            known = {producer: passage for producer, passage in passages if producer in counts}
            places[each] = len(edges)
            edges.append(KernelEdge.of(exchange, self._settings[each].network, own, known))
        found = run_joined(edges)
        if found is None:
            return False
        self.joined.update(zip(places, found, strict=True))
        return True

    def _first(self, number: int) -> int:
        """The edge behind a source from which the records of an edge come."""
        while (before := self._job.feeding[number]) is not None:
            number = before
        return number

    def _behind_unknown(self, number: int) -> str:
        """Why an edge is unknown that is behind an unknown one. If that is saturated, this one may
        be the cause: the time of a task for a record was measured together with its waits for
        output. So it is computed with the records that came."""
        edge, setting = self._job.edges[number], self._settings[number]
        exchange = edge.exchange.under(setting)
        if not self._taken_shares or what_if.simulate_part(exchange, setting.network) is not None:
            return outcome.BEHIND_UNKNOWN
        return self._why_not(number, exchange)

    def _why_not(self, number: int, exchange: RecordedExchange) -> str:
        """Why the kernel does not compute an edge with these records."""
        edge = KernelEdge.of(exchange, self._settings[number].network)
        if (why := edge.why_not_covered) is not None:
            return f"{why}; {outcome.NO_MODEL}"
        exchange = edge.exchange
        share = min(SATURATED_RECORDS / exchange.records, 1.0)
        part = exchange.up_to(exchange.measured_from_ns + round(exchange.duration_ns * share))
        came_per_s = part.records * 1e9 / part.duration_ns
        taken_per_s = what_if.simulate(part, edge.network).throughput_records_per_s or 0.0
        share = min(taken_per_s / came_per_s, 1.0)
        self._taken_shares.append(share)
        if share < jobs.AT_TIMES_FROM:
            return outcome.SATURATED.format(share)
        others = [
            replace(each.exchange, flow_control=own.flow_control)
            for each, own in zip(self._job.edges, self._settings, strict=True)
        ]
        own = others.pop(number)
        if any(hold_each_other_up((own, other)) for other in others):
            return outcome.SHARES_CONNECTIONS
        has_fallen_behind = self._first(number) in self._fallen_behind
        return outcome.FALLS_BEHIND if has_fallen_behind else outcome.SATURATED_AT_TIMES

    def _exchange(
        self, number: int, departed: Mapping[int, Departures], barriers: Mapping[int, IntArray]
    ) -> tuple[RecordedExchange, dict[int, IntArray]]:
        """The exchange with the records and barriers that come to it from the consumers of the edge
        before, and the origins of records by channel."""
        edge, before = self._job.edges[number], self._job.feeding[number]
        setting, recorded = self._settings[number], edge.exchange
        if self._phase:
            recorded = recorded.drawn(self._phase)
        exchange = replace(
            recorded.under(setting),
            seed=edge.exchange.seed + self._phase,
            flushers_before=sum(e.exchange.producers for e in self._job.edges[:number]),
            starts_within_ns=None if recorded.has_instants else STARTS_WITHIN_NS,
            keeps_departures=True,
        )
        if before is None:
            return exchange, {each.channel: each.arrivals_ns for each in exchange.channels}
        passages, origins = self._job.passages[number], {}
        coming: dict[int, IntArray] = {}
        for producer, passage in passages.items():
            for channel, own in passage.through(departed.get(producer, jobs.NOTHING)):
                coming[channel], origins[channel] = own.at_ns, own.origins_ns
        channels = []
        for each in exchange.channels:
            if each.channel in coming:
                channels.append(replace(each, arrivals=Ramps.of(coming[each.channel])))
            elif each.producer not in passages and edge.has_own_instants and each.records:
                channels.append(each)  # its inputs were not recorded: as it was
                origins[each.channel] = np.full(each.records, jobs.UNKNOWN_ORIGIN)
        last_ns = max((int(each.arrivals.last_ns[-1]) for each in channels), default=0)
        exchange = replace(
            exchange,
            barriers=jobs.passed_on(barriers, exchange.producers),
            channels=tuple(channels),
            measured_to_ns=max(exchange.measured_to_ns, last_ns),
            has_instants=True,
            costs=replace(exchange.costs, emit_ns_per_record=0.0),  # its task's, at the hop before
        )
        return exchange, origins

    def _take_in(
        self,
        number: int,
        exchange: RecordedExchange,
        origins: Mapping[int, IntArray],
        fast: FastOutcome,
    ) -> None:
        """Note what an exchange came to."""
        edge, setting = self._job.edges[number], self._settings[number]
        delays, flushed = edge.exchange.delays, edge.exchange
        if flushed.unseen is not None and self._phase:
            delays = flushed.unseen.delays(delays, flushed.seed, self._phase)
            flushed = flushed.with_late_beats(self._phase)
        share = edge.exchange.waking_share(setting)
        delays = delays.awake(share, self._flushes_factor)
        spread_ns = delays.spread_ns
        waits_ns = flushed.late_waits_ns(setting)
        latency, since_source = LogLinearHistogram(), LogLinearHistogram()
        by_consumer: dict[int, dict[int, Departures]] = {}
        for each in exchange.channels:
            if not each.records:
                continue
            done_ns, origins_ns = fast.departures_ns[each.channel], origins[each.channel]
            if each.producer in flushed.pauses:
                paused = flushed.pauses[each.producer].some(self._paused_share)
                done_ns = paused.ends_of(done_ns)
            delays_ns = jobs.drawn_delays(spread_ns, len(done_ns), number)
            if each.connection < 0 and not edge.exchange.has_instants:
                delays_ns = delays_ns // THREADS_WOKEN
            waited_ns = jobs.drawn_delays(waits_ns, len(done_ns), number, jobs.WAIT_STEPS)
            delays_ns = delays_ns + waited_ns
            own_ns = done_ns - each.arrivals_ns + delays_ns
            latency.add(np.maximum(own_ns, 0))
            is_known = origins_ns != jobs.UNKNOWN_ORIGIN
            aged_ns = np.where(is_known, origins_ns - delays_ns, jobs.UNKNOWN_ORIGIN)
            since_source.add(np.maximum((done_ns - aged_ns)[is_known], 0))
            by_consumer.setdefault(each.consumer, {})[each.channel] = Departures(done_ns, aged_ns)
        taken = self.joined[number].taken_from if number in self.joined else {}
        self._departed.append(
            {key: jobs.in_order(own, taken.get(key)) for key, own in by_consumer.items()}
        )
        self._barriers.append(dict(fast.barriers))
        found = what_if.outcome_of(fast)
        if not edge.exchange.has_instants:  # between TaskManagers, as in the recording
            messages = fast.messages - fast.local_messages
            mean = fast.backlog_total / messages if messages else None
            backlog = BacklogSummary(mean, fast.backlog_max)
            found = replace(found, messages=messages, backlog_buffers=backlog)
        window, before = edge.exchange.under(setting), self._job.feeding[number]
        last_ns = fast.last_ns - (exchange.measured_to_ns - window.measured_to_ns)
        sent = fast.records, fast.messages
        length_ns = what_if.duration_ns(last_ns, *sent, window, setting.network)
        if before is not None:  # longer where an edge before it takes longer
            length_ns = max(length_ns, self.hops[before].duration_ns)
        self.hops.append(
            replace(found, latency=latency, since_source=since_source, duration_ns=length_ns)
        )
        if number in self._job.ends:
            self.latency.merge(since_source)

    def _hold_up(self, share: float) -> None:
        """Let all edges go on at the rate of the one that takes the smallest share of its records.
        Where records have no instants, the time of tasks is a guess, and so the rate is unknown."""
        self.latency = LogLinearHistogram()
        is_timed = all(each.exchange.has_instants for each in self._job.edges)
        at_times = (outcome.SATURATED_AT_TIMES, outcome.FALLS_BEHIND)
        for number, (edge, hop) in enumerate(zip(self._job.edges, self.hops, strict=True)):
            window = edge.exchange.under(self._settings[number])
            why = hop.why_unknown
            if why is None or (why in at_times and share < jobs.AT_TIMES_FROM):
                why = outcome.HELD_UP
            self.hops[number] = Outcome(
                records=round(window.records * share) if is_timed else 0,
                duration_ns=window.duration_ns if is_timed else 0,
                why_unknown=why,
            )
