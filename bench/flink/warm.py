"""A cluster that stays while jobs come and go, so that its JVMs are warm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from bench.flink.cluster import Cluster, TaskManager
from bench.flink.exchange import GROUPS, Exchange, Outcome, Stage, run, upload
from bench.flink.slow_link import SlowLink
from bench.flink.tap import behind_a_tap
from bench.flink.tapped_job import Tapped, complete, record

SLOTS = 8
"""Of each of the two TaskManagers: as many as a stage may have subtasks."""

WARM_UP = Exchange(
    rate_per_s=4_000,
    buffer_timeout_ms=5,
    checkpoint_interval_ms=1_000,
    warmup_ns=0,
    duration_ns=8_000_000_000,
    producers=2,
    consumers=2,
    partitioner="hash",
    relays=(Stage(2), Stage(2, "forward")),
    arrivals="poisson",
    sizes="exponential",
)
"""What runs first, so that the code of Flink and of the job is compiled."""

_KEYS = {
    # slots that ask for no resource are spread over both TaskManagers: up to 1.20, and since
    "cluster.evenly-spread-out-slots": "true",
    "taskmanager.load-balance.mode": "SLOTS",
}


@dataclass(slots=True)
class WarmCluster:
    """Two TaskManagers of eight slots; a context manager that runs a first job to warm them.

    Args:
        home: of the distribution.
        jar: of the job; see `exchange.build`.
        work: directory that is made, for logs and the runs.
        is_tapped: every job passes a tap of its own; else none does.
        keys: of Flink.
        with_rest: taps ask the cluster for names and metrics.
        with_links: its links can be slowed; see `slow_links`.
    """

    home: Path
    jar: Path
    work: Path
    is_tapped: bool
    keys: Mapping[str, str] = field(default_factory=dict)
    with_rest: bool = True
    with_links: bool = False
    _links: list[SlowLink] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)
    _cluster: Cluster = field(init=False)
    _jar_id: str = ""
    _runs: int = 0

    def __enter__(self) -> WarmCluster:
        self.work.mkdir(parents=True)
        task_managers = [TaskManager(SLOTS, resources=(group,)) for group in GROUPS]
        if self.is_tapped:
            task_managers = behind_a_tap(task_managers, with_links=self.with_links)
        with ExitStack() as stack:
            self._cluster = stack.enter_context(
                Cluster(
                    self.home,
                    self.work,
                    task_managers,
                    {**_KEYS, **self.keys},
                    jars=(self.jar,),
                    metrics_every_ms=200,
                )
            )
            self._jar_id = upload(self._cluster, self.jar)
            if self.with_links:
                self._links = [stack.enter_context(SlowLink(each)) for each in task_managers]
            if self.is_tapped:
                self.record(WARM_UP)
            else:
                self.run(WARM_UP)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def cluster(self) -> Cluster:
        """What runs."""
        return self._cluster

    def slow_links(self, bytes_per_s: Sequence[int | None]) -> None:
        """Limit what leaves each TaskManager from now on; None: no limit."""
        for link, own in zip(self._links, bytes_per_s, strict=True):
            link.bytes_per_s = own

    def run(self, exchange: Exchange) -> Outcome:
        """One job to its end, with Flink's counters.

        Raises:
            FlinkError: it failed, or records are missing.
        """
        work = self._directory()
        done = run(self._cluster, self._jar_id, exchange, work / "job", with_metrics=True)
        return complete(done, work)

    def record(self, exchange: Exchange, watch: Callable[[str], None] | None = None) -> Tapped:
        """One job through a tap, to its end.

        Raises:
            FlinkError: it or the tap failed, or records are missing.
        """
        work = self._directory()
        return record(
            self._cluster, self._jar_id, exchange, work, with_rest=self.with_rest, watch=watch
        )

    def _directory(self) -> Path:
        self._runs += 1
        place = self.work / f"run-{self._runs:02}"
        place.mkdir()
        return place
