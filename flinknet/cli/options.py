"""The settings of a call: collected from its options, and made a scenario.

All values stay texts until a scenario is made, so that the command line, TOML files and `key=value`
sets use the same parsers, and a sweep can be split at its commas.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from flinknet import config
from flinknet import options as flink
from flinknet.errors import ConfigError
from flinknet.options.keys import (
    BATCH_SHUFFLE_COMPRESSION,
    BATCH_SHUFFLE_MODE,
    COMPRESSION_CODEC,
    RUNTIME_MODE,
)
from flinknet.options.link import SEPARATOR, parse_link
from flinknet.results import RunWarning
from flinknet.units import counted

from . import value_parsers
from .option_tables import DEFAULT_DURATION_NS, NETWORK_OPTIONS
from .value_parsers import Parser

_DURATION_OPTIONS = frozenset(("buffer-timeout", "checkpoint-interval"))
_BARE_NUMBER = re.compile(r"\d+(\.\d+)?", re.ASCII)

DEFAULT_BLOCKING_RECORDS = 1_000_000
"""Records of each producer by default; with a duration, the size on disk would depend on speed."""

_BLOCKING_KEYS = {
    COMPRESSION_CODEC: "compression_codec",
    "taskmanager.network.sort-shuffle.min-buffers": "sort_shuffle_min_buffers",
}
"""Keys that act only in blocking exchanges, with their settings. Other exchanges get the defaults,
so that configurations that differ only in these keys are equal."""

_TYPES = {
    "ALL_EXCHANGES_BLOCKING": config.BLOCKING,
    "ALL_EXCHANGES_PIPELINED": config.PIPELINED_BOUNDED,
}


def partition_type_of(network: Mapping[str, str]) -> str:
    """The exchange type that follows from Flink's keys: pipelined and bounded in streaming jobs,
    by `execution.batch-shuffle-mode` in batch jobs.

    Raises: ConfigError for hybrid exchanges, which flinknet lacks.
    """
    if network.get(RUNTIME_MODE, "STREAMING").upper() == "STREAMING":
        return config.PIPELINED_BOUNDED
    mode = network.get(BATCH_SHUFFLE_MODE, "ALL_EXCHANGES_BLOCKING").upper()
    if mode not in _TYPES:
        raise ConfigError(
            f"{BATCH_SHUFFLE_MODE}: flinknet has no {mode}, for its tiers (memory, disk, remote)"
            f" are out of scope; use {' or '.join(_TYPES)}"
        )
    return _TYPES[mode]


def with_exchange(
    network: config.NetworkConfig,
    workload: config.WorkloadConfig,
    settings: Mapping[str, str],
    given: Mapping[str, str],
) -> tuple[config.NetworkConfig, config.WorkloadConfig, tuple[RunWarning, ...]]:
    """The configuration adapted to its exchange type, and warnings.

    Args:
        settings: Flink's keys from the user.
        given: bench options from the user.

    Raises: ConfigError for settings that contradict each other.
    """
    if "partition-type" not in given:
        workload = replace(workload, partition_type=partition_type_of(settings))
    if not workload.is_blocking:
        usual = {name: getattr(config.NetworkConfig(), name) for name in _BLOCKING_KEYS.values()}
        keys = (*_BLOCKING_KEYS, BATCH_SHUFFLE_COMPRESSION)
        ignored = ", ".join(key for key in keys if key in settings)
        text = (
            f"{ignored}: ignored by Flink and flinknet in {workload.partition_type} exchanges; only"
            " --partition-type blocking uses it"
        )
        warnings = (RunWarning("acts-in-blocking-exchanges", text),) if ignored else ()
        return replace(network, **usual), workload, warnings
    if workload.slow_consumers and any(
        each.delay_ns_per_record < 0 for each in workload.slow_consumers
    ):
        raise ConfigError("--slow-consumer: pausing one means nothing when all start at the end")
    if (
        network.buffer_timeout_ns != config.BUFFER_TIMEOUT_NEVER_NS
        and flink.BUFFER_TIMEOUT in settings
    ):
        raise ConfigError(
            f"{flink.BUFFER_TIMEOUT}: a blocking exchange has no buffer timeout, for nothing is"
            " read before its end; leave it out"
        )
    if settings.get(BATCH_SHUFFLE_COMPRESSION, "true").lower() == "false":
        network = replace(network, compression_codec="NONE")
    from flinknet.core.wire.compression import CompressionCodec, check_codec

    check_codec(CompressionCodec(network.compression_codec))
    network = replace(network, buffer_timeout_ns=config.BUFFER_TIMEOUT_NEVER_NS)
    if "warmup" not in given:
        workload = replace(workload, warmup_ns=0)
    if workload.records is None and workload.duration_ns is None:
        workload = replace(workload, records=DEFAULT_BLOCKING_RECORDS)
    return network, workload, ()


class WorkloadOption(NamedTuple):
    """A bench option: the WorkloadConfig field it sets, and the parser of its value."""

    field: str
    parser: Parser


WORKLOAD_OPTIONS: Mapping[str, WorkloadOption] = {
    name: WorkloadOption(field, parser)
    for name, field, parser in (
        ("rate", "rate_per_s", value_parsers.rate),
        ("record-size", "record_size", value_parsers.record_size),
        ("producers", "producers", value_parsers.count),
        ("consumers", "consumers", value_parsers.count),
        ("task-managers", "task_managers", value_parsers.count),
        ("placement", "placement", value_parsers.choice(*config.PLACEMENTS)),
        ("relays", "relays", value_parsers.number),
        ("relay-delay", "relay_delay_ns_per_record", value_parsers.each_of(value_parsers.duration)),
        ("relay-parallelism", "relay_parallelism", value_parsers.each_of(value_parsers.count)),
        ("flow-control", "flow_control", value_parsers.choice(*config.FLOW_CONTROLS)),
        ("link", "link", parse_link),
        ("partitioner", "partitioner", value_parsers.choice(*config.PARTITIONERS)),
        ("keys", "keys", value_parsers.count),
        ("key-skew", "key_skew", value_parsers.exponent),
        ("partition-type", "partition_type", value_parsers.choice(*config.PARTITION_TYPES)),
        ("scheduling", "scheduling", value_parsers.choice(*config.SCHEDULINGS)),
        ("arrivals", "arrivals", value_parsers.arrivals),
        ("slow-consumer", "slow_consumers", value_parsers.slow_consumers),
        ("records", "records", value_parsers.count),
        ("duration", "duration_ns", value_parsers.measured_part),
        ("warmup", "warmup_ns", value_parsers.duration),
    )
}
"""Bench options by name."""


def workload_values(texts: Mapping[str, str]) -> dict[str, Any]:
    """The values of bench options, by name."""
    return {name: WORKLOAD_OPTIONS[name].parser(text, f"--{name}") for name, text in texts.items()}


@dataclass(frozen=True, slots=True)
class Settings:
    """The user's settings, as texts: Flink's keys, and bench options by their long name.

    Attributes:
        origins: the place where each key of `network` was set.
        release: of the Flink whose file they come from; None without a file.
    """

    network: Mapping[str, str] = field(default_factory=dict)
    workload: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[RunWarning, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)
    release: str | None = None

    def over(self, base: Settings) -> Settings:
        """These settings on top of `base`."""
        return Settings(
            flink.merge(base.network, self.network),
            {**base.workload, **self.workload},
            (*base.warnings, *self.warnings),
            {**base.origins, **self.origins},
            self.release or base.release,
        )

    @property
    def of_job(self) -> dict[str, str]:
        """The keys of a job: Flink's, and flinknet's own for the release."""
        from flinknet.graph.job_config import RELEASE

        return dict(self.network) | ({RELEASE: self.release} if self.release else {})


def settings_from(assignments: Mapping[str, str], *, source: str) -> Settings:
    """Sort assignments into Flink's keys and bench options; `source` is named in errors."""
    network: dict[str, str] = {}
    workload: dict[str, str] = {}
    for name, text in assignments.items():
        option = name.replace("_", "-")
        if option in NETWORK_OPTIONS:
            where = source if source.startswith(f"{name}=") else f"{source}: {name}"
            network[NETWORK_OPTIONS[option]] = _with_unit(option, text, where)
        elif option in WORKLOAD_OPTIONS:
            workload[option] = text
        elif "." in name:
            network[name] = text
        else:
            known = [*NETWORK_OPTIONS, *WORKLOAD_OPTIONS]
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise ConfigError(f"{source}: {name} is neither a bench option nor a Flink key; {hint}")
    return Settings(
        flink.canonical(network),
        workload,
        flink.deprecated_keys(network),
        flink.origins_of([(source, network)]),
    )


