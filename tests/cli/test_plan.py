"""flinknet plan: layers and formats, the verdict, and what is wrong in one line."""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from .conftest import Flinknet

JOBS = Path(__file__).parents[2] / "bench" / "jobs"
MEMORY = ("taskmanager.memory.network.min=512kb", "taskmanager.memory.network.max=512kb")


@pytest.fixture
def job(tmp_path: Path) -> Callable[[str], Path]:
    """Write the body of a program."""

    def write(body: str) -> Path:
        path = tmp_path / "job.py"
        path.write_text(f"def main(env):\n    {body}\n")
        return path

    return write


@pytest.mark.parametrize("name", sorted(path.name for path in JOBS.glob("*.py")))
def test_every_job_that_ships_has_a_plan(flinknet: Flinknet, name: str) -> None:
    answer = flinknet("plan", JOBS / name).stdout
    names = [line.split()[0] for line in answer.splitlines()[:9] if line[:1].isalpha()]
    assert names[:4] == ["planned", "verdict", "memory", "next"]
    assert "StreamGraph" not in answer
    assert "--details shows" in answer
    assert max(map(len, answer.splitlines())) <= 100
    result = flinknet("plan", "--details", JOBS / name)
    assert result.exit_code == 0, result.output
    for layer in ("StreamGraph", "JobGraph", "ExecutionGraph", "PhysicalPlan"):
        assert f'{layer} "' in result.stdout
    assert result.stdout.endswith("the job would start\n")
    assert "--details" not in result.stdout


def test_the_shuffle_example_on_two_task_managers(flinknet: Flinknet) -> None:
    result = flinknet(
        *("plan", JOBS / "shuffle.py", "--task-managers", 2, "--slots", 2),
        *("--layer", "physical", "--format", "json"),
    )
    assert result.exit_code == 0, result.output
    plan = json.loads(result.stdout)["physical"]
    assert (plan["local_channels"], plan["remote_channels"]) == (8, 8)
    assert [(c["connection"], c["channels"], c["opened_by"]) for c in plan["connections"]] == [
        ("tm-0->tm-1", 4, 1),
        ("tm-1->tm-0", 4, 0),
    ]
    assert plan["would_start"] is True


def test_task_managers_that_take_turns_have_the_tasks_of_a_load_that_is_spread(
    flinknet: Flinknet,
) -> None:
    result = flinknet(
        *("plan", "--vertices", "4,4", "--task-managers", 2, "--slots", 4),
        *("-D", "taskmanager.load-balance.mode=SLOTS", "--details"),
    )
    rows = [line.split() for line in result.stdout.splitlines() if "vertex 1." in line]
    over = [row[-1] for row in rows]
    here, there = ["local", "tm-0->tm-1"] * 2, ["tm-1->tm-0", "local"] * 2
    assert over == [*here, *there] * 2


def test_json_of_all_layers(flinknet: Flinknet) -> None:
    result = flinknet("plan", JOBS / "socket_word_count.py", "--format", "json")
    document = json.loads(result.stdout)
    assert list(document) == ["schema_version", "stream", "job", "execution", "physical"]
    assert len(document["stream"]["nodes"]) == 4
    assert len(document["job"]["vertices"]) == 3
    assert document["execution"]["execution_vertices"] == 5
    assert len(document["physical"]["tasks"]) == 5


@pytest.mark.parametrize("layer", ["stream", "job", "execution", "physical"])
def test_one_layer_in_every_format(flinknet: Flinknet, layer: str) -> None:
    call = ("plan", JOBS / "shuffle.py", "--layer", layer)
    tree = flinknet(*call).stdout
    assert sum(each in tree for each in ("StreamGraph", "JobGraph", "ExecutionGraph")) == (
        layer != "physical"
    )
    assert list(json.loads(flinknet(*call, "--format", "json").stdout)) == ["schema_version", layer]
    assert ET.fromstring(flinknet(*call, "--format", "svg").stdout).tag.endswith("svg")


def test_without_enough_memory_the_job_would_not_start(flinknet: Flinknet) -> None:
    call = ("plan", JOBS / "shuffle.py", "--task-managers", 2, "--slots", 2)
    low = [part for key in MEMORY for part in ("-D", key)]
    result = flinknet(*call, *low)
    assert result.exit_code == 1
    assert "the job would not start: insufficient number of network buffers" in result.stdout
    assert "taskmanager.memory.network.min to 640kb" in " ".join(result.stdout.split())
    as_told = [text.replace("512kb", "640kb") for text in low]
    assert flinknet(*call, *as_told).exit_code == 0
    # other layers do not ask
    assert flinknet(*call, *low, "--layer", "job").exit_code == 0


