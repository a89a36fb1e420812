"""Jobs that are slowed on purpose: does replay name the task and the cause, and do Flink's own
metrics agree?
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from bench.flink.cluster import Cluster
from bench.flink.exchange import Exchange, Stage, short_name
from bench.flink.job_table import MeasuredJob, in_order, position, producer
from bench.flink.tapped_job import Tapped
from bench.flink.warm import WarmCluster
from bench.measure import print_table

EVERY_S = 1.0
LAST_SAMPLES = 3
"""Flink's busy and back-pressured times are means over the last minute, of which the first comes
after five seconds; before that a task counts as busy. So the last samples are the best.
"""

BUSY_FROM_MS = 500
"""Of a second, in the most loaded subtask: such a task may be the bottleneck."""

STOPPED_S, RUNNING_S = 0.4, 0.6

LATE_NS = 1_000_000_000
"""Lateness of a source's record from which a job is not healthy: its tasks did not take what its
sources had to send."""

FEW_BUFFERS = {
    "taskmanager.network.memory.buffers-per-channel": "1",
    "taskmanager.network.memory.floating-buffers-per-gate": "1",
    "taskmanager.memory.segment-size": "4kb",
}


@dataclass(frozen=True, slots=True)
class Case:
    """A job with one thing wrong.

    Args:
        causes: any of which is right, in the words of `flinknet.results`.
        task: that is to be named; None: none, or it does not matter which.
        stopped: index of a TaskManager that is stopped now and then.
        keys: of a cluster of its own.
        slow_links: bytes per second that leave each TaskManager; see SlowLink.
        only: releases that can do it, by how they begin.
    """

    name: str
    exchange: Exchange
    causes: tuple[str, ...]
    task: str | None = None
    stopped: int | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
    slow_links: tuple[int | None, ...] = ()
    only: str = ""

    @property
    def cluster(self) -> tuple[Mapping[str, str], bool]:
        """Keys of the cluster that it runs on, and whether its links can be slowed."""
        return self.keys, bool(self.slow_links)


def cases(base: Exchange) -> list[Case]:
    """All of them, for a source, two relays and a sink of this parallelism.

    Args:
        base: with parallelism, duration, timeout.
    """
    parallelism = base.producers
    rate_per_s = 300.0 * parallelism
    # a subtask gets 300 records of 8000 bytes a second: a channel's buffers hold some eighty
    calm = replace(
        base,
        rate_per_s=rate_per_s / parallelism,
        value_bytes=8_000,
        arrivals="poisson",
        relays=(Stage(parallelism), Stage(parallelism)),
    )
    slow_ns, hot_ns = 4_500_000, 3_000_000

    def with_relays(*relays: Stage, **more: Any) -> Exchange:
        return replace(calm, relays=relays, **more)

    plain, slow = Stage(parallelism), Stage(parallelism, service_ns=slow_ns)
    near = replace(plain, service_ns=2_500_000)
    keyed = Stage(parallelism, "hash", service_ns=hot_ns, hot_share=0.6)
    one = replace(slow, slow_subtask=parallelism - 1)
    return [
        Case("nothing", calm, ("none", "buffer-timeout")),
        Case("first stage", with_relays(slow, plain), ("slow-tasks",), "stage-1"),
        Case("middle stage", with_relays(plain, slow), ("slow-tasks",), "stage-2"),
        Case("last stage", replace(calm, sink_delay_ns=slow_ns), ("slow-tasks",), "sink"),
        Case("busy, then slow", with_relays(near, slow), ("slow-tasks",), "stage-2"),
        Case("skewed keys", with_relays(plain, keyed), ("skew",), "stage-2"),
        Case("one subtask", with_relays(plain, one), ("slow-subtask", "slow-host"), "stage-2"),
        Case("a host stops", calm, ("slow-host",), None, stopped=1),
        Case(
            "checkpoints",
            # a burst takes the slow subtask two thirds of the silence behind it
            with_relays(
                replace(one, service_ns=2_500_000),
                plain,
                checkpoint_interval_ms=300,
                arrivals="onoff",
            ),
            ("alignment",),
        ),
        Case(
            "few buffers",
            replace(calm, rate_per_s=8_000 / parallelism, value_bytes=2_000),
            ("few-buffers",),
            keys=FEW_BUFFERS,
            only="1.",
        ),
    ]


@dataclass(frozen=True, slots=True)
class TaskUse:
    """Flink's own times of a vertex in ms per second, means over the run, as Flink has them at its
    end; None where it has none.

    Args:
        busy, back_pressured: over all subtasks.
        busiest, most_back_pressured: of the subtask with most.
    """

    name: str
    busy: float | None
    busiest: float | None
    back_pressured: float | None
    most_back_pressured: float | None


@dataclass(slots=True)
class UseWatch:
    """Asks REST once a second for the times of all vertices; see `exchange.run`."""

    cluster: Cluster
    asked_s: float = 0.0
    samples: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    _vertices: dict[str, str] = field(default_factory=dict)

    def __call__(self, job: str) -> None:
        now_s = time.monotonic()
        if now_s - self.asked_s < EVERY_S:
            return
        self.asked_s = now_s
        if not self._vertices:
            self._vertices = {
                each["id"]: short_name(each)
                for each in self.cluster.get(f"/jobs/{job}")["vertices"]
            }
        for vertex, name in self._vertices.items():
            answer = self.cluster.get(
                f"/jobs/{job}/vertices/{vertex}/subtasks/metrics"
                "?get=busyTimeMsPerSecond,backPressuredTimeMsPerSecond&agg=avg,max"
            )
            if found := times(answer):
                self.samples.setdefault(name, []).append(found)

    def uses(self) -> list[TaskUse]:
        """Of each vertex, from the sources on."""
        return [
            TaskUse(
                name,
                *(
                    _typical(samples[-LAST_SAMPLES:], f"{metric}.{of}")
                    for metric in ("busyTimeMsPerSecond", "backPressuredTimeMsPerSecond")
                    for of in ("avg", "max")
                ),
            )
            for name, samples in self.samples.items()
        ]


def times(answer: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """REST's aggregated metrics as numbers, by name and aggregate; NaN is left out."""
    found = {
        f"{each['id']}.{of}": float(each[of])
        for each in answer
        for of in ("avg", "max")
        if of in each
    }
    return {name: value for name, value in found.items() if value == value}


