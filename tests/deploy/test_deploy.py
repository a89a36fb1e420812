"""What stands in deploy/, as far as it can be checked without a cluster and without Docker: fields
are known, commands parse, and ports agree with Flink's two keys.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from flinknet import options as flink
from flinknet.cli import main
from flinknet.cli.trace_tap import pairs_of

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
MANIFEST = yaml.safe_load((DEPLOY / "kubernetes/flink-deployment.yaml").read_text())
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()

TEXT, NUMBER, FREE = str, (int, float), object

RESOURCES = {"requests": {"cpu": TEXT, "memory": TEXT}, "limits": {"memory": TEXT}}
CONTAINER = {
    "name": TEXT,
    "image": TEXT,
    "restartPolicy": TEXT,
    "command": [TEXT],
    "args": [TEXT],
    "ports": [{"name": TEXT, "containerPort": int}],
    "startupProbe": {
        "httpGet": {"path": TEXT, "port": TEXT},
        "periodSeconds": int,
        "failureThreshold": int,
    },
    "resources": RESOURCES,
    "volumeMounts": [{"name": TEXT, "mountPath": TEXT}],
}
POD = {
    "apiVersion": TEXT,
    "kind": TEXT,
    "spec": {
        "securityContext": {"fsGroup": int},
        "initContainers": [CONTAINER],
        "containers": [CONTAINER],
        "volumes": [{"name": TEXT, "emptyDir": {}}],
    },
}
FLINK_DEPLOYMENT = {
    "apiVersion": TEXT,
    "kind": TEXT,
    "metadata": {"name": TEXT},
    "spec": {
        "image": TEXT,
        "flinkVersion": TEXT,
        "serviceAccount": TEXT,
        "flinkConfiguration": FREE,
        "jobManager": {"resource": {"memory": TEXT, "cpu": NUMBER}},
        "taskManager": {"resource": {"memory": TEXT, "cpu": NUMBER}, "podTemplate": POD},
    },
}
"""The part of the operator's resource and of Kubernetes' Pod that is used here: a field that is
misspelt or of another type is not in it."""


def strange_fields(value: Any, schema: Any, path: str = "") -> Iterator[str]:
    """Paths of what a schema of nested types does not have."""
    if isinstance(schema, dict) and isinstance(value, dict):
        for key, each in value.items():
            if key in schema:
                yield from strange_fields(each, schema[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}"
    elif isinstance(schema, list) and isinstance(value, list):
        for each in value:
            yield from strange_fields(each, schema[0], f"{path}[]")
    elif isinstance(schema, (dict, list)) or not isinstance(value, schema):
        yield path


def test_the_manifest_has_only_fields_that_there_are() -> None:
    assert list(strange_fields(MANIFEST, FLINK_DEPLOYMENT)) == []
    assert list(strange_fields({"metadata": {"nam": "x"}, "spec": []}, FLINK_DEPLOYMENT)) == [
        ".metadata.nam",
        ".spec",
    ]


def test_the_pod_of_the_manifest_is_one_to_kubernetes() -> None:
    """Against its own schemas, if they are here (pip install kubernetes-validate; 170 MB)."""
    kubernetes = pytest.importorskip("kubernetes_validate")
    pod = deepcopy(MANIFEST["spec"]["taskManager"]["podTemplate"])
    pod["metadata"] = {"name": "as-the-operator-names-it"}
    pod["spec"]["containers"][0]["image"] = MANIFEST["spec"]["image"]
    kubernetes.validate(pod, "1.29", strict=True)
    pod["spec"]["initContainers"][0]["restartPolcy"] = "Always"
    with pytest.raises(kubernetes.ValidationError):
        kubernetes.validate(pod, "1.29", strict=True)


def tap_options(shell_line: str) -> Mapping[str, Any]:
    """What the command line of a tap means to flinknet; `…` in it is what the shell fills in."""
    words = shlex.split(re.sub("`[^`]+`", "now", shell_line))
    assert words[:4] == ["exec", "flinknet", "trace", "tap"]
    command: click.Command = main
    context = click.Context(main)
    for word in words[2:4]:
        assert isinstance(command, click.Group)
        found = command.get_command(context, word)
        assert found is not None
        command = found
    return command.make_context("tap", words[4:]).params


def ports_of(options: Mapping[str, Any]) -> tuple[int, int]:
    """Where a tap listens for anyone, and the port behind it."""
    [((host, port), (upstream_host, upstream_port))] = pairs_of(
        options["listen"], options["upstream"]
    )
    assert (host, upstream_host) == ("0.0.0.0", "127.0.0.1")
    return port, upstream_port


def flink_ports(configuration: Mapping[str, Any]) -> tuple[int, int]:
    """The advertised and the bound data port; every key is one that Flink has."""
    for key in configuration:
        if key.startswith("taskmanager.data."):
            flink.find_option(key)
    return (
        int(configuration["taskmanager.data.port"]),
        int(configuration["taskmanager.data.bind-port"]),
    )


def test_the_sidecar_of_the_manifest_listens_where_flink_sends_its_consumers() -> None:
    spec = MANIFEST["spec"]
    pod = spec["taskManager"]["podTemplate"]["spec"]
    [tap], [main_container] = pod["initContainers"], pod["containers"]
    assert main_container["name"] == "flink-main-container"  # as the operator calls it
    assert tap["restartPolicy"] == "Always"

    options = tap_options(tap["args"][0])
    listened, _ = ports = ports_of(options)
    assert ports == flink_ports(spec["flinkConfiguration"])
    metrics_host, metrics_port = options["metrics_port"].split(":")
    ports_by_name = {each["name"]: each["containerPort"] for each in tap["ports"]}
    assert ports_by_name == {"data": listened, "metrics": int(metrics_port)}
    assert metrics_host == "0.0.0.0"  # a kubelet probes the address of the pod
    assert int(metrics_port) != REPORTER_PORT  # containers of a pod share their ports
    assert tap["startupProbe"]["httpGet"] == {"path": "/metrics", "port": "metrics"}
    assert options["rest"] == f"http://{MANIFEST['metadata']['name']}-rest:8081"

    [mount], [volume] = tap["volumeMounts"], pod["volumes"]
    assert mount["name"] == volume["name"]
    assert options["out"].startswith(f"{mount['mountPath']}/")
    assert f"VOLUME {mount['mountPath']}" in DOCKERFILE
    assert f"USER {pod['securityContext']['fsGroup']}" in DOCKERFILE


@pytest.mark.parametrize("number", [1, 2])
def test_a_tap_of_the_compose_file_stands_in_front_of_its_task_manager(number: int) -> None:
    services = COMPOSE["services"]
    tap, task_manager = services[f"tap-{number}"], services[f"taskmanager-{number}"]
    assert tap["network_mode"] == f"service:taskmanager-{number}"
    options = tap_options(tap["command"][0])
    configuration = yaml.safe_load(task_manager["environment"]["FLINK_PROPERTIES"])
    assert ports_of(options) == flink_ports(configuration)
    assert options["rest"] == f"http://{configuration['jobmanager.rpc.address']}:8081"
    assert tap["volumes"][0].split(":")[0] in COMPOSE["volumes"]
    assert (DEPLOY / tap["build"]["context"] / tap["build"]["dockerfile"]).is_file()


def test_the_services_of_the_compose_file_depend_on_services_that_there_are() -> None:
    services = COMPOSE["services"]
    for service in services.values():
        assert set(service.get("depends_on", [])) <= set(services)


def test_the_image_is_built_from_files_that_are_here_and_not_ignored() -> None:
    kept = {
        line.removeprefix("!")
        for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = set()
    for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE):
        *sources, _ = line.split()
        copied |= set(sources)
    assert copied == kept
    assert all((ROOT / each).exists() for each in copied)
    built = re.search(r"^cp -r (.+) build/light/$", (DEPLOY / "light.sh").read_text(), re.MULTILINE)
    assert built is not None
    assert {*built[1].split(), "pyproject.toml", "deploy"} == copied


def test_both_files_name_the_image_that_the_version_of_flinknet_has() -> None:
    from flinknet import __version__

    pod = MANIFEST["spec"]["taskManager"]["podTemplate"]["spec"]
    images = {pod["initContainers"][0]["image"], COMPOSE["services"]["tap-1"]["image"]}
    assert images == {f"flinknet-tap:{__version__}"}


def test_the_collector_reads_where_the_manifest_and_the_guide_serve_metrics() -> None:
    text = (DEPLOY / "opentelemetry.yaml").read_text()
    for config in (yaml.safe_load(text), yaml.safe_load(of_kubernetes(text))):
        (pipeline,) = config["service"]["pipelines"].values()
        for kind, names in pipeline.items():
            assert set(names) == set(config[kind])
        (job,) = config["receivers"]["prometheus"]["config"]["scrape_configs"]
        if "static_configs" in job:
            assert job["static_configs"] == [{"targets": [f"127.0.0.1:{METRICS_PORT}"]}]
        else:
            (tap,) = MANIFEST["spec"]["taskManager"]["podTemplate"]["spec"]["initContainers"]
            kept = [rule["regex"] for rule in job["relabel_configs"] if "regex" in rule]
            assert kept == [f"{tap['name']};metrics"]
            assert "metrics" in {each["name"] for each in tap["ports"]}
    guide = (ROOT / "docs/results.md").read_text().partition("## OpenTelemetry")[2]
    assert f"--metrics-port {METRICS_PORT}\n" in guide


METRICS_PORT = 9249
REPORTER_PORT = 9249
"""The default of Flink's PrometheusReporter."""


def of_kubernetes(text: str) -> str:
    """The collector's configuration with its comment in place of the static target."""
    lines = text.splitlines()
    at = next(number for number, line in enumerate(lines) if "static_configs:" in line)
    rest = [re.sub(r"^( {10})# (?=[ -]|kube|relabel)", r"\1", line) for line in lines[at + 2 :]]
    return "\n".join([*lines[:at], *rest])