def collect(values: Mapping[str, Any]) -> Settings:
    """Collect the shared options from a command's parameters, in order of precedence."""
    file = values.get("flink_conf")
    conf = Settings() if file is None else read_cluster_conf(file)
    defined = dict(flink.parse_assignment(text) for text in values["define"])
    options = {
        f"--{option}": (key, _with_unit(option, text, f"--{option}"))
        for option, key in NETWORK_OPTIONS.items()
        if (text := values.get(option.replace("-", "_"))) is not None
    }
    workload = {}
    for option in WORKLOAD_OPTIONS:
        text = values.get(option.replace("-", "_"))
        if isinstance(text, tuple):
            text = (SEPARATOR if option == "link" else ",").join(text) if text else None
        if text is not None:
            workload[option] = text
    flink.check_agreement(defined, options)
    layers = [(str(file), conf.network), ("-D", defined)]
    layers += [(option, {key: text}) for option, (key, text) in options.items()]
    merged = flink.merge(conf.network, defined, dict(options.values()))
    of_total = () if file is None else total_warning(file, merged)
    return Settings(
        merged,
        workload,
        (*conf.warnings, *of_total, *flink.deprecated_keys(defined)),
        flink.origins_of(layers),
        conf.release,
    )


def read_cluster_conf(file: str) -> Settings:
    """The settings in a cluster's file, without its ports and addresses, which TaskManagers on this
    machine do not use. Raises: ConfigError."""
    settings, warnings = flink.read_flink_conf(Path(file))
    of_cluster = [key for key in flink.ADDRESSES if settings.pop(key, None) is not None]
    if of_cluster:
        named = f"{file}: a cluster's addresses, not used here: {', '.join(of_cluster)}"
        text = f"{named}; set them with -D if the TaskManagers of this run need them"
        warnings += (RunWarning("keys-left-out", text),)
    return Settings(settings, {}, warnings, release=flink.release_of(Path(file)))