def test_keys_act_and_the_program_wins(flinknet: Flinknet, job: Callable[[str], Path]) -> None:
    path = job("env.from_sequence(1, 9).print().set_parallelism(2); env.execute()")
    call = ("plan", path, "--layer", "stream", "-D", "parallelism.default=3")
    result = flinknet(*call)
    assert "Source: Sequence Source  parallelism 3," in result.stdout
    assert "Sink: Print to Std. Out  parallelism 2," in result.stdout
    assert result.stderr == ""  # no word about keys that do nothing
    (Path("config.yaml")).write_text("parallelism.default: 7\n")
    assert (
        "parallelism 7,"
        in flinknet(*("plan", path, "--layer", "stream", "--flink-conf", "config.yaml")).stdout
    )
    chained = ("-D", "pipeline.operator-chaining.enabled=false", "-D", "parallelism.default=2")
    assert "2 vertices" in flinknet("plan", path, "--layer", "job", *chained).stdout


def test_a_parallelism_that_changes_nothing_is_reported(
    flinknet: Flinknet, job: Callable[[str], Path]
) -> None:
    path = job("env.set_parallelism(2); env.from_sequence(1, 9).print(); env.execute()")
    call = ("plan", path, "--layer", "stream", "-D")
    idle = flinknet(*call, "parallelism.default=32")
    assert idle.exit_code == 0
    assert "parallelism.default=32 changes nothing: the program sets its own (2)" in idle.stderr
    assert flinknet(*call, "parallelism.default=2").stderr == ""


def test_how_many_buffers_are_needed_is_one_sentence(flinknet: Flinknet) -> None:
    call = ("plan", JOBS / "shuffle.py", "--task-managers", 2, "--slots", 2, "--layer", "physical")
    assert (
        "a TaskManager needs at least 20 buffers (640 KiB), 56 for full speed, 96 with overdraft;"
        " 2048 are configured" in flinknet(*call).stdout
    )
    for buffers, exit_code, verdict in (
        (56, 0, "start\n"),
        (55, 0, "start, but below full speed: TaskManager 0 has"),
        (20, 0, "start, but below full speed"),
        (19, 1, "not start"),
    ):
        keys = [f"taskmanager.memory.network.{end}={buffers * 32}kb" for end in ("min", "max")]
        planned = flinknet(*call, "-D", keys[0], "-D", keys[1])
        assert planned.exit_code == exit_code
        assert f"the job would {verdict}" in planned.stdout


def test_plan_and_print_config_name_buffers_alike(flinknet: Flinknet) -> None:
    names = ("buffers", "exclusive", "required by pools", "spare")
    plan = flinknet("plan", JOBS / "shuffle.py", "--layer", "physical").stdout
    config = flinknet("bench", "config").stdout
    for table in (plan, config):
        (heading,) = (
            line for line in table.splitlines() if line.strip().startswith("TaskManager ")
        )
        assert [each for each in names if each in heading] == list(names)
    assert "a TaskManager needs at least 3 buffers (96.0 KiB), 30 at most with overdraft" in config


def test_batch_has_stages(flinknet: Flinknet, job: Callable[[str], Path]) -> None:
    path = job("env.from_sequence(1, 9).rebalance().print(); env.execute()")
    result = flinknet("plan", path, "--layer", "physical", "-D", "execution.runtime-mode=BATCH")
    assert "2 stages, one after the other" in result.stdout
    assert "BLOCKING" in result.stdout


def test_channels_one_by_one_or_not(flinknet: Flinknet) -> None:
    call = ("plan", JOBS / "shuffle.py", "--layer", "physical")
    for limit, is_listed in ((15, False), (16, True)):
        result = flinknet(*call, "--channels", limit)
        assert ("subpartition" in result.stdout) is is_listed
    wide = flinknet("plan", JOBS / "shuffle.py", "10", "--layer", "physical")
    assert "(100 channels; one by one with --channels 100)" in wide.stdout


def test_arguments_reach_the_program(flinknet: Flinknet) -> None:
    result = flinknet("plan", JOBS / "shuffle.py", "1000", "--layer", "physical", "--slots", 100)
    assert result.exit_code == 1  # a million channels need more than the default memory
    assert "1,000,000 channels" in result.stdout


