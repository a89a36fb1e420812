"""Trials of the data channel: a job of the load generator on simulated hosts, with whatever goes
wrong, a second job beside it, and another attempt after it has failed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp

from flinknet.config import CREDIT
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.connection import Connection
from flinknet.core.probe import NullProbe, Probe
from flinknet.job.gates import create_producer_connection
from flinknet.job.load.plan import LoadPlan
from flinknet.options import network_config
from flinknet.simulator.channels import SimulatedHosts, no_wrap
from flinknet.simulator.cluster import OPENING_NS, START_NS, Cluster
from flinknet.simulator.link import LinkEnd, LinkSettings
from flinknet.simulator.task_manager import SimulatedTaskManager
from tests.checkers import Watched, check_memory, run_all_checked
from tests.faults import FaultPlan
from tests.load_cluster import load_cluster
from tests.pair import partition_id
from tests.protocol_checker import ProtocolChecker
from tests.simulated_scenario import plan_sources

from .disk import Disk
from .draw import Draw
from .drawn_exchange import (
    DURATION_NS,
    Exchange,
    another,
    buffers_of,
    drawn_exchange,
    read_partition,
)
from .hostile import Stranger, hostile_bytes
from .observer import MarkingProbe, Observer
from .trial import Marks


@cache
def tls_wrap() -> Callable[[Connection, bool], Connection]:
    """What puts TLS around connections; certificates are made when it is first called."""
    from flinknet.runtime.tls import create_tls
    from tests.certificate_set import generate, settings_for

    directory = Path(mkdtemp(prefix="flinknet-campaign-")) / "set"
    generate(directory, "a secret")
    tls = create_tls(network_config(settings_for(directory, "a secret"))[0])
    return lambda connection, is_server: tls.around(connection, is_server=is_server)


def run_exchange(draw: Draw, marks: Marks, probe: Probe | None = None) -> Cluster:
    """Run a trial with all checks. Returns: its first attempt.

    Raises: SimulationError; whatever else is no FlinknetError is a defect, too.
    """
    exchange = drawn_exchange(draw)
    return ExchangeRun(exchange, draw, marks, probe).run()


class ExchangeRun:
    """One run of a trial."""

    def __init__(
        self, exchange: Exchange, draw: Draw, marks: Marks, probe: Probe | None = None
    ) -> None:
        self.exchange = exchange
        self._draw = draw
        self._marks = marks
        self._probe = probe
        self._disk = Disk(exchange.disk)
        network = exchange.load.scenario.network
        self._loads = [exchange.load]
        if exchange.neighbour is not None:
            self._loads.append(exchange.neighbour)
        marks["TLS on the connections"] += exchange.is_encrypted
        self.hosts = SimulatedHosts(
            [len(self._loads) * each for each in buffers_of(exchange.shape)],
            network,
            start_ns=START_NS - OPENING_NS,
            faults=exchange.faults,
            create_data=self._disk.create_data,
            wrap=tls_wrap() if exchange.is_encrypted else no_wrap,
        )
        self._strangers: list[Stranger] = []

    def run(self) -> Cluster:
        """All of it."""
        with self._disk:
            return self._run()

    def _run(self) -> Cluster:
        exchange, faults = self.exchange, self.exchange.faults
        watched = self._watched(self._loads[0], faults, START_NS)
        everything = [watched]
        if exchange.neighbour is not None:
            beside = replace(
                faults,
                resets=(),
                half_opens=(),
                cancels_at_ns=(),
                injections=(),
                pauses=(),
                stalls=(),
            )
            everything.append(self._watched(self._loads[1], beside, START_NS))
        self._invite_strangers()
        observer = Observer(self._marks, [each.cluster for each in everything])
        run_all_checked(
            everything, interval_steps=exchange.interval_steps, look=observer.look, limit=200_000
        )
        observer.note_end(faults)
        self._end(everything)
        if watched.cluster.error is not None and self._draw.chance("restart", 2):
            self._restart()
        if self._strangers:
            self._marks["a stranger connected"] += len(self._strangers)
            answered = sum(each.heard_bytes > 0 for each in self._strangers)
            self._marks["a stranger was answered"] += answered
        self._marks.update(self._disk.reached)
        return watched.cluster

    def _restart(self) -> None:
        """Another attempt on the same hosts, to which nothing happens any more."""
        faults = self.exchange.faults
        for index, _ in faults.crashes:
            self.hosts.replace(index)
        sound = FaultPlan(
            faults.seed,
            faults.piece_bytes_max,
            faults.delay_ns_max,
            checkpoints_end_ns=faults.checkpoints_end_ns,
            clocks=faults.clocks,  # the hosts have them still
        )
        self._disk.repair()
        load = self.exchange.load
        again = another(self.exchange.shape, load, 2, load.scenario.workload)
        start_ns = self.hosts.scheduler.now_ns + OPENING_NS
        watched = self._watched(again, sound, start_ns)
        run_all_checked([watched], interval_steps=self.exchange.interval_steps, limit=200_000)
        self._end([watched])
        self._marks["a job restarted"] += 1

    def _end(self, everything: list[Watched]) -> None:
        for each in everything:
            each.cluster.close()
        for each in everything:
            check_memory(each.cluster)

    def _watched(self, load: LoadPlan, faults: FaultPlan, start_ns: int) -> Watched:
        exchange = self.exchange
        checker = None
        probe: Probe = self._probe or NullProbe()
        if not faults.injections:
            checker = probe = ProtocolChecker(
                load.scenario.seed,
                self._probe,
                is_credit_based=load.scenario.flow_control == CREDIT,
                has_one_clock=not exchange.faults.clocks,
                first_number=faults.first_sequence_number,
            )
        marking = MarkingProbe(self._marks, probe)
        cluster = load_cluster(
            load,
            plan_sources(load, start_ns=start_ns),
            exchange.costs,
            start_ns=start_ns,
            probes=(marking,) * load.scenario.task_managers,
            link=LinkSettings(
                capacity_bytes=exchange.capacity_bytes, high_water_bytes=exchange.high_water_bytes
            ),
            faults=faults,
            hosts=self.hosts,
        )
        return Watched(cluster, checker, checks_records=not exchange.disk.is_rotten)

    def _invite_strangers(self) -> None:
        """Those who may read a blocking partition go: what is read for them and stays where it is
        takes the buffers that others wait for, in Flink, too.
        """
        draw, load = self._draw, self._loads[0]
        partition = partition_id(7)
        if self.exchange.faults.late_partitions_ns is None:
            partition = read_partition(load)
        for number in range(draw.one_of("strangers", (0,) * 7 + (1, 3))):
            name = f"stranger {number}"
            index = draw.below(f"{name} TaskManager", len(self.hosts.task_managers))
            words = [
                hostile_bytes(draw, f"{name} word {word}", (), partition)
                for word in range(draw.one_of(f"{name} words", (1, 0, 3)))
            ]
            stranger = Stranger(
                words,
                hears=not draw.chance(f"{name} is deaf", 4),
                goes=draw.chance(f"{name} goes", 2) or load.scenario.workload.is_blocking,
            )
            serving = create_producer_connection(
                load.scenario.network,
                load.scenario.flow_control,
                self.hosts.partitions[index],
                NullProbe(),
                {},
            )
            at_ns = START_NS + draw.below(f"{name} at", DURATION_NS)
            self._strangers.append(stranger)
            self.hosts.scheduler.at(at_ns, partial(self._visit, index, serving, stranger))

    def _visit(self, index: int, serving: Connection, stranger: Connection) -> None:
        """Connect a stranger, who belongs to no job, to the data port of a TaskManager, which
        closes the connection at the first invalid message.
        """
        hosts = self.hosts
        visitors = SimulatedTaskManager("strangers", hosts.scheduler, NetworkBufferPool(0, 1))
        places = (hosts.task_managers[index], serving), (visitors, stranger)
        ends = [LinkEnd(each, LinkSettings(), place.wake) for place, each in places]
        ends[0].join(ends[1])
        for (place, _), end in zip(places, ends, strict=True):
            end.clock = place.clock
            end.fail = lambda _error: None  # the connection sends it to its peer and then closes
            place.ends.append(end)
            place.wake(hosts.scheduler.now_ns)
