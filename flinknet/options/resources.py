"""Documents of Kubernetes that have settings of Flink: resources of the Flink Kubernetes operator,
alone or among others in a file or a List, and ConfigMaps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from flinknet.errors import ConfigError
from flinknet.units import format_size_bytes, parse_size_bytes

from .keys import PROCESS_SIZE

CONFIG_MAP, SESSION_JOB = "ConfigMap", "FlinkSessionJob"

CONFIG_NAMES = CONFIG_NAME, LEGACY_NAME = "config.yaml", "flink-conf.yaml"
"""Names of Flink's files; those of LEGACY_NAME are read line by line, as in Flink."""

MERGE_KEY = "<<"

TEMPLATE = re.compile(r"\{\{|\{%")
"""Begins an expression of a template, as of Helm or Jinja."""

_SPECS: Mapping[str, tuple[str, ...]] = {
    "FlinkDeployment": ("spec",),
    "FlinkBlueGreenDeployment": ("spec", "template", "spec"),
    SESSION_JOB: ("spec",),
}
"""Kinds of the operator -> where their settings are."""

_PREFERRED = (("FlinkDeployment", "FlinkBlueGreenDeployment"), (SESSION_JOB,), (CONFIG_MAP,))
"""Which documents of a file are read: those of the first of these kinds that it has."""

_FLINK_SIZE = re.compile(r"\s*\d+\s*[A-Za-z]*\s*", re.ASCII)
"""A size that Flink may read: a whole number and a unit."""

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(?:([KMGTP])(I?)|E(\d+))?B?")
"""A quantity of Kubernetes in capitals."""


def template_error(path: str) -> ConfigError:
    """An error that says that a file is a template."""
    return ConfigError(
        f"{path}: a template; render it first, for example with `helm template`, and give the"
        " result"
    )


def with_merges(document: Any) -> Any:
    """A document with the mappings of its merge keys, which Kubernetes merges and Flink does not;
    keys of its own win, then those of the first mapping."""
    if isinstance(document, list):
        return [with_merges(each) for each in document]
    if not isinstance(document, Mapping):
        return document
    own = {key: with_merges(value) for key, value in document.items()}
    sources = own.pop(MERGE_KEY, None)
    for each in sources if isinstance(sources, list) else [sources]:
        own = each | own if isinstance(each, dict) else own
    return own


def chosen_resource(
    path: str, documents: Sequence[Any], name: str | None
) -> Mapping[str, Any] | None:
    """The document with settings of Flink; None if there are no resources.

    Args:
        name: its name in the metadata; None: there is only one.

    Raises: ConfigError if there is none, or a choice between several.
    """
    found = [each for each in _listed(documents) if isinstance(each.get("kind"), str)]
    if not found:
        return None
    by_kinds = [[each for each in found if each["kind"] in kinds] for kinds in _PREFERRED]
    with_file = [each for each in by_kinds[-1] if {*CONFIG_NAMES} & {*(_at(each, "data") or ())}]
    by_kinds[-1] = with_file or by_kinds[-1][:1]
    if name is None:
        fitting = next((each for each in by_kinds if each), [])
    else:
        fitting = [each for kind in by_kinds for each in kind]
    named = [each for each in fitting if name in (None, _name_of(each))]
    if len(named) == 1 or (named and name is not None):
        return named[0]
    if fitting:
        names = ", ".join(f"{each['kind']} {_name_of(each)}" for each in fitting)
        what = "several resources" if named else f"no {name} among its resources"
        raise ConfigError(
            f"{path}: {what} with settings of Flink: {names}; choose one by its name:"
            f" {path}#{_name_of(fitting[0])}"
        )
    known = ", ".join((*_SPECS, CONFIG_MAP))
    kinds_there = ", ".join(dict.fromkeys(each["kind"] for each in found))
    raise ConfigError(
        f"{path}: a resource of kind {kinds_there} has no configuration of Flink; these are read:"
        f" {known}, or a config.yaml itself"
    )


def settings_of(
    path: str, resource: Mapping[str, Any]
) -> tuple[dict[str, Any], str | None, Sequence[str]]:
    """Flink's settings in a resource of the operator, its release, such as 2.2, and the keys whose
    values the operator replaces.

    The operator takes the size of a TaskManager's process from the pod, whatever the settings say
    (FlinkConfigBuilder.applyTaskManagerSpec).
    """
    kind = resource["kind"]
    spec = _at(resource, *_SPECS[kind])
    found = _at(spec, "flinkConfiguration")
    memory = _memory(_at(spec, "taskManager"))
    if not isinstance(found, Mapping) and (found or memory is None):
        where = ".".join((*_SPECS[kind], "flinkConfiguration"))
        raise ConfigError(
            f"{path}: a {kind} without settings: {where} must have lines of the form `key: value`"
        )
    settings = dict(found or {})
    replaced = []
    if memory is not None:
        size = _size(path, memory)
        replaced = [PROCESS_SIZE] if settings.get(PROCESS_SIZE, size) != size else []
        settings[PROCESS_SIZE] = size
    version = re.fullmatch(r"v(\d+)_(\d+)", str(_at(spec, "flinkVersion")))
    return settings, ".".join(version.groups()) if version else None, replaced


def _listed(documents: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    for each in documents:
        if isinstance(each, Mapping):
            items = each.get("items")
            if str(each.get("kind", "")).endswith("List") and isinstance(items, list):
                yield from _listed(items)
            else:
                yield each


def _name_of(resource: Mapping[str, Any]) -> str:
    return str(_at(resource, "metadata", "name") or "without a name")


def _at(node: Any, *names: str) -> Any:
    """The value below these names; None if there is none."""
    for name in names:
        node = node.get(name) if isinstance(node, Mapping) else None
    return node


def _memory(task_manager: Any) -> str | None:
    """The memory that a pod requests, else its limit. The older field `resource` counts only if
    there are neither requests nor limits (ResourceConfigUtils.getRequestOrLimit)."""
    parts = [_at(task_manager, "resources", part) for part in ("requests", "limits")]
    if not any(parts):
        parts = [_at(task_manager, "resource")]
    found = (_at(part, "memory") for part in parts)
    return next((each for each in found if isinstance(each, str) and each), None)


def _size(path: str, text: str) -> str:
    """A size in Flink's spelling: read by Flink, where 2G is 2 GiB, else as a quantity of
    Kubernetes (ResourceConfigUtils.parseResourceMemoryString)."""
    if _FLINK_SIZE.fullmatch(text):
        with suppress(ConfigError):
            parse_size_bytes(text, PROCESS_SIZE)
            return text
    match = _QUANTITY.fullmatch("".join(text.split()).upper())
    if TEMPLATE.search(text):
        raise template_error(path)
    if match is None:
        raise ConfigError(
            f"{path}: the memory of its TaskManagers: {text!r} is not a size; write 4096m or 4Gi"
        )
    number, unit, binary, exponent = match.groups()
    factor = (1024 if binary else 1000) ** ("KMGTP".index(unit) + 1) if unit else 1
    factor *= 10 ** int(exponent or 0)
    return format_size_bytes(int(Decimal(number) * factor), separator=" ")
