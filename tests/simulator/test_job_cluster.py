"""Whole jobs in virtual time: what comes out is what the program says, whatever the links do."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.core.buffers.pool_sizes import PoolSize
from flinknet.errors import RemoteTransportError, TaskFailedError
from flinknet.graph import (
    OutputTag,
    StreamExecutionEnvironment,
    StreamGraph,
    load_program,
    transformations,
)
from flinknet.graph.tree import execution_tree, job_tree, physical_tree, stream_tree
from flinknet.graph.watermarks import Output, TaskEvent
from flinknet.job.checkpoint_coordinator import AcknowledgeCheckpoint
from flinknet.job.stream_task import StreamTask, TaskState
from flinknet.job.task_chain import LatencyMeter
from flinknet.simulator.task_manager import START_NS
from tests.campaign.draw import Draw
from tests.driving import run_on, stop
from tests.faults import FaultPlan, Interval
from tests.simulated_job import COSTS, MS, US, S, WatchedJob, printed, run_job, task_named

JOBS = Path(__file__).parents[2] / "bench" / "jobs"

POEM = """
To be or not to be that is the question
whether tis nobler in the mind to suffer
The slings and arrows of outrageous fortune
or to take arms against a sea of troubles
and by opposing end them to die to sleep no more
""".strip()


def shipped(name: str, *arguments: str, settings: dict[str, str] | None = None) -> StreamGraph:
    return load_program(JOBS / f"{name}.py", settings or {}, arguments).stream_graph


def environment(parallelism: int = 2, **keys: str) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment({key.replace("_", "."): each for key, each in keys.items()})
    env.set_parallelism(parallelism)
    return env


def some_faults(seed: int, links: int = 2) -> FaultPlan:
    """Faults that records survive."""
    draw = Draw(seed)
    stalls = []
    for number in range(draw.below("stalls", 4)):
        from_ns = draw.below(f"stall {number} from", 200 * MS)
        to_ns = from_ns + draw.below(f"stall {number} length", 100 * MS)
        stalls.append(Interval(draw.below(f"stall {number} link", links), from_ns, to_ns))
    return FaultPlan(
        seed=seed,
        piece_bytes_max=draw.one_of("piece bytes", (0, 7, 100, 1000, 40_000)),
        delay_ns_max=draw.one_of("delay", (0, US, MS)),
        stalls=tuple(stalls),
    )


def latency_meter(task: StreamTask) -> LatencyMeter:
    """What the sink of a task measures latency with."""
    (meter,) = task.chain.latency_meters
    return meter


def last_counts(lines: list[str]) -> dict[str, int]:
    """The last count that was printed for each word."""
    counts = {}
    for line in lines:
        word, _, count = line.partition("> ")[2].strip("()").rpartition(",")
        counts[word] = int(count)
    return counts


# Word count


DUMPS = Path(__file__).parents[1] / "graph" / "expected"
DATA_SET = re.compile("data set [0-9a-f]{32}")  # its id depends on names


def word_count_dump(layer: str) -> str:
    """The layer of the word count in tests/graph, which has another sink."""
    text = (DUMPS / f"word_count_{layer}.txt").read_text(encoding="utf-8")
    return DATA_SET.sub("", text.replace("Sink: Unnamed", "Sink: Print to Std. Out")).strip()


@pytest.mark.row("S154")
@pytest.mark.parametrize("seed", range(6))
def test_word_count_equals_a_plain_count(seed: int) -> None:
    text = "\n".join([POEM] * 40)
    cluster = run_job(
        shipped("socket_word_count"),
        slots=1,
        texts={"127.0.0.1:9999": text.encode()},
        faults=some_faults(seed) if seed else FaultPlan(),
        seed=seed,
    )
    expected = Counter(text.lower().split())
    assert last_counts(cluster.job.io.lines) == expected
    assert len(cluster.job.io.lines) == expected.total()
    assert printed(cluster) == Counter(
        f"({word},{n})" for word, count in expected.items() for n in range(1, count + 1)
    )


@pytest.mark.row("S154")
@pytest.mark.row("S116")
def test_the_four_layers_of_the_word_count_that_runs_are_these(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transformations, "_node_ids", itertools.count(1))
    graph = shipped("socket_word_count")
    watched = WatchedJob(graph, slots=1, texts={"127.0.0.1:9999": POEM.encode()})
    layers = {
        "stream": stream_tree(graph),
        "job": DATA_SET.sub("", job_tree(watched.job)),
        "execution": execution_tree(watched.plan.graph),
    }
    assert layers == {name: word_count_dump(name) for name in layers}
    slots = word_count_dump("physical").partition("channels\n")[0]
    assert physical_tree(watched.plan).startswith(slots)
    tasks = watched.run().tasks
    assert [tasks[key].name for key in sorted(tasks)] == [
        "Source: Socket Stream (1/1)",
        "Flat Map (1/2)",
        "Flat Map (2/2)",
        "Keyed Aggregation -> Sink: Print to Std. Out (1/2)",
        "Keyed Aggregation -> Sink: Print to Std. Out (2/2)",
    ]


# The other jobs that ship


@pytest.mark.row("S147")
@pytest.mark.row("S150")
def test_the_shuffle_runs_eight_tasks_in_four_slots_on_two_connections() -> None:
    watched = WatchedJob(shipped("shuffle"), end_ns=20 * MS)
    cluster = watched.run()
    assert len(cluster.tasks) == 8
    slots: dict[tuple[int, int], list[str]] = {}
    for task in itertools.chain.from_iterable(cluster.job.descriptors):
        slots.setdefault((task.task_manager, task.slot), []).append(task.information.vertex_name)
    assert sorted(slots) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(sorted(each) == ["Sink: B", "Source: A"] for each in slots.values())
    assert sorted(cluster.links) == [(0, 1, 0), (1, 0, 0)]
    sinks = [each for each in cluster.tasks.values() if not each.is_source]
    for sink in sinks:
        assert len(sink.gates) == 1
        assert [channel.is_local for channel in sink.gates[0].channels].count(True) == 2
    sources = [each for each in cluster.tasks.values() if each.is_source]
    emitted = sum(each.emitted_records for each in sources)
    assert emitted == sum(each.processed_records for each in sinks) > 10_000
    meters = [latency_meter(sink) for sink in sinks]
    for meter in meters:
        meter.settle()
    assert emitted == sum(meter.measured_records for meter in meters)
    assert len(watched.read) == 16


def test_pressure_of_a_slow_last_stage_reaches_the_source() -> None:
    watched = WatchedJob(shipped("slow_last_stage", "1ms"), end_ns=2 * S)
    cluster = watched.run(until_ns=2 * S)
    now_ns = cluster.now_ns
    shares = {}
    for vertex in watched.plan.vertices:
        times = cluster.tasks[vertex.index, 0].times
        times.update(now_ns=now_ns)
        shares[vertex.name] = times.metrics(now_ns=now_ns)
    source, enrich, slow = (shares[vertex.name] for vertex in watched.plan.vertices)
    assert [vertex.name.split()[-1] for vertex in watched.plan.vertices] == [
        "Source", "Enrich", "Slow",
    ]  # fmt: skip
    assert slow["accumulateBusyTimeMs"] > 1900
    assert enrich["accumulateBackPressuredTimeMs"] > 500
    assert source["accumulateBackPressuredTimeMs"] > 500
    # the sinks take 1 000 records/s each, the sources were due to make 20 000/s each
    taken = sum(cluster.tasks[2, each].processed_records for each in range(2))
    assert 0.97 * 4_000 < taken <= 4_000
    latency = latency_meter(cluster.tasks[2, 0])
    latency.settle()
    assert latency.latency.percentile(0.99) > 0.5 * S  # open loop: counted from when it was due


def test_a_task_ends_only_when_its_readers_have_taken_everything() -> None:
    watched = WatchedJob(shipped("slow_last_stage", "1ms"), end_ns=S // 10)
    cluster = watched.cluster
    for until_ns in itertools.count(0, 20 * MS):
        run_on(cluster, until_ns=until_ns)
        ended = [each for each in cluster.tasks.values() if each.state is TaskState.FINISHED]
        for channel in (
            at for each in ended for output in each.outputs.each for at in output.channels
        ):
            assert watched.read[channel] == watched.written[channel]
        if cluster.is_finished:
            break
    assert sum(map(len, watched.read.values())) > 2 * 4_000 * 100


# Streams


EVEN = OutputTag("even", int)


def route(value: int, output: Output) -> None:
    if value % 2:
        output.collect(value)
    else:
        output.collect_side(EVEN, value)


def negative(value: int) -> int:
    return -value


def identity(value: int) -> int:
    return value


def key_and_value(value: int) -> tuple[int, int]:
    return value % 7, value


def first(pair: tuple[int, int]) -> int:
    return pair[0]


def numbers(cluster: Any) -> list[int]:
    return sorted(int(each) for each in printed(cluster).elements())


def test_side_outputs_and_unions_keep_every_record() -> None:
    env = environment()
    routed = env.from_sequence(1, 1000).process(route, output_type=int)
    evens = routed.get_side_output(EVEN).map(negative)
    routed.union(evens).rebalance().print()
    cluster = run_job(env.execute("Routes"))
    expected = [n if n % 2 else -n for n in range(1, 1001)]
    assert numbers(cluster) == sorted(expected)
    assert task_named(cluster, "Sink: Print to Std. Out (1/2)").gates[1].is_finished


def test_two_inputs_are_told_apart() -> None:
    env = environment()
    first, second = env.from_sequence(1, 50), env.from_sequence(100, 150)
    connected = first.rebalance().connect(second.rebalance())
    connected.map(negative, identity, output_type=int).print()
    cluster = run_job(env.execute("Connected"))
    assert numbers(cluster) == sorted([-n for n in range(1, 51)] + list(range(100, 151)))


@pytest.mark.parametrize("chains_sources", [False, True])
def test_inputs_of_a_multiple_input_operator_have_their_numbers(chains_sources: bool) -> None:
    env = environment()
    streams = [env.from_sequence(1, 20), env.from_sequence(1, 30)]

    def numbered(value: int, input_number: int) -> int:
        return value * 100 + input_number

    joined = env.multiple_inputs(
        "Join", streams, numbered, output_type=int, chains_sources=chains_sources
    )
    joined.print()
    cluster = run_job(env.execute("Many"))
    assert numbers(cluster) == sorted(
        [n * 100 + 1 for n in range(1, 21)] + [n * 100 + 2 for n in range(1, 31)]
    )


def test_a_broadcast_reaches_every_subtask() -> None:
    env = environment(3)
    env.from_sequence(1, 500).set_parallelism(2).broadcast().print()
    cluster = run_job(env.execute("Broadcast"), task_managers=3, slots=1)
    assert numbers(cluster) == sorted(list(range(1, 501)) * 3)
    lines = Counter(line.partition("> ")[0] for line in cluster.job.io.lines)
    assert lines == {"1": 500, "2": 500, "3": 500}


def test_global_and_forward_and_custom_go_where_they_should() -> None:
    env = environment()
    source = env.from_sequence(1, 300)
    source.global_().print().name("One")
    source.partition_custom(lambda key, channels: key % channels, lambda value: value).add_sink(
        print
    )
    source.forward().discard().disable_chaining().name("Same")
    graph = env.execute("Where")
    watched = WatchedJob(graph)
    cluster = watched.run()
    assert {line.partition("> ")[0] for line in cluster.job.io.lines} == {"1"}
    assert numbers(cluster) == list(range(1, 301))
    same = [task_named(cluster, f"Sink: Same ({each}/2)") for each in (1, 2)]
    assert [each.processed_records for each in same] == [150, 150]
    custom = [task_named(cluster, f"Sink: Unnamed ({each}/2)") for each in (1, 2)]
    assert [each.processed_records for each in custom] == [150, 150]


def test_rescale_stays_within_the_few_that_are_joined() -> None:
    env = environment()
    env.from_sequence(1, 400).set_parallelism(2).rescale().print().set_parallelism(4)
    cluster = run_job(env.execute("Rescale"), task_managers=2, slots=2)
    assert numbers(cluster) == list(range(1, 401))
    by_subtask: dict[str, set[int]] = {}
    for line in cluster.job.io.lines:
        subtask, _, value = line.partition("> ")
        by_subtask.setdefault(subtask, set()).add(int(value))
    assert by_subtask["1"] | by_subtask["2"] == set(range(1, 201))
    assert by_subtask["3"] | by_subtask["4"] == set(range(201, 401))
    assert [len(by_subtask[each]) for each in "1234"] == [100] * 4


def test_a_keyed_reduce_sums_each_key_once() -> None:
    env = environment(3)
    env.from_sequence(1, 900).map(key_and_value).key_by(first).sum(1).print()
    cluster = run_job(env.execute("Sums"), task_managers=3, slots=1)
    last = last_counts(cluster.job.io.lines)
    assert last == {str(key): sum(range(key or 7, 901, 7)) for key in range(7)}
    assert len(cluster.job.io.lines) == 900


def test_a_batch_job_runs_stage_by_stage_and_tells_each_sum_once() -> None:
    env = environment(3)
    env.set_runtime_mode("BATCH")
    pairs = env.from_sequence(1, 900).map(key_and_value)
    sums = pairs.key_by(first).sum(1)
    sums.print()
    sums.rebalance().add_sink(print).name("Again")
    watched = WatchedJob(env.execute("Sums"), task_managers=3, slots=1)
    assert watched.plan.stages > 1
    cluster = watched.run()
    assert len(cluster.job.io.lines) == 7
    assert last_counts(cluster.job.io.lines) == {
        str(key): sum(range(key or 7, 901, 7)) for key in range(7)
    }


@pytest.mark.row("S016")
def test_a_batch_job_has_the_pools_that_its_plan_shows() -> None:
    keys = {"taskmanager.network.sort-shuffle.min-buffers": "100"}
    env = environment(3, **keys)
    env.set_runtime_mode("BATCH")
    env.from_sequence(1, 900).map(key_and_value).key_by(first).sum(1).print()
    watched = WatchedJob(env.execute("Sums"), task_managers=3, slots=1)
    planned = {
        str(partition.id): partition.pool
        for task in watched.plan.tasks()
        for partition in task.partitions
    }
    cluster = watched.run()
    made = {
        str(each.partition_id): PoolSize(each.pool.required_buffers, each.pool.max_buffers)
        for each in cluster.partition_of.values()
    }
    assert made == planned
    assert set(made.values()) == {PoolSize(100, 100)}
    assert len(cluster.job.io.lines) == 7


def test_a_stage_begins_when_the_work_of_the_one_before_it_is_done() -> None:
    env = environment()
    env.set_runtime_mode("BATCH")
    env.from_sequence(1, 500).map(key_and_value).key_by(first).sum(1).print()
    cluster = run_job(env.execute("Sums"), task_managers=1, slots=2)
    assert cluster.now_ns - START_NS >= 500 * COSTS.emit_ns_per_record


@settings(max_examples=20, deadline=None)
@given(
    parallelism=st.tuples(*[st.integers(1, 4)] * 3),
    partitioners=st.tuples(
        *[st.sampled_from(["rebalance", "shuffle", "rescale", "broadcast", "global_"])] * 2
    ),
    timeout=st.sampled_from(["0", "-1", "3ms"]),
    records=st.integers(1, 3000),
    seed=st.integers(0, 2**32),
)
def test_any_pipeline_keeps_every_record(
    parallelism: tuple[int, ...],
    partitioners: tuple[str, ...],
    timeout: str,
    records: int,
    seed: int,
) -> None:
    env = environment(parallelism[1])
    env.set_buffer_timeout(timeout)
    source = env.from_sequence(1, records).set_parallelism(parallelism[0])
    mapped = getattr(source, partitioners[0])().map(negative)
    getattr(mapped, partitioners[1])().print().set_parallelism(parallelism[2])
    cluster = run_job(
        env.execute("Any"), task_managers=2, slots=2, faults=some_faults(seed, 1), seed=seed
    )
    copies = 1
    for partitioner, consumers in zip(partitioners, parallelism[1:], strict=True):
        copies *= consumers if partitioner == "broadcast" else 1
    assert numbers(cluster) == sorted(-n for n in range(1, records + 1) for _ in range(copies))


# Sources and sinks


def test_a_file_is_read_once_by_all_subtasks_together_and_written_by_each() -> None:
    lines = [f"{number} {'x' * (number % 60)}" for number in range(2000)]
    env = environment(3)
    env.read_text_file("in.txt").rebalance().write_as_text("out")
    cluster = run_job(
        env.execute("Copy"), task_managers=3, slots=1, texts={"in.txt": "\n".join(lines).encode()}
    )
    assert sorted(cluster.job.io.files) == ["out/1", "out/2", "out/3"]
    assert not cluster.job.io.open_files
    written = [
        line for each in cluster.job.io.files.values() for line in each.decode().splitlines()
    ]
    assert sorted(written) == sorted(lines)


def test_a_text_that_is_not_there_fails_the_job() -> None:
    env = environment()
    env.read_text_file("missing.txt").print()
    with pytest.raises(TaskFailedError, match=r"missing\.txt: there is no such text"):
        run_job(env.execute("Missing"))


def test_generated_records_are_numbered_and_as_old_as_the_way_they_took() -> None:
    env = environment()

    class Seen:  # all subtasks share a class
        records: ClassVar[list[tuple[int, int]]] = []

    def note(record: tuple[int, bytes]) -> None:
        number = int.from_bytes(record[1][:8], "big")
        Seen.records.append((number >> 40, number & ((1 << 40) - 1)))

    stream = env.generate(records=1001, rate="10k/s", record_size="40b").rebalance()
    stream.add_sink(note).set_parallelism(1)
    stream.measure_latency()
    cluster = run_job(env.execute("Generated"))
    seen = Seen.records
    assert sorted(seen) == [(0, n) for n in range(501)] + [(1, n) for n in range(500)]
    for subtask in range(2):
        own = [number for source, number in seen if source == subtask]
        assert own == sorted(own)
    latency = [task_named(cluster, f"Sink: Latency ({each}/2)") for each in (1, 2)]
    for task in latency:
        meter = latency_meter(task)
        meter.settle()
        assert meter.measured_records == meter.records
        assert 20 * US < meter.latency.percentile(0.5) < 100 * MS  # at most a beat of the flusher
    assert sum(latency_meter(each).records for each in latency) == 1001


def test_a_job_without_end_ends_when_its_sources_are_stopped() -> None:
    env = environment()
    env.generate(rate="1k/s").rebalance().discard()
    watched = WatchedJob(env.execute("Endless"))
    watched.run(until_ns=100 * MS)
    assert not watched.cluster.is_finished
    stop(watched.cluster)
    cluster = watched.run()
    assert cluster.now_ns < START_NS + 400 * MS
    taken = [each.processed_records for each in cluster.tasks.values() if not each.is_source]
    assert 190 <= sum(taken) <= 200


# Batches


def doubled(values: Any) -> Any:
    return values * 2


def test_batched_functions_get_arrays_and_lose_nothing() -> None:
    env = environment()

    class Seen:
        kinds: ClassVar[set[str]] = set()

    def check(values: Any) -> Any:
        Seen.kinds.add(str(values.dtype))
        return values % 3 == 0

    mapped = env.from_sequence(1, 5000).rebalance().map(doubled, output_type=int, batched=True)
    mapped.filter(check, batched=True).rebalance().print()
    cluster = run_job(env.execute("Batches"))
    assert numbers(cluster) == [2 * n for n in range(1, 5001) if 2 * n % 3 == 0]
    assert Seen.kinds == {"int64"}


# Functions with state


def test_each_subtask_has_a_copy_of_its_functions_with_their_state() -> None:
    class Count:
        def __init__(self) -> None:
            self.records = 0

        def __call__(self, value: int) -> int:
            self.records += 1
            return self.records

    counted = 0

    def count(value: int) -> int:
        nonlocal counted
        counted += 1
        return counted

    def in_turn(record: int, seen: list[int] = []) -> int:  # noqa: B006 - state of a subtask
        seen.append(record)
        return len(seen) % 2

    env = environment(2)
    stream = env.from_sequence(1, 6).map(Count()).rebalance().map(count)
    stream.partition_custom(lambda key, channels: key, in_turn).print()
    for task_managers, slots in ((1, 2), (2, 1)):  # in one process or in two
        graph = env.get_stream_graph()
        cluster = run_job(graph, task_managers=task_managers, slots=slots)
        assert numbers(cluster) == [1, 1, 2, 2, 3, 3]
        assert sorted(line[0] for line in cluster.job.io.lines) == ["1", "1", "2", "2", "2", "2"]


# Failures


def test_a_function_that_raises_fails_its_task_with_operator_and_record() -> None:
    def fragile(value: int) -> int:
        return 10 // (value - 7)

    env = environment(1)
    env.from_sequence(1, 20).map(identity).rebalance().map(fragile).name("Fragile").print()
    with pytest.raises(TaskFailedError) as failed:
        run_job(env.execute("Fails"))
    text = str(failed.value)
    assert "Fragile failed at its 7th record, value 7 (test_job_cluster.py:" in text
    assert "ZeroDivisionError: integer division or modulo by zero" in text


def test_a_record_of_another_type_names_the_operator_that_made_it() -> None:
    def wrong(value: int) -> int:
        return str(value) if value == 5 else value  # type: ignore[return-value]

    env = environment(1)
    env.from_sequence(1, 20).map(wrong).name("Wrong").rebalance().print().disable_chaining()
    with pytest.raises(
        TaskFailedError, match=r"Wrong: its output's 5th record \(test_job.*\): '5' cannot"
    ):
        run_job(env.execute("Wrong"))


def test_a_key_selector_that_raises_names_operator_and_record() -> None:
    env = environment(2)
    stream = env.from_collection([{"a": 1}, {"b": 2}], output_type=dict[str, int]).name("Maps")
    stream.key_by(lambda value: value["a"]).reduce(lambda one, other: one).print()
    text = "Source: Maps: no key for its output's 2nd record, value {'b': 2} .*py:.*: KeyError: 'a'"
    with pytest.raises(TaskFailedError, match=text):
        run_job(env.execute("Keys"))


def test_a_broken_connection_ends_the_job_and_gives_everything_back() -> None:
    env = environment()
    env.generate(rate="50k/s").shuffle().discard()
    watched = WatchedJob(env.execute("Reset"), slots=1, faults=FaultPlan(resets=((0, 30 * MS),)))
    with pytest.raises(RemoteTransportError):
        watched.run()
    for task_manager in watched.cluster.task_managers:
        memory = task_manager.memory
        assert memory.available_buffers == memory.total_buffers


def test_operators_are_opened_and_closed_once_whatever_happens() -> None:
    calls: list[str] = []

    class Careful:
        def open(self) -> None:
            calls.append("open")

        def close(self) -> None:
            calls.append("close")

        def __call__(self, value: int) -> int:
            if value == 30:
                raise ValueError(value)
            return value

    for last in (20, 40):
        calls.clear()
        env = environment(1)
        env.from_sequence(1, last).map(Careful()).print()
        if last == 20:
            run_job(env.execute("Open"))
        else:
            with pytest.raises(TaskFailedError, match="Map failed at its 30th record"):
                run_job(env.execute("Open"))
        assert calls == ["open", "close"]


# Checkpoints


def payload_of(record: tuple[int, bytes]) -> bytes:
    return record[1]


@pytest.mark.row("S149")
@pytest.mark.parametrize("is_unaligned", [False, True])
def test_checkpoints_complete_with_the_acknowledgements_of_all_tasks(is_unaligned: bool) -> None:
    env = environment()
    env.enable_checkpointing("20ms", unaligned=is_unaligned)
    stream = env.generate(rate="1k/s").rebalance().map(payload_of)
    stream.rebalance().discard().name("Twin")
    stream.shuffle().measure_latency().name("Twin")
    watched = WatchedJob(env.execute("Checkpoints"), end_ns=400 * MS)
    answers: list[AcknowledgeCheckpoint] = []
    assert watched.cluster.checkpoints is not None
    coordinator = watched.cluster.checkpoints.coordinator
    receive = coordinator.receive

    def watch(answer: Any, *, now_ns: int) -> Any:
        answers.append(answer)
        return receive(answer, now_ns=now_ns)

    coordinator.receive = watch  # type: ignore[method-assign]
    cluster = watched.run()
    assert cluster.checkpoints is not None
    found = cluster.checkpoints.coordinator.summary()
    assert found.triggered >= 19
    assert found.completed >= found.triggered - 1
    assert found.aborted == 0
    deployed = itertools.chain.from_iterable(cluster.job.descriptors)
    ids = {each.execution_vertex_id for each in deployed}
    assert len(ids) == len(cluster.tasks) == 8
    for checkpoint_id in range(1, found.completed + 1):
        told = [each.task for each in answers if each.checkpoint_id == checkpoint_id]
        assert sorted(told) == sorted(ids)
    whole = [each for each in answers if each.checkpoint_id == 3]
    assert {index for each in whole for index in each.written_ns} == set(watched.written)
    assert {index for each in whole for index in each.read_ns} == set(watched.written)


@pytest.mark.row("S149")
def test_checkpoints_go_on_when_some_tasks_have_ended() -> None:
    env = environment()
    env.enable_checkpointing("20ms")
    short, long = env.from_sequence(1, 100), env.generate(rate="1k/s", records=1000)
    short.map(lambda value: (value, b"x"), output_type=tuple[int, bytes]).union(
        long
    ).rebalance().discard()
    env.from_collection([1, 2, 3]).print()
    cluster = run_job(env.execute("Some end"))
    assert cluster.checkpoints is not None
    found = cluster.checkpoints.coordinator.summary()
    assert found.triggered > 20
    assert found.aborted == 0
    assert found.completed >= found.triggered - 1


def test_a_slow_task_is_late_with_aligned_barriers_and_not_with_unaligned_ones() -> None:
    completed = {}
    for is_unaligned in (False, True):
        env = environment()
        env.enable_checkpointing("100ms", unaligned=is_unaligned)
        slow = env.generate(rate="4k/s").rebalance().measure_latency().delay("500us")
        slow.name("Slow")
        cluster = WatchedJob(env.execute("Slow"), end_ns=S).run(until_ns=S)
        assert cluster.checkpoints is not None
        found = cluster.checkpoints.coordinator.summary()
        completed[is_unaligned] = found.completed
    assert completed[True] >= 8
    assert completed[False] < completed[True]


def test_batched_functions_get_arrays_of_tuples_also_of_single_records() -> None:
    class Seen:
        shapes: ClassVar[set[tuple[Any, bool]]] = set()

    def check(values: Any) -> Any:
        Seen.shapes.add((values.dtype.names, len(values) > 4))
        return values["f0"] >= 0

    env = environment()
    stream = env.generate(rate="2k/s", records=300, record_size="12b")
    stream.filter(check, batched=True).rebalance().filter(check, batched=True).discard()
    cluster = run_job(env.execute("Arrays"))
    assert {names for names, _ in Seen.shapes} == {("f0", "f1")}
    assert {is_long for _, is_long in Seen.shapes} == {False, True}
    ends = [each for each in cluster.tasks.values() if not each.is_source]
    assert sum(each.processed_records for each in ends) == 300


def test_operators_that_were_opened_are_closed_when_another_cannot_be() -> None:
    calls: list[str] = []

    class Noted:
        def __init__(self, name: str, *, is_good: bool) -> None:
            self.name, self.is_good = name, is_good

        def open(self) -> None:
            calls.append(f"open {self.name}")
            if not self.is_good:
                raise OSError("no licence")

        def close(self) -> None:
            calls.append(f"close {self.name}")

        def __call__(self, value: int) -> int:
            return value

    env = environment(1)
    stream = env.from_sequence(1, 5).map(Noted("first", is_good=False)).name("First")
    stream.map(Noted("second", is_good=True)).print()
    with pytest.raises(TaskFailedError, match=r"First failed .*OSError: no licence"):
        WatchedJob(env.execute("Open"))
    assert calls == ["open second", "open first", "close second", "close first"]


ENOUGH = "org.example.Enough"


class Stops:
    """Lets records pass until a reader has enough."""

    listens_to = (ENOUGH,)
    told: ClassVar[list[bytes]] = []  # that of all its copies

    def __init__(self) -> None:
        self.told.clear()

    def __call__(self, record: int, output: Output) -> None:
        if not self.told:
            output.collect(record)

    def on_task_event(self, event: TaskEvent, output: Output) -> None:
        self.told.append(event.body)


class Takes:
    """Takes so many records, and says so when it has them."""

    def __init__(self, count: int) -> None:
        self.left = count

    def __call__(self, record: int, output: Output) -> None:
        self.left -= 1
        if self.left >= 0:
            output.collect(record)
        if self.left == 0:
            output.send_task_event(TaskEvent(ENOUGH, b"thanks"))


@pytest.mark.row("S081")
@pytest.mark.parametrize(("task_managers", "slots"), [(1, 4), (2, 1)], ids=["local", "remote"])
def test_a_reader_tells_the_task_that_writes_what_it_reads(task_managers: int, slots: int) -> None:
    env = environment(1)
    env.set_buffer_timeout("1ms")
    stops = Stops()
    made = env.generate(rate="1k/s", records=1000).slot_sharing_group("one")
    passed = made.map(lambda each: each[0], output_type=int).process(stops, output_type=int)
    taken = passed.rebalance().process(Takes(20), output_type=int).slot_sharing_group("two")
    taken.name("Takes").print()
    job = run_job(env.execute(), task_managers=task_managers, slots=slots)
    assert len(printed(job)) == 20
    assert stops.told == [b"thanks"]
    (takes,) = (each for each in job.tasks.values() if each.name.startswith("Takes"))
    assert 20 <= takes.processed_records < 100


def test_an_event_of_a_task_that_reads_nothing_is_refused() -> None:
    env = environment(1)

    def tell(record: int, output: Output) -> None:
        output.send_task_event(TaskEvent(ENOUGH))

    env.from_sequence(1, 9).process(tell, output_type=int).discard()
    with pytest.raises(TaskFailedError, match=f"cannot send the task event {ENOUGH}"):
        run_job(env.execute())
