"""Flink's configuration files: config.yaml, nested or with dotted keys, the flat flink-conf.yaml
of Flink 1.x, a ConfigMap with one of them, and resources of the Flink Kubernetes operator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flinknet.errors import ConfigError
from flinknet.results import RunWarning

from . import resources
from .keys import FLINK_1, FLINK_2, current_keys, is_of_network
from .layers import left_out, network_settings
from .memory import check_total
from .values import BLANKS

NODES_MAX = 20_000
"""The most values in a configuration; Flink has about 700 keys."""

BYTES_MAX = 1 << 20
"""The largest file that is read; Kubernetes holds no larger ones."""

DEPTH_MAX = 100
"""The most levels of a document."""

_FLINK_KEY = re.compile(
    r"(<<\.)?(akka|blob|classloader|cluster|env\.(java|log|hadoop)|execution|fs|heartbeat|io|"
    r"high-availability|historyserver|jobmanager|jobstore|kubernetes|metrics|parallelism|pekko|"
    r"pipeline|process|queryable-state|resourcemanager|rest|restart-strategy|s3|security|slot|"
    r"slotmanager|state|table|task|taskmanager|web|yarn|zookeeper)[.-]"
)
"""How keys of Flink, its connectors and its file systems begin."""

_CHART_KEY = re.compile(
    r"((?!kubernetes\.)(.+\.)?(image|replicas|replicaCount|resources)|"
    r"((job|task)manager\.)?(containerPorts|extra[A-Z]\w+|initContainers|networkPolicy))(\.|$)"
)
"""Keys of a chart's values.yaml, which can have keys that begin as Flink's do."""

_ADVICE = "give the path of Flink's config.yaml"

_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_INTEGER = re.compile(r"[+-]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
"""Scalars of YAML's core schema."""

_LINE_END = re.compile(r"\r\n|\r|\n")
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class _Read:
    """Keys and texts of a file, the release whose rules hold for it, other lines of it, and whether
    it is one of TaskManagers: those of a session job are its session's; and keys whose values the
    operator replaces."""

    settings: dict[str, str]
    release: str = FLINK_2
    other_lines: Sequence[str] = ()
    has_memory: bool = True
    replaced: Sequence[str] = ()


