"""What stands in deploy/, as far as it can be checked without a cluster and without Docker: fields
are known, a restricted namespace admits the pods, commands parse, ports agree with Flink's keys.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import pytest
import yaml

from flinknet import options as flink
from flinknet.cli import main
from flinknet.cli.trace_tap import pairs_of

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
GUIDE = (ROOT / "docs/kubernetes.md").read_text()

Fields = Mapping[str, Any]


def manifests(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / f"{name}.yaml").read_text()))


[OPERATED], [STANDALONE], [TLS], [VALUES] = map(
    manifests, ("flink-deployment", "standalone", "tls", "helm-values")
)
POLICY, MONITOR = manifests("around")
[COMPONENT], [PATCH] = map(manifests, ("tap/kustomization", "tap/tap"))


def merged(base: Any, patch: Any) -> Any:
    """Kubernetes' strategic merge, as far as these files use it: mappings by key, null removes a
    key, lists of what has a name by name, other lists as a whole.
    """
    if isinstance(base, dict) and isinstance(patch, dict):
        both = {key: merged(base[key], patch[key]) for key in base if key in patch}
        result = {**base, **{key: each for key, each in patch.items() if key not in base}, **both}
        return {key: each for key, each in result.items() if each is not None}
    if isinstance(base, list) and all(isinstance(each, dict) and "name" in each for each in patch):
        by_name = {each["name"]: each for each in base}
        for each in patch:
            by_name[each["name"]] = merged(by_name.get(each["name"], {}), each)
        return list(by_name.values())
    return deepcopy(patch)


def task_manager_of(deployment: Fields) -> dict[str, Any]:
    """The TaskManager's pod that the operator makes: both templates, with its own image."""
    spec = deployment["spec"]
    pod: dict[str, Any] = merged(
        merged(spec["podTemplate"], {"metadata": {"name": "named-by-the-operator"}}),
        spec["taskManager"].get("podTemplate", {}),
    )
    pod = deepcopy(pod)
    pod["spec"]["containers"][0]["image"] = spec["image"]
    return pod


PLAIN = {
    **STANDALONE,
    "metadata": {"name": "flink-taskmanager"},
    "spec": {
        "selector": STANDALONE["spec"]["selector"],
        "template": {
            "metadata": STANDALONE["spec"]["template"]["metadata"],
            "spec": {
                "containers": [
                    {"name": "taskmanager", "image": "flink:2.2", "args": ["taskmanager"]}
                ]
            },
        },
    },
}
"""TaskManagers as in Flink's own manifests, without a tap: only the pods have labels."""

PODS = {
    "operator": task_manager_of(OPERATED)["spec"],
    "component": merged(PLAIN, PATCH)["spec"]["template"]["spec"],
    "standalone": STANDALONE["spec"]["template"]["spec"],
    "standalone with TLS": merged(STANDALONE, TLS)["spec"]["template"]["spec"],
}
"""The TaskManagers' pods."""

TAPS = {name: pod["initContainers"][0] for name, pod in PODS.items()}
TAPS["Helm"] = VALUES["taskmanager"]["initContainers"][0]
REST = {"operator": "tapped-rest"}
"""The service of the JobManager, where it is not `flink-jobmanager`."""

TEXT, NUMBER, INTEGER, FLAG, FREE = str, (int, float), int, bool, object
RESOURCE = {"cpu": NUMBER, "memory": TEXT, "ephemeralStorage": TEXT}
PROCESS = {"replicas": INTEGER, "resource": RESOURCE, "resources": FREE, "podTemplate": FREE}
FLINK_DEPLOYMENT = {
    "apiVersion": TEXT,
    "kind": TEXT,
    "metadata": {"name": TEXT},
    "spec": {
        "flinkConfiguration": FREE,
        "flinkVersion": TEXT,
        "image": TEXT,
        "imagePullPolicy": TEXT,
        "ingress": FREE,
        "job": {
            "allowNonRestoredState": FLAG,
            "args": [TEXT],
            "autoscalerResetNonce": INTEGER,
            "checkpointTriggerNonce": INTEGER,
            "entryClass": TEXT,
            "initialSavepointPath": TEXT,
            "jarURI": TEXT,
            "parallelism": INTEGER,
            "savepointRedeployNonce": INTEGER,
            "savepointTriggerNonce": INTEGER,
            "state": TEXT,
            "upgradeMode": TEXT,
        },
        "jobManager": PROCESS,
        "logConfiguration": FREE,
        "mode": TEXT,
        "podTemplate": FREE,
        "restartNonce": INTEGER,
        "serviceAccount": TEXT,
        "taskManager": PROCESS,
    },
}
"""All fields of the FlinkDeployment of the operator 1.13 to 1.15, from its resource definition.
Pods in it are Kubernetes' own."""

