"""Flink's configuration files: YAML as it is written, flat lines of Flink 1.x, older spellings."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinknet.errors import ConfigError
from flinknet.options import read_flink_conf
from flinknet.units import parse_size_bytes

TIMEOUT = "execution.buffer-timeout.interval"
SEGMENT = "taskmanager.memory.segment-size"
HOST = "taskmanager.host"
FRACTION = "taskmanager.memory.network.fraction"
DEBLOATING = "taskmanager.network.memory.buffer-debloat"


def write(tmp_path: Path, text: str, name: str = "config.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("false", "false"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("off", "off"),
        ("0o10", "8"),
        ("'0o10'", "0o10"),
        ("0x1F", "31"),
        ("+5", "5"),
        ("010", "10"),
        ("'5 ms'", "5 ms"),
        ("[a, b]", "[a, b]"),
        ("!!str 1.0", "1.0"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(tmp_path: Path, written: str, read: str) -> None:
    path = write(tmp_path, f"{HOST}: {written}\n")
    assert read_flink_conf(path)[0] == {HOST: read}


@pytest.mark.parametrize(
    ("key", "written", "read"),
    [
        (TIMEOUT, "500 µs", "0 ms"),
        (TIMEOUT, "1500 micros", "1 ms"),
        (TIMEOUT, "PT0.005S", "5 ms"),
        (TIMEOUT, "99999999999 h", "9223372036854 ms"),
        (TIMEOUT, "5", "5"),
        (FRACTION, "0.1f", "0.1"),
        (FRACTION, ".5", "0.5"),
        ("taskmanager.memory.network.min", "8 mebibytes", "8 mebibytes"),
        ("taskmanager.network.retries", "0o10", "8"),
    ],
)
def test_values_are_those_that_flink_reads(
    tmp_path: Path, key: str, written: str, read: str
) -> None:
    assert read_flink_conf(write(tmp_path, f"{key}: {written}\n"))[0] == {key: read}


def test_a_timeout_that_flink_rounds_to_nothing_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path, f"{TIMEOUT}: 500 µs\n")
    (warning,) = read_flink_conf(path)[1]
    assert warning.text == (
        f"{path}: {TIMEOUT}: 500 µs is 0 ms to Flink, which counts whole milliseconds: every record"
        " is flushed"
    )


@pytest.mark.parametrize(
    ("key", "written", "words"),
    [
        (TIMEOUT, "-1", r"for never write execution\.buffer-timeout\.enabled: false"),
        (TIMEOUT, "0.5 ms", "write a whole number with ns, µs, ms"),
        (TIMEOUT, "500 us", "Flink does not read '500 us'"),
        (TIMEOUT, "PT-1S", "is negative"),
        (TIMEOUT, "5 weeks", "'weeks' is not a unit of time"),
        (SEGMENT, "4.5g", "write a whole number with b, kb, mb, gb or tb"),
        (SEGMENT, "32kib", "does not read '32kib'"),
        (SEGMENT, "1_0", "does not read '1_0'"),
        (SEGMENT, "''", "does not read ''.* or tb$"),
        (SEGMENT, "[4kb]", r"does not read '\[4kb\]'"),
        (SEGMENT, "4kb\u00a0", "does not read '4kb"),
        ("taskmanager.memory.network.max", "unlimited", "does not read 'unlimited'"),
        (FRACTION, "0_1.5", "'0_1.5' is not a number"),
        ("taskmanager.network.retries", "1_0", "'1_0' is not an integer"),
        ("taskmanager.network.retries", "' 2'", "' 2' has blanks, which Flink does not read"),
        ("taskmanager.network.retries", "4294967296", "does not fit 32 bits"),
        (f"{DEBLOATING}.threshold-percentages", "50,100", "'50,100' is not an integer"),
        ("taskmanager.data.port", "50100-50200", "is not a port"),
        ("taskmanager.data.bind-port", "50200-50100", "is not a port"),
        ("security.ssl.internal.enabled", "yes", "is not a boolean"),
    ],
)
def test_values_that_flink_refuses_in_a_file_are_refused(
    tmp_path: Path, key: str, written: str, words: str
) -> None:
    path = write(tmp_path, f"{key}: {written}\n")
    with pytest.raises(ConfigError, match=f"^{path}: {key}: .*{words}"):
        read_flink_conf(path)


def test_durations_of_iso_8601_are_refused_by_flink_1(tmp_path: Path) -> None:
    path = write(tmp_path, f"{TIMEOUT}: PT0.005S\n", "flink-conf.yaml")
    with pytest.raises(ConfigError, match=r"Flink 1\.x does not read 'PT0\.005S'"):
        read_flink_conf(path)


def test_buffers_of_flink_2_begin_with_their_smallest_size_or_more(tmp_path: Path) -> None:
    text = "taskmanager.memory.min-segment-size: 10 kb\n"
    with pytest.raises(ConfigError, match=r"starting-segment-size: 1kb is less than .* \(10kb\)"):
        read_flink_conf(write(tmp_path, text))
    assert read_flink_conf(write(tmp_path, text, "flink-conf.yaml"))[0]


def test_flow_control_of_flink_1_5_is_ignored_in_a_file(tmp_path: Path) -> None:
    key = "taskmanager.network.credit-model.enabled"
    settings, (warning,) = read_flink_conf(write(tmp_path, f"{key}: false\n", "flink-conf.yaml"))
    assert settings == {}
    assert warning.text.endswith(f"ignored, Flink has no such key: {key}")


def test_values_that_flink_takes_and_flinknet_cannot_use_are_ignored(tmp_path: Path) -> None:
    text = f"taskmanager.network.retries: -1\n{SEGMENT}: 4kb\nmetrics.latency.granularity: fine\n"
    settings, (warning,) = read_flink_conf(write(tmp_path, text))
    assert settings == {SEGMENT: "4kb"}
    assert warning.text.endswith(
        "values that it cannot use: taskmanager.network.retries, metrics.latency.granularity"
    )


def test_keys_that_are_a_chart_s_only_at_its_top_are_ignored_below(tmp_path: Path) -> None:
    keys = ("metrics.reporter.dghttp.extraTags", "myapp.initContainers")
    text = "".join(f"{key}: a:b\n" for key in keys)
    settings, (warning,) = read_flink_conf(write(tmp_path, f"{text}{TIMEOUT}: 5 ms\n"))
    assert settings == {TIMEOUT: "5 ms"}
    assert warning.text.endswith(f"ignored by flinknet, not network keys: {', '.join(keys)}")


def test_keys_belong_to_the_release_of_their_file(tmp_path: Path) -> None:
    text = "taskmanager.heap.size: 4g\ntaskmanager.memory.starting-segment-size: 2kb\n"
    text += "security.ssl.enabled: true\n"
    settings, warnings = read_flink_conf(write(tmp_path, text, "flink-conf.yaml"))
    assert settings == {"taskmanager.heap.size": "4g", "security.ssl.internal.enabled": "true"}
    assert warnings[0].text.endswith(
        "ignored, Flink 1.x has no such key: taskmanager.memory.starting-segment-size"
    )
    settings, (warning,) = read_flink_conf(write(tmp_path, text))
    assert settings == {"taskmanager.memory.starting-segment-size": "2kb"}
    assert warning.text.endswith(
        "ignored, Flink 2.x has no such key: taskmanager.heap.size (use"
        " taskmanager.memory.flink.size), security.ssl.enabled"
    )


def test_a_byte_order_mark_is_part_of_the_first_key_of_flink_1(tmp_path: Path) -> None:
    text = f"\ufeff{SEGMENT}: 4kb\n{TIMEOUT}: 5 ms\n"
    settings, (warning,) = read_flink_conf(write(tmp_path, text, "flink-conf.yaml"))
    assert settings == {TIMEOUT: "5 ms"}
    assert warning.text.endswith("`key: value`: line 1, which begins with a byte order mark")
    assert read_flink_conf(write(tmp_path, text))[0] == {SEGMENT: "4kb", TIMEOUT: "5 ms"}


def test_merge_keys_merge_nothing(tmp_path: Path) -> None:
    text = f"a: &a {{{SEGMENT}: 4kb}}\n<<: *a\n{TIMEOUT}: 5 ms\n"
    settings, (warning, _) = read_flink_conf(write(tmp_path, text))
    assert settings == {TIMEOUT: "5 ms"}
    assert warning.text.endswith(f"ignored, Flink merges nothing with <<: <<.{SEGMENT}")


def test_merge_keys_of_a_resource_are_merged_as_by_kubernetes(tmp_path: Path) -> None:
    text = (
        f"{DEPLOYMENT}all: &a {{{SEGMENT}: 4kb, {TIMEOUT}: 5 ms}}\nmore: &b {{{SEGMENT}: 8kb}}\n"
        f"spec: {{flinkConfiguration: {{<<: [*a, *b], {TIMEOUT}: 7 ms}}}}\n"
    )
    assert read_flink_conf(write(tmp_path, text)) == ({SEGMENT: "4kb", TIMEOUT: "7 ms"}, ())


def test_a_file_without_end_is_refused() -> None:
    with pytest.raises(ConfigError, match="/dev/zero: larger than 1 MiB"):
        read_flink_conf(Path("/dev/zero"))


def test_lines_of_flink_1_are_read_one_by_one(tmp_path: Path) -> None:
    text = (
        "# a comment\n"
        f"{TIMEOUT}: 5 ms # and why\n"
        "taskmanager.network.memory.min:   8mb\n"
        "env.java.opts: -Dkey: value\n"
        "no colon here\n"
        "taskmanager.memory.segment-size:\n"
    )
    settings, warnings = read_flink_conf(write(tmp_path, text, "flink-conf.yaml"))
    assert settings == {TIMEOUT: "5 ms", "taskmanager.memory.network.min": "8mb"}
    assert [warning.code for warning in warnings] == [
        "keys-left-out",
        "deprecated-key",
        "keys-left-out",
    ]
    assert "ignored, not of the form `key: value`: line 5, line 6" in warnings[0].text
    assert "ignored by flinknet, not network keys: env.java.opts" in warnings[2].text


@pytest.mark.parametrize("kind", ["FlinkDeployment", "FlinkSessionJob"])
@pytest.mark.parametrize(
    "configuration",
    [
        f'{TIMEOUT}: "5 ms"\n    taskmanager.data.port: "7001"\n    rest.port: "8081"\n',
        "execution:\n      buffer-timeout.interval: 5 ms\n"
        "    taskmanager.data.port: 7001\n    rest: {port: 8081}\n",
    ],
    ids=["dotted", "nested"],
)
def test_a_resource_of_the_operator_has_its_settings_below_its_spec(
    tmp_path: Path, kind: str, configuration: str
) -> None:
    path = write(
        tmp_path,
        f"apiVersion: flink.apache.org/v1beta1\nkind: {kind}\nmetadata:\n  name: orders\n"
        f"spec:\n  flinkVersion: v2_0\n  flinkConfiguration:\n    {configuration}",
        "orders.yaml",
    )
    settings, (warning,) = read_flink_conf(path)
    assert settings == {TIMEOUT: "5 ms", "taskmanager.data.port": "7001"}
    assert warning.text == f"{path}: ignored by flinknet, not network keys: rest.port"


DEPLOYMENT = "kind: FlinkDeployment\nmetadata: {name: orders}\n"
PROCESS = "taskmanager.memory.process.size"


@pytest.mark.parametrize(
    ("pod", "size"),
    [
        ("resource: {memory: 4096m, cpu: 1}", "4096m"),
        ("resource: {memory: 2Gi}", "2 gb"),
        ('resource: {memory: "1073741824"}', "1073741824"),
        ("resource: {memory: 2G}", "2G"),  # Flink's unit, 2 GiB
        ("resource: {memory: 0.5 Gi}", "512 mb"),
        ("resource: {memory: 4e9}", "4 gb"),
        ("resource: {memory: 1Ti}", "1 tb"),
        ("resources: {requests: {memory: 4Gi}, limits: {memory: 6Gi}}", "4 gb"),
        ("resources: {limits: {memory: 6Gi}}", "6 gb"),
        ("resources: {requests: {memory: 2048m}}", "2048m"),
        ("resource: {memory: 1g}\n    resources: {limits: {memory: 6Gi}}", "6 gb"),
        ("resource: {memory: 1g}\n    resources: {requests: {}}", "1g"),
        ("resource: {memory: 3g}\n    resources: {requests: {cpu: 1}}", "1g"),
    ],
)
def test_the_memory_of_a_pod_is_the_size_of_the_process(
    tmp_path: Path, pod: str, size: str
) -> None:
    text = (
        f"{DEPLOYMENT}spec:\n  flinkConfiguration: {{{PROCESS}: 1g}}\n  taskManager:\n    {pod}\n"
    )
    settings, warnings = read_flink_conf(write(tmp_path, text))
    expected = parse_size_bytes(size, "") if "4e9" not in pod else 4_000_000_000
    assert parse_size_bytes(settings[PROCESS], "") == expected
    why = f"ignored by the operator, which takes the memory of the pod: {PROCESS}"
    assert [why in each.line for each in warnings] == ([] if size == "1g" else [True])


@pytest.mark.parametrize(("version", "counts"), [("v1_20", True), ("v2_2", False)])
def test_the_release_of_a_resource_says_whose_rules_hold(
    tmp_path: Path, version: str, counts: bool
) -> None:
    keys = "{taskmanager.network.numberOfBuffers: 8192}"
    text = f"{DEPLOYMENT}spec: {{flinkVersion: {version}, flinkConfiguration: {keys}}}\n"
    settings, _ = read_flink_conf(write(tmp_path, text))
    assert bool(settings) is counts


SPEC = f"{{flinkConfiguration: {{{TIMEOUT}: 5 ms}}}}"
SERVICE = "kind: Service\nspec: {ports: [{port: 8081}]}\n"


@pytest.mark.parametrize(
    "text",
    [
        f"{DEPLOYMENT}spec: {SPEC}\n---\n{SERVICE}---\n",
        f"---\n{SERVICE}---\n{DEPLOYMENT}spec: {SPEC}\n",
        f"{DEPLOYMENT}spec: {SPEC}\n---\nkind: FlinkSessionJob\nspec: {SPEC}\n",
        f"kind: ConfigMap\ndata: {{config.yaml: 'a: b'}}\n---\n{DEPLOYMENT}spec: {SPEC}\n",
        f"kind: FlinkBlueGreenDeployment\nspec: {{template: {{spec: {SPEC}}}}}\n",
        f"kind: List\nitems: [{{kind: FlinkDeployment, spec: {SPEC}}}, {{kind: Service}}]\n",
        f"kind: ConfigMap\ndata: {{log4j.properties: x}}\n---\nkind: ConfigMap\n"
        f"data: {{config.yaml: '{TIMEOUT}: 5 ms'}}\n",
        f"kind: FlinkDeploymentList\nitems: [{{kind: FlinkDeployment, spec: {SPEC}}}]\n",
    ],
)
def test_the_resource_with_settings_is_found_among_others(tmp_path: Path, text: str) -> None:
    assert read_flink_conf(write(tmp_path, text))[0] == {TIMEOUT: "5 ms"}


def test_of_several_resources_one_is_chosen_by_its_name(tmp_path: Path) -> None:
    other = f"kind: FlinkDeployment\nmetadata: {{name: payments}}\nspec: {SPEC}\n"
    path = write(tmp_path, f"{DEPLOYMENT}spec: {SPEC.replace('5', '7')}\n---\n{other}")
    with pytest.raises(ConfigError) as raised:
        read_flink_conf(path)
    assert str(raised.value) == (
        f"{path}: several resources with settings of Flink: FlinkDeployment orders, FlinkDeployment"
        f" payments; choose one by its name: {path}#orders"
    )
    assert read_flink_conf(Path(f"{path}#payments"))[0] == {TIMEOUT: "5 ms"}
    job = f"kind: FlinkSessionJob\nmetadata: {{name: daily}}\nspec: {SPEC.replace('5', '9')}\n"
    path.write_text(f"{path.read_text()}---\n{job}")
    assert read_flink_conf(Path(f"{path}#daily"))[0] == {TIMEOUT: "9 ms"}
    with pytest.raises(ConfigError, match="no sales among its resources with settings of Flink"):
        read_flink_conf(Path(f"{path}#sales"))


@pytest.mark.parametrize("name", ["config.yaml", "flink-conf.yaml"])
def test_a_config_map_has_its_settings_in_a_file_of_its_data(tmp_path: Path, name: str) -> None:
    text = f"kind: ConfigMap\ndata:\n  {name}: |\n    {TIMEOUT}: 5 ms\n    rest.port: 8081\n"
    settings, (warning,) = read_flink_conf(write(tmp_path, text, "map.yaml"))
    assert settings == {TIMEOUT: "5 ms"}
    assert warning.text.endswith("map.yaml: ignored by flinknet, not network keys: rest.port")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *(
            (f"{TIMEOUT}: 5 ms\nenv.java.opts.all:{value}\n", "line 2: a key without a value")
            for value in ("", " ~", " null", " {b: }")
        ),
        *(
            (text, "(not a conf|cannot be|holds no)")
            for text in (
                "- a\n- b\n",
                "a: [1\n",
                "just words\n",
                "image: {repository: flink, tag: '2.3'}\nreplicaCount: 2\n",
                "taskmanager:\n  numberOfTaskSlots: 2\n  resources: {limits: {memory: 4Gi}}\n",
                "taskmanager:\n  numberOfTaskSlots: 2\n  initContainers: [{name: tap}]\n",
                "extraDeploy: []\ntaskmanager.numberOfTaskSlots: 2\n",
                "apiVersion: kustomize.config.k8s.io/v1beta1\nresources: [a.yaml]\n",
                "services:\n  jobmanager: {image: flink}\n",
            )
        ),
        *(
            (text, "a template; render it first")
            for text in (
                f"{DEPLOYMENT}spec: {{taskManager: {{resource: {{memory: {{{{ .V.m }}}}}}}}}}\n",
                f'{DEPLOYMENT}spec: {{taskManager: {{resource: {{memory: "{{{{ .V.m }}}}"}}}}}}\n',
                f"{TIMEOUT}: {{{{ timeout }}}}\n",
                f'{TIMEOUT}: "{{{{ timeout }}}}"\n',
                "{{- if .Values.flink }}\na: b\n{{- end }}\n",
            )
        ),
        *(
            (f"kind: FlinkDeployment\n{spec}", "a FlinkDeployment without settings: spec")
            for spec in (
                *("", "spec:\n", "spec: {flinkConfig: {}}\n"),
                "spec: {flinkConfiguration: text}\n",
            )
        ),
        ("kind: ConfigMap\ndata: {log4j.properties: x}\n", r"a ConfigMap without data.config.yaml"),
        ("kind: ConfigMap\n", r"a ConfigMap without data.config.yaml"),
        ("kind: ConfigMap\ndata: {config.yaml: 'kind: ConfigMap'}\n", "a resource of kind ConfigM"),
        ("kind: Deployment\nspec: {}\n", "a resource of kind Deployment has no configuration"),
        (f"{TIMEOUT}: 5 ms\n---\na: b\n", ".*has 2 documents, and Flink reads"),
        (
            f"a: &a {{b: 1}}\nc: *a\n{TIMEOUT}: 5 ms\n{TIMEOUT}: 6 ms\n",
            f".*line 4, column 1: the key {TIMEOUT} is there twice",
        ),
        (
            f"{DEPLOYMENT}spec: {{taskManager: {{resource: {{memory: plenty}}}}}}\n",
            ".*'plenty' is not a size; write 4096m or 4Gi",
        ),
    ],
)
def test_a_file_without_settings_that_flink_reads_is_refused(
    tmp_path: Path, text: str, why: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError, match=f"^{path}: {why}"):
        read_flink_conf(path)


def test_a_deprecated_key_is_named_with_its_file_and_its_replacement(tmp_path: Path) -> None:
    path = write(tmp_path, "taskmanager:\n  network:\n    memory:\n      fraction: 0.2\n")
    settings, (warning,) = read_flink_conf(path)
    assert settings == {"taskmanager.memory.network.fraction": "0.2"}
    assert (
        warning.text
        == warning.line
        == (
            f"{path}: taskmanager.network.memory.fraction is deprecated: use"
            " taskmanager.memory.network.fraction"
        )
    )


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("taskmanager.net.request-backof.max", "taskmanager.network.request-backoff.max"),
        ("security.ssl.internal.keystor", "security.ssl.internal.keystore"),
        ("taskmanager.data.prt", "taskmanager.data.port"),
        ("execution.buffer-timeout.intervall", TIMEOUT),
        ("execution.buffertimeout.interval", TIMEOUT),
        ("exection.buffer-timeout.interval", TIMEOUT),
        ("Execution.Buffer-Timeout.Interval", TIMEOUT),
        ("taskmanger.memory.segment-size", SEGMENT),
    ],
)
@pytest.mark.parametrize("name", ["config.yaml", "flink-conf.yaml"])
def test_a_key_that_flink_does_not_have_is_ignored_and_named_with_the_nearest(
    tmp_path: Path, wrong: str, right: str, name: str
) -> None:
    path = write(tmp_path, f"{wrong}: 1\n{TIMEOUT}: 5 ms\n", name)
    settings, (warning,) = read_flink_conf(path)
    assert settings == {TIMEOUT: "5 ms"}
    nearest = f"{wrong} (did you mean {right}?)"
    assert warning.text == f"{path}: ignored, Flink has no such key: {nearest}"


def test_misspelt_keys_come_before_those_of_other_parts_which_are_all_in_the_text(
    tmp_path: Path,
) -> None:
    others = [f"jobmanager.memory.{name}.size" for name in ("heap", "process", "flink", "off-heap")]
    lines = [f"{key}: 1g" for key in (*others, "taskmanger.memory.process.size")]
    _, (misspelt, other) = read_flink_conf(write(tmp_path, "\n".join(lines)))
    assert "(did you mean taskmanager.memory.process.size?)" in misspelt.line
    assert other.line.endswith(f": {', '.join(others[:3])} and 1 more")
    assert other.text.endswith(f": {', '.join(others)}")


def test_a_key_that_flink_removed_is_named_with_the_release(tmp_path: Path) -> None:
    key = "taskmanager.network.credit-model"
    _, (warning,) = read_flink_conf(write(tmp_path, f"{key}: true\n", "flink-conf.yaml"))
    assert warning.text.endswith(f"Flink has no such key: {key} (removed in Flink 1.10)")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"cannot be read: .*give the path of Flink's"):
        read_flink_conf(path)


@pytest.mark.parametrize(
    "text",
    [
        "a: &a {b: *a}",
        "a: &a [*a]",
        "a0: &a0 [x]\n"
        + "".join(f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 8)}]\n" for i in range(12)),
        "a: " + "[" * 3000 + "]" * 3000,
        "a: " + "{a: " * 3000 + "}" * 3000,
        "a: " + "[" * 5000,
        f"{SEGMENT}: 4kb\n---\n",
        f"{SEGMENT}:\t4kb\n",
    ],
    ids=[
        *("itself", "list of itself", "aliases of aliases", "nested lists", "nested mappings"),
        *("open brackets", "a second document", "a tab"),
    ],
)
def test_a_file_that_has_no_end_or_two_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(
        ConfigError, match=r"config\.yaml: (cannot be read as|has 2 documents)"
    ) as raised:
        read_flink_conf(path)
    assert len(str(raised.value)) < 300