class RefusedValuesError(ConfigError):
    """A configuration file with which Flink does not start.

    Attributes:
        why: without the name of the file.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.why = why


def read_flink_conf(
    path: Path, release: str | None = None
) -> tuple[dict[str, str], tuple[RunWarning, ...]]:
    """Read a configuration file of Flink as one layer of settings, as strictly as Flink.

    Keys of other parts (JobManager, state, metrics …) are ignored, and a warning names them.

    Args:
        path: of the file; with `#NAME`, the resource of this name in a file of several.
        release: of Flink; None: 1.20 for a flink-conf.yaml, which no later release reads, and for
            a resource whose flinkVersion is 1.x, else 2.3.

    Raises: ConfigError for a file that cannot be read; RefusedValuesError for one that Flink
        refuses, or whose values it refuses.
    """
    path, read = _read_at(path)
    merged = [key for key in read.settings if resources.MERGE_KEY in key.split(".")]
    settings = {key: text for key, text in read.settings.items() if key not in merged}
    known = {key for key in settings if key in current_keys() or is_of_network(key)}
    if any(resources.TEMPLATE.search(settings[key]) for key in known):
        raise resources.template_error(str(path))
    _check_is_of_flink(path, read.settings)
    try:
        layer, warnings = network_settings(settings, release or read.release)
    except ConfigError as error:
        raise RefusedValuesError(str(path), str(error)) from None
    others = [key for key in settings if key not in known]
    found = (
        *left_out("ignored, not of the form `key: value`", read.other_lines),
        *left_out(f"ignored, Flink merges nothing with {resources.MERGE_KEY}", merged),
        *left_out("ignored by the operator, which takes the memory of the pod", read.replaced),
        *warnings,
        *left_out("ignored by flinknet, not network keys", others),
    )
    return layer, tuple(
        RunWarning(each.code, f"{path}: {each.text}", f"{path}: {each.line}") for each in found
    )


def release_of(path: Path) -> str:
    """The release of Flink whose rules hold for a file: FLINK_1 or FLINK_2. Raises: ConfigError."""
    return _read_at(path)[1].release


def check_total_of(path: Path, settings: Mapping[str, str]) -> None:
    """Raises: ConfigError for the settings of a file without the total size of memory that its
    TaskManagers need."""
    if _read_at(path)[1].has_memory:
        check_total(settings)


def _read_at(path: Path) -> tuple[Path, _Read]:
    """The path without the name of a resource, and its content."""
    resource = None
    if "#" in str(path) and not path.exists():
        file, _, resource = str(path).rpartition("#")
        path = Path(file)
    return path, _read(path, text_of(path), resource)


def text_of(path: Path, advice: str = _ADVICE) -> str:
    """The text of a configuration file, of at most BYTES_MAX: a device has no end.

    Args:
        advice: what to give instead, in errors about a file that is missing or no configuration.

    Raises: ConfigError.
    """
    try:
        with path.open("rb") as file:
            content = file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; {advice}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    if len(content) > BYTES_MAX:
        raise ConfigError(f"{path}: larger than 1 MiB, so not a configuration; {advice}")
    try:
        return content.decode(
            "utf-8", errors="replace" if path.name == resources.LEGACY_NAME else "strict"
        )
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: cannot be read: {error}; {advice}") from None


def _check_is_of_flink(path: Path, settings: Mapping[str, str]) -> None:
    """Raises: ConfigError for a file with keys of a chart, or with none that Flink could have."""
    strange = [key for key in settings if _CHART_KEY.match(key)]
    if not any(key in current_keys() or _FLINK_KEY.match(key) for key in settings):
        strange = list(settings)
    if strange:
        first = ", ".join(strange[:3])
        raise ConfigError(f"{path}: not a configuration of Flink ({first} …); {_ADVICE}")


def flatten(node: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted keys and texts of a nested document; typed values are formatted as in Flink."""
    for name, value in node.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from flatten(value, key + ".")
        elif isinstance(value, list):
            yield key, f"[{', '.join(map(str, value))}]"
        elif isinstance(value, bool):
            yield key, str(value).lower()
        elif value is not None:
            yield key, str(value)


def _problem(error: Exception) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or problem is None:
        return " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"


def _read(path: Path, text: str, resource: str | None) -> _Read:
    """Parse the text of a file.

    Args:
        resource: name of the resource to read, in a file of several.
    """
    if path.name == resources.LEGACY_NAME:
        return _read_lines(text)
    documents = _documents(path, text)
    filled = [resources.with_merges(each) for each, _ in documents if each not in (None, "")]
    chosen = resources.chosen_resource(str(path), filled, resource)
    if chosen is None:
        return _configuration(path, documents)
    if chosen["kind"] != resources.CONFIG_MAP:
        settings, version, replaced = resources.settings_of(str(path), chosen)
        is_flink_1 = version is not None and version.startswith("1.")
        has_memory = chosen["kind"] != resources.SESSION_JOB
        found = dict(flatten(settings))
        return _Read(found, FLINK_1 if is_flink_1 else FLINK_2, (), has_memory, replaced)
    data = chosen.get("data")
    for name in resources.CONFIG_NAMES:
        if isinstance(data, dict) and isinstance(held := data.get(name), str):
            if name == resources.LEGACY_NAME:
                return _read_lines(held)
            return _configuration(path, _documents(path, held))
    names = " or ".join(f"data.{name}" for name in resources.CONFIG_NAMES)
    raise ConfigError(f"{path}: a {resources.CONFIG_MAP} without {names}")


