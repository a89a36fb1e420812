"""What a trial of the data channel is: a job, and what goes wrong, drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from flinknet.config import (
    BLOCKING,
    CREDIT,
    PARTITIONERS,
    PIPELINED,
    PIPELINED_APPROXIMATE,
    PIPELINED_BOUNDED,
    TCP,
    NetworkConfig,
    RecordSize,
    Scenario,
    SlowConsumer,
    WorkloadConfig,
)
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.job.descriptor import TaskDeploymentDescriptor
from flinknet.job.load.plan import LoadPlan, load_plan_of
from flinknet.simulator.cluster import OPENING_NS, START_NS
from flinknet.simulator.cost_model import TYPICAL_COSTS, CostModel
from tests.faults import ChangedClock, ClockChange, FaultPlan, Injection, Interval
from tests.pair import partition_id

from .disk import SOUND, DiskFaults
from .draw import Choices, Draw
from .hostile import (
    cancels_a_channel,
    ends_within_a_frame,
    hostile_bytes,
    waits_for_floating_buffers,
)

MS = 1_000_000
NEVER = -1
DURATION_NS = 20 * MS
"""Within which faults happen."""

QUICK_CREDIT = replace(TYPICAL_COSTS, back_ns=30_000.0)
"""Costs with credit that is back before the next buffer arrives."""

SILENCE_NS = 200 * MS
"""After which a connection is reset that may wait for what never comes, as in Flink: the rest of a
message, data of a channel that was cancelled in its name, credit for buffers that a blocked channel
got from an announcement in the name of its producer."""

CHECKPOINTS_END_NS = 2 * DURATION_NS
"""After which no checkpoint begins: barriers that come faster than they pass a channel would make
the job ever slower, and its end a question of time."""

MEMORY_BUFFERS = 256
"""Of each TaskManager, at most; checking them takes its time."""

SHAPE_SEEDS = 8
"""Successive seeds whose jobs have the same plan."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A trial.

    Attributes:
        shape: what the plans of its jobs and their attempts depend on.
        load: of the job that things happen to.
        neighbour: a job on the same hosts to which nothing of its own happens; None for none.
        is_encrypted: TLS around every connection.
        capacity_bytes, high_water_bytes: of the sockets of a link.
        interval_steps: between two looks at the invariants.
        costs: of the steps; with those of a loop, sockets are read in streams, and buffers in runs.
    """

    shape: Scenario
    load: LoadPlan
    faults: FaultPlan
    neighbour: LoadPlan | None = None
    is_encrypted: bool = False
    disk: DiskFaults = SOUND
    capacity_bytes: int = 4 << 20
    high_water_bytes: int = 0
    interval_steps: int = 1
    costs: CostModel = TYPICAL_COSTS


def drawn_exchange(draw: Draw) -> Exchange:
    """Anything."""
    group = draw.of_group(SHAPE_SEEDS)
    if group.is_free:
        shape, drawn = _free_shape(group.seed)
        draw.drawn.update(drawn)
    else:
        shape = _shape(group)
    load = _load_of(draw, shape)
    scenario, workload = load.scenario, load.scenario.workload
    has_neighbour = draw.chance("neighbour", 10)
    neighbour = None
    if has_neighbour:
        records = draw.one_of("neighbour records", (1, 5, 20))
        neighbour = another(shape, load, 1, replace(workload, records=records))
    is_encrypted = draw.chance("encrypted", 48)
    is_pipelined = not workload.is_blocking
    disk = SOUND if is_pipelined else _disk_faults(draw)
    faults = _faults(
        draw,
        shape,
        load,
        may_exhaust=not has_neighbour,
        is_encrypted=is_encrypted,
        first_sequence_number=_first_number(draw) if is_pipelined else 0,
        closes_gates_first=draw.chance("gates first", 2),
        lost_triggers=draw.one_of("lost triggers", (0.0, 0.3)),
        checkpoints_end_ns=CHECKPOINTS_END_NS,
        late_buffers_ns=draw.one_of("late buffers", (0, MS // 2)),
        storage_fails=disk.may_end_the_job,
    )
    if faults.slow_consumers:
        workload = replace(workload, slow_consumers=faults.slow_consumers)
        load = replace(load, scenario=replace(scenario, workload=workload))
    return Exchange(
        shape,
        load,
        faults,
        neighbour,
        is_encrypted,
        disk,
        draw.one_of("capacity bytes", (4 << 20, 4 << 20, 1000)),
        draw.one_of("high water bytes", (0, 1000, 100)),
        draw.one_of("interval steps", (1, 10, 10, 10, 10, 10, 10)),
        draw.one_of("costs", (TYPICAL_COSTS, QUICK_CREDIT)),
    )


def _first_number(draw: Draw) -> int:
    """0, or so high that numbers wrap after a few messages."""
    last = draw.one_of("first number", (0, 2**31 - 1))
    return last and last - draw.below("numbers before the wrap", 9)


def another(shape: Scenario, load: LoadPlan, job: int, workload: WorkloadConfig) -> LoadPlan:
    """Another job, or attempt, of the same shape."""
    shape = replace(shape, seed=shape.seed + job)
    return _with_load(shape, load.scenario.network, workload, load.scenario.seed + job)


@lru_cache(maxsize=4)
def buffers_of(shape: Scenario) -> list[int]:
    """The most that a job of this shape takes of each TaskManager."""
    needs = _plan_of(shape).buffers()
    return [min(each.total_buffers, each.most_buffers) for each in needs]


def read_partition(load: LoadPlan) -> ResultPartitionID:
    """One that is read already, so that nobody else can; none of the job where somebody could."""
    if load.scenario.workload.partition_type == PIPELINED_APPROXIMATE:
        return partition_id(7)
    return load.channels[0].partition_id


def _disk_faults(draw: Draw) -> DiskFaults:
    kinds = ("sound", "short", "full", "unreadable", "rotten", "rotten event")
    kind = draw.one_of("disk", kinds)
    return DiskFaults(
        draw.one_of("disk write bytes", (100, 10)) if kind == "short" else 0,
        draw.one_of("disk room bytes", (5000, 500, 50)) if kind == "full" else 0,
        1 + draw.below("disk read", 4) if kind == "unreadable" else 0,
        1 + draw.below("disk byte", 3000) if kind == "rotten" else 0,
        1 + draw.below("disk event", 6) if kind == "rotten event" else 0,
    )


_plan_of = lru_cache(maxsize=16)(load_plan_of)


@lru_cache(maxsize=4)
def _links_of(shape: Scenario) -> int:
    """Connections between the TaskManagers of a job of this shape."""
    return len(_plan_of(shape).connections())


def _load_of(draw: Draw, shape: Scenario) -> LoadPlan:
    """A job. What its plan depends on is the same for SHAPE_SEEDS successive seeds: planning takes
    as long as a trial.
    """
    return _with_load(shape, *_run_of(draw, shape), draw.seed)


def _with_load(
    shape: Scenario, network: NetworkConfig, workload: WorkloadConfig, seed: int
) -> LoadPlan:
    plan = _flushing_plan_of(shape, network.buffer_timeout_ns)
    scenario = replace(shape, network=network, workload=workload, seed=seed)
    return LoadPlan(scenario, plan.plan, plan.tasks, plan.channels)


@lru_cache(maxsize=16)
def _flushing_plan_of(shape: Scenario, timeout_ns: int) -> LoadPlan:
    """Of tasks that flush what they write so often."""
    plan = _plan_of(shape)
    return replace(plan, tasks=tuple(_with_timeout(each, timeout_ns) for each in plan.tasks))


def _with_timeout(task: TaskDeploymentDescriptor, timeout_ns: int) -> TaskDeploymentDescriptor:
    if not task.outputs:
        return task
    outputs = (replace(each, buffer_timeout_ns=timeout_ns) for each in task.outputs)
    return replace(task, outputs=tuple(outputs))


@lru_cache(maxsize=1)
def _free_shape(seed: int) -> tuple[Scenario, Choices]:
    """Of the seeds of a group, and what was chosen for it."""
    draw = Draw(seed).of_group(SHAPE_SEEDS)
    return _shape(draw), draw.drawn


def _shape(draw: Draw) -> Scenario:
    """What a plan depends on."""
    one_of = draw.one_of
    relays = one_of("relays", (0,) * 11 + (1,))
    producers, consumers = one_of("parallelism", ((1, 1), (1, 2), (2, 1), (2, 2), (3, 2), (1, 1)))
    partitioner = one_of("partitioner", [each for each in PARTITIONERS if each != "forward"])
    if producers == consumers and draw.chance("forward", 3):
        partitioner = "forward"
    partition_type = one_of(
        "partition type",
        (*[PIPELINED_BOUNDED] * 9, PIPELINED, PIPELINED_APPROXIMATE, BLOCKING),
    )
    is_blocking = partition_type == BLOCKING
    flow_control = one_of("flow control", (CREDIT,) * 5 + (TCP,))
    segment_size_bytes = one_of("segment size bytes", (256, 64, 1024, 4096))
    network = NetworkConfig(
        segment_size_bytes=segment_size_bytes,
        network_memory_bytes=segment_size_bytes * MEMORY_BUFFERS,
        exclusive_buffers=one_of("exclusive buffers", (2, 0, 1, 0, 4)),
        floating_buffers=one_of("floating buffers", (8, 1, 4)),
        max_buffers_per_channel=one_of("buffers per channel", (10, 3)),
        max_overdraft_buffers=one_of("overdraft buffers", (20, 0, 5)),
        compression_codec=one_of("codec", ("NONE", "LZ4", "ZSTD")),
        sort_shuffle_min_buffers=16,
        batch_shuffle_read_bytes=segment_size_bytes * 64,
        max_tcp_connections=one_of("connections", (1, 1, 1, 2)),
    )
    if not is_blocking and flow_control == CREDIT:
        mode = one_of("checkpoints", ("none",) * 3 + ("aligned", "unaligned", "timing out"))
        if mode != "none":
            network = replace(
                network,
                checkpoint_interval_ns=one_of("checkpoint interval", (3 * MS, MS // 2)),
                checkpoint_timeout_ns=one_of("checkpoint timeout", (1000 * MS, 2 * MS, MS)),
                unaligned_checkpoints=mode != "aligned",
                aligned_checkpoint_timeout_ns=MS // 5 if mode == "timing out" else 0,
            )
        # A barrier that times out leaves a buffer that it had announced, which may be empty: Flink,
        # too, does not see that it is finished, and its credit is missing elsewhere.
        if mode == "timing out" and not network.exclusive_buffers:
            network = replace(network, floating_buffers=8)
    workload = WorkloadConfig(
        producers=producers,
        consumers=consumers,
        partitioner=partitioner,
        partition_type=partition_type,
        relays=relays,
    )
    placement = one_of("placement", ("split", "split", "split", "spread"))
    task_managers = relays + 2 + one_of("more TaskManagers", (0, 0, 0, 1, 2))
    return Scenario(network, workload, task_managers, draw.seed, flow_control, placement)


def _run_of(draw: Draw, shape: Scenario) -> tuple[NetworkConfig, WorkloadConfig]:
    """What a plan does not depend on."""
    one_of, workload = draw.one_of, shape.workload
    low_bytes = one_of("record bytes", (8, 20, 100, 300))
    high_bytes = low_bytes + one_of("record spread bytes", (0, 0, 50, 200))
    network = replace(
        shape.network,
        buffer_timeout_ns=one_of("buffer timeout", (0, MS, 5 * MS, NEVER)),
        debloating_enabled=(
            shape.flow_control == CREDIT
            and not workload.is_blocking
            and draw.chance("debloating", 8)
        ),
        debloating_period_ns=2 * MS,
        debloating_samples=2,
        debloating_target_ns=MS,
        min_segment_size_bytes=32,
        starting_segment_size_bytes=64,
        partition_request_timeout_ns=one_of("request timeout", (10_000 * MS, MS, 0)),
        request_backoff_initial_ms=one_of("request backoff", (100, 1, 150)),
    )
    return network, replace(
        workload,
        rate_per_s=one_of("rate", (0.0, 10_000.0, 50_000.0)),
        records=one_of("records", (1, 0, 2, 3, 5, 5, 10, 10, 20, 40)),
        record_size=RecordSize(low_bytes, high_bytes),
        arrivals=one_of("arrivals", ("constant", "poisson", "bursts")),
    )


def _faults(
    draw: Draw,
    shape: Scenario,
    load: LoadPlan,
    *,
    may_exhaust: bool,
    is_encrypted: bool,
    **others: Any,
) -> FaultPlan:
    """What goes wrong. Args: others: of the plan, as they are."""
    scenario = load.scenario
    one_of, below, chance = draw.one_of, draw.below, draw.chance
    consumers = scenario.workload.consumers

    def at_ns(name: str) -> int:
        return below(f"{name} at", DURATION_NS)

    def intervals(kind: str, indices: int) -> tuple[Interval, ...]:
        found = []
        for number in range(one_of(f"{kind}s", (0, 0, 0, 1, 2))):
            name = f"{kind} {number}"
            from_ns = at_ns(name)
            to_ns = from_ns + 1 + below(f"{name} length", DURATION_NS // 2)
            found.append(Interval(below(f"{name} index", indices), from_ns, to_ns))
        return tuple(found)

    links = _links_of(shape)
    end = one_of(
        "end",
        (
            *("none",) * 8,
            *("reset", "half-open", "crash", "cancel", "injection", "cancel"),
        ),
    )
    if not links and end in ("reset", "half-open", "injection"):
        end = "cancel"
    link, side = below("end link", max(links, 1)), below("end side", 2)
    end_at_ns = at_ns("end")
    end_ns = end_at_ns // one_of("end sooner", (1, 4, 16))
    slow: tuple[SlowConsumer, ...] = ()
    if chance("slow consumer", 3):
        delay_ns = one_of("slow delay", (100, 10_000, 100_000))
        slow = (SlowConsumer(below("slow index", consumers), delay_ns),)
    injections: tuple[Injection, ...] = ()
    cancels_at_ns: tuple[int, ...] = ()
    resets: tuple[tuple[int, int], ...] = ()
    if end == "reset":
        resets = ((link, end_ns),)
    elif end == "cancel":
        cancels_at_ns = (end_ns,)
        if links and chance("reset behind the end", 2):
            resets = ((link, cancels_at_ns[0] + below("reset behind the end by", MS)),)
    if end == "injection":
        receivers = [each.receiver_id for each in load.channels if not each.is_local]
        partition = read_partition(load)
        data = hostile_bytes(draw, "injection", receivers, partition)
        injections = (Injection(link, side, end_ns, data),)
        may_wait = ends_within_a_frame(data) or cancels_a_channel(data, receivers)
        if side == 0 and scenario.flow_control == CREDIT and not scenario.network.exclusive_buffers:
            may_wait = may_wait or waits_for_floating_buffers(data, receivers)
        if may_wait:
            resets = ((link, SILENCE_NS),)
    pieces = one_of("pieces", (0, 0, 10, 40))
    late_ns = one_of("late partitions", (None, None, None, None, None, MS // 2, 3 * MS, 50 * MS))
    return FaultPlan(
        seed=draw.seed,
        piece_bytes_max=pieces and max(_bytes_of(scenario) // pieces, 200 if is_encrypted else 20),
        delay_ns_max=one_of("delay", (0, 1000, MS)),
        stalls=intervals("stall", links) if links else (),
        resets=resets,
        half_opens=((link, side, end_ns),) if end == "half-open" else (),
        crashes=(
            ((below("end TaskManager", scenario.task_managers), end_ns),) if end == "crash" else ()
        ),
        cancels_at_ns=cancels_at_ns,
        injections=injections,
        slow_consumers=slow,
        pauses=intervals("pause", consumers),
        exhaustions=intervals("exhaustion", scenario.task_managers) if may_exhaust else (),
        late_partitions_ns=late_ns,
        tick_ns=one_of("tick", (0, 0, 0, 0, 0, 0, 0, MS)),
        clocks=_clocks(draw, scenario) if chance("clocks", 8) else (),
        **others,
    )


def _bytes_of(scenario: Scenario) -> int:
    workload = scenario.workload
    records = (workload.records or 0) * workload.producers * workload.copies
    return int(records * workload.record_size.mean_bytes)


def _clocks(draw: Draw, scenario: Scenario) -> tuple[ChangedClock, ...]:
    found = []
    for index in range(scenario.task_managers):
        changes = [
            ClockChange(
                START_NS - OPENING_NS // 2,
                rate_ppm=1_000_000 + 1000 * draw.one_of(f"clock {index} rate", (0, 1, -1, 100)),
            )
        ]
        leap_ns = draw.one_of(f"clock {index} leap", (0, 0, 5 * MS, -5 * MS))
        if leap_ns:
            changes.append(
                ClockChange(
                    START_NS + draw.below(f"clock {index} at", DURATION_NS),
                    leap_ns,
                    changes[0].rate_ppm,
                )
            )
        found.append(ChangedClock(index, tuple(changes)))
    return tuple(found)
