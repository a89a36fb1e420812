"""Disturbed runs: whatever happens, nothing that must not happen does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from flinknet.config import NetworkConfig, RecordSize, Scenario, WorkloadConfig
from flinknet.core.buffers import BufferSlice
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.core.producer import PipelinedSubpartition, connection
from flinknet.core.wire.layout import encode_buffer_response_header
from flinknet.errors import InvariantViolatedError, RemoteTransportError
from flinknet.simulator.cluster import START_NS, Cluster
from tests.campaign.trial import failure_of
from tests.checkers import run_checked
from tests.driving import run_until
from tests.faults import DrawnLostTriggers, FaultPlan, Interval
from tests.protocol_checker import ProtocolChecker
from tests.simulated_scenario import cluster_of
from tests.simulation import MS, NEVER, Rows, disturbed_scenario, run_disturbed, scenario

Forget = Callable[[pytest.MonkeyPatch], None]


ONCE_FAILED = {
    "a pool grew and who waited for it was not served": (
        154,
        {"segment size bytes": 1, "record bytes": 2, "records": 4, "delay": 2, "exhaustions": 3}
        | {"exhaustion 0 length": 3_266_871, "exhaustion 0 index": 1},
    ),
    "an empty buffer of a local channel was not traced": (
        42,
        {"exclusive buffers": 1, "floating buffers": 1, "placement": 3, "records": 8},
    ),
    "buffers came back to a writer while nothing was sent": (
        3037,
        {"flow control": 7, "buffers per channel": 1, "record bytes": 2, "buffer timeout": 3}
        | {"records": 8, "capacity bytes": 3},
    ),
    "a BufferResponse without most of its header took the frames behind it for the rest": (
        26815506230,
        {"exclusive buffers": 1, "end": 12, "injection message": 10},
    ),
    "eight bytes of a frame made a BufferResponse of the message behind them": (
        19533471442,
        {"exclusive buffers": 1, "end": 12, "injection message": 6, "injection damage": 2}
        | {"injection place": 8},
    ),
    "a flush was asked of a TaskManager that had died": (
        33526368120,
        {"parallelism": 2, "placement": 3, "buffer timeout": 1, "rate": 1, "neighbour": 9}
        | {"neighbour records": 1, "end": 10, "end at": 50_008},
    ),
    "a reader of an approximate partition that waits for its consumer was on no list": (
        12332280586,
        {"partition type": 10, "exclusive buffers": 1, "checkpoints": 4, "checkpoint interval": 1}
        | {"checkpoint timeout": 1, "clocks": 7, "clock 0 leap": 3},
    ),
    "a stranger took a partition that a task of the same TaskManager was to read": (
        2141364257,
        {"parallelism": 1, "placement": 3, "request backoff": 2, "end": 12, "end side": 1}
        | {"injection message": 34, "late partitions": 5},
    ),
    "nothing at all was injected into a link that cuts": (
        29651906128,
        {"end": 12, "injection damage": 2, "end at": 50_108, "pieces": 2},
    ),
    "the delays of pieces added up, and barriers piled up on a link that was slower than they": (
        29651907107,
        {"exclusive buffers": 1, "floating buffers": 1, "checkpoints": 6, "checkpoint interval": 1}
        | {"checkpoint timeout": 1, "rate": 1, "records": 8, "pieces": 3, "delay": 2},
    ),
    "a buffer whose records could not be read was not given back": (
        800430,
        {"partition type": 11, "segment size bytes": 1, "record bytes": 3, "records": 6}
        | {"disk": 4, "disk byte": 347},
    ),
    "a full socket was read and a source that waited for it did not go on": (
        424242719,
        {"flow control": 7, "floating buffers": 1, "record bytes": 3, "rate": 1, "records": 6}
        | {"stalls": 4, "stall 1 at": 348_497, "stall 1 length": 337_840, "capacity bytes": 3},
    ),
    "a stranger woke a TaskManager in the middle of its turn, and turns overlapped for ever": (
        18216101112,
        {"parallelism": 2, "segment size bytes": 1, "exclusive buffers": 1, "floating buffers": 2}
        | {"placement": 3, "record bytes": 3, "record spread bytes": 2, "buffer timeout": 1}
        | {"records": 4, "slow consumer": 2, "slow delay": 2, "costs": 1, "strangers": 7}
        | {"stranger 0 at": 1_018_114},
    ),
    "a barrier timed out behind that of the next checkpoint": (
        2667960788,
        {"parallelism": 3, "exclusive buffers": 1, "checkpoints": 6, "checkpoint timeout": 1}
        | {"rate": 1, "records": 8, "delay": 2, "stalls": 3}
        | {"stall 0 at": 2_869_987, "stall 0 length": 4_605_685},
    ),
    "two priority events waited behind the barrier of a blocked channel": (
        160753,
        {"parallelism": 4, "exclusive buffers": 1, "checkpoints": 5, "checkpoint timeout": 1}
        | {"delay": 2, "stalls": 3, "stall 0 at": 1_953_964, "stall 0 length": 8_046_036}
        | {"capacity bytes": 2, "high water bytes": 2, "costs": 1},
    ),
    "a channel was cancelled by somebody else, and its consumer waited": (
        13064944535,
        {"record spread bytes": 3, "records": 4, "end": 12, "end side": 1, "end at": 10_902_148}
        | {"end sooner": 1, "injection receiver": 1, "injection message": 24}
        | {"pieces": 2, "delay": 2},
    ),
    "a disk changed the end of data into another event": (
        13064939818,
        {"parallelism": 3, "partitioner": 5, "partition type": 11, "codec": 1}
        | {"record bytes": 2, "buffer timeout": 1, "rate": 2, "records": 4}
        | {"disk": 4, "disk byte": 748},
    ),
    "a connection gave back what a reader of another one waited for, which had had its turn": (
        18155938339,
        {"parallelism": 1, "partition type": 11, "flow control": 5, "segment size bytes": 1}
        | {"record bytes": 3, "records": 3, "neighbour": 9, "neighbour records": 2}
        | {"pieces": 2, "delay": 2, "capacity bytes": 2},
    ),
    "a blocked channel without exclusive buffers heard of a backlog that its producer had not": (
        296433639,
        {"exclusive buffers": 1, "end": 12, "injection receiver": 1, "injection message": 33},
    ),
    "a barrier that timed out left a buffer that it had announced, and its credit was missing": (
        16770689336,
        {"relays": 11, "parallelism": 4, "partitioner": 2, "segment size bytes": 1}
        | {"exclusive buffers": 1, "floating buffers": 1, "checkpoints": 5, "record bytes": 2}
        | {"buffer timeout": 3, "records": 9, "costs": 1},
    ),
    "a clock stood while another attempt ran, and its relay flushed late": (
        31590297060,
        {"relays": 11, "segment size bytes": 2, "buffer timeout": 1, "rate": 1, "records": 9}
        | {"end": 8, "clocks": 7, "clock 1 leap": 3, "restart": 1},
    ),
    "a reader had a turn with nothing to send, and was said to have had none": (
        8220207896,
        {"parallelism": 4, "partitioner": 4, "floating buffers": 1, "buffers per channel": 1}
        | {"checkpoints": 4, "placement": 3, "record bytes": 1, "buffer timeout": 1}
        | {"debloating": 7, "rate": 1, "records": 8, "slow consumer": 2, "slow delay": 2}
        | {"tick": 7},
    ),
    "a stranger read a blocking partition, stopped, and kept the buffers that the job waited for": (
        15927339837,
        {"partition type": 11, "segment size bytes": 1, "record spread bytes": 3, "records": 9}
        | {"strangers": 8, "stranger 1 word 0 message": 34},
    ),
    "a reader was notified, cancelled, and then put on the list of those that have a turn": (
        26839486563,
        {"parallelism": 4, "record spread bytes": 3, "request timeout": 1, "records": 4, "end": 11}
        | {"end at": 3_460_688, "end sooner": 2, "pieces": 2, "late partitions": 6, "delay": 1}
        | {"clocks": 7, "clock 0 rate": 3, "clock 1 rate": 1, "capacity bytes": 2}
        | {"high water bytes": 2},
    ),
    "a relay flushed less often than the network says": (
        2667960297,
        {"relays": 11, "rate": 1, "records": 2},
    ),
}


@pytest.mark.parametrize(("seed", "choices"), ONCE_FAILED.values(), ids=ONCE_FAILED)
def test_trials_that_once_failed_pass(seed: int, choices: dict[str, int]) -> None:
    failure = failure_of(seed, Counter(), choices)
    assert failure is None, failure.text


def without_backlog_in_the_queue(patch: pytest.MonkeyPatch) -> None:
    poll_run = PipelinedSubpartition.poll_run

    def poll(each: PipelinedSubpartition, buffers: int, size_bytes: int) -> list[BufferSlice]:
        run = poll_run(each, buffers, size_bytes)
        for piece in run:
            piece.backlog_buffers = 0
        return run

    patch.setattr(PipelinedSubpartition, "poll_run", poll)


def without_backlog_in_the_header(patch: pytest.MonkeyPatch) -> None:
    def encode(
        receiver: bytes, index: int, number: int, _backlog: int, kind: int, packed: int, size: int
    ) -> bytes:
        return encode_buffer_response_header(receiver, index, number, 0, kind, packed, size)

    patch.setattr(connection, "encode_buffer_response_header", encode)


@pytest.mark.row("S109")
@pytest.mark.parametrize(
    ("forget_backlog", "complaint"),
    [
        (without_backlog_in_the_queue, "carries backlog 0, [1-9][0-9]* buffers wait"),
        (without_backlog_in_the_header, "arrived with backlog 0, left with [1-9]"),
    ],
)
def test_a_backlog_that_is_always_0_is_noticed_in_every_run_that_has_one(
    monkeypatch: pytest.MonkeyPatch, forget_backlog: Forget, complaint: str
) -> None:
    noticed = 0
    for seed in range(60):
        rows = Rows()
        run_disturbed(seed, rows)
        has_backlog = any(
            row.backlog_buffers > 0 and row.kind == MessageKind.BUFFER_RESPONSE
            for row in rows.rows
            if row.point == TracePoint.RECEIVED
        )
        with monkeypatch.context() as patch:
            forget_backlog(patch)
            if has_backlog:
                with pytest.raises(InvariantViolatedError, match=complaint):
                    run_disturbed(seed)
                noticed += 1
            else:
                run_disturbed(seed)
    assert noticed >= 20


FEW_BUFFERS = NetworkConfig(
    segment_size_bytes=64,
    network_memory_bytes=640_000,
    exclusive_buffers=0,
    max_buffers_per_channel=3,
    max_overdraft_buffers=0,
    buffer_timeout_ns=NEVER,
)
BLOCKED_AT_THE_END = [
    (
        Scenario(
            FEW_BUFFERS,
            WorkloadConfig(
                producers=3,
                consumers=2,
                rate_per_s=10_000.0,
                records=20,
                record_size=RecordSize(8, 8),
                arrivals="bursts",
            ),
            4,
            1665,
        ),
        FaultPlan(
            seed=1665,
            pauses=(
                Interval(1, 8_896_875, 17_577_884),
                Interval(1, 4_597_610, 10_469_958),
                Interval(0, 11_479_794, 13_304_537),
            ),
            exhaustions=(Interval(0, 11_536_353, 15_182_576),),
        ),
    ),
    (
        Scenario(
            replace(FEW_BUFFERS, exclusive_buffers=2, floating_buffers=4, max_overdraft_buffers=20),
            WorkloadConfig(
                producers=2,
                consumers=2,
                partitioner="hash",
                rate_per_s=50_000.0,
                records=300,
                record_size=RecordSize(8, 8),
                arrivals="poisson",
            ),
            2,
            2479,
        ),
        FaultPlan(
            seed=2479,
            piece_bytes_max=7,
            delay_ns_max=MS,
            pauses=(
                Interval(1, 14_166_233, 19_935_188),
                Interval(1, 9_060_365, 14_438_720),
                Interval(0, 2_595_531, 5_818_641),
            ),
            exhaustions=(Interval(0, 10_480_781, 15_243_197),),
        ),
    ),
]


@pytest.mark.parametrize(("loaded", "faults"), BLOCKED_AT_THE_END)
def test_a_source_that_was_blocked_behind_its_last_stop_goes_on(
    loaded: Scenario, faults: FaultPlan
) -> None:
    checker = ProtocolChecker(loaded.seed)
    probes = (checker,) * loaded.task_managers
    run_checked(cluster_of(loaded, probes=probes, faults=faults), checker)


@pytest.mark.parametrize(
    "at_ns", [30_000, 33_000, 37_000, 38_300, 40_000, MS], ids=lambda at_ns: f"reset at {at_ns} ns"
)
def test_a_reset_in_the_middle_of_a_buffer_gives_all_memory_back(at_ns: int) -> None:
    faults = FaultPlan(seed=1, piece_bytes_max=100, delay_ns_max=100, resets=((0, at_ns),))
    checker = ProtocolChecker(1)
    cluster = cluster_of(scenario(MS, records=50_000), probes=(checker, checker), faults=faults)
    run_checked(cluster, checker)
    assert isinstance(cluster.error, RemoteTransportError)


def test_memory_that_others_take_shrinks_pools_to_what_they_were_promised_for_a_while() -> None:
    checker = ProtocolChecker(1)
    cluster = cluster_of(
        scenario(5 * MS, rate_per_s=300_000.0, records=20_000),
        probes=(checker, checker),
        faults=FaultPlan(exhaustions=(Interval(0, 0, 30 * MS), Interval(1, 0, 30 * MS))),
    )
    pools = [cluster.partitions[0].pool, cluster.gates[0].channels[0].buffers.pool]
    assert [pool.size_buffers for pool in pools] == [10, 8]
    run_until(cluster, START_NS + 20 * MS)
    assert [pool.size_buffers for pool in pools] == [2, 1]
    run_until(cluster, START_NS + 30 * MS)
    assert [pool.size_buffers for pool in pools] == [10, 8]
    run_checked(cluster, checker)


def test_a_seed_draws_the_same_faults_and_another_seed_others() -> None:
    assert disturbed_scenario(5) == disturbed_scenario(5)
    plans = [disturbed_scenario(seed)[1] for seed in range(100)]
    assert len({repr(plan) for plan in plans}) == 100
    for kind in ("stalls", "slow_consumers", "pauses", "exhaustions"):
        drawn = sum(bool(getattr(plan, kind)) for plan in plans)
        assert 0 < drawn < 100, kind


def checked(faults: FaultPlan, each: Scenario) -> Cluster:
    checker = ProtocolChecker(each.seed)
    cluster = cluster_of(each, probes=(checker, checker), faults=faults)
    run_checked(cluster, checker)
    return cluster


def test_a_source_that_hears_nothing_of_a_checkpoint_holds_up_that_one_only() -> None:
    each = scenario(MS, rate_per_s=20_000.0, records=2000, producers=2)
    network = replace(each.network, checkpoint_interval_ns=5 * MS, checkpoint_timeout_ns=2 * MS)
    cluster = checked(FaultPlan(lost_triggers=0.3), replace(each, network=network))
    assert cluster.checkpoints is not None
    summary = cluster.checkpoints.coordinator.summary()
    drawn = cluster.checkpoints.is_next_lost
    assert isinstance(drawn, DrawnLostTriggers)
    assert drawn.lost > 0
    assert summary.aborted
    assert summary.completed > 0


def test_memory_that_another_task_gives_back_late_reaches_who_waits_for_it() -> None:
    each = scenario(MS, rate_per_s=100_000.0, records=2000)
    taken = (Interval(0, 2 * MS, 4 * MS), Interval(1, 2 * MS, 4 * MS))
    late = checked(FaultPlan(exhaustions=taken, late_buffers_ns=MS), each)
    at_once = checked(FaultPlan(exhaustions=taken), each)
    assert late.now_ns > at_once.now_ns


def test_gates_may_be_closed_before_their_tasks_have_ended() -> None:
    each = scenario(MS, rate_per_s=100_000.0, records=2000)
    cancelled = FaultPlan(cancels_at_ns=(5 * MS,), closes_gates_first=True)
    assert checked(cancelled, each).error is not None


def test_a_connection_may_break_when_its_job_has_been_cancelled() -> None:
    each = scenario(MS, rate_per_s=100_000.0, records=2000)
    cluster = checked(FaultPlan(cancels_at_ns=(5 * MS,), resets=((0, 6 * MS),)), each)
    assert "it was cancelled" in str(cluster.error)
    assert all(end.is_closed for link in cluster.links.values() for end in link.ends)


def test_no_checkpoint_begins_behind_the_end_of_checkpoints() -> None:
    each = scenario(MS, rate_per_s=20_000.0, records=2000)
    network = replace(each.network, checkpoint_interval_ns=5 * MS)
    cluster = checked(FaultPlan(checkpoints_end_ns=15 * MS), replace(each, network=network))
    assert cluster.checkpoints is not None
    assert cluster.checkpoints.coordinator.summary().triggered == 2  # at 5 and at 10 ms