def total_warning(file: str, settings: Mapping[str, str]) -> tuple[RunWarning, ...]:
    """A warning if Flink would not start with a file, as it lacks a total size of memory; flinknet
    needs none."""
    try:
        flink.check_total_of(Path(file), settings)
    except ConfigError as error:
        return (RunWarning("no-total-size", f"{file} {error}"),)
    return ()


def check_single_values(settings: Settings, what: str = "this command") -> None:
    """Check for single values. Raises: ConfigError for a comma list, which only a sweep takes."""
    if swept := flink.swept_keys(settings.network):
        raise ConfigError(f"{swept[0]} has several values; {what} has one of each")


def _with_unit(option: str, text: str, where: str) -> str:
    """The text of an option. Raises: ConfigError, beginning with `where`, for a duration without a
    unit: only Flink's keys may omit it, and mean milliseconds.
    """
    if option in _DURATION_OPTIONS:
        for part in map(str.strip, text.split(",")):
            if _BARE_NUMBER.fullmatch(part) and float(part):
                raise ConfigError(f"{where}: {part!r} has no unit; write {part}ms or {part}s")
    return text


def scenario_of(settings: Settings, seed: int) -> tuple[config.Scenario, tuple[RunWarning, ...]]:
    """The scenario of settings without comma lists, and warnings about it.

    Raises: ConfigError for an invalid value or an invalid combination.
    """
    from flinknet.job.load.plan import load_plan_of

    network, warnings = flink.network_config(settings.network, settings.release)
    fields = workload_values(settings.workload)
    placement = fields.pop("placement", config.Scenario().placement)
    stages = 2 + fields.get("relays", 0)
    task_managers = fields.pop("task-managers", stages if placement == "split" else 2)
    link = fields.pop("link", None)
    if link is not None and task_managers == 1:
        raise ConfigError("--link: there is one TaskManager, so no channel crosses a link")
    flow_control = fields.pop("flow-control", None) or flink.flow_control_of(settings.network)

    workload = config.WorkloadConfig(
        **{WORKLOAD_OPTIONS[name].field: fields[name] for name in fields}
    )
    network, workload, doubts = with_exchange(
        network, workload, settings.network, settings.workload
    )
    if workload.records is None and workload.duration_ns is None:
        workload = replace(workload, duration_ns=DEFAULT_DURATION_NS)
    _check(workload, settings.workload)
    scenario = config.Scenario(
        *(network, workload, task_managers, seed, flow_control, placement, link),
        *flink.heartbeats_of(settings.network),
        settings.release,
    )
    load_plan_of(scenario).check_memory()
    return scenario, (*settings.warnings, *warnings, *doubts)


def _check(workload: config.WorkloadConfig, given: Mapping[str, str]) -> None:
    if workload.records is not None and workload.duration_ns is not None:
        raise ConfigError("--records and --duration both say where a run ends; give one of them")
    if workload.partitioner != "hash":
        for option in ("keys", "key-skew"):
            if option in given:
                raise ConfigError(
                    f"--{option}: {workload.partitioner} does not go by keys; add --partitioner"
                    " hash"
                )
    if workload.is_max_rate and workload.arrivals != "constant":
        raise ConfigError(
            f"--arrivals: {workload.arrivals} needs a rate to vary; give one, such as --rate 1k/s"
        )
    for option in ("relay-delay", "relay-parallelism"):
        values = getattr(workload, WORKLOAD_OPTIONS[option].field)
        if values and not workload.relays:
            raise ConfigError(f"--{option}: there is no relay; give --relays 1 or more")
        if len(values) not in (0, 1, workload.relays):
            raise ConfigError(
                f"--{option}: {counted(len(values), 'value')} for"
                f" {counted(workload.relays, 'relay')}; give one for all, or one for each"
            )
    for slow in workload.slow_consumers:
        if slow.index >= workload.consumers:
            raise ConfigError(
                f"--slow-consumer: there is no consumer {slow.index}; they count from 0 to"
                f" {workload.consumers - 1}"
            )