POD_MONITOR = {
    "apiVersion": TEXT,
    "kind": TEXT,
    "metadata": {"name": TEXT},
    "spec": {
        "namespaceSelector": {"any": FLAG, "matchNames": [TEXT]},
        "podMetricsEndpoints": [{"port": TEXT, "path": TEXT, "scheme": TEXT, "interval": TEXT}],
        "selector": {"matchLabels": FREE, "matchExpressions": FREE},
    },
}
"""The part of the Prometheus operator's PodMonitor that says what is read."""


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


def test_custom_resources_have_only_fields_that_there_are() -> None:
    assert list(strange_fields(OPERATED, FLINK_DEPLOYMENT)) == []
    assert list(strange_fields(MONITOR, POD_MONITOR)) == []
    assert list(strange_fields({"metadata": {"nam": "x"}, "spec": []}, FLINK_DEPLOYMENT)) == [
        ".metadata.nam",
        ".spec",
    ]


@pytest.mark.slow("needs kubernetes-validate: 22 MB of Kubernetes' schemas")
@pytest.mark.parametrize("release", ["1.29", "1.33", "1.37"])
def test_each_file_is_one_to_kubernetes(release: str) -> None:
    kubernetes = pytest.importorskip("kubernetes_validate")
    pod = task_manager_of(OPERATED)
    for each in (pod, STANDALONE, merged(STANDALONE, TLS), merged(PLAIN, PATCH), POLICY):
        kubernetes.validate(each, release, strict=True)
    pod["spec"]["initContainers"][0]["restartPolcy"] = "Always"
    with pytest.raises(kubernetes.ValidationError):
        kubernetes.validate(pod, release, strict=True)


VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "projected", "secret"}


def what_restricted_refuses(pod: Fields) -> Iterator[str]:
    """The rules of Kubernetes' Pod Security Standards, profile `restricted`, that a pod breaks."""
    own = pod.get("securityContext", {})
    for each in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(each):
            yield each
    for volume in pod.get("volumes", []):
        if not set(volume) - {"name"} <= VOLUMES | {"persistentVolumeClaim"}:
            yield f"volume {volume['name']}"
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        inherited = {**own, **container.get("securityContext", {})}
        if inherited.get("privileged") or any("hostPort" in p for p in container.get("ports", [])):
            yield f"{container['name']}: privileged"
        if inherited.get("allowPrivilegeEscalation") is not False:
            yield f"{container['name']}: allowPrivilegeEscalation"
        if inherited.get("runAsNonRoot") is not True or inherited.get("runAsUser") == 0:
            yield f"{container['name']}: root"
        if inherited.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
            yield f"{container['name']}: seccompProfile"
        capabilities = inherited.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", []) or capabilities.get("add"):
            yield f"{container['name']}: capabilities"


@pytest.mark.parametrize("name", PODS)
def test_a_restricted_namespace_admits_the_pod(name: str) -> None:
    assert list(what_restricted_refuses(PODS[name])) == []
    broken = deepcopy(PODS[name])
    broken["initContainers"][0]["securityContext"] = {"runAsUser": 0}
    broken["volumes"].append({"name": "host", "hostPath": {"path": "/"}})
    assert list(what_restricted_refuses({**broken, "hostNetwork": True})) == [
        "hostNetwork",
        "volume host",
        "flinknet-tap: allowPrivilegeEscalation",
        "flinknet-tap: root",
        "flinknet-tap: capabilities",
    ]


def test_one_tap_stands_in_all_files() -> None:
    def common(tap: Fields, rest: str) -> dict[str, Any]:
        [line] = tap["args"]
        tls = " --tls-cert /pem/internal.pem --tls-key /pem/internal.pem --tls-ca /pem/internal.pem"
        context = dict(tap["securityContext"])
        context.pop("seccompProfile", None)  # of the pod, but for a chart whose pod has none
        mounts = [each for each in tap["volumeMounts"] if each["name"] == "traces"]
        line = line.replace(f"http://{rest}:", "http://REST:").replace(tls, "")
        return {**tap, "args": line, "securityContext": context, "volumeMounts": mounts}

    taps = [common(tap, REST.get(name, "flink-jobmanager")) for name, tap in TAPS.items()]
    assert all(each == taps[0] for each in taps)
    assert list(what_restricted_refuses({"containers": [TAPS["Helm"]]})) == []


