"""From reports to one result: totals, what limited the run, what to doubt, and when it fails."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flinknet.config import NetworkConfig, Scenario, SlowConsumer, WorkloadConfig
from flinknet.errors import RunFailedError
from flinknet.histogram import LogLinearHistogram
from flinknet.job.load.plan import LoadPlan, load_plan_of
from flinknet.job.load.run_input import PAUSED_NS
from flinknet.results import DISTURBED_BY_STRANGERS, STRANGERS, Cause, RunResult, Strangers, Taken
from flinknet.runtime.cluster.collected import Collected, ProgressMeter
from flinknet.runtime.cluster.control_messages import Start
from flinknet.runtime.cluster.reports import (
    ConsumerChannelReport,
    ProducerChannelReport,
    ReadChannel,
    Report,
    Statistics,
    TaskCounts,
    WrittenChannel,
)
from flinknet.runtime.cluster.run_result import assemble, check_records

S = 1_000_000_000
START = Start(start_ns=S, measured_from_ns=2 * S, measured_to_ns=3 * S, end_ns=3 * S)
EMPTY = LogLinearHistogram().to_bytes()


def load_of(**workload: object) -> LoadPlan:
    return load_plan_of(Scenario(NetworkConfig(), replace(WorkloadConfig(), **workload)))  # type: ignore[arg-type]


def histogram(*values: int) -> bytes:
    found = LogLinearHistogram()
    found.add(np.array(values, np.int64))
    return found.to_bytes()


def consumed(
    channel: int = 0, records: int = 1000, *, measured: int = 800, **faults: int
) -> ConsumerChannelReport:
    return ConsumerChannelReport(
        channel,
        records,
        measured,
        measured * 100,
        2 * S + S // 2,
        histogram(*range(1, measured + 1)),
        EMPTY,
        faults.get("lost", 0),
        faults.get("repeated", 0),
        faults.get("reordered", 0),
    )


def produced(channel: int = 0, records: int = 1000, starved_ns: int = 0) -> ProducerChannelReport:
    return ProducerChannelReport(channel, records, starved_ns, 10, 40, 9)


def collected(*reports: Report) -> Collected:
    return Collected(reports=dict(enumerate(reports)))


def result_of(
    upstream: Report, downstream: Report, *, start: Start = START, **workload: object
) -> RunResult:
    return assemble(load_of(**workload), collected(upstream, downstream), start, None)


UPSTREAM = Report(
    producer_channels=(produced(),), buffers=10, events=3, reasons=(0, 6, 2, 1, 1), busy_share=0.5
)
DOWNSTREAM = Report(
    consumer_channels=(consumed(),), credit_announced=12, credit_messages=4, busy_share=0.5
)


def test_totals_are_added_up_over_task_managers() -> None:
    result = result_of(UPSTREAM, DOWNSTREAM)
    measured = result.measured
    assert (measured.records, measured.bytes, measured.buffers, measured.events) == (
        800,
        80_000,
        10,
        3,
    )
    assert measured.duration_ns == S
    assert measured.throughput_records_per_s == 800
    assert measured.throughput_bytes_per_s == 80_000
    assert (measured.backlog_buffers.mean, measured.backlog_buffers.max) == (4, 9)
    assert (measured.credits.announced, measured.credits.messages) == (12, 4)
    assert (measured.flushes.full, measured.flushes.timeout, measured.flushes.event) == (6, 2, 2)
    assert measured.latency_ns.count == 800
    assert measured.latency_uncorrected_ns == measured.latency_ns
    (channel,) = result.channels
    assert (channel.producer, channel.consumer, channel.records) == (0, 0, 800)
    assert result.workload["rate_per_s"] == "max"
    assert result.config["execution.buffer-timeout.interval"] == "100 ms"


def test_without_an_end_the_run_lasts_until_its_last_record() -> None:
    result = result_of(UPSTREAM, DOWNSTREAM, start=Start(S, 2 * S, None, None))
    assert result.measured.duration_ns == S // 2


def test_a_run_without_records_has_no_figures() -> None:
    nothing = Report(consumer_channels=(consumed(records=0, measured=0),))
    silent = Report(producer_channels=(ProducerChannelReport(0, 0, 0, 0, 0, 0),))
    result = result_of(silent, nothing)
    assert result.measured.throughput_records_per_s is None
    assert result.measured.backlog_buffers.mean is None
    assert [warning.code for warning in result.warnings] == ["few-samples"]


def test_records_that_were_due_and_never_sent_are_counted_in_a_warning() -> None:
    start = replace(START, give_up_ns=13 * S)
    result = result_of(UPSTREAM, DOWNSTREAM, start=start, rate_per_s=2000.0, duration_ns=S)
    (warning,) = [each for each in result.warnings if each.code == "given-up"]
    assert warning.text.startswith(
        "3.00 k of 4.00 k records that were due had not been sent 10.0 s"
    )
    whole = result_of(UPSTREAM, DOWNSTREAM, start=start, rate_per_s=500.0, duration_ns=S)
    endless = result_of(UPSTREAM, DOWNSTREAM, start=START, rate_per_s=2000.0, records=4000)
    assert "given-up" not in {each.code for each in (*whole.warnings, *endless.warnings)}


def test_a_run_that_gave_all_up_has_no_other_records() -> None:
    nothing = Report(consumer_channels=(consumed(records=800, measured=0),))
    start = replace(START, give_up_ns=13 * S)
    result = result_of(UPSTREAM, nothing, start=start, rate_per_s=2000.0, duration_ns=S)
    (warning,) = [each for each in result.warnings if each.code == "given-up"]
    assert "others" not in warning.text


def test_starved_time_is_a_share_of_the_measured_part_without_its_drain() -> None:
    late = replace(consumed(), last_measured_ns=6 * S)
    upstream = replace(UPSTREAM, producer_channels=(produced(starved_ns=S),))
    result = result_of(upstream, replace(DOWNSTREAM, consumer_channels=(late,)))
    assert result.measured.duration_ns == 4 * S
    assert result.verdict is not None
    assert (result.verdict.cause, result.verdict.share) == (Cause.SLOW_TASKS, 1.0)


def with_times(source: float, sink: float, **of_reports: float) -> list[Report]:
    """Reports of a source that waits for its output, and a sink that is busy, for these shares."""
    times = {"source 0": (0.0, source), "sink 0": (sink, 0.0)}
    metrics = {
        name: {
            "busyTimeMsPerSecond": 1000 * busy,
            "idleTimeMsPerSecond": 1000 * (1 - busy - waits),
            "backPressuredTimeMsPerSecond": 1000 * waits,
            "numRecordsIn": 1000,
        }
        for name, (busy, waits) in times.items()
    }
    upstream, downstream = (
        replace(report, tasks={name: metrics[name]}, **of_reports)  # type: ignore[arg-type]
        for report, name in ((UPSTREAM, "source 0"), (DOWNSTREAM, "sink 0"))
    )
    return [upstream, downstream]


@pytest.mark.parametrize(
    ("reports", "rate_per_s", "cause", "text"),
    [
        (with_times(0.9, 1.0), 2000.0, Cause.SLOW_TASKS, "consumer 0 of 1 is busy 100%"),
        (with_times(0.9, 0.1), 2000.0, Cause.FEW_BUFFERS, "for each channel instead of 10"),
        (with_times(0.0, 0.3), 800.0, Cause.BUFFER_TIMEOUT, "nothing holds the job up"),
        (with_times(0.2, 0.3, busy_share=0.9), None, Cause.SLOW_HOST, "event loop that is busy"),
        (with_times(0.2, 0.3), None, Cause.NONE, "they emit as fast as they can"),
        (with_times(0.2, 0.3, stolen_share=0.3), 2000.0, Cause.SLOW_HOST, "processor that others"),
        (with_times(0.9, 0.1, stolen_share=0.07), None, Cause.SLOW_HOST, "others had for 7%"),
        (with_times(0.2, 0.3, stolen_share=0.03), 2000.0, Cause.SLOW_HOST, "the machine: records"),
        (with_times(0.2, 0.3, stood_still_ns=S // 2), 800.0, Cause.SLOW_HOST, "stood still for"),
    ],
)
def test_the_verdict_follows_from_the_times_of_tasks_and_task_managers(
    reports: list[Report], rate_per_s: float | None, cause: Cause, text: str
) -> None:
    workload = {} if rate_per_s is None else {"rate_per_s": rate_per_s}
    start = replace(START, give_up_ns=13 * S)
    result = assemble(load_of(**workload), collected(*reports), start, None)
    assert result.verdict is not None
    assert result.verdict.cause is cause, result.limited_by
    assert text in result.limited_by
    assert result.limited_by == f"{result.verdict.text}."


def taken(per_s: float, *, behind_ns: int) -> Report:
    """A sink that took so many records a second by the clock, and its last one so late."""
    own = replace(consumed(), taken_records_per_s=per_s, last_measured_ns=3 * S + behind_ns)
    return replace(DOWNSTREAM, consumer_channels=(own,))


def test_a_last_flush_behind_the_end_is_no_queue() -> None:
    """800 records/s, of which those of the last 100 ms came with the flush after the end."""
    result = result_of(UPSTREAM, taken(725, behind_ns=60_000_000), rate_per_s=800.0)
    assert result.measured.throughput_records_per_s == pytest.approx(755, abs=1)
    assert not result.warnings


def test_a_queue_that_grew_in_the_measured_part_is_told_and_the_rate_was_not_kept() -> None:
    result = result_of(UPSTREAM, taken(600, behind_ns=60_000_000), rate_per_s=800.0)
    (warning,) = result.warnings
    assert warning.code == "rate-not-reached"
    # 200 fell due and were not taken, 80 of them may wait for a flush
    assert "not reached: 600 of 800 records/s" in warning.text
    assert "the queue grew by 120 records" in warning.text


def test_a_source_that_is_late_although_it_is_idle_was_held_up_by_the_machine() -> None:
    texts = []
    for busy in (0.12, 0.97):
        upstream = replace(UPSTREAM, late_ns_max=20_000_000, busy_share=busy)
        result = result_of(upstream, taken(800, behind_ns=0), rate_per_s=800.0)
        texts += [each.text for each in result.warnings if each.code == "schedule-missed"]
    idle, full = texts
    assert "the machine is the cause" in idle
    assert "--rate" not in idle
    assert "Lower --rate" in full
    assert "machine" not in full


def test_records_that_wait_for_a_consumer_which_is_to_pause_are_not_the_machines() -> None:
    paused = (SlowConsumer(0, PAUSED_NS, S),)
    upstream = replace(UPSTREAM, late_ns_max=20_000_000, busy_share=0.1)
    result = result_of(upstream, taken(400, behind_ns=0), rate_per_s=800.0, slow_consumers=paused)
    texts = {each.code: each.text for each in result.warnings}
    for code in ("rate-not-reached", "schedule-missed"):
        assert "A consumer pauses" in texts[code]
        assert "quiet" not in texts[code]


@pytest.mark.parametrize("others", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("starved", [0.0, 0.04, 0.2])
@pytest.mark.parametrize("busy", [0.1, 0.6, 0.95])
def test_all_that_is_said_of_one_run_names_one_cause(
    busy: float, starved: float, others: float
) -> None:
    upstream = replace(
        UPSTREAM,
        late_ns_max=20_000_000,
        busy_share=busy,
        stolen_share=others,
        producer_channels=(produced(starved_ns=round(starved * S)),),
    )
    reports = [upstream, replace(taken(600, behind_ns=0), busy_share=busy)]
    start = replace(START, give_up_ns=13 * S)
    run = assemble(load_of(rate_per_s=800.0), collected(*reports), start, None)
    texts = {each.code: each.text for each in run.warnings}
    is_load = "Lower --rate" in texts["schedule-missed"]
    assert is_load is ("Lower --rate" in texts["given-up"])
    assert is_load is not ("the machine is the cause" in texts["given-up"])
    assert is_load is not ("the machine is the cause" in texts["schedule-missed"])
    assert is_load is ("Lower --rate" in texts["rate-not-reached"])
    assert run.verdict is not None
    assert is_load or run.verdict.is_healthy or run.verdict.place is not None


@pytest.mark.parametrize("per_s", [600, 800])
def test_late_records_of_an_idle_run_are_the_machines_whether_the_rate_was_kept_or_not(
    per_s: int,
) -> None:
    upstream = replace(UPSTREAM, late_ns_max=20_000_000, busy_share=0.1, stolen_share=0.1)
    starved = replace(upstream, producer_channels=(produced(starved_ns=S // 12),))
    for each in (upstream, starved):
        downstream = replace(taken(per_s, behind_ns=0), busy_share=0.1)
        result = result_of(each, downstream, rate_per_s=800.0)
        assert not any("Lower --rate" in warning.text for warning in result.warnings)
        assert any("the machine is the cause" in warning.text for warning in result.warnings)


@pytest.mark.parametrize(
    ("upstream_ns", "which"), [(2 * S, "its processes"), (0, "tm-1")], ids=["all", "one"]
)
def test_a_run_that_was_stopped_is_not_blamed_on_its_consumers_or_on_other_processes(
    upstream_ns: int, which: str
) -> None:
    starved = (produced(starved_ns=9 * S),)
    upstream = replace(UPSTREAM, producer_channels=starved, late_ns_max=2 * S, busy_share=0.1)
    reports = [
        replace(upstream, stood_still_ns=upstream_ns),
        replace(taken(600, behind_ns=0), busy_share=0.1, stood_still_ns=2 * S),
    ]
    result = result_of(*reports, rate_per_s=800.0)
    stood = f"{which} stood still for 2.00 s"
    texts = {each.code: each.text for each in result.warnings}
    assert result.verdict is not None
    assert result.verdict.place in ("tm-0", "tm-1")
    assert "stood still" in result.limited_by
    assert texts["stood-still"].startswith(f"{stood}: they were stopped (SIGSTOP, Ctrl-Z)")
    assert texts["rate-not-reached"].endswith(f"Run again: {stood}.")
    assert "disturbed" not in texts


def test_a_lower_rate_is_not_the_first_advice_where_a_task_manager_waited_for_a_cpu() -> None:
    upstream = replace(UPSTREAM, late_ns_max=20_000_000, busy_share=0.95, stolen_share=0.16)
    result = result_of(upstream, taken(600, behind_ns=0), rate_per_s=800.0)
    (text,) = (each.text for each in result.warnings if each.code == "schedule-missed")
    assert "A TaskManager waited for a CPU 16% of the time: run again on a quiet machine." in text
    assert "Lower --rate only if" in text


def test_doubts_are_told_with_what_to_do() -> None:
    result = result_of(
        replace(UPSTREAM, late_ns_max=20_000_000, stolen_share=0.2, trace_error="disk full"),
        DOWNSTREAM,
        rate_per_s=800.0,
    )
    found = {warning.code: warning.text for warning in result.warnings}
    assert set(found) == {"schedule-missed", "disturbed", "trace-incomplete"}
    assert "20.0 ms" in found["schedule-missed"]
    assert "tm-0: disk full" in found["trace-incomplete"]


@pytest.mark.parametrize(
    ("stolen", "host", "codes"),
    [
        (0.004, 0.009, []),
        (0.004, None, []),
        (0.011, None, ["p99-disturbed"]),
        (0.004, 0.012, ["p99-disturbed"]),
        (0.02, 0.06, ["disturbed"]),
    ],
)
def test_what_others_took_is_doubted_from_where_it_reaches_p99(
    stolen: float, host: float | None, codes: list[str]
) -> None:
    reports = [UPSTREAM, replace(DOWNSTREAM, stolen_share=stolen)]
    taken = Taken(host, {"kdamond": 0.02}, 0.03, 1e6)
    result = assemble(load_of(), collected(*reports), START, None, taken=taken)
    assert [warning.code for warning in result.warnings] == codes
    assert result.processors is not None
    assert result.processors.lacked_share == {"tm-0": 0.0, "tm-1": stolen}
    assert result.processors.others_share == {"kdamond": 0.02}
    assert (result.processors.outside_share, result.processors.outside_slice_ns) == (0.03, 1e6)


@pytest.mark.parametrize(
    ("visits", "code", "text"),
    [
        ([Strangers(), Strangers()], None, ""),
        (
            [Strangers(1, 0, 97), Strangers(1, 1, 97)],
            STRANGERS,
            "2 connections, 1 request, 194 B received; find",
        ),
        ([Strangers(), Strangers(1, 0, 1 << 20)], DISTURBED_BY_STRANGERS, "throughput may be too"),
        ([Strangers(1, 300), Strangers(1, 300)], DISTURBED_BY_STRANGERS, "600 requests"),
        ([Strangers(99), Strangers()], DISTURBED_BY_STRANGERS, "99 connections"),
    ],
)
def test_strangers_at_the_data_ports_are_named_and_doubted_if_they_sent_much(
    visits: list[Strangers], code: str | None, text: str
) -> None:
    upstream, downstream = (
        replace(report, strangers=each)
        for report, each in zip((UPSTREAM, DOWNSTREAM), visits, strict=True)
    )
    warnings = result_of(upstream, downstream).warnings
    assert [each.code for each in warnings] == ([code] if code else [])
    assert all(text in each.text for each in warnings)


def test_task_managers_that_share_cores_are_not_blamed_on_others() -> None:
    reports = collected(UPSTREAM, replace(DOWNSTREAM, stolen_share=0.26))
    (own,) = assemble(load_of(), reports, START, None, taken=Taken(0.01, cores=1)).warnings
    assert (own.code, own.text.split(",")[0]) == ("cores-shared", "2 TaskManagers share 1 core")
    (host,) = assemble(load_of(), reports, START, None, taken=Taken(0.3, cores=1)).warnings
    assert host.code == "disturbed"


def test_a_p99_of_a_long_buffer_timeout_is_not_the_machines() -> None:
    slow = replace(consumed(), latency=histogram(*[60_000_000] * 800))
    downstream = replace(DOWNSTREAM, stolen_share=0.02, consumer_channels=(slow,))
    result = assemble(load_of(), collected(UPSTREAM, downstream), START, None)
    assert not result.warnings


@pytest.mark.parametrize(
    ("sent", "report", "words"),
    [
        (1000, consumed(), None),
        (1003, consumed(), "3 lost, 0 repeated"),
        (998, consumed(), "0 lost, 2 repeated"),
        (1000, consumed(lost=4), "4 lost"),
        (1000, consumed(repeated=1, reordered=2), "1 repeated, 2 out of order"),
    ],
)
def test_a_record_too_few_or_too_many_fails_the_run(
    sent: int, report: ConsumerChannelReport, words: str | None
) -> None:
    reports = [
        Report(producer_channels=(produced(records=sent),)),
        Report(consumer_channels=(report,)),
    ]
    if words is None:
        check_records(reports)
        return
    with pytest.raises(RunFailedError, match=f"channel 0: .*{words}"):
        check_records(reports)


def statistics_of(
    records: int, size: int, *, latency: bytes = b"", read: tuple[ReadChannel, ...] = ()
) -> Statistics:
    """Of a sink that has measured so many records."""
    attempt = load_of().tasks[1].attempt_id
    return Statistics(0, (TaskCounts(attempt, "sink 0", {}, latency, records, size),), read)


def test_progress_tells_rates_of_the_last_interval_and_the_state_of_channels() -> None:
    meter = ProgressMeter(load_of(producers=1, consumers=2, duration_ns=S), Collected())
    assert meter.progress("starting", 0).fraction == 0.0
    meter.start = START

    def sample(at_ns: int, records: int, size: int) -> Statistics:
        read = ReadChannel(0, records, size), ReadChannel(1, 0, 0)
        found = statistics_of(records, size, latency=histogram(*[50] * 600), read=read)
        return replace(found, at_ns=at_ns)

    meter.add(0, Statistics(0, written=(WrittenChannel(0, 4, 2, 0),)), 2 * S)
    meter.add(1, sample(2 * S, 1000, 10_000), 2 * S)
    meter.add(1, sample(2 * S + S // 2, 1500, 15_000), 2 * S + S // 2)
    progress = meter.progress(None, 2 * S + S // 2)
    assert progress.phase == "measuring"
    assert progress.fraction == 0.75
    assert (progress.records, progress.elapsed_ns) == (1500, S + S // 2)
    assert (progress.throughput_records_per_s, progress.throughput_bytes_per_s) == (1000, 10_000)
    first, second = progress.channels
    assert (first.throughput_records_per_s, second.throughput_records_per_s) == (1000, 0)
    assert (first.backlog_buffers, first.credits_available) == (4, 2)
    assert first.rate_age_ns == 0
    assert meter.progress(None, 3 * S).channels[0].rate_age_ns == S // 2
    assert second.backlog_buffers is None
    assert meter.progress(None, S).phase == "warming up"
    assert meter.progress(None, 4 * S).phase == "draining"
    stored = ProgressMeter(load_of(partition_type="blocking", duration_ns=S), Collected())
    stored.start = START
    assert stored.progress(None, 4 * S).phase == "reading"
    assert meter.progress("finished", 9 * S).fraction == 1.0


def test_the_rate_of_a_channel_does_not_depend_on_when_its_counts_arrive() -> None:
    meter = ProgressMeter(load_of(producers=1, consumers=1, duration_ns=S), Collected())
    meter.start = START
    for at_ns, now_ns, records in ((S, S, 0), (2 * S, 3 * S, 1000), (3 * S, 3 * S + 1, 2000)):
        meter.add(1, Statistics(at_ns, read=(ReadChannel(0, records, 1),)), now_ns)
        rate_per_s = meter.progress(None, now_ns).channels[0].throughput_records_per_s
        assert rate_per_s == (1000 if records else 0)


def test_the_total_rate_does_not_depend_on_when_other_task_managers_speak() -> None:
    meter = ProgressMeter(load_of(producers=1, consumers=1, duration_ns=S), Collected())
    meter.start = START
    for tenth in range(0, 10, 2):
        meter.add(1, statistics_of(1000 * tenth, 100), 2 * S + tenth * S // 10)
        meter.add(0, Statistics(0), 2 * S + tenth * S // 10 + S // 8)
        if tenth:
            assert meter.progress(None, 3 * S).throughput_records_per_s == 10_000


def test_a_consumer_that_takes_a_buffer_now_and_then_is_not_told_to_stand_still() -> None:
    """A buffer of 320 records each 1.6 s, looked at five times a second."""
    meter = ProgressMeter(load_of(producers=1, consumers=1, duration_ns=S), Collected())
    meter.start = START
    rates = []
    for fifth in range(100):
        now_ns = 2 * S + fifth * S // 5
        meter.add(1, statistics_of(320 * (fifth // 8), 100), now_ns)
        rates.append(meter.progress(None, now_ns).throughput_records_per_s)
    assert min(rates[20:]) > 100
    assert max(rates[20:]) < 300
    for second in range(1, 12):
        now_ns = 22 * S + second * S
        meter.add(1, statistics_of(320 * 12, 100), now_ns)
    assert meter.progress(None, now_ns).throughput_records_per_s == 0


def test_progress_by_records_counts_the_copies_of_a_broadcast() -> None:
    meter = ProgressMeter(
        load_of(producers=2, consumers=3, partitioner="broadcast", records=100), Collected()
    )
    meter.start = Start(S, 2 * S, None, None)
    meter.add(1, statistics_of(300, 1), 2 * S)
    assert meter.progress(None, 2 * S).fraction == 0.5
    endless = ProgressMeter(load_of(), Collected())
    endless.start = Start(S, 2 * S, None, None)
    assert endless.progress(None, 9 * S).fraction is None
    assert endless.progress(None, 9 * S).phase == "measuring"
