"""What stands between records, against Flink's own classes: the elements of a job's channels are
read and written again, and valves answer the same.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bench.flink.distribution import class_path, flink_home, java
from flinknet.core.wire.records import (
    LENGTH_PREFIX_BYTES,
    LatencyMarker,
    Record,
    Watermark,
    WatermarkStatus,
    decode_element,
    encode_record,
)
from flinknet.graph import StreamExecutionEnvironment, WatermarkStrategy
from flinknet.graph.watermarks import CombinedWatermark
from flinknet.job.event_time import Passed, StatusWatermarkValve
from tests.record_stream import RecordStreamDecoder
from tests.simulated_job import MS, WatchedJob

pytestmark = pytest.mark.interop

HARNESS = Path(__file__).parent / "java" / "FlinkElements.java"

Ask = Callable[[Sequence[str]], list[str]]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Hands commands to Flink's classes; see the harness."""
    home, runner, compiler = flink_home("2.3.0"), java(), java("javac")
    if home is None or runner is None or compiler is None:
        pytest.skip("the jars of Flink 2.3.0 are not here (make flink), or there is no JDK")
    classes = tmp_path_factory.mktemp("flink-elements")
    paths = class_path(home, classes)
    subprocess.run(
        [compiler, "-nowarn", "-d", classes, "-cp", class_path(home), HARNESS], check=True
    )

    def answers(commands: Sequence[str]) -> list[str]:
        ended = subprocess.run(
            [runner, "-cp", paths, "FlinkElements"],
            input="\n".join(commands) + "\n",
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        found = ended.stdout.splitlines()
        assert len(found) == len(commands), ended.stderr
        return found

    return answers


def what(element: object) -> str:
    """As the harness says it."""
    match element:
        case Record(value, timestamp_ms):
            number = int.from_bytes(value, "big", signed=True)
            return f"record {number}" + ("" if timestamp_ms is None else f" at {timestamp_ms}")
        case Watermark(timestamp_ms):
            return f"watermark {timestamp_ms}"
        case LatencyMarker(marked_time_ms, operator_id, subtask_index):
            return f"marker {marked_time_ms} {operator_id.hex()} {subtask_index}"
        case WatermarkStatus(status):
            return "active" if status == WatermarkStatus.ACTIVE else "idle"
    raise AssertionError(element)


@pytest.mark.row("S022")
def test_flink_reads_every_element_of_a_jobs_channels_and_writes_the_same(ask: Ask) -> None:
    env = StreamExecutionEnvironment({"pipeline.auto-watermark-interval": "10 ms"})
    env.set_parallelism(2)
    strategy = (
        WatermarkStrategy.for_bounded_out_of_orderness("3ms")
        .with_timestamp_assigner(lambda value, before: before + value)
        .with_idleness("20ms")
    )
    few = env.generate(rate="1k/s", records=80).map(lambda pair: pair[0], output_type=int)
    few.assign_timestamps_and_watermarks(strategy).rebalance().discard()
    long = env.generate(rate="1k/s").map(lambda pair: pair[0], output_type=int)
    long.filter(lambda key: key < 10).assign_timestamps_and_watermarks(strategy).shuffle().discard()
    job = WatchedJob(env.execute(), end_ns=300 * MS, slots=4)
    job.run()
    elements = [
        element
        for data in job.written.values()
        for element in RecordStreamDecoder().feed(bytes(data))
    ]
    marker = LatencyMarker(1_700_000_000_000, bytes(range(16)), 3)  # of which jobs emit none
    elements.append(encode_record(marker)[LENGTH_PREFIX_BYTES:])
    kinds = {type(decode_element(each)) for each in elements}
    assert kinds == {Record, Watermark, LatencyMarker, WatermarkStatus}
    assert ask([f"element {each.hex()}" for each in elements]) == [
        f"{what(decode_element(each))}|{each.hex()}" for each in elements
    ]


def line(passed: Sequence[Passed]) -> str:
    """What a valve lets through, as the harness says it."""
    return " ".join(
        f"watermark {each.timestamp_ms}"
        if isinstance(each, Watermark)
        else ("idle" if each.status == WatermarkStatus.IDLE else "active")
        for each in passed
    )


def steps(drawn: random.Random, channels: int) -> list[tuple[int, int | bool]]:
    """Watermarks, which mostly rise, and changes of status."""
    return [
        (
            drawn.randrange(channels),
            drawn.random() < 0.5 if drawn.random() < 0.3 else number // 2 + drawn.randrange(40),
        )
        for number in range(120)
    ]


def command(channel: int, step: int | bool) -> str:
    if isinstance(step, bool):
        return f"status {channel} {'idle' if step else 'active'}"
    return f"watermark {channel} {step}"


def test_a_valve_lets_through_what_flinks_does(ask: Ask) -> None:
    commands, expected = [], []
    for seed in range(40):
        drawn = random.Random(seed)
        channels = 1 + seed % 5
        valve = StatusWatermarkValve(channels)
        commands.append(f"valve {channels}")
        expected.append("")
        for channel, step in steps(drawn, channels):
            commands.append(command(channel, step))
            if isinstance(step, bool):
                passed = valve.input_watermark_status(step, channel)
            else:
                passed = valve.input_watermark(step, channel)
            expected.append(line(passed))
    assert ask(commands) == expected


def test_several_inputs_are_combined_as_flink_does(ask: Ask) -> None:
    commands, expected = [], []
    for seed in range(20):
        inputs = 2 + seed % 2
        combined = CombinedWatermark(inputs)
        commands.append(f"combined {inputs}")
        expected.append("")
        for index, step in steps(random.Random(seed), inputs):
            commands.append(command(index, step))
            is_new = (
                combined.update_status(index, step)
                if isinstance(step, bool)
                else combined.update_watermark(index, step)
            )
            told = f"watermark {combined.watermark_ms} " if is_new else ""
            expected.append(told + ("idle" if combined.is_idle else "active"))
    assert ask(commands) == expected
