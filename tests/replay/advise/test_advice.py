"""Targets, choices and patches, on points whose answer is plain to see."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigError
from flinknet.options import effective_flink_keys
from flinknet.replay.advise.advice import (
    UNKNOWN_ERROR,
    advice,
    advice_of_job,
    all_meet,
    are_alike,
    are_met,
    choose,
    chosen,
    frontier_of,
    patch_of,
    timeout_of,
    withheld,
)
from flinknet.replay.advise.targets import Target
from flinknet.report.advice import recommendations
from flinknet.report.export import replay_rows
from flinknet.results import (
    OPEN_TAIL,
    Advice,
    BacklogSummary,
    Choice,
    JobAnswer,
    JobObserved,
    JobPoint,
    LatencySummary,
    ModelError,
    SituationAdvice,
    TaskTimeouts,
    TradeOffPoint,
    without_open_tails,
)

MS = 1_000_000
EXACT = ModelError(0.0, 0.0, 0.0)


def point(
    timeout_ns: int,
    p99_ms: float,
    buffers_per_s: float,
    *,
    floating: int = 8,
    is_recorded: bool = False,
    throughput: float = 1000.0,
) -> TradeOffPoint:
    network = NetworkConfig(buffer_timeout_ns=timeout_ns, floating_buffers=floating)
    return TradeOffPoint(
        config=dict(effective_flink_keys(network)),
        throughput_records_per_s=throughput,
        latency_ns=LatencySummary(count=1000, p50=p99_ms * MS / 2, p99=p99_ms * MS),
        backlog_buffers=BacklogSummary(0.0, 0),
        buffers_per_s=buffers_per_s,
        is_recorded=is_recorded,
        memory_bytes=(2 + floating) * 32768,
    )


POINTS = [
    point(0, 0.2, 1000.0),
    point(5 * MS, 5.0, 200.0),
    point(10 * MS, 10.0, 100.0, is_recorded=True),
    point(10 * MS, 10.0, 100.0, floating=2),
    point(10 * MS, 30.0, 100.0, floating=4),
    point(100 * MS, 100.0, 10.0),
    point(-1, 5000.0, 6.0),
]


def in_situation(of: TradeOffPoint, p99_ms: float, **situation: object) -> TradeOffPoint:
    """The same setting in another situation, with another latency."""
    latency = LatencySummary(count=1000, p50=p99_ms * MS / 2, p99=p99_ms * MS)
    return replace(of, latency_ns=latency, is_recorded=False, **situation)  # type: ignore[arg-type]


FASTER = [in_situation(each, 18.0, rate_factor=2.0) for each in POINTS[:3]]


def chosen_in(advised: Advice | SituationAdvice) -> int | None:
    return advised.choice.point


def test_each_situation_that_is_asked_for_has_a_choice_of_its_own() -> None:
    points = [POINTS[5], replace(POINTS[2], is_recorded=True), *FASTER]
    told = advice(points, [Target.parse("p99<=20ms")], EXACT, asked=range(2, 5))
    (situation,) = told.situations
    assert (situation.rate_factor, chosen_in(situation)) == (2.0, 4)
    assert told.choice == situation.choice
    both = advice(points, [Target.parse("p99<=20ms")], EXACT)
    assert [chosen_in(each) for each in both.situations] == [1, 4]
    assert chosen_in(both) == 1


def test_other_situations_do_not_compete() -> None:
    faster = in_situation(POINTS[0], 0.001, rate_factor=0.5)
    assert frontier_of([*POINTS, faster]) == [0, 1, 3, 5, 6, 7]
    choice = choose([*POINTS, faster], [Target.parse("p99<=1us")], EXACT)
    assert (choice.point, choice.nearest) == (None, 0)


def test_a_choice_that_no_key_of_flink_makes_says_so() -> None:
    tcp = in_situation(POINTS[2], 10.0, flow_control="tcp")
    told = advice([*POINTS, tcp], [Target.parse("p99<=20ms")], EXACT)
    credit, other = told.situations
    assert credit.beyond_keys == ()
    assert (other.choice.point, other.choice.patch) == (7, "")
    assert "flow control tcp is that of Flink before 1.5" in other.beyond_keys[0]


def test_a_target_gives_the_longest_timeout_that_holds_it_with_the_cheapest_buffers() -> None:
    choice = choose(POINTS, [Target.parse("p99 <= 20ms")], EXACT)
    assert (choice.point, choice.is_safe, choice.margin) == (3, True, 0.5)
    assert "floating-buffers-per-gate: 2" in choice.patch
    assert choice.patch.startswith("# Flink 2.x has no such option")


def test_the_error_of_the_model_is_kept_free() -> None:
    target = Target.parse("p99<=12ms")
    assert choose(POINTS, [target], EXACT).point == 3
    assert choose(POINTS, [target], ModelError(0.0, 0.0, -0.3)).point == 1
    only = [each for each in POINTS if each is not POINTS[0] and each is not POINTS[1]]
    unsafe = choose(only, [target], ModelError(0.0, 0.0, -0.3))
    assert (unsafe.point, unsafe.is_safe) == (1, False)


def test_the_margin_of_the_next_longer_timeout_shows_why_it_is_not_the_choice() -> None:
    close = choose(POINTS, [Target.parse("p99<=10.2ms")], EXACT)
    assert (close.point, close.next_longer_ns) == (1, 10 * MS)
    assert close.next_longer_margin == pytest.approx(0.2 / 10.2)
    past = choose(POINTS, [Target.parse("p99<=20ms")], EXACT)
    assert past.next_longer_margin == -4.0
    alike = [point(each * MS, 5.0, 200.0, is_recorded=each == 5) for each in (5, 6)]
    left = choose(alike, [Target.parse("p99<=20ms")], EXACT)
    assert (left.point, left.next_longer_ns, left.next_longer_margin) == (0, 6 * MS, None)


def test_several_targets_hold_at_once() -> None:
    slow = replace(POINTS[3], throughput_records_per_s=500.0)
    points = [*POINTS[:3], slow, *POINTS[4:]]
    targets = [Target.parse("p99<=20ms"), Target.parse("throughput>=900/s")]
    assert choose(points, targets, EXACT).point == 2


def test_a_target_that_nothing_holds_names_the_nearest() -> None:
    choice = choose(POINTS, [Target.parse("p50<=50us")], EXACT)
    assert (choice.point, choice.nearest, choice.patch) == (None, 0, "")
    assert choice.margin == pytest.approx(-1.0)


@pytest.mark.parametrize("targets", [["p99.9<=20ms"], ["p99.9<=20ms", "p99<=200ms"]])
def test_a_target_that_cannot_be_judged_is_unknown(targets: list[str]) -> None:
    found = choose(POINTS, [Target.parse(each) for each in targets], EXACT)
    assert (found.point, found.is_known) == (None, False)
    recorded = next(each for each in POINTS if each.is_recorded)
    unknown = advice_of_job(replace(found, nearest=None), recorded)
    ((said, _code),) = recommendations(replace(whole(), advice=unknown))
    assert said.name.startswith(f"unknown whether a setting meets {', '.join(targets)}")
    assert said.is_doubt
    missed = choose(POINTS, [Target.parse(each) for each in ("p99.9<=20ms", "p99<=1us")], EXACT)
    assert missed.is_known
    assert missed.nearest is not None


def test_of_the_nearest_ones_the_one_with_the_least_memory_is_named() -> None:
    points = [point(0, 40.0, 100.0, floating=each, is_recorded=each == 8) for each in (8, 2, 4)]
    assert choose(points, [Target.parse("p99<=20ms")], EXACT).nearest == 1


def test_of_an_interval_the_greatest_decides() -> None:
    def between(timeout_ns: int, middle_ms: float, high_ms: float) -> TradeOffPoint:
        high = LatencySummary(count=1000, p99=high_ms * MS)
        return replace(point(timeout_ns, middle_ms, 50.0), latency_high_ns=high)

    points = [POINTS[2], between(40 * MS, 40.0, 45.0), between(50 * MS, 49.7, 57.8)]
    target = Target.parse("p99<=53ms")
    choice = choose(points, [target], EXACT)
    assert (choice.point, choice.is_safe) == (1, True)
    assert choice.margin == pytest.approx(8 / 53)
    assert target.margin(points[2]) == pytest.approx(-4.8 / 53)
    assert target.margin(between(0, 12.0, 11.7)) == pytest.approx(41 / 53)


def test_flink_reads_whole_milliseconds_and_gets_no_others() -> None:
    points = [point(500_000, 0.5, 500.0), point(0, 0.2, 1000.0), POINTS[2]]
    assert choose(points, [Target.parse("p99<=1ms")], EXACT).point == 1
    own = [replace(points[0], is_recorded=True), point(0, 0.2, 1000.0)]
    assert choose(own, [Target.parse("p99<=1ms")], EXACT).point == 0


def test_where_all_are_alike_what_was_recorded_stays() -> None:
    points = [
        point(each * MS, 10.0 + each / 10, 100.0 - each / 10, is_recorded=each == 5)
        for each in (1, 5, 10)
    ]
    off = ModelError(0.05, 0.05, 0.2)
    told = advice(points, [Target.parse("p99<=50ms")], off)
    assert told.situations[0].is_alike
    assert (told.choice.point, told.choice.patch) == (1, "")
    differ = advice(points, [Target.parse("p99<=50ms")], EXACT)
    assert (differ.situations[0].is_alike, chosen_in(differ)) == (False, 2)
    cheaper = [*points, point(5 * MS, 10.5, 99.5, floating=2)]
    assert not advice(cheaper, [], off).situations[0].is_alike


def test_a_model_that_is_far_off_advises_nothing() -> None:
    assert withheld(ModelError(0.1, None, -0.5), POINTS) is None
    why_not = withheld(ModelError(0.1, None, -0.51), POINTS)
    assert why_not == "the model misses the recorded p99 by more than 50%"
    told = advice(POINTS, [Target.parse("p99<=20ms")], EXACT, why_not=why_not)
    assert (told.frontier, told.choice) == ((), None)
    assert (told.situations, told.withheld) == ((), why_not)


def test_where_only_p99_is_far_off_the_rest_is_predicted_without_it() -> None:
    error = ModelError(0.1, 0.05, 0.9)
    assert (error.misses, error.is_tail_off) == (None, True)
    both = "the model misses the recorded p50 and p99 by more than 50%"
    assert ModelError(0.1, 0.6, 0.9).misses == both
    points = [each.without_tail for each in POINTS]
    of_p99, of_p50 = (
        choose(points, [Target.parse(each)], EXACT) for each in ("p99<=20ms", "p50<=5ms")
    )
    assert (of_p99.point, of_p99.is_known) == (None, False)
    assert of_p50.point is not None


def test_a_p99_that_is_left_out_takes_no_margin_from_other_limits() -> None:
    """An exchange and a job alike."""
    off, target = ModelError(0.0, 0.05, 0.9), Target.parse("mean<=12ms")
    points = [
        replace(each, latency_ns=replace(each.latency_ns, mean=each.latency_ns.p99)).without_tail
        for each in POINTS[:3]
    ]
    job = [JobPoint.of(each, (timeout_of(each),)) for each in points]
    for found in (choose(points, [target], off), chosen(job, [target], off)):
        assert (found.point, found.is_safe) == (2, True)
    alike = [
        replace(each, buffers_per_s=100.0, memory_bytes=1, latency_ns=LatencySummary(1, p50=p50))
        for each, p50 in zip(points, (1.0, 1.2, 1.4), strict=True)
    ]
    assert not are_alike(alike, off)


def test_without_its_tail_a_prediction_has_no_p99_of_any_clock_or_edge() -> None:
    edge = replace(POINTS[0], since_source_ns=POINTS[0].latency_ns)
    found = JobPoint.of(edge, (0,), (edge,)).without_tail
    both = (found, *found.edges)
    summaries = [each.latency_ns for each in both] + [each.since_source_ns for each in both]
    assert summaries == [edge.latency_ns.without_tail] * 4
    assert edge.latency_ns.p99 is not None


def test_a_p99_whose_interval_says_nothing_is_left_out_of_a_job_or_of_an_edge() -> None:
    near, far = (
        replace(
            POINTS[1],
            latency_low_ns=LatencySummary(1000, p50=1.0 * MS, p99=low_ms * MS),
            latency_high_ns=LatencySummary(1000, p50=4.0 * MS, p99=high_ms * MS),
        )
        for low_ms, high_ms in ((2.0, 19.0), (0.4, 41.0))
    )
    assert without_open_tails(near) == near
    of_edge = without_open_tails(JobPoint.of(near, (5 * MS,), (near, far)))
    assert of_edge.latency_ns == near.latency_ns
    assert [each.latency_ns.p99 for each in of_edge.edges] == [5.0 * MS, None]
    of_job = without_open_tails(JobPoint.of(far, (5 * MS,), (near,)))
    assert (of_job.latency_ns.p50, of_job.latency_ns.p99) == (2.5 * MS, None)
    assert of_job.edges == (near,)
    assert of_job.notes == (f"{OPEN_TAIL}: the ends of its interval differ by a factor of 102",)


def test_a_model_of_unknown_error_advises_nothing() -> None:
    """As of a part that is too short for the recorded setting, and not for a shorter timeout."""
    unknown = ModelError(None, None, None)
    why_not = withheld(unknown, POINTS)
    assert why_not == f"{UNKNOWN_ERROR}: nothing was recorded to check the model with"
    lacking = [replace(each, throughput_records_per_s=None) for each in POINTS if each.is_recorded]
    others = [each for each in POINTS if not each.is_recorded]
    said = withheld(unknown, [*lacking, *others])
    assert said == f"{UNKNOWN_ERROR}: the recorded setting could not be predicted"
    found = advice(POINTS, [Target.parse("p99<=20s")], unknown, why_not=why_not)
    assert (found.frontier, found.choice, are_met([found])) == ((), None, False)
    nothing = [replace(each, throughput_records_per_s=None) for each in POINTS]
    assert withheld(unknown, nothing) is None


def test_where_the_backlog_contradicts_the_predictions_nothing_is_advised() -> None:
    unknown = LatencySummary(count=0)
    why = "the recorded backlog implies more"
    points = [replace(each, latency_ns=unknown, why_no_latency=why) for each in POINTS]
    why_not = withheld(EXACT, points)
    assert why_not == "the recorded backlog contradicts the predicted latency"
    for text in ("p99<=20s", "throughput>=1/s"):
        found = advice(points, [Target.parse(text)], EXACT, why_not=why_not)
        assert (found.frontier, found.choice, found.withheld) == ((), None, why_not)
        assert not are_met([found])


def test_targets_are_met_when_each_situation_of_each_run_has_a_setting() -> None:
    def answer(text: str, points: list[TradeOffPoint], why_not: str | None = None) -> Advice:
        return advice(points, [Target.parse(text)], EXACT, why_not=why_not)

    holds, misses = answer("p99<=19ms", POINTS), answer("p99<=1us", POINTS)
    silent = replace(POINTS[2], latency_ns=LatencySummary(count=0), throughput_records_per_s=None)
    unknown = answer("p99<=19ms", [silent])
    assert are_met([holds])
    assert are_met([holds, unknown])
    assert not are_met([holds, misses])
    assert are_met([unknown]) is None
    assert are_met([holds, answer("p99.9<=19ms", POINTS)]) is None
    assert are_met([misses, answer("p99.9<=19ms", POINTS)]) is False
    assert not are_met([holds, answer("p99<=19ms", POINTS, "off")])
    assert not are_met([answer("p99<=17ms", [*POINTS, *FASTER])])
    assert are_met([answer("p99<=19ms", [*POINTS, *FASTER])])


def test_a_patch_is_what_differs_in_flinks_keys() -> None:
    assert patch_of(POINTS[1], POINTS[2]) == "execution.buffer-timeout.interval: 5 ms"
    assert patch_of(POINTS[6], POINTS[2]) == "execution.buffer-timeout.enabled: false"
    assert patch_of(POINTS[2], POINTS[6]).splitlines() == [
        "execution.buffer-timeout.enabled: true",
        "execution.buffer-timeout.interval: 10 ms",
    ]
    assert patch_of(POINTS[2], POINTS[2]) == ""


def test_the_whole_advice_is_that_of_the_recorded_situation() -> None:
    found = advice(POINTS, [Target.parse("p99<=20ms")], EXACT)
    assert found.frontier == (0, 1, 3, 5, 6)
    assert chosen_in(found) == 3
    assert advice(POINTS, [], EXACT).choice is None


@pytest.mark.parametrize(
    "text",
    [
        *("p42<=1ms", "p99", "p99<=", "p99<=0", "throughput>=max"),
        *(f"backlog<={bound}" for bound in ("0", "-1", "nan", "inf", "x")),
    ],
)
def test_a_target_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a target; write .* such as p99<=20ms"):
        Target.parse(text)
    with pytest.raises(ConfigError, match="has no unit"):
        Target.parse("p99<=5")


@pytest.mark.parametrize(
    ("text", "right"),
    [("p99>=1ms", "p99<=1ms"), ("backlog>5", "backlog<=5"), ("throughput<=5/s", "throughput>=5/s")],
)
def test_a_bound_on_the_wrong_side_is_written_on_the_right_one(text: str, right: str) -> None:
    with pytest.raises(ConfigError, match=f"is a bound on the wrong side; write {right}$"):
        Target.parse(text)


def test_a_target_is_shown_with_the_relation_that_is_tested() -> None:
    shown = [Target.parse(each).text for each in ("p99<20ms", "throughput > 5/s", "p50 <= 1ms")]
    assert shown == ["p99<=20ms", "throughput>=5/s", "p50 <= 1ms"]


def whole(*target: str) -> JobAnswer:
    """A job of two edges at three timeouts, and with another one on its second edge."""
    timeouts = [(0, 0), (5 * MS, 5 * MS), (10 * MS, 10 * MS)]
    points = [JobPoint.of(*each, ()) for each in zip(POINTS[:3], timeouts, strict=True)]
    points.insert(1, JobPoint.of(point(10 * MS, 3.0, 90.0), (10 * MS, 0), ()))
    targets = [Target.parse(each) for each in target]
    observed = JobObserved(1000.0, LatencySummary(count=0), None)
    recorded = next(each for each in points if each.is_recorded)
    return JobAnswer(
        path="run",
        edges=("A → B", "B → C"),
        feeding=(None, 0),
        observed=observed,
        model_error=EXACT,
        points=tuple(points),
        simulated_ns=1,
        is_whole=True,
        advice=advice_of_job(chosen(points, targets, EXACT), recorded),
    )


def test_a_job_as_a_whole_is_held_to_its_targets_at_one_timeout_for_all_edges() -> None:
    found = whole("p99<=6ms")
    assert found.choice.point == 2
    assert found.points[2].timeouts_ns == (5 * MS, 5 * MS)
    ((said, code),) = recommendations(found)
    assert said.text.startswith(" is met by the job as a whole with buffer timeout 5ms: 5.00 ms")
    assert code.text == "execution.buffer-timeout.interval: 5 ms"
    assert whole().choice is None
    assert recommendations(whole()) == []


@pytest.mark.parametrize("patch", ["execution.buffer-timeout.interval: 5 ms", ""])
def test_next_to_timeouts_task_by_task_stands_the_one_key_for_all(patch: str) -> None:
    """Also where it is the recorded one, and nothing has to change."""
    found = whole("p99<=6ms")
    assert found.choice is not None
    choice = replace(found.choice, patch=patch)
    by_task = TaskTimeouts(
        *(("A", "B"), (4 * MS, 8 * MS), replace(choice, patch="A: 4 ms"), (None, None)),
        *(0.2, 3, True),
    )
    advised = advice_of_job(choice, POINTS[0])
    ((_said, code),) = recommendations(replace(found, advice=advised, by_task=by_task))
    key = "execution.buffer-timeout.interval: 5 ms"
    assert code.text == f"A: 4 ms\n# or one timeout for all tasks:\n{key}"


def test_csv_has_a_row_for_what_a_job_did_and_one_for_each_of_its_settings() -> None:
    found = whole()
    observed, *rows = replay_rows([found])
    assert (observed["kind"], observed["throughput_records_per_s"]) == ("observed", 1000.0)
    assert {(row["run"], row["edge"], row["kind"]) for row in rows} == {("run", "job", "predicted")}
    assert len(rows) == len(found.points)
    figures = rows[2]["buffer_timeout"], rows[2]["latency_p99_ns"]
    assert figures == ("5ms", found.points[2].latency_ns.p99)
    off = replace(found, model_error=ModelError(0.0, 0.6, 0.0))
    assert [row["is_reliable"] for row in (rows[0], *replay_rows([off])[:2])] == [True, True, False]


def test_the_nearest_setting_of_a_job_is_named_where_none_meets_the_target() -> None:
    found = whole("p99<=0.1ms")
    assert (found.choice.point, found.choice.nearest) == (None, 0)
    ((said, _code),) = recommendations(found)
    assert said.name == "no predicted setting meets p99<=0.1ms for the job as a whole"


def test_edges_of_a_job_are_not_held_to_its_targets() -> None:
    """A single edge may meet what the job does not, and does not count then."""
    met_alone = advice(POINTS, [Target.parse("p99<=19ms")], EXACT)
    edge: Any = SimpleNamespace(advice=met_alone)
    met, missed = whole("p99<=6ms"), whole("p99<=0.1ms")
    unknown = Advice(choice=Choice(("p99<=6ms",), None, False, None, None, ""))
    alone = replace(met, feeding=(), advice=met_alone, answers=(edge,))
    assert all_meet([replace(met, answers=(edge,))])
    assert not all_meet([replace(missed, answers=(edge,)), alone])
    assert all_meet([replace(met, advice=unknown, answers=(edge,))])
    assert all_meet([alone, alone])
    assert all_meet([replace(met, advice=Advice(withheld="off"), answers=(edge,))]) is False