def test_a_file_of_flink_1_is_planned_with_the_defaults_of_flink_1(flinknet: Flinknet) -> None:
    text = (
        "taskmanager.memory.process.size: 2gb\n"
        "taskmanager.network.memory.buffers-per-channel: 4\ntaskmanager.network.numberOfBuffers"
    )
    most = []
    for name in ("flink-conf.yaml", "config.yaml"):
        Path(name).write_text(f"{text}: 4096\n")
        result = flinknet("plan", "--vertices", "4,4", "--slots", "4", "--flink-conf", name)
        most += re.findall(r"(\d+) with overdraft", result.stdout)
        assert ("Flink 2.x" in result.stderr) is (name == "config.yaml"), result.stderr
    old, new = map(int, most)
    channels, gates = 16, 4
    assert new - old == gates * (20 - 5) - channels * (4 - 2)


@pytest.mark.parametrize(("version", "rc"), [("v1_20", 0), ("v2_2", 1)])
def test_a_key_that_flink_2_has_fixed_starts_no_job_of_flink_2(
    flinknet: Flinknet, version: str, rc: int
) -> None:
    text = (
        f"kind: FlinkDeployment\nspec:\n  flinkVersion: {version}\n  flinkConfiguration:\n"
        "    taskmanager.network.memory.buffers-per-channel: 0\n"
        "    taskmanager.memory.network.min: 2500kb\n"
        "    taskmanager.memory.network.max: 2500kb\n"
        "  taskManager: {resource: {memory: 2Gi}}\n"
    )
    Path("pay.yaml").write_text(text)
    result = flinknet("plan", "--vertices", "40,40", "--slots", "1", "--flink-conf", "pay.yaml")
    assert result.exit_code == rc, result.output
    assert ("fixed in Flink 2.x" in result.stderr) is (rc == 1)


def test_a_session_job_has_no_memory_of_its_own(flinknet: Flinknet) -> None:
    text = "kind: FlinkSessionJob\nspec:\n  deploymentName: pay\n  flinkConfiguration:\n"
    Path("sj.yaml").write_text(f"{text}    execution.buffer-timeout.interval: 7ms\n")
    for call in (("plan", "--vertices", "4,4"), ("bench", "config")):
        result = flinknet(*call, "--flink-conf", "sj.yaml")
        assert result.exit_code == 0, result.output
        assert "no total size" not in result.output


def test_a_fraction_is_advised_within_the_largest_network_memory(flinknet: Flinknet) -> None:
    memory = ("-D", "taskmanager.memory.network.max=7m", "-D", "taskmanager.memory.network.min=7m")
    result = flinknet("plan", "--vertices", "40,40", "--slots", "4", *memory)
    assert "raise taskmanager.memory.network.fraction within that max" in " ".join(
        result.stdout.split()
    )


def test_deprecated_and_idle_keys_are_reported(flinknet: Flinknet) -> None:
    result = flinknet(
        *("plan", JOBS / "shuffle.py", "-D", "pipeline.operator-chaining=false"),
        *("-D", "slot.idle.timeout=1s"),
    )
    assert "pipeline.operator-chaining is deprecated: use " in result.stderr
    assert "slot.idle.timeout: ignored by flinknet" in result.stderr


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("pass", "ends without a job; call env.execute()"),
        ("env.from_sequence(1, 2).print(); env.execute(); env.execute()", "has 2 jobs"),
        ("raise SystemExit(0)", "job.py:2: the program ends itself"),
        ("env.execute()", "job.py:2: the program is empty"),
        ("1 / 0", "job.py:2: ZeroDivisionError: division by zero"),
        ("env.from_sequence(1, 2).map(lambda x: x).print()", "job.py:2: Map: the type of its"),
        ("env.frobnicate()", "job.py:2: StreamExecutionEnvironment has no f"),
        ("return (", "job.py:2: SyntaxError"),
        (
            "env.from_sequence(1, 2).set_parallelism(2).forward().print(); env.execute()",
            "job.py:2: forward does not allow a change of parallelism: Source: Sequence Source has"
            " 2, Sink: Print to Std. Out has 1",
        ),
    ],
)
def test_a_program_that_fails_is_reported_in_one_line(
    flinknet: Flinknet, job: Callable[[str], Path], body: str, message: str
) -> None:
    result = flinknet("plan", job(body))
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_what_a_program_prints_and_imports(flinknet: Flinknet, tmp_path: Path) -> None:
    (tmp_path / "my_words.py").write_text("COUNT = 3\n")
    (tmp_path / "job.py").write_text(
        "from my_words import COUNT\n"
        "def main(env):\n"
        "    print('building')\n"
        "    env.from_sequence(1, COUNT).print()\n"
        "    env.execute()\n"
        "    env.from_sequence(1, COUNT).discard()  # behind the end\n"
    )
    result = flinknet("plan", "job.py", "--format", "json")
    assert len(json.loads(result.stdout)["stream"]["nodes"]) == 2
    assert result.stderr == "building\n"