def built(resource: Fields, *patches: str) -> subprocess.CompletedProcess[str]:
    """What kustomize makes of a resource, the component `tap` and patches of deploy/kubernetes."""
    with TemporaryDirectory() as directory:
        here = Path(directory)
        (here / "resource.yaml").write_text(yaml.safe_dump(resource))
        for each in patches:
            shutil.copy(DEPLOY / "kubernetes" / each, here)
        kustomization = {
            "resources": ["resource.yaml"],
            "components": [os.path.relpath(DEPLOY / "kubernetes/tap", here.resolve())],
            "patches": [{"path": each} for each in patches],
        }
        (here / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        command = ["kubectl", "kustomize", directory]
        return subprocess.run(command, capture_output=True, text=True, check=False)


needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl builds it")


@needs_kubectl
def test_the_component_adds_the_tap_to_flinks_own_manifest_and_refuses_another() -> None:
    done = built(PLAIN)
    assert done.returncode == 0, done.stderr
    [pod] = (each["spec"]["template"]["spec"] for each in yaml.safe_load_all(done.stdout))
    assert {each["name"]: each for each in pod["initContainers"]} == {
        "flinknet-tap": TAPS["component"]
    }
    other = built({**PLAIN, "metadata": {"name": "team-a"}})
    assert other.returncode != 0
    assert "no resource matches" in other.stderr


@needs_kubectl
def test_the_patch_for_tls_goes_with_the_component_and_with_the_deployment() -> None:
    done = built(PLAIN, "tls.yaml")
    assert done.returncode == 0, done.stderr
    pod = yaml.safe_load(done.stdout)["spec"]["template"]["spec"]
    [tap] = pod["initContainers"]
    assert tap["args"] == TAPS["standalone with TLS"]["args"]
    assert {"mountPath": "/pem", "name": "pem", "readOnly": True} in tap["volumeMounts"]
    assert {each["name"] for each in pod["volumes"]} == {"traces", "no-token", "pem"}


def test_the_patches_name_the_deployment() -> None:
    names = ("apiVersion", "kind")
    for patch in (TLS, PATCH):
        assert [patch[each] for each in names] == [STANDALONE[each] for each in names]
        assert patch["metadata"] == {"name": STANDALONE["metadata"]["name"]}


def test_the_component_is_for_the_task_managers_of_flinks_own_manifests() -> None:
    assert COMPONENT["patches"] == [{"path": "tap.yaml"}], "a target can match nothing, in silence"
    [added], [standalone] = (PODS[name]["initContainers"] for name in ("component", "standalone"))
    assert added == standalone
    [container] = PODS["component"]["containers"]
    assert (container["image"], container["args"][0]) == ("flink:2.2", "taskmanager")


def test_the_line_that_takes_the_tap_out_leaves_a_deployment_without_one() -> None:
    [line] = re.findall(r"^kubectl patch flinkdeployment (?:.*\\\n)*.*$", GUIDE, re.MULTILINE)
    words = shlex.split(line.replace("\\\n", ""))
    assert words[4:6] == ["--type", "merge"]
    patch = yaml.safe_load(words[words.index("-p") + 1])
    left = merged(OPERATED, patch)
    assert "flinknet" not in yaml.safe_dump(left)
    assert left["spec"]["flinkConfiguration"] == {"taskmanager.numberOfTaskSlots": "2"}
    assert left["spec"]["taskManager"] == {
        key: each for key, each in OPERATED["spec"]["taskManager"].items() if key != "podTemplate"
    }


def test_the_policy_goes_before_the_tap_and_an_undo_ends_with_the_replicas() -> None:
    [operated, undone] = (
        block.strip().splitlines()
        for block in re.findall(r"^```\n(.+?)^```", GUIDE, re.MULTILINE | re.DOTALL)
        if "kubectl patch flinkdeployment" in block or "kubectl rollout undo" in block
    )
    policy = f"kubectl delete networkpolicy {POLICY['metadata']['name']} --ignore-not-found"
    assert operated[0] == undone[0] == policy
    name = STANDALONE["metadata"]["name"]
    assert undone[-1].startswith(f"kubectl scale deployment/{name} --replicas=")


def test_the_guide_says_what_a_tap_adds_to_a_pod_and_what_the_policy_leaves_open() -> None:
    requests = TAPS["operator"]["resources"]["requests"]
    millicores, memory = requests["cpu"].removesuffix("m"), requests["memory"].removesuffix("Mi")
    assert f"requests {int(millicores) / 1000} CPU and {memory} MiB more" in GUIDE
    (row,) = re.findall(r"^\| `around\.yaml` \| a NetworkPolicy .+$", GUIDE, re.MULTILINE)
    for rule in POLICY["spec"]["ingress"]:
        for each in rule["from"]:
            labels = each.get("namespaceSelector", each.get("podSelector"))["matchLabels"]
            who = labels.get(METADATA_NAME, labels.get("component"))
            assert who in row.lower() or (who == "taskmanager" and "each other" in row)


def test_one_line_copies_the_traces_of_all_pods(tmp_path: Path) -> None:
    [line] = re.findall(r"^for pod in .+?^done$", GUIDE, re.MULTILINE | re.DOTALL)
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(
        '#!/bin/sh\n[ "$1" = get ] && echo pod/tm-1-1 pod/tm-1-2\necho "$@" >>calls\n'
    )
    kubectl.chmod(0o755)
    path = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-euc", line], cwd=tmp_path, env=path, check=True)
    found, *copied = (tmp_path / "calls").read_text().splitlines()
    assert "app=tapped,component=taskmanager" in found
    assert copied == [
        f"cp -n default -c flinknet-tap tm-1-{n}:/traces tapped/tm-1-{n}" for n in (1, 2)
    ]


def test_policy_and_monitor_are_about_the_pods_and_ports_of_the_tap() -> None:
    labels = {"app": OPERATED["metadata"]["name"], "component": "taskmanager"}
    assert POLICY["spec"]["podSelector"] == MONITOR["spec"]["selector"] == {"matchLabels": labels}
    [endpoint] = MONITOR["spec"]["podMetricsEndpoints"]
    ports = {each["name"]: each["containerPort"] for each in TAPS["operator"]["ports"]}
    assert endpoint["port"] in ports
    prometheus = {"namespaceSelector": {"matchLabels": {METADATA_NAME: "monitoring"}}}
    let_in = [
        (rule["from"], [each["port"] for each in rule.get("ports", [])])
        for rule in POLICY["spec"]["ingress"]
    ]
    assert let_in == [
        ([{"podSelector": {"matchLabels": labels}}], [ports["data"]]),
        ([{"podSelector": {"matchLabels": {**labels, "component": "jobmanager"}}}], []),
        ([prometheus], [ports["metrics"], REPORTER_PORT]),
    ]
    assert VALUES["taskmanager"]["networkPolicy"]["extraIngress"] == [
        {"from": [prometheus], "ports": [{"port": ports["metrics"]}]}
    ]


METADATA_NAME = "kubernetes.io/metadata.name"
"""The label with the name of a namespace, which Kubernetes sets."""


def test_the_ephemeral_container_is_root_and_tcpdump_does_not_depend_on_an_attach() -> None:
    [custom] = re.findall(r"^echo '(.+)' >root\.json$", GUIDE, re.MULTILINE)
    context = {**PODS["operator"]["securityContext"], **yaml.safe_load(custom)["securityContext"]}
    assert (context["runAsUser"], context["runAsNonRoot"]) == (0, False)
    [line] = re.findall(r"^kubectl debug .+$", GUIDE, re.MULTILINE)
    options, _, command = line.partition(" -- ")
    assert {"--custom=root.json", "--profile=netadmin"} < set(options.split())
    assert re.search(r" --image=\S+:v\d", options), "an image without a version changes unseen"
    assert not {"-i", "-it"} & set(options.split())
    assert command.startswith("sleep ")
    assert re.search(r"^kubectl exec POD -c capture -- timeout \d+ tcpdump ", GUIDE, re.MULTILINE)
    assert not re.search(r"^until ", GUIDE, re.MULTILINE), "an image that cannot be pulled"


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


@pytest.mark.parametrize("name", TAPS)
def test_the_sidecar_listens_where_flink_sends_its_consumers(name: str) -> None:
    tap = TAPS[name]
    assert tap["restartPolicy"] == "Always"
    options = tap_options(tap["args"][0])
    listened, _ = ports = ports_of(options)
    assert ports == flink_ports(KEYS[name])
    metrics_host, metrics_port = options["metrics_port"].split(":")
    ports_by_name = {each["name"]: each["containerPort"] for each in tap["ports"]}
    assert ports_by_name == {"data": listened, "metrics": int(metrics_port)}
    assert metrics_host == "0.0.0.0"  # a kubelet probes the address of the pod
    assert int(metrics_port) != REPORTER_PORT  # containers of a pod share their ports
    assert tap["startupProbe"]["httpGet"] == {"path": "/metrics", "port": "metrics"}
    assert options["rest"] == f"http://{REST.get(name, 'flink-jobmanager')}:8081"
    [mount] = [each for each in tap["volumeMounts"] if each["name"] == "traces"]
    assert options["out"].startswith(f"{mount['mountPath']}/")
    assert f"VOLUME {mount['mountPath']}" in DOCKERFILE


@pytest.mark.parametrize("name", TAPS)
def test_an_empty_volume_covers_the_token_of_the_service_account(name: str) -> None:
    [cover] = [each for each in TAPS[name]["volumeMounts"] if each["mountPath"] == TOKEN_PATH]
    pod_volumes = PODS[name]["volumes"] if name in PODS else VALUES["taskmanager"]["extraVolumes"]
    assert {"name": cover["name"], "emptyDir": {}} in pod_volumes


TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where Kubernetes mounts the token, unless a container has a mount of its own there."""


def test_the_guide_has_a_way_back_for_each_file() -> None:
    table = GUIDE.partition("| file | the way back |\n")[2]
    rows = [line.split(" | ")[0] for line in table.partition("\n\n")[0].splitlines()[1:]]
    files = {each.name for each in (DEPLOY / "kubernetes").iterdir()}
    assert {row.strip("| `") for row in rows} == files - {"flink-deployment.yaml"}
    name = STANDALONE["metadata"]["name"]
    assert f"\nkubectl rollout undo deployment/{name} --to-revision=N\n" in GUIDE


@pytest.mark.parametrize("name", PODS)
def test_the_volume_is_one_that_the_user_of_the_image_can_write_to(name: str) -> None:
    pod = PODS[name]
    assert f"USER {pod['securityContext']['fsGroup']}" in DOCKERFILE
    volumes = {each["name"] for each in pod["volumes"]}
    assert {each["name"] for each in TAPS[name]["volumeMounts"]} == volumes
    assert OPERATED["spec"]["podTemplate"]["spec"]["containers"][0]["name"] == MAIN_CONTAINER


MAIN_CONTAINER = "flink-main-container"
"""The name of Flink's container, as the operator knows it."""


def properties(of: list[dict[str, str]]) -> dict[str, Any]:
    """Flink's keys in a container's variables, in either spelling."""
    found: dict[str, Any] = {}
    for each in of:
        if each["name"] == "FLINK_PROPERTIES":
            found |= yaml.safe_load(each["value"])
        elif each["name"].startswith("FLINK_CFG_"):
            key = each["name"].removeprefix("FLINK_CFG_").lower()
            found[key.replace("__", "-").replace("_", ".")] = each["value"]
    return found


KEYS = {
    "operator": OPERATED["spec"]["flinkConfiguration"],
    "component": dict(
        each.removeprefix("-D").split("=")
        for each in PODS["component"]["containers"][0]["args"]
        if each.startswith("-D")
    ),
    "standalone": properties(PODS["standalone"]["containers"][0]["env"]),
    "standalone with TLS": properties(PODS["standalone"]["containers"][0]["env"]),
    "Helm": properties(VALUES["taskmanager"]["extraEnvVars"]),
}


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


def test_all_files_name_the_image_that_the_version_of_flinknet_has() -> None:
    from flinknet import __version__

    images = {tap["image"] for tap in TAPS.values()} | {COMPOSE["services"]["tap-1"]["image"]}
    assert images == {f"flinknet-tap:{__version__}"}
    assert {*re.findall(r"flinknet-tap\S*", DOCKERFILE)} == images


def test_the_manifest_and_the_guide_name_the_same_versions_of_the_operator() -> None:
    manifest = (DEPLOY / "kubernetes/flink-deployment.yaml").read_text()
    versions = re.findall(r"1\.\d+ to 1\.\d+", manifest.partition("apiVersion")[0])
    assert versions == re.findall(r"1\.\d+ to 1\.\d+", GUIDE)


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
            tap = TAPS["operator"]
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