def _documents(path: Path, text: str) -> list[tuple[Any, Any]]:
    """The documents of a YAML file, each with the mark of a value that is null; their scalars are
    those of YAML 1.2's core schema, as texts.
    """
    import yaml

    documents = []
    text = text.removeprefix(_BYTE_ORDER_MARK)
    try:
        loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)(text)
        while loader.check_node():
            root = loader.get_node()
            unset = _check_nodes(root, text)
            documents.append((loader.construct_document(root), unset))
            _check_size([each for each, _ in documents])
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if resources.TEMPLATE.search(text):
            raise resources.template_error(str(path)) from None
        why = f"cannot be read as Flink's config.yaml: {_problem(error)}"
        raise RefusedValuesError(str(path), why) from None
    return documents


def _configuration(path: Path, documents: Sequence[tuple[Any, Any]]) -> _Read:
    """Read a config.yaml, which has one document. Raises: ConfigError for several."""
    if not documents:
        return _Read({})
    if len(documents) > 1:
        raise RefusedValuesError(
            str(path),
            f"has {len(documents)} documents, and Flink reads a config.yaml of one; remove the"
            " others",
        )
    document, unset = documents[0]
    if document in (None, ""):
        return _Read({})
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: holds no keys; lines of the form `key: value` are expected")
    if kind := document.get("kind"):
        raise ConfigError(f"{path}: a resource of kind {kind} is not a configuration of Flink")
    if unset is not None:
        why = "a key without a value, which Flink refuses; give it one, or leave the key out"
        raise RefusedValuesError(str(path), f"line {unset.line + 1}: {why}")
    return _Read(dict(flatten(document)))


def _check_nodes(root: Any, text: str) -> Any:
    """Write numbers of plain scalars as Flink does. Returns: the mark of a value that is null.

    Raises: MarkedYAMLError for a key that a mapping has twice, and for a tab in front of a value,
        which Flink refuses, too.
    """
    import yaml

    unset = None
    waiting, known = [(root, 0)], {id(root)}
    while waiting:
        node, depth = waiting.pop()
        inner = []
        if depth > DEPTH_MAX:
            problem = f"more than {DEPTH_MAX} levels"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        if isinstance(node, yaml.MappingNode):
            names = set()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value in names:
                    problem = f"the key {key.value} is there twice"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                between = text[key.end_mark.index : value.start_mark.index].splitlines()
                if between and "\t" in between[0].partition("#")[0]:
                    problem = f"a tab in front of the value of {key.value}; write a space"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                names.add(key.value if isinstance(key, yaml.ScalarNode) else id(key))
                inner += [key, value]
        elif isinstance(node, yaml.SequenceNode):
            inner = node.value
        elif isinstance(node, yaml.ScalarNode) and not node.style:
            if node.value in _NULLS:
                unset = unset or node.start_mark
            elif _INTEGER.fullmatch(node.value):
                node.value = str(int(node.value, 0 if node.value[:2] in ("0o", "0x") else 10))
        waiting += [(each, depth + 1) for each in inner if id(each) not in known]
        known.update(map(id, inner))
    return unset


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


def _read_lines(text: str) -> _Read:
    """Keys and texts of flat lines, and the lines that are not of that form (Flink:
    GlobalConfiguration.loadLegacyYAMLResource). A byte order mark is part of the first key.
    """
    read: dict[str, str] = {}
    other_lines = []
    for number, line in enumerate(_LINE_END.split(text), start=1):
        content = line.partition("#")[0].strip(BLANKS)
        key, colon, value = (part.strip(BLANKS) for part in content.partition(": "))
        if key.startswith(_BYTE_ORDER_MARK):
            other_lines.append(f"line {number}, which begins with a byte order mark")
        elif key and colon and value:
            read[key] = value
        elif content:
            other_lines.append(f"line {number}")
    return _Read(read, FLINK_1, other_lines)