def test_without_credit_gates_need_a_buffer_for_each_channel(flinknet: Flinknet) -> None:
    call = ("plan", JOBS / "shuffle.py", "--task-managers", 2, "--slots", 2, "--format", "json")
    result = flinknet(*call, "-D", "taskmanager.network.credit-model.enabled=false")
    for each in json.loads(result.stdout)["physical"]["buffers"]:
        assert (each["exclusive"], each["required"]) == (0, 2 * (4 + 5))


SAVED = Path(__file__).parents[1] / "capture" / "rest" / "flink-2.3.0"


def test_a_running_job_and_what_it_would_need_at_another_parallelism(flinknet: Flinknet) -> None:
    call = ("plan", "--rest", SAVED, "--parallelism", "sink=8", "--format", "json")
    result = flinknet(*call)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    running, planned = document["running"], document["planned"]
    assert document["job"]["name"] == "exchange"
    assert (running["channels"], running["local_channels"]) == (6, 4)
    for each in running["task_managers"]:  # what Flink itself said is in use
        assert each["needed_buffers"] <= each["used_buffers"] <= each["wanted_buffers"]
    assert [each["total_buffers"] for each in running["task_managers"]] == [2048, 2048]
    assert [each["parallelism"] for each in planned["vertices"]] == [2, 8]
    assert planned["channels"] == 16
    assert planned["would_start"] is True