def flinks_bottleneck(uses: Sequence[TaskUse]) -> str | None:
    """The vertex furthest downstream whose most loaded subtask is busy, as one reads Flink's page:
    what is upstream of it is back-pressured, and it is not; None if none is busy.
    """
    busy = [
        each
        for each in uses
        if (each.busiest or 0) >= BUSY_FROM_MS
        and (each.busiest or 0) >= (each.most_back_pressured or 0)
    ]
    return max(busy, key=lambda each: each.busiest or 0).name if busy else None


@contextmanager
def stopped_now_and_then(pid: int) -> Iterator[None]:
    """Stop a process for a while, let it run for a while, and so on; it runs in the end."""
    done = threading.Event()

    def stop_and_go() -> None:
        while not done.wait(RUNNING_S):
            os.kill(pid, signal.SIGSTOP)
            done.wait(STOPPED_S)
            os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=stop_and_go)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What replay says about a job; None where it does not say.

    Args:
        tasks: that it names.
        texts: all it says.
    """

    cause: str | None
    tasks: tuple[str, ...]
    texts: tuple[str, ...]


def verdict_of(answers: Sequence[Mapping[str, Any]], job: MeasuredJob) -> Verdict:
    """Of the answers about all edges of a job: the one cause where replay names it, else the
    worst of the verdicts on the edge that it takes for the bottleneck.
    """
    edges = in_order(answers, job)
    named = [found for each in edges if (found := each.get("bottleneck"))]
    if named:
        first = named[0]
        return Verdict(first["cause"], tuple(first["tasks"]), (first["text"],))
    texts = tuple(verdict["text"] for each in edges for verdict in each["diagnosis"])
    holding = [each for each in edges if each.get("is_bottleneck") and each["diagnosis"]]
    if not holding:
        return Verdict("none", (), texts)
    worst = max(holding[0]["diagnosis"], key=lambda each: each["share"] or 0.0)
    return Verdict(worst.get("cause", worst.get("kind")), (consumer(holding[0], job),), texts)


def consumer(answer: Mapping[str, Any], job: MeasuredJob) -> str:
    """The vertex that an edge goes to."""
    names = position(job)
    return names[names.index(producer(answer, job)) + 1]


@dataclass(frozen=True, slots=True)
class RecordedCase:
    """A case that was recorded, with Flink's own times.

    Args:
        causes, task: what is right, as in its Case.
        late_ns: how late a source emitted a record at most.
    """

    name: str
    job: MeasuredJob
    uses: tuple[TaskUse, ...]
    causes: tuple[str, ...]
    task: str | None
    late_ns: int = 0

    @property
    def is_void(self) -> bool:
        """Whether a healthy job was held up after all: by the machine on which it ran."""
        return "none" in self.causes and self.late_ns >= LATE_NS

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RecordedCase:
        """What `asdict` and JSON made of one."""
        uses = tuple(TaskUse(**each) for each in document["uses"])
        job = MeasuredJob.from_json(document["job"])
        causes, late_ns = tuple(document["causes"]), document.get("late_ns", 0)
        return cls(document["name"], job, uses, causes, document["task"], late_ns)


@dataclass(frozen=True, slots=True)
class Judged:
    """A case with what replay and Flink's metrics say.

    Args:
        is_task_right: replay names it; None where none is to be named.
        is_right: it names the cause as well.
        flinks: the busy task that is not back-pressured.
        is_flink_agreed: it is the task that replay names; None where none is to be named.
    """

    release: str
    case: RecordedCase
    verdict: Verdict
    uses: tuple[TaskUse, ...]
    flinks: str | None
    is_task_right: bool | None
    is_right: bool
    is_flink_agreed: bool | None
    run: str


def judged(recorded: RecordedCase, answers: Sequence[Mapping[str, Any]]) -> Judged:
    """Compare what replay says with what was done to the job, and with Flink's metrics."""
    case, job, uses = recorded, recorded.job, recorded.uses
    verdict = verdict_of(answers, job)
    is_named = None
    if case.task is not None:
        is_named = bool(verdict.tasks) and all(case.task in each for each in verdict.tasks)
    flinks = flinks_bottleneck(uses)
    return Judged(
        release=job.release,
        case=case,
        verdict=verdict,
        uses=uses,
        flinks=flinks,
        is_task_right=is_named,
        is_right=verdict.cause in case.causes and is_named is not False,
        is_flink_agreed=None
        if case.task is None
        else flinks is not None and any(flinks in each for each in verdict.tasks),
        run=job.run,
    )


