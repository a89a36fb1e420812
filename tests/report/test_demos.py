"""What the demos make of their runs: tables, charts, and sentences drawn from the numbers."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from flinknet import results
from flinknet.cli.bench_demo import DEMOS
from flinknet.config import RecordSize, WorkloadConfig
from flinknet.report.charts import Curves, Grid, MessageStep, OverTime, Places
from flinknet.report.demos import MEANINGS, DemoRun, DemoShown, texts, words_of
from flinknet.report.demos.links import timeout, wan
from flinknet.report.demos.overload import back_pressure, debloating, unaligned
from flinknet.report.page import page_of
from flinknet.report.page_parts import Code, Section, Table
from flinknet.report.places import places_of
from tests.report.printing import printed
from tests.report.test_demo_console import mode

MS = 1_000_000
LOAD = WorkloadConfig(rate_per_s=10_000, record_size=RecordSize(200, 200))


def demo_run(
    name: str, result: results.RunResult | None = None, *samples: results.Progress
) -> DemoRun:
    """A run of 500 ms after a warm-up of 100 ms."""
    found = result or mode("credit", 5_000.0).shared
    return DemoRun(name, found, samples, 100 * MS, 600 * MS, 32_768)


def chain(source_waits: float = 0.6) -> DemoRun:
    """Relay and source begin to wait one after the other; the sink is busy."""
    shares = {
        "source 0": (0.1, source_waits, 0.9 - source_waits),
        "relay 1.0": (0.1, 0.8, 0.1),
        "sink 0": (1.0, 0.0, 0.0),
    }
    tasks = {
        name: {
            "busyTimeMsPerSecond": busy * 1000,
            "backPressuredTimeMsPerSecond": waits * 1000,
            "idleTimeMsPerSecond": idle * 1000,
        }
        for name, (busy, waits, idle) in shares.items()
    }
    samples = []
    for at_ms in range(0, 700, 100):
        waited = {"source 0": max(0, at_ms - 400), "relay 1.0": max(0, at_ms - 200), "sink 0": 0}
        measured_ms = max(1, at_ms - 100)
        progress = tuple(
            results.TaskProgress(
                *(name, at_ms / 1000, 0.1, ms / measured_ms),
                in_pool_usage=None if name == "source 0" else 0.5,
                out_pool_usage=None if name == "sink 0" else 0.9,
            )
            for name, ms in waited.items()
        )
        samples.append(
            results.Progress("measuring", at_ms * MS, None, 1, 1.0, 1.0, None, None, (), progress)
        )
    result = replace(mode("credit", 2_500.0).shared, metrics=results.RunMetrics(tasks, {}))  # type: ignore[arg-type]
    return demo_run("chain", result, *samples)


def test_back_pressure_reports_when_each_task_began_to_wait() -> None:
    shown = back_pressure([chain()], LOAD)
    waits_after_ns = shown.figures["runs"]["waits_after_ns"]
    assert waits_after_ns == {"source 0": 400 * MS, "relay 1.0": 200 * MS}
    assert shown.lesson[0].startswith("relay 1.0 was back-pressured 200 ms after the sink slowed")
    assert "source 0 after 400 ms" in shown.lesson[0]
    (places,), pools = shown.charts, shown.pictures[0]
    assert isinstance(places, Places)
    assert isinstance(pools, OverTime)
    waiting = places.curve
    assert waiting is not None
    assert places.names == [each.name for each in pools.series]
    assert places.runs[0].steps[-1].levels == [0.9, 0.5, 0.9, 0.5]
    assert places.runs[0].steps[-1].lines == [
        "500 ms after the sink slowed down; back-pressured: source 0, relay 1.0."
    ]
    assert [each.name for each in waiting.series] == ["source 0", "relay 1.0"]
    assert [each.name for each in pools.series] == [
        *("source 0, output", "relay 1.0, input", "relay 1.0, output", "sink 0, input")
    ]
    out = printed(shown.view, width=100)
    assert "60%" in out
    assert "Back-pressured, a mark is " in out
    (drawn,) = [line for line in out.splitlines() if "relay 1.0 " in line and "█" in line][:1]
    assert drawn.index("█") > drawn.index("relay 1.0") + 15


def test_relays_that_seem_to_wait_out_of_order_are_not_called_an_order() -> None:
    run = chain()
    metrics = run.result.metrics
    assert metrics is not None
    source, relay, sink = metrics.tasks.items()
    tasks = dict((source, relay, ("relay 2.0", relay[1]), sink))
    samples = []
    for sample in run.samples:
        later = replace(
            sample.tasks[1],
            name="relay 2.0",
            back_pressured=max(0, sample.elapsed_ns // MS - 300)
            / max(1, sample.elapsed_ns // MS - 100),
        )
        samples.append(replace(sample, tasks=(*sample.tasks[:2], later, sample.tasks[2])))
    result = replace(run.result, metrics=replace(metrics, tasks=tasks))
    shown = back_pressure([demo_run("chain", result, *samples)], LOAD)
    assert shown.lesson[0].startswith("relay 2.0 was back-pressured 300 ms after")
    assert "out of order" in shown.lesson[0]


def test_a_chain_whose_source_seems_to_wait_first_teaches_nothing() -> None:
    run = chain()
    names = {"source 0": "relay 1.0", "relay 1.0": "source 0"}
    samples = [
        replace(
            sample,
            tasks=tuple(
                replace(each, name=names.get(each.name, each.name)) for each in sample.tasks
            ),
        )
        for sample in run.samples
    ]
    shown = back_pressure([replace(run, samples=tuple(samples))], LOAD)
    assert "relay 1.0, next to it, back-pressured before source 0 is" in shown.lesson[0]


def test_a_source_that_never_waits_teaches_nothing() -> None:
    unexpected, *_ = back_pressure([chain(0.1)], LOAD).lesson
    assert unexpected.startswith("Unexpected")
    assert "Try a longer --duration" in unexpected


def checkpointed(name: str, duration_ms: float, overtaken_bytes: float) -> DemoRun:
    duration = results.LatencySummary(count=9, mean=duration_ms * MS)
    none = results.LatencySummary(count=0)
    checkpoints = results.CheckpointSummary(
        *(9, 9, 0, 0, duration, none, none, duration, overtaken_bytes, 10, 0.0)
    )
    result = mode("credit", 5_000.0).shared
    measured = replace(result.measured, checkpoints=checkpoints)
    spans_ns = ((200 * MS, 200 * MS + round(duration_ms * MS)),)
    return demo_run(name, replace(result, measured=measured, checkpoint_spans_ns=spans_ns))


def test_unaligned_checkpoints_are_faster_and_store_what_they_overtake() -> None:
    shown = unaligned([checkpointed("aligned", 400, 0), checkpointed("unaligned", 8, 65_536)], LOAD)
    assert shown.lesson[0] == (
        "Unaligned, a checkpoint takes 8.00 ms on average instead of 400 ms, and stores 64.0 KiB of"
        " overtaken data."
    )
    places = shown.charts[0]
    assert isinstance(places, Places)
    assert places.curve is not None
    assert [(each.name, each.spans) for each in places.curve.lanes] == [
        ("aligned", ((200 * MS, 600 * MS),)),
        ("unaligned", ((200 * MS, 208 * MS),)),
    ]
    found = [line for line in printed(shown.view).splitlines() if line.startswith("checkpoints,")]
    assert [line.count("━") for line in found] == [8, 1]  # marks of 50 ms
    alike = unaligned([checkpointed("aligned", 9, 0), checkpointed("unaligned", 8, 0)], LOAD)
    assert alike.lesson[0].startswith("Unexpected")


def test_the_first_place_ends_at_the_quota_of_the_channels() -> None:
    run = checkpointed("aligned", 400, 0)
    buffering = run.result.buffering
    assert buffering is not None
    quota = {"taskmanager.network.memory.max-buffers-per-channel": "10"}
    quota |= {"taskmanager.memory.segment-size": "4 kb"}
    bounds = replace(buffering.bounds, subpartition_bytes=1 << 21)
    result = replace(run.result, config=quota, buffering=replace(buffering, bounds=bounds))
    (bound, *_) = places_of({"aligned": result}, OverTime()).runs[0].bounds
    assert len(result.channels) == 2
    assert bound == 80 * 1024
    unknown = replace(result, config={})
    assert places_of({"aligned": unknown}, OverTime()).runs[0].bounds[0] == 1 << 21


@pytest.mark.parametrize("name", DEMOS)
def test_every_demo_says_under_its_title_what_is_shown(name: str) -> None:
    assert "".join(texts(name, "explained", {"target": "100 ms"})).endswith(".")


def test_a_page_says_what_ran() -> None:
    runs = []
    for name, exclusive in (("aligned", "2"), ("unaligned", "4")):
        run = checkpointed(name, 400, 0)
        workload = {"rate_per_s": 10_000.0, "slow_consumers": [{"delay_ns_per_record": 200_000}]}
        config = {"taskmanager.network.memory.buffers-per-channel": exclusive}
        runs.append(replace(run, result=replace(run.result, workload=workload, config=config)))
    view = replace(unaligned(runs, LOAD), command="flinknet bench demo unaligned").view
    about = view.page[-1]
    assert isinstance(about, Section)
    table, command = about.parts
    assert isinstance(table, Table)
    assert [row.cells for row in table.rows] == [
        ["records of each producer in a second", "10000"],
        ["a slow consumer's time for a record", "200 us"],
        ["exclusive buffers of a channel", "2; 4"],
    ]
    assert command == Code("command", "flinknet bench demo unaligned")


def test_both_producers_of_an_overtaking_barrier_have_messages_with_their_names() -> None:
    messages = tuple(MessageStep(at, at, False, "AddCredit +1", (1, 1)) for at in range(2))
    runs = [checkpointed("aligned", 400, 0), checkpointed("unaligned", 8, 65_536)]
    shown = unaligned(
        [replace(each, messages=messages) for each in runs], replace(LOAD, producers=2)
    )
    assert [name for name, _ in shown.channels] == ["producer 0", "producer 1"]


def test_messages_have_the_names_of_flink_and_each_has_a_meaning() -> None:
    none = ("NONE", -1, 0, -1)
    words = [
        words_of("PARTITION_REQUEST", *none, 2),
        words_of("CANCEL_PARTITION_REQUEST", *none, -1),
        words_of("ADD_CREDIT", *none, 3),
        words_of("RESUME_CONSUMPTION", *none, -1),
        words_of("BUFFER_RESPONSE", "PRIORITIZED_EVENT_BUFFER", 7, 38, 4, -1),
        words_of("BUFFER_RESPONSE", "RECOVERY_COMPLETION", 0, 4, 0, -1),
        words_of("BUFFER_RESPONSE", "DATA_BUFFER", 8, 2048, 4, -1),
    ]
    assert words == [
        *("PartitionRequest credit 2", "CancelPartitionRequest", "AddCredit +3"),
        "ResumeConsumption",
        *(
            "Buffer #7 CheckpointBarrier backlog 4",
            "Buffer #0 EndOfOutputChannelStateEvent backlog 0",
        ),
        "Buffer #8 2.00 KiB backlog 4",
    ]
    meanings = {next(x for words, x in MEANINGS.items() if words in each) for each in words}
    assert len(meanings) == len(words)


def test_the_messages_speak_of_barriers_only_where_there_are_some() -> None:
    def lead_with(text: str) -> str:
        run = replace(chain(), messages=(MessageStep(0, 0, True, text, (1, 1)),))
        (section,) = (
            each
            for each in back_pressure([run], LOAD).view.page
            if isinstance(each, Section) and each.id == "messages"
        )
        return section.lead

    assert "barrier" not in lead_with("Buffer #1 2.00 KiB backlog 0")
    assert "around a barrier" in lead_with("Buffer #1 CheckpointBarrier backlog 0")


def debloated(target_ns: int, sizes: tuple[int, ...] = (4096,)) -> DemoShown:
    """Without debloating some 10 KiB are in flight, 11 ms of work; with it 1 KiB."""
    off, on = (mode("credit", 5_000.0).shared for _ in range(2))
    assert on.buffering is not None
    few = [
        replace(each, levels=replace(each.levels, subpartition_bytes=0, input_channel_bytes=1024))
        for each in on.buffering.samples
    ]
    samples = tuple(
        results.DebloatingSample((200 + 200 * index) * MS, size, 1_000_000, 1024, MS)
        for index, size in enumerate(sizes)
    )
    gate = results.DebloatedGate("sink 0", target_ns, samples)
    on = replace(on, buffering=replace(on.buffering, samples=tuple(few)), debloating=(gate,))
    return debloating([demo_run("off", off), demo_run("on", on)], LOAD)


def test_debloating_compares_what_is_in_flight() -> None:
    shown = debloated(5 * MS)
    off, on = (shown.figures["runs"][each] for each in ("off", "on"))
    assert off["buffer_size_bytes"] == 32_768
    assert on["buffer_size_bytes"] == 4096
    assert on["in_flight_bytes"] == 1024
    assert shown.lesson[0] == (
        "With debloating 1.00 KiB (1.02 ms of work) are in flight instead of 11.0 KiB (11.3 ms);"
        " the target of 5 ms is met."
    )
    assert "4.00 KiB at first and 4.00 KiB at the end" in shown.lesson[1]
    assert shown.lesson[1].endswith("without it always 32.0 KiB.")
    (whole,) = shown.curves[1].limits
    assert (whole.value, whole.name) == (32_768, "off")
    places = shown.charts[0]
    assert isinstance(places, Places)
    assert places.curve is not None
    assert "a writer waits all the same" in places.notes[0]
    (limit,) = places.curve.limits
    assert limit.name == "target: 5 ms of work"
    assert limit.value == pytest.approx(5_000)  # bytes that are consumed within it
    assert "needs 200 us for each" in shown.texts("setup")[0]
    assert "Buffer size" in printed(shown.view, width=100)


def test_a_target_that_debloating_misses_is_explained() -> None:
    shown = debloated(MS // 2, (4096, 8192))
    assert "a new size is announced only if it differs by 25% or more" in shown.lesson[-1]
    assert shown.lesson[0].endswith("the target of 500 us is missed.")
    assert '"is_headed":true' not in page_of(shown.page)  # nothing is green


def test_a_target_near_what_is_in_flight_anyway_leaves_nothing_to_shrink() -> None:
    assert (
        debloated(500 * MS)
        .lesson[0]
        .startswith("Unexpected: nothing to shrink. The target (500 ms)")
    )


def timed(name: str, p50: float, buffers: int) -> DemoRun:
    result = mode("credit", 5_000.0).shared
    latency = results.LatencySummary(count=1000, p50=p50 * MS, p99=2 * p50 * MS)
    measured = replace(
        result.measured, latency_ns=latency, buffers=buffers, records=1000, duration_ns=10**9
    )
    return demo_run(name, replace(result, measured=measured))


def test_timeout_says_what_the_shortest_costs() -> None:
    shown = timeout([timed("0", 1, 1000), timed("5ms", 3, 200), timed("100ms", 50, 10)], LOAD)
    assert "p50 falls from 50.0 ms to 1.00 ms" in shown.lesson[0]
    assert "100 times as many buffers" in shown.lesson[0]
    assert len(shown.lesson) == 1
    assert "100" in printed(shown.view, width=100)
    alike = timeout([timed("0", 9, 10), timed("5ms", 3, 200), timed("100ms", 5, 10)], LOAD)
    assert alike.lesson[0].startswith("Unexpected")


def test_a_doubtful_timeout_is_named_and_no_rule_drawn_from_it() -> None:
    runs = [timed("0", 1, 1000), timed("5ms", 3, 200), timed("100ms", 50, 10)]
    disturbed = replace(
        runs[1].result, warnings=(results.RunWarning("disturbed", "others took it"),)
    )
    shown = timeout([runs[0], replace(runs[1], result=disturbed), runs[2]], LOAD)
    assert shown.doubts == ["Warning in 1 of 3 runs (5ms): others took it"]
    text = " ".join(printed(shown.view, width=100).split())
    assert "trust fair: doubtful rows (!): 1 of 3; in 1 of 3 runs (5ms): others took it" in text
    assert len(shown.lesson) == 1
    assert not shown.lesson[0].endswith("(doubtful)")
    assert [row.cells[0] for row in shown.table.rows] == ["0", "! 5ms", "100ms"]
    (grid,) = shown.charts
    assert isinstance(grid, Grid)
    assert [each.mark for each in grid.points] == ["", "doubtful", ""]


def test_a_verdict_from_doubtful_runs_says_so_and_its_trust_is_fair() -> None:
    runs = [timed("0", 1, 1000), timed("5ms", 3, 200), timed("100ms", 50, 10)]
    warned = [(results.RunWarning("disturbed", f"others took it {share}%"),) for share in (7, 9, 8)]
    shown = timeout(
        [
            replace(run, result=replace(run.result, warnings=each))
            for run, each in zip(runs, warned, strict=True)
        ],
        LOAD,
    )
    assert shown.lesson[0].endswith("(doubtful)")
    doubt = "in 3 of 3 runs (0, 5ms, 100ms): others took it 7 … 9%"
    assert shown.doubts == [f"Warning {doubt}"]
    trust = next(each for each in shown.view.headline if each.name == "trust")
    assert trust.clauses == ["fair: doubtful rows (!): 3 of 3", doubt]
    assert doubt in " ".join(printed(shown.view, width=80, details=False).split())
    assert "100ms): others took it 7" in page_of(shown.page)


def test_a_timeout_whose_run_is_invalid_is_no_end_of_the_verdict() -> None:
    runs = [timed("0", 43, 900), timed("1ms", 2, 500), timed("100ms", 50, 10)]
    late = results.RunWarning("rate-not-reached", "rate not reached: 1 of 2 records/s")
    runs[0] = replace(runs[0], result=replace(runs[0].result, warnings=(late,)))
    warned = (results.RunWarning("disturbed", "others took it"),)
    runs[1] = replace(runs[1], result=replace(runs[1].result, warnings=warned))
    shown = timeout(runs, LOAD)
    assert shown.lesson[0].startswith("A buffer timeout of 1ms instead of 100ms: p50 falls from 50")
    assert "The run at 0 is invalid" in shown.lesson[1]
    assert len(shown.lesson) == 2  # it is not blamed for being slower than another
    trust = next(each for each in shown.view.headline if each.name == "trust")
    assert trust.clauses[0] == "poor: in 1 of 3 runs (0): rate not reached: 1 of 2 records/s"
    (grid,) = shown.charts
    assert isinstance(grid, Grid)
    assert [each.mark for each in grid.points] == ["invalid", "doubtful", ""]


def test_a_timeout_that_is_slower_than_a_longer_one_is_unexpected() -> None:
    runs = [timed("0", 1, 1000), timed("1ms", 9, 500), timed("5ms", 3, 200), timed("9ms", 50, 10)]
    assert "at 1ms p50 is 9.00 ms, higher than the 3.00 ms at 5ms" in timeout(runs, LOAD).lesson[1]


def test_sockets_of_a_connection_that_stands_still_are_full_whatever_their_limit() -> None:
    """The kernel raises a limit later, while the consumer catches up."""
    result = mode("tcp", 100.0).shared
    assert result.buffering is not None
    first, second, third, *_ = result.buffering.samples
    second = replace(second, is_reading=False)
    third = replace(third, is_reading=False, is_writable=False)
    buffering = replace(result.buffering, samples=(first, second, third))
    result = replace(result, buffering=buffering)
    ends = (("A.1", "A.2"), ("B.3", "B.4"))
    places = places_of({"tcp": result}, OverTime(), {0: "for B.3", 1: "for B.4"}, ends=ends)
    full = [[places.names[at] for at in each.full] for each in places.runs[0].steps]
    assert full == [[], [], ["3 socket, sender", "4 socket, receiver"]]


def test_buffers_that_left_full_are_named() -> None:
    runs = [timed("0", 1, 1000), timed("5ms", 3, 200), timed("100ms", 40, 16)]
    flushed = replace(runs[-1].result.measured, flushes=results.FlushCounts(6, 10, 0))
    runs[-1] = replace(runs[-1], result=replace(runs[-1].result, measured=flushed))
    shown = timeout(runs, LOAD)
    assert "At 100ms, 6 of 16 buffers left because their segment was full" in shown.table.notes[-1]


def far_runs(*rates: float) -> list[DemoRun]:
    """A run for each amount of credit and round trip, each link allowing 1.25 times its rate."""
    trips = ("0", "1ms", "10ms", "50ms")
    names = [f"{trip}, {buffers} buffers" for buffers in (10, 72) for trip in trips]
    found = mode("credit", 5_000.0).shared
    return [
        demo_run(
            name,
            replace(
                found,
                config={"taskmanager.network.memory.buffers-per-channel": "64"},
                measured=replace(found.measured, throughput_records_per_s=rate),
                link_records_per_s=None if name.startswith("0,") else 1.25 * rate,
            ),
        )
        for name, rate in zip(names, rates, strict=True)
    ]


def test_wan_shows_the_rate_that_credit_allows_over_a_round_trip() -> None:
    shown = wan(far_runs(4e6, 2e6, 2e5, 4e4, 4e6, 4e6, 2e6, 3.6e5), LOAD)
    assert shown.lesson[0] == (
        "Over a round trip of 50ms, 10 buffers of 32.0 KiB carry 40.0 k records/s, 1% of the rate"
        " without delay; 72 buffers carry 9.0 times as many."
    )
    (curves,) = shown.pictures
    assert isinstance(curves, Curves)
    assert [each.name for each in curves.series][:2] == ["10 buffers", "10 buffers, credit allows"]
    assert curves.series[1].values == [None, 2.5e6, 2.5e5, 5e4]
    colors = [each.color for each in curves.series]
    assert colors[0] == colors[1] != colors[2] == colors[3]
    assert [each.is_bound for each in curves.series] == [False, True] * 2
    assert "exclusive buffers; here they take 2.00 MiB for each channel" in shown.lesson[-1]
    out = printed(shown.view, width=100)
    assert re.search("credit allows +reached", out)
    assert re.search(r"50ms, 72 buffers +360 k +450 k +80%", out)
    assert '"title":"Records per second"' in page_of(shown.page)
    assert wan(far_runs(*[4e6] * 8), LOAD).lesson[0].startswith("Unexpected")