def test_keys_that_a_cluster_ignores_do_not_refuse_it(flinknet: Flinknet, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    shutil.copytree(SAVED, saved)
    place = saved / "jobmanager" / "config.json"
    more = {
        "taskmanager.memory.preallocate": "false",
        "taskmanager.network.netty.transport": "kqueue",
        "restart-strategy.type": "exponential-delay",
    }
    keys = [*json.loads(place.read_text()), *({"key": k, "value": v} for k, v in more.items())]
    place.write_text(json.dumps(keys))
    result = flinknet("plan", "--rest", saved)
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines() == [
        "flinknet: ignored, Flink has no such key: taskmanager.memory.preallocate",
        "flinknet: ignored by flinknet, values that it cannot use:"
        " taskmanager.network.netty.transport",
    ]


REST = Path(__file__).parents[1] / "capture" / "rest" / "plans"


def planned(result: Result) -> dict[str, int]:
    """Parallelism of each vertex, as planned."""
    assert result.exit_code == 0, result.output
    vertices = json.loads(result.stdout)["planned"]["vertices"]
    return {each["name"]: each["parallelism"] for each in vertices}


@pytest.mark.parametrize(
    ("name", "parallelism", "expected"),
    [
        ("restarting", None, {"A": 2, "B": 2}),
        ("restarting", "16", {"A": 16, "B": 16}),
        ("curl-only", "16", {"A": 16, "B": 16}),
        ("curl-only/jobs/9dd4e461268c8034f5c8564e155c67a6.json", "b=3", {"A": 2, "B": 3}),
        ("plan.json", "16", {"Source: numbers": 16, "Sum": 16}),
        ("info.txt", "num=8", {"Source: numbers -> Map": 8, "Sum": 16, "Sink: out": 1}),
        ("info.txt", "8", {"Source: numbers -> Map": 8, "Sum": 8, "Sink: out": 1}),
        ("page.json", "sum=2", {"Source: numbers": 4, "Sum -> Map": 2}),
    ],
)
def test_a_job_is_planned_without_its_places(
    flinknet: Flinknet, name: str, parallelism: str | None, expected: dict[str, int]
) -> None:
    wanted = () if parallelism is None else ("--parallelism", parallelism)
    result = flinknet("plan", "--rest", REST / name, *wanted, "--slots", 4, "--format", "json")
    assert planned(result) == expected
    assert json.loads(result.stdout)["running"] is None


def test_a_plan_in_place_of_a_program_is_planned(flinknet: Flinknet) -> None:
    result = flinknet("plan", REST / "plan.json", "--slots", 16)
    assert (result.exit_code, result.stdout.splitlines()[0]) == (
        0,
        "runs       plan: Source: numbers x 4, Sum x 16",
    )
    assert "trust      fair: slots and network memory are assumed; --slots and -D" in result.stdout
    batch = flinknet("plan", REST / "plan.json", "-D", "execution.runtime-mode=BATCH")
    assert "memory     each needs 512 (16.0 MiB) of its 2048 buffers; " in batch.stdout


def test_what_stays_at_another_parallelism_is_said(flinknet: Flinknet) -> None:
    lines = flinknet("plan", "--rest", REST / "info.txt", "--parallelism", "8").stdout
    assert (
        "Sink: out stays at 1: it has one subtask; --parallelism '8,Sink: out=8' changes" in lines
    )
    lines = flinknet("plan", "--rest", REST / "page.json", "--parallelism", "sum=2").stdout
    assert "Source: numbers -> Sum -> Map becomes a rebalance: a forward exchange needs" in lines
    lines = flinknet("plan", "--rest", REST / "restarting", "--parallelism", "A=4").stdout
    assert (
        "placed anew, not as it runs: A (1/2) has no TaskManager (the job is RESTARTING)" in lines
    )


def test_a_vertex_has_no_more_subtasks_than_the_maximum_that_was_set(flinknet: Flinknet) -> None:
    answer = json.loads(next((REST / "curl-only" / "jobs").glob("[0-9a-f]*.json")).read_text())
    answer["vertices"][0]["maxParallelism"] = 4
    Path("job.json").write_text(json.dumps(answer))
    result = flinknet("plan", "job.json", "--parallelism", "16")
    assert "A stays at 2: its maximum parallelism is 4\n" in result.stdout
    named = flinknet("plan", "job.json", "--parallelism", "B=5,3", "--format", "json")
    assert planned(named) == {"A": 3, "B": 5}
    refused = flinknet("plan", "job.json", "--parallelism", "16,A=16")
    assert (refused.exit_code, "A cannot have 16: its maximum" in refused.stderr) == (2, True)
    more = flinknet("plan", "job.json", "--parallelism", "B=200", "--format", "json")
    assert planned(more) == {"A": 2, "B": 200}
    assert "B exceeds its maximum parallelism of 128: the job starts with more only" in more.stdout
    answer["vertices"][1]["parallelism"] = -1
    Path("job.json").write_text(json.dumps(answer))
    assert "B has no parallelism yet, which Flink chooses" in flinknet("plan", "job.json").stderr
    answer |= {"vertices": [], "state": "INITIALIZING"}
    Path("job.json").write_text(json.dumps(answer))
    assert "x has no tasks yet (it is INITIALIZING)" in flinknet("plan", "job.json").stderr


def test_a_job_without_a_program_is_planned_as_batch(flinknet: Flinknet) -> None:
    batch = ("-D", "execution.runtime-mode=BATCH")
    result = flinknet("plan", "--vertices", "64,64", *batch)
    assert (result.exit_code, "2 stages" in result.stdout) == (0, True)
    result = flinknet("plan", "--rest", REST / "restarting", "--parallelism", "16", *batch)
    assert result.exit_code == 0


def test_a_running_job_that_would_not_start_says_what_would_do(flinknet: Flinknet) -> None:
    memory = "taskmanager.memory.network"
    sizes = ("-D", f"{memory}.min=1mb", "-D", f"{memory}.max=1mb")
    result = flinknet("plan", "--rest", SAVED, "--parallelism", "128", *sizes)
    assert result.exit_code == 1
    assert "Source: source x 2, sink x 3; 6 channels, 4 of them local" in result.stdout
    assert "in use" in result.stdout
    assert "the job would not start: insufficient number of network buffers" in result.stdout


def test_a_job_without_a_program_is_planned_by_its_numbers_of_subtasks(flinknet: Flinknet) -> None:
    where = ("--task-managers", 2, "--slots", 4)
    result = flinknet("plan", "--vertices", "8,8", *where, "--format", "json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert list(document) == ["schema_version", "physical"]
    assert document["physical"]["local_channels"] + document["physical"]["remote_channels"] == 64
    text = flinknet("plan", "--vertices", "8,8", "--details", *where).stdout
    of_program = flinknet("plan", JOBS / "shuffle.py", *where, "--layer", "physical", "--", 8)
    needs = [line for line in text.splitlines() if "needs at least" in line]
    assert needs
    assert needs[-1] in of_program.stdout
