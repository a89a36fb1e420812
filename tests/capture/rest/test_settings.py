"""Settings of a cluster and its jobs, as a JobManager reports them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flinknet.capture.rest.settings import Layer, ReportedSettings, Stated, checkpoint_settings
from flinknet.errors import ConfigError
from flinknet.trace import RunManifest
from flinknet.trace.manifest import IS_ADAPTIVE
from tests.capture.rest.saved import MadeAnswers, saved, tapped

TIMEOUT = "execution.buffer-timeout.interval"
INTERVAL = "execution.checkpointing.interval"

CHECKPOINTS = {
    "mode": "exactly_once",
    "interval": 2000,
    "timeout": 600000,
    "min_pause": 0,
    "max_concurrent": 1,
    "unaligned_checkpoints": True,
    "aligned_checkpoint_timeout": 30,
    "checkpoints_after_tasks_finish": True,
}


def of_cluster(release: str = "2.3.0", **keys: str) -> dict[str, Any]:
    return {
        "/config": {"flink-version": release},
        "/jobmanager/config": [
            {"key": key.replace("_", "."), "value": value} for key, value in keys.items()
        ],
        "/taskmanagers": {"taskmanagers": []},
    }


def described(stated: Stated, *jobs: str) -> RunManifest:
    """The manifest of a trace of these jobs."""
    manifest = tapped()
    scenario = {**manifest.scenario, "job": {"ids": list(jobs), "vertices": [], "edges": []}}
    return stated.put_into(replace(manifest, scenario=scenario))


def test_keys_of_the_job_manager_are_stated_and_others_are_defaults() -> None:
    answers = of_cluster()
    answers["/jobmanager/config"] += [
        {"key": "execution.buffer-timeout", "value": "20 ms"},
        {"key": "rest.port", "value": "8081"},
        {"key": "security.ssl.internal.key-password", "value": "******"},
        {"key": "taskmanager.network.memory.buffers-per-channel", "value": "7"},
        {"key": "taskmanager.network.no-such-key", "value": "1"},
    ]
    found = described(ReportedSettings(MadeAnswers(answers)).of(()))
    assert found.settings_from == {TIMEOUT: "JobManager"}
    assert found.flink_keys[TIMEOUT] == "20 ms"
    assert found.flink_keys["taskmanager.network.memory.buffers-per-channel"] == "2"


def test_flink_1_acts_on_keys_that_2_ignores() -> None:
    answers = of_cluster("1.20.5")
    key = "taskmanager.network.memory.floating-buffers-per-gate"
    answers["/jobmanager/config"] += [{"key": key, "value": "16"}]
    found = described(ReportedSettings(MadeAnswers(answers)).of(()))
    assert found.settings_from == {key: "JobManager"}
    assert found.flink_keys[key] == "16"


def test_task_managers_report_their_memory() -> None:
    found = described(ReportedSettings(saved("2.3.0")).of(()))
    assert found.flink_keys["taskmanager.memory.network.min"] == "64 mb"
    assert found.settings_from == {
        "taskmanager.bind-host": "JobManager",
        "taskmanager.memory.network.min": "TaskManagers",
        "taskmanager.memory.segment-size": "TaskManagers",
    }


def test_a_job_reports_its_checkpoints() -> None:
    answers = of_cluster() | {"/jobs/a/checkpoints/config": CHECKPOINTS}
    found = described(ReportedSettings(MadeAnswers(answers)).of(("a", "b")), "a")
    assert found.settings_from is not None
    assert set(found.settings_from.values()) == {"job"}
    assert found.flink_keys[INTERVAL] == "2 s"
    assert found.flink_keys["execution.checkpointing.unaligned.enabled"] == "true"
    assert found.flink_keys["execution.checkpointing.aligned-checkpoint-timeout"] == "30 ms"


def test_a_real_job_reports_its_checkpoints() -> None:
    found = checkpoint_settings(saved("2.3.0"), "5c5e91482bb235d60b350e4a338369ef")
    assert found == {
        INTERVAL: "1000 ms",
        "execution.checkpointing.timeout": "600000 ms",
        "execution.checkpointing.aligned-checkpoint-timeout": "0 ms",
        "execution.checkpointing.unaligned.enabled": "false",
        "execution.checkpointing.checkpoints-after-tasks-finish": "true",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
    }


@pytest.mark.parametrize(
    "answer", [None, [], {}, {"interval": 0}, {"interval": (1 << 63) - 1}, {"interval": "often"}]
)
def test_a_job_without_periodic_checkpoints_has_no_settings(answer: object) -> None:
    assert checkpoint_settings(MadeAnswers({"/jobs/a/checkpoints/config": answer}), "a") == {}
    assert checkpoint_settings(MadeAnswers({}), "a") == {}


def test_jobs_of_one_trace_state_what_they_have_in_common() -> None:
    jobs = {
        "a": {INTERVAL: "1 s", "execution.checkpointing.timeout": "1 min"},
        "b": {INTERVAL: "2 s", "execution.checkpointing.timeout": "1 min"},
    }
    found = described(Stated((Layer("JobManager", {}),), jobs=jobs), "a", "b")
    assert found.settings_from == {"execution.checkpointing.timeout": "job"}


def test_what_a_user_states_is_over_the_cluster_and_under_the_job() -> None:
    stated = Stated(
        (Layer("JobManager", {TIMEOUT: "50 ms", INTERVAL: "1 s"}),),
        (Layer("config.yaml", {TIMEOUT: "20 ms", INTERVAL: "2 s"}),),
        {"a": {INTERVAL: "3 s"}},
    )
    found = described(stated, "a")
    assert (found.flink_keys[TIMEOUT], found.flink_keys[INTERVAL]) == ("20 ms", "3 s")
    assert found.settings_from == {TIMEOUT: "config.yaml", INTERVAL: "job"}


def test_what_flinknet_cannot_take_together_is_not_stated() -> None:
    largest = {"taskmanager.memory.segment-size": "4kb"}
    smallest = {"taskmanager.memory.min-segment-size": "8kb"}
    stated = Stated((Layer("JobManager", largest),), jobs={"a": smallest})
    assert described(stated, "a").settings_from is None
    given = replace(stated, given=(Layer("config.yaml", {TIMEOUT: "20 ms"}),))
    assert described(given, "a").settings_from == {TIMEOUT: "config.yaml"}
    with pytest.raises(ConfigError, match="are not in order"):
        Stated(given=(Layer("config.yaml", {**largest, **smallest}),)).put_into(tapped())


def test_partitioners_that_choose_idle_channels_are_known_of_a_trace() -> None:
    key = "taskmanager.network.adaptive-partitioner.enabled"
    for value, is_adaptive in (("true", True), ("false", None)):
        answers = of_cluster()
        answers["/jobmanager/config"].append({"key": key, "value": value})
        found = described(ReportedSettings(MadeAnswers(answers)).of(()))
        assert found.scenario.get(IS_ADAPTIVE) is is_adaptive
        given = described(Stated(given=(Layer("config.yaml", {key: value}),)))
        assert given.scenario.get(IS_ADAPTIVE) is is_adaptive


def test_without_a_statement_the_messages_tell() -> None:
    assert described(Stated()).flink_keys == {}
