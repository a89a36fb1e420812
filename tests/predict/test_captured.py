"""Traces of messages seen in passing: arrivals, costs and settings that nobody recorded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flinknet.arrays import EventColumns
from flinknet.config import NetworkConfig
from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import FlushReason, MessageKind, TracePoint
from flinknet.predict.captured import SINCE_BUFFER_BEFORE, WITHIN_TIMEOUT, with_settings
from flinknet.predict.captured_rows import FLUSHER_LATE_NS, seen_between, starved_share
from flinknet.predict.fit.delays import NO_DELAYS
from flinknet.predict.fit.flusher import beat_ns
from flinknet.predict.fit.round_trips import ALL_HELD_UP, WAY_SHARE, CapturedCosts, fit_captured
from flinknet.predict.fit.wakeups import Wakeups
from flinknet.predict.fit.window_rows import ExchangeRows
from flinknet.predict.intervals import NOTHING, Intervals
from flinknet.predict.loading import load_exchange
from flinknet.predict.recorded import RecordedExchange
from flinknet.predict.what_if import simulate
from flinknet.trace import RunManifest, open_run
from flinknet.trace.manifest import IS_ADAPTIVE, JOB_MANAGER, SETTINGS_FROM
from tests.recorded_run import START_NS, channel_info, event
from tests.tapped_run import exchange_of, save_tapped, write_tapped_exchange

MS, US = 1_000_000, 1_000
FULL, FLUSH = FlushReason.FULL, FlushReason.FLUSH
INFOS = channel_info(0, process="b"), channel_info(1, process="c")


def columns(**values: list[int]) -> EventColumns:
    return {name: np.array(each, np.int64) for name, each in values.items()}


def sent(
    at_ns: list[int],
    records: list[int],
    *,
    channel: int = 0,
    reason: int = FLUSH,
    credit_after: list[int] | None = None,
    backlog: list[int] | None = None,
) -> EventColumns:
    count = len(at_ns)
    return columns(
        at_ns=at_ns,
        channel=[channel] * count,
        sequence_number=list(range(count)),
        records=records,
        reason=[reason] * count,
        payload_bytes=[100 * max(each, 0) for each in records],
        credit_after=credit_after or [1] * count,
        backlog_buffers=backlog or [0] * count,
    )


def credit(at_ns: list[int], *, channel: int = 0) -> EventColumns:
    return columns(at_ns=at_ns, channel=[channel] * len(at_ns))


def captured(data: EventColumns, back: EventColumns | None = None) -> ExchangeRows:
    none = credit([])
    return ExchangeRows(data, none, none, none, none if back is None else back, none)


@pytest.mark.parametrize(
    ("at_ns", "records", "from_ns", "wait_max_ns", "came_ns"),
    [
        pytest.param(
            *([100, 200, 600], [5, 2, 1], 0, None, [10, 30, 50, 70, 90, 125, 175, 400]),
            id="evenly since the buffer before",
        ),
        pytest.param(
            *([100, 200, 300, 400], [1, 0, 0, 1], 0, None, [50, 250]),
            id="buffers without the end of a record belong to the next",
        ),
        pytest.param(
            *([1_000, 1_100], [1, 1], 900, None, [950, 1_050]),
            id="no earlier than a tap that begins late",
        ),
        pytest.param(
            *([100, 200, 1_000], [1, 1, 4], 0, 80, [60, 160, 930, 950, 970, 990]),
            id="no longer before its buffer than a record can wait",
        ),
        pytest.param(
            *([1_000, 5_000, 5_100, 5_200], [1, 0, 0, 1], 0, 80, [960, 5_060]),
            id="before the first of many buffers",
        ),
    ],
)
def test_records_come_before_their_buffer(
    at_ns: list[int], records: list[int], from_ns: int, wait_max_ns: int | None, came_ns: list[int]
) -> None:
    ramps = seen_between(captured(sent(at_ns, records)), from_ns, wait_max_ns)[0].evenly()
    assert ramps.instants()[1].tolist() == came_ns


def test_what_came_before_a_window_is_not_pressed_into_it() -> None:
    rows = captured(sent([1_010, 1_100], [8, 1]))
    ramps = seen_between(rows, 1_000, 80, is_later=True)[0].evenly()
    assert ramps.within(1_000, 2_000).total_records == 2
    assert seen_between(rows, 1_000, 80)[0].evenly().within(1_000, 2_000).total_records == 9


def test_records_behind_a_pause_may_have_come_while_it_lasted() -> None:
    rows = captured(sent([1_000, 1_500], [1, 8]))
    paused = {0: Intervals(np.array([1_050]), np.array([1_500]))}
    ramps = seen_between(rows, 0, 80, {0: 0}, paused)[0].evenly()
    assert ramps.first_ns[1] < 1_100 < 1_400 < seen_between(rows, 0, 80)[0].evenly().first_ns[1]


@pytest.mark.parametrize(
    ("credit_after", "backlog", "credit_ns", "resumed_ns", "is_held"),
    [
        (1, 0, None, None, False),
        (1, 3, None, None, True),  # others were ready, too
        (0, 0, 60 * MS - 100 * US, None, True),  # it left when credit came
        (-1, 0, 60 * MS - 100 * US, None, True),  # nobody knows of the credit before
        (0, 0, 20 * MS, None, False),  # it could have left long before
        (1, 0, 60 * MS - 100 * US, None, False),  # there was credit all the time
        (1, 0, None, 60 * MS - 100 * US, True),  # it left when the channel was resumed
    ],
)
def test_records_of_a_buffer_that_was_held_back_may_be_older(
    credit_after: int, backlog: int, credit_ns: int | None, resumed_ns: int | None, is_held: bool
) -> None:
    at_ns = [10 * MS, 60 * MS]
    data = sent(at_ns, [1, 1], credit_after=[credit_after, 1], backlog=[backlog, 0])
    back, resumed = (credit([] if each is None else [each]) for each in (credit_ns, resumed_ns))
    ramps = seen_between(replace(captured(data, back), resumed=resumed), 0, 10 * MS)[0].evenly()
    assert ramps.first_ns.tolist() == [5 * MS, (35 if is_held else 55) * MS]


BURSTS = np.add.outer(np.arange(0, 1000 * MS, 200 * MS), np.arange(0, 50 * MS, 25 * US)).ravel()
"""40,000 records per second for 50 ms, then silence for 150 ms."""


def test_bursts_stay_bursts(tmp_path: Path) -> None:
    network = NetworkConfig(buffer_timeout_ns=10 * MS)
    true = exchange_of([BURSTS[each::4] for each in range(4)], network, duration_ns=1000 * MS)
    path = write_tapped_exchange(tmp_path / "run", true)
    found = load_exchange(*window(path))
    for timeout_ns in (1 * MS, 5 * MS, 10 * MS, 50 * MS):
        asked = replace(network, buffer_timeout_ns=timeout_ns)
        buffers_per_s = simulate(true, asked).buffers_per_s
        assert simulate(found, asked).buffers_per_s == pytest.approx(buffers_per_s, rel=0.2)
    assert is_noted(found, WITHIN_TIMEOUT)


def is_noted(fit: RecordedExchange, what: str) -> bool:
    return any(note.startswith(what) for note in fit.notes)


def test_where_the_timeout_is_unknown_or_never_records_may_wait_for_long(tmp_path: Path) -> None:
    irregular = np.cumsum(np.random.default_rng(1).exponential(20 * MS, 100)).astype(np.int64)
    never = NetworkConfig(buffer_timeout_ns=-1)
    exchange = exchange_of([irregular], never, duration_ns=int(irregular[-1]) + MS)
    path = write_tapped_exchange(tmp_path / "run", exchange)
    fit = load_exchange(*window(path))
    assert is_noted(fit, SINCE_BUFFER_BEFORE)
    assert not is_noted(fit, WITHIN_TIMEOUT)
    at_ns = [START_NS + int(each) for each in irregular]
    rows = [flushed(each, 0, number, 1) for number, each in enumerate(at_ns)]
    shapeless = save_tapped(tmp_path / "unknown", rows, to_ns=at_ns[-1] + 1, keys={}, channels=1)
    found = load_exchange(*window(shapeless))
    assert not is_noted(found, WITHIN_TIMEOUT)
    assert found.unseen is not None
    assert found.unseen.seen[0].since_ns[1] == at_ns[0]
    assert found.records == 100


RANDOM = np.random.default_rng(1)


@pytest.mark.parametrize(
    ("at_ns", "wanted_ns"),
    [
        *(
            (np.arange(60) * each + np.arange(60) % 3 * US, each)
            for each in (MS, 10 * MS + 100 * US, 100 * MS)
        ),
        pytest.param(
            np.cumsum(RANDOM.geometric(0.2, 400)) * 20.1 * MS + RANDOM.normal(0, 0.2 * MS, 400),
            20.1 * MS,
            id="few flushes find records",
        ),
        pytest.param(
            np.cumsum(RANDOM.choice([1, 2, 2, 2, 2], 400)) * 20 * MS,
            20 * MS,
            id="most flushes are two beats apart",
        ),
        pytest.param(
            np.arange(400) * 5.1 * MS + RANDOM.exponential(MS, 400) * (RANDOM.random(400) < 0.7),
            5.1 * MS,
            id="flushes come late",
        ),
    ],
)
def test_the_beat_shows_in_the_flushes(at_ns: np.ndarray, wanted_ns: float) -> None:
    rows = sent(at_ns.astype(int).tolist(), [1] * len(at_ns))
    assert beat_ns(rows) == pytest.approx(wanted_ns, rel=0.05)


def test_bursts_are_no_beat_where_flushes_come_sooner() -> None:
    starts_ns = np.arange(200)[:, None] * 200 * MS
    at_ns = np.sort((starts_ns + RANDOM.choice([0, 20, 40], (200, 2)) * MS).ravel())
    assert beat_ns(sent(at_ns.tolist(), [1] * 400)) in (None, 20 * MS)


def test_full_buffers_and_irregular_flushes_have_no_beat() -> None:
    at_ns = [number * MS for number in range(60)]
    assert beat_ns(sent(at_ns, [1] * 60, reason=FULL)) is None
    irregular = np.cumsum(np.random.default_rng(1).exponential(MS, 60)).astype(int).tolist()
    assert beat_ns(sent(irregular, [1] * 60)) is None
    assert beat_ns(sent(at_ns[:5], [1] * 5)) is None


def test_a_buffer_alone_on_its_way_tells_what_it_costs() -> None:
    records = [10, 40] * 50
    at_ns = [number * MS for number in range(100)]
    back_ns = [at + 100 * US + 2 * US * each for at, each in zip(at_ns, records, strict=True)]
    fit = fit_captured(sent(at_ns, records), credit(back_ns), INFOS[:1], 1)
    assert fit.costs.consume_ns_per_record == pytest.approx((2_000.0,))
    assert fit.costs.transit_ns == pytest.approx(WAY_SHARE * 100 * US)
    assert fit.costs.receive_ns_per_message == pytest.approx(0.2 * 100 * US)
    assert "40% of the 100 us round trip" in fit.note


def way_and_back(gaps_ns: list[int], took_ns: list[int]) -> tuple[EventColumns, EventColumns]:
    """Buffers of ten records so far apart, and their credit so long after them."""
    at_ns = np.cumsum(gaps_ns).tolist()
    back_ns = [at + took for at, took in zip(at_ns, took_ns, strict=True)]
    return sent(at_ns, [10] * len(at_ns)), credit(back_ns)


def test_round_trips_that_grow_with_the_gap_show_what_closeness_spares() -> None:
    gaps_ns = [2 * MS, 20 * MS] * 200
    took_ns = [200 * US, 600 * US] * 200
    fit = fit_captured(*way_and_back(gaps_ns, took_ns), INFOS[:1], 1)
    assert fit.wakeups is not None
    none_ns, close_ns, far_ns = fit.wakeups.transit_after(np.array([0, 2 * MS, 20 * MS])).tolist()
    assert none_ns <= close_ns < 0.6 * far_ns
    assert "right behind another" in fit.wakeups.in_words
    drawn_ns = fit.wakeups.times(2.0, 0.0).transit_ns
    assert drawn_ns == pytest.approx([2 * far_ns] * len(drawn_ns))


@pytest.mark.parametrize("gaps_ns", [[10 * MS], [2 * MS, 20 * MS]], ids=["one gap", "two"])
def test_round_trips_that_only_vary_show_nothing_of_gaps(gaps_ns: list[int]) -> None:
    jitter_ns = np.random.default_rng(3).exponential(200 * US, 400).astype(np.int64)
    gaps_ns = gaps_ns * (400 // len(gaps_ns))
    took_ns = (300 * US + jitter_ns).tolist()
    assert fit_captured(*way_and_back(gaps_ns, took_ns), INFOS[:1], 1).wakeups is None


def test_what_closeness_spares_reaches_the_predictions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = NetworkConfig(buffer_timeout_ns=10 * MS)
    truth = exchange_of([np.arange(100) * MS], network, duration_ns=100 * MS)
    path = write_tapped_exchange(tmp_path / "run", truth)
    found = Wakeups((0.0, 10.0 * MS), (40_000.0, 240_000.0), 12_000.0, 1_000.0, 100.0, 1.0)

    def fitted(*arguments: object, **named: object) -> CapturedCosts:
        return CapturedCosts(truth.costs, "", wakeups=found)

    monkeypatch.setattr("flinknet.predict.captured.fit_captured", fitted)
    exchange = load_exchange(path, START_NS, START_NS + 100 * MS)
    assert exchange.wakeups is found
    assert found.in_words in exchange.notes


def test_buffers_in_company_are_not_asked() -> None:
    at_ns = [number * MS + extra for number in range(50) for extra in (0, 10 * US)]
    back_ns = [number * MS + 500 * US for number in range(50)]
    fit = fit_captured(sent(at_ns, [1] * 100), credit(back_ns), INFOS[:1], 1)
    assert "no credit came back that belongs to one buffer alone" in fit.note


def test_messages_after_a_quiet_time_have_delays_of_their_own() -> None:
    at_ns = [(number // 2) * 10 * MS + (number % 2) * 1500 * US for number in range(400)]
    random = np.random.default_rng(1)
    spans_us = [50 if number % 2 else 900 for number in range(400)]
    back_ns = [
        at + 200 * US + int(random.exponential(each) * US)
        for at, each in zip(at_ns, spans_us, strict=True)
    ]
    by_quiet = fit_captured(sent(at_ns, [1] * 400), credit(back_ns), INFOS[:1], 1).delays.by_quiet
    assert by_quiet is not None
    short_ns, long_ns = by_quiet.spreads_ns
    assert by_quiet.from_ns.tolist() == [0, 2 * MS]
    assert np.quantile(long_ns, 0.9) > 5 * np.quantile(short_ns, 0.9)


def test_a_round_trip_that_a_slow_task_holds_up_is_no_delay() -> None:
    """A pair of messages each 20 ms, of which the second one waits for the records of the first;
    the task takes 2 ms for a record."""
    at_ns = [(number // 2) * 20 * MS + (number % 2) * MS for number in range(200)]
    back_ns = [at + 200 * US + (number % 2) * MS for number, at in enumerate(at_ns)]
    rows = sent(at_ns, [1] * 200), credit(back_ns)
    fast = fit_captured(*rows, INFOS[:1], 1).delays.spread_ns
    slow = fit_captured(*rows, INFOS[:1], 1, busy_ns={0: 2.0 * MS}).delays.spread_ns
    assert np.ptp(fast) > 0.5 * MS
    assert np.ptp(slow) == 0


def test_where_tasks_are_always_at_work_delays_do_not_show() -> None:
    at_ns = [number * 10 * MS for number in range(100)]
    back_ns = [at + 9 * MS for at in at_ns]
    rows = sent(at_ns, [9] * 100), credit(back_ns)
    fit = fit_captured(*rows, INFOS[:1], 1, busy_ns={0: 1.0 * MS})
    assert fit.delays is NO_DELAYS
    assert ALL_HELD_UP in fit.note


def test_records_of_a_late_beat_came_in_all_the_time_since_the_one_before() -> None:
    at_ns = [10 * MS * number for number in range(1, 6)] + [66 * MS, 76 * MS]
    rows = captured(sent(at_ns, [5] * 7))
    seen = seen_between(rows, 0, 10 * MS + FLUSHER_LATE_NS, {0: 0})[0]
    assert (seen.at_ns - seen.since_ns).tolist()[4:] == [10 * MS, 16 * MS, 10 * MS]


def test_what_a_tap_adds_is_no_part_of_a_round_trip() -> None:
    data, back = way_and_back([10 * MS] * 100, [400 * US] * 100)
    trip = fit_captured(data, back, INFOS[:1], 1, tap_ns=80 * US).round_trip
    assert trip is not None
    assert trip.total_ns == pytest.approx(320 * US)


def test_round_trips_that_something_disturbed_do_not_count() -> None:
    took_ns = [400 * US] * 90 + [5 * MS] * 10
    data, back = way_and_back([10 * MS] * 100, took_ns)
    last_ns = int(data["at_ns"][90])
    disturbed = Intervals(np.array([last_ns]), np.array([last_ns + 1_000 * MS]))
    found = [
        fit_captured(data, back, INFOS[:1], 1, disturbed=each).delays.spread_ns.max()
        for each in (NOTHING, disturbed)
    ]
    assert found[0] > MS
    assert found[1] == 0


def test_each_consumer_has_its_own_speed() -> None:
    records = [10, 40] * 50
    at_ns = [number * 10 * MS for number in range(100)]
    both, back = [], []
    for channel, per_record_ns in ((0, 1 * US), (1, 50 * US)):
        both.append(sent(at_ns, records, channel=channel))
        took_ns = [100 * US + per_record_ns * each for each in records]
        back_ns = [at + took for at, took in zip(at_ns, took_ns, strict=True)]
        back.append(credit(back_ns, channel=channel))
    data, backs = (
        {name: np.concatenate([each[name] for each in parts]) for name in parts[0]}
        for parts in (both, back)
    )
    fit = fit_captured(data, backs, INFOS, 2)
    assert fit.costs.consume_ns_per_record == pytest.approx((1_000.0, 50_000.0))


def test_time_under_pressure_is_the_time_without_credit_while_more_waits() -> None:
    data = sent([0, 10, 20, 60], [1] * 4, credit_after=[1, 0, 1, 0], backlog=[3, 3, 0, 0])
    assert starved_share(captured(data, credit([15, 70])), 100) == pytest.approx(0.05)


def flushed(at_ns: int, channel: int, number: int, records: int) -> tuple[int, ...]:
    """The row of a buffer that was flushed with credit left and none behind it."""
    return event(
        at_ns=at_ns,
        channel=channel,
        point=TracePoint.SENT,
        kind=MessageKind.BUFFER_RESPONSE,
        data_type=DataType.DATA_BUFFER,
        reason=FLUSH,
        sequence_number=number,
        payload_bytes=105 * records,
        records=records,
        backlog_buffers=0,
        credit_before=4,
        credit_after=3,
    )


def write_tapped(
    directory: Path,
    *,
    period_ns: int = 10 * MS,
    buffers: int = 60,
    keys: dict[str, str] | None = None,
) -> Path:
    """Two channels that flush at each beat, by turns 20 and 60 records; credit follows 80 µs and
    1 µs a record later."""
    events = []
    for channel in (0, 1):
        common = {"channel": channel, "point": TracePoint.RECEIVED}
        asked = {"at_ns": START_NS - MS, "kind": MessageKind.PARTITION_REQUEST, "value": 4}
        events.append(event(**common, **asked))
        for number in range(buffers):
            records = 20 if number % 2 else 60
            at_ns = START_NS + (number + 1) * (period_ns + 100 * US)
            events.append(flushed(at_ns, channel, number, records))
            added = {"at_ns": at_ns + 80 * US + records * US, "kind": MessageKind.ADD_CREDIT}
            events.append(event(**common, **added, value=1))
    to_ns = START_NS + buffers * (period_ns + 100 * US) + 1
    return save_tapped(directory, events, to_ns=to_ns, keys=keys or {})


def window(path: Path) -> tuple[Path, int, int]:
    manifest = RunManifest.load(path)
    assert manifest.measured_from_ns is not None
    assert manifest.measured_to_ns is not None
    return path, manifest.measured_from_ns, manifest.measured_to_ns


def test_settings_are_told_by_the_messages(tmp_path: Path) -> None:
    path = write_tapped(tmp_path / "run")
    found, notes, is_timeout_known = with_settings(RunManifest.load(path), open_run(path).files)
    assert is_timeout_known
    assert found.flink_keys["execution.buffer-timeout.interval"] == "10 ms"
    assert found.flink_keys["taskmanager.network.memory.buffers-per-channel"] == "4"
    assert notes == (
        "assumed: execution.buffer-timeout.interval 10 ms, by the beat of the messages",
    )


def test_partitioners_that_choose_idle_channels_are_said_not_to_be_followed(tmp_path: Path) -> None:
    path = write_tapped(tmp_path / "run")
    manifest = RunManifest.load(path)
    manifest = replace(manifest, scenario={**manifest.scenario, IS_ADAPTIVE: True})
    _, notes, _ = with_settings(manifest, open_run(path).files)
    assert any("adaptive-partitioner.enabled is true: rebalance and resc" in each for each in notes)


TIMEOUT = "execution.buffer-timeout.interval"


def settings_of(
    tmp_path: Path, timeout: str, origins: dict[str, str] | None
) -> tuple[str, tuple[str, ...], bool]:
    """The timeout of messages that beat every 10 ms, notes, and whether it is known."""
    path = write_tapped(tmp_path / "run", keys={TIMEOUT: timeout})
    manifest = RunManifest.load(path)
    if origins is not None:
        manifest = replace(manifest, scenario={**manifest.scenario, SETTINGS_FROM: origins})
    found, notes, is_timeout_known = with_settings(manifest, open_run(path).files)
    return found.flink_keys[TIMEOUT], notes, is_timeout_known


@pytest.mark.parametrize("origins", [None, {TIMEOUT: "config.yaml"}])
def test_settings_that_were_stated_stand_though_the_messages_beat_otherwise(
    tmp_path: Path, origins: dict[str, str] | None
) -> None:
    timeout, (note, *more), is_known = settings_of(tmp_path, "20 ms", origins)
    assert is_known
    assert more == ([f"recorded with {TIMEOUT} 20 ms (config.yaml)"] if origins else [])
    assert timeout == "20 ms"
    by = " (config.yaml)" if origins else ""
    beats = "buffers leave every 10 ms: compare it with the job that was recorded"
    assert note == f"{TIMEOUT} is 20 ms{by}, but {beats}"


@pytest.mark.parametrize("origins", [{TIMEOUT: JOB_MANAGER}, {}])
@pytest.mark.parametrize("timeout", ["10 ms", "5 ms"])
def test_what_the_cluster_is_set_to_needs_no_assumption(
    tmp_path: Path, timeout: str, origins: dict[str, str]
) -> None:
    origin = origins.get(TIMEOUT, "default")
    noted = (f"recorded with {TIMEOUT} {timeout} ({origin})",)
    assert settings_of(tmp_path, timeout, origins) == (timeout, noted, True)


@pytest.mark.parametrize(
    ("timeout", "origins", "was"),
    [
        ("100 ms", {}, "100 ms (default)"),
        ("7 ms", {}, "7 ms (default)"),
        ("100 ms", {TIMEOUT: JOB_MANAGER}, "100 ms (JobManager)"),
        ("-1", {"execution.buffer-timeout.enabled": JOB_MANAGER}, "off (JobManager)"),
    ],
)
def test_a_timeout_in_the_code_of_the_job_shows_in_the_beat(
    tmp_path: Path, timeout: str, origins: dict[str, str], was: str
) -> None:
    found, (note, noted), is_known = settings_of(tmp_path, timeout, origins)
    assert is_known
    assert found == "10 ms"
    assert noted == f"recorded with {TIMEOUT} 10 ms (by the beat of the messages)"
    assert note == (
        f"the job's code sets the buffer timeout: buffers leave every 10 ms, but {TIMEOUT} is {was}"
    )


def test_a_longer_time_between_buffers_is_no_reason_to_doubt_what_was_set(tmp_path: Path) -> None:
    timeout, notes, is_known = settings_of(tmp_path, "7 ms", {TIMEOUT: JOB_MANAGER})
    assert (timeout, is_known) == ("7 ms", True)
    assert notes == (f"recorded with {TIMEOUT} 7 ms (JobManager)",)


def test_settings_that_are_no_defaults_are_noted_with_who_stated_them(tmp_path: Path) -> None:
    keys = {"execution.checkpointing.interval": "2 s", "taskmanager.memory.segment-size": "32 kb"}
    path = write_tapped(tmp_path / "run", keys={TIMEOUT: "10 ms", **keys})
    manifest = RunManifest.load(path)
    origins = dict.fromkeys(keys, "job")
    manifest = replace(manifest, scenario={**manifest.scenario, SETTINGS_FROM: origins})
    _, (note,), _ = with_settings(manifest, open_run(path).files)
    assert note == (
        f"recorded with {TIMEOUT} 10 ms (default), execution.checkpointing.interval 2 s (job)"
    )


def test_the_beat_of_a_job_tells_that_of_an_exchange_which_shows_none(tmp_path: Path) -> None:
    path = write_tapped(tmp_path / "run")
    whole = RunManifest.load(path)
    silent = replace(whole, channels=())
    found, _, is_known = with_settings(silent, open_run(path).files, whole)
    assert (found.flink_keys[TIMEOUT], is_known) == ("10 ms", True)
    found, _, is_known = with_settings(silent, open_run(path).files)
    assert (found.flink_keys[TIMEOUT], is_known) == ("100 ms", False)


def test_records_of_an_exchange_without_instants_wait_for_half_a_beat(tmp_path: Path) -> None:
    exchange = load_exchange(*window(write_tapped(tmp_path / "run")))
    assert not exchange.has_instants
    assert exchange.records == 2 * 60 * 40
    assert is_noted(exchange, WITHIN_TIMEOUT)
    assert exchange.flush_overhead_ns == pytest.approx(100 * US, rel=0.05)
    for timeout_ns in (MS, 10 * MS):
        network = replace(NetworkConfig(), buffer_timeout_ns=timeout_ns)
        middle_ns = simulate(exchange, network).latency.percentile(0.5)
        assert middle_ns == pytest.approx(timeout_ns / 2, rel=0.25)