def record_case(cluster: WarmCluster, case: Case) -> tuple[Tapped, list[TaskUse]]:
    """Run a case through a tap while Flink's metrics are read.

    Raises:
        FlinkError: it failed.
    """
    watch = UseWatch(cluster.cluster)
    with ExitStack() as stack:
        if case.stopped is not None:
            pid = cluster.cluster.task_manager_pids()[case.stopped]
            stack.enter_context(stopped_now_and_then(pid))
        cluster.slow_links(case.slow_links)
        recording = cluster.record(case.exchange, watch)
    return recording, watch.uses()


def print_verdicts(found: Sequence[Judged]) -> None:
    """A table, then what replay and Flink's metrics say about each case."""
    rows = [
        (
            f"{each.case.name}, Flink {each.release}",
            " or ".join(each.case.causes) + (f" at {each.case.task}" if each.case.task else ""),
            f"{each.verdict.cause}"
            + (f" at {', '.join(each.verdict.tasks)}" if each.verdict.tasks else ""),
            _WORD[each.is_task_right],
            "void" if each.case.is_void else _WORD[each.is_right],
            each.flinks or "none",
            _WORD[each.is_flink_agreed],
        )
        for each in found
    ]
    print()
    print_table(
        ("slowed by", "right", "replay says", "task", "all", "Flink's busy task", "agrees"),
        rows,
    )
    for each in found:
        print(f"\n{each.case.name}, Flink {each.release}: {each.run}")
        for text in each.verdict.texts:
            print(f"  replay: {text}")
        for use in each.uses:
            print(
                f"  {use.name}: busy {_share(use.busy)}, most {_share(use.busiest)};"
                f" back-pressured {_share(use.back_pressured)},"
                f" most {_share(use.most_back_pressured)}"
            )
    counted = [each for each in found if not each.case.is_void]
    right = sum(each.is_right for each in counted)
    named = [each.is_task_right for each in found if each.is_task_right is not None]
    asked = [each.is_flink_agreed for each in found if each.is_flink_agreed is not None]
    print(
        f"\nright: {right} of {len(counted)} that are not void, the task alone {sum(named)} of"
        f" {len(named)}; Flink's busy task agrees in {sum(asked)} of {len(asked)}"
    )


_WORD = {True: "yes", False: "NO", None: "-"}


def _share(ms_per_s: float | None) -> str:
    return "unknown" if ms_per_s is None else f"{ms_per_s / 1_000:.0%}"


def _typical(samples: Sequence[Mapping[str, float]], name: str) -> float | None:
    known = [each[name] for each in samples if name in each]
    return median(known) if known else None
