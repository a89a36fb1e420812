"""Flink's configuration files: config.yaml, nested or with dotted keys, the flat flink-conf.yaml
of Flink 1.x, a ConfigMap with one of them, and resources of the Flink Kubernetes operator.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flinknet.errors import ConfigError
from flinknet.results import RunWarning

from .keys import PROCESS_SIZE, is_of_network
from .layers import canonical, deprecated_keys, left_out, network_settings

NODES_MAX = 20_000
"""The most values in a configuration; Flink has about 700 keys."""

CONFIG_NAME = "config.yaml"
LEGACY_NAME = "flink-conf.yaml"
"""A file with this name is read line by line, as in Flink."""

_ADVICE = "give the path of Flink's config.yaml"

_QUANTITY = re.compile(r"(?<=\d)([KMGT])i$")
"""The unit of a Kubernetes quantity, 2Gi, which Flink spells 2gib."""

CONFIG_MAP = "ConfigMap"

RESOURCES = ("FlinkDeployment", "FlinkSessionJob")
"""Kinds of the Flink Kubernetes operator, whose settings are below `spec.flinkConfiguration`."""


def read_flink_conf(path: Path) -> tuple[dict[str, str], tuple[RunWarning, ...]]:
    """Read a configuration file of Flink as one layer of settings.

    Keys of other parts (JobManager, state, metrics …) are ignored, and a warning names them.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        beside = [each.name for each in path.parent.glob("*.y*ml")]
        near = difflib.get_close_matches(path.name, beside, n=1, cutoff=0.8)
        advice = f"did you mean {path.with_name(near[0])}?" if near else _ADVICE
        raise ConfigError(f"{path}: no such file; {advice}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: cannot be read as Flink's config.yaml: {error}") from None
    read, unknown_lines = _read(path, text, path.name)
    known, ignored = network_settings(read)
    others = [key for key in read if key not in known and not is_of_network(key)]
    return canonical(known), (
        *left_out(f"{path}: ignored by flinknet, not of the form `key: value`", unknown_lines),
        *left_out(f"{path}: ignored by flinknet, not network keys", others),
        *(
            RunWarning(each.code, f"{path}: {each.text}", f"{path}: {each.line}")
            for each in (*ignored, *deprecated_keys(known))
        ),
    )


def flatten(node: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted keys and texts of a nested document; typed values are formatted as in Flink."""
    for name, value in node.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from flatten(value, key + ".")
        elif isinstance(value, list):
            yield key, ";".join(str(item) for item in value)
        elif isinstance(value, bool):
            yield key, str(value).lower()
        elif value is not None and value != "":
            yield key, str(value)


def _problem(error: Exception) -> str:
    """The error of a YAML document and its place, in one line."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or problem is None:
        return " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"


def _read(
    path: Path, text: str, name: str, *, is_of_map: bool = False
) -> tuple[dict[str, str], list[str]]:
    """Keys and texts of a file of this name, and lines that are of no form."""
    if name == LEGACY_NAME:
        return _read_lines(text)
    return _read_yaml(path, text, is_of_map=is_of_map)


def _read_yaml(path: Path, text: str, *, is_of_map: bool) -> tuple[dict[str, str], list[str]]:
    """Keys and texts of a YAML document, or of what a ConfigMap holds, which is no resource; its
    scalars stay as written.
    """
    import yaml

    try:
        loader = yaml.BaseLoader(text)
        root = loader.get_single_node()
        _check_keys(root)
        document = None if root is None else loader.construct_document(root)
        _check_size(document)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(
            f"{path}: cannot be read as Flink's config.yaml: {_problem(error)}"
        ) from None
    if document is None:
        return {}, []
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: holds no keys; lines of the form `key: value` are expected")
    kind = document.get("kind")
    if kind == CONFIG_MAP and not is_of_map:
        return _read_config_map(path, document)
    if kind in RESOURCES and not is_of_map:
        return _read_resource(path, document), []
    if kind is not None:
        known = ", ".join((*RESOURCES, CONFIG_MAP))
        raise ConfigError(
            f"{path}: a resource of kind {kind} has no configuration of Flink; these are read:"
            f" {known}, or a config.yaml itself"
        )
    return dict(flatten(document)), []


def _read_config_map(path: Path, resource: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Keys and texts of the configuration file in a ConfigMap."""
    data = resource.get("data")
    for name in (CONFIG_NAME, LEGACY_NAME):
        if isinstance(data, dict) and isinstance(text := data.get(name), str):
            return _read(path, text, name, is_of_map=True)
    raise ConfigError(f"{path}: a {CONFIG_MAP} without data.{CONFIG_NAME} or data.{LEGACY_NAME}")


def _read_resource(path: Path, resource: Mapping[str, Any]) -> dict[str, str]:
    """Flink's settings in a resource of the operator, which takes the size of a TaskManager's
    process from the pod (FlinkConfigBuilder.setResource).
    """
    spec = resource.get("spec")
    found = spec.get("flinkConfiguration") if isinstance(spec, dict) else None
    if not isinstance(found, dict):
        raise ConfigError(
            f"{path}: a {resource['kind']} without settings: spec.flinkConfiguration must have"
            " lines of the form `key: value`"
        )
    read = dict(flatten(found))
    node: Any = spec
    for name in ("taskManager", "resource", "memory"):
        node = node.get(name) if isinstance(node, dict) else None
    if isinstance(node, str) and node:
        read[PROCESS_SIZE] = _QUANTITY.sub(r"\1ib", node)
    return read


def _check_keys(root: Any) -> None:
    """Raises: MarkedYAMLError for a key that a mapping has twice, which Flink refuses, too."""
    import yaml

    waiting, known = [root], {id(root)}
    while waiting:
        node = waiting.pop()
        inner = []
        if isinstance(node, yaml.MappingNode):
            names = set()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value in names:
                    problem = f"the key {key.value} is there twice"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                names.add(key.value if isinstance(key, yaml.ScalarNode) else id(key))
                inner += [key, value]
        elif isinstance(node, yaml.SequenceNode):
            inner = node.value
        waiting += [each for each in inner if id(each) not in known]
        known.update(map(id, inner))


def _check_size(document: Any) -> None:
    """Raises: ValueError for a document that is huge once its aliases are expanded, such as one
    that contains itself.
    """
    waiting, count = [document], 0
    while waiting:
        node = waiting.pop()
        count += 1
        if count > NODES_MAX:
            raise ValueError(f"it has more than {NODES_MAX} values with its aliases written out")
        if isinstance(node, Mapping):
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _read_lines(text: str) -> tuple[dict[str, str], list[str]]:
    """Keys and texts of flat lines, and the lines that are not of that form (Flink:
    GlobalConfiguration.loadLegacyYAMLResource).
    """
    read: dict[str, str] = {}
    other_lines = []
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.partition("#")[0].strip()
        key, colon, value = content.partition(": ")
        if key.strip() and colon and value.strip():
            read[key.strip()] = value.strip()
        elif content:
            other_lines.append(f"line {number}")
    return read, other_lines
