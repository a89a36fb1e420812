"""Options that commands share: network keys, workload, output; and the way from texts to scenarios.

All values stay texts until a scenario is made, so that the command line, a TOML file and a
`key=value` set are read by the same parsers and a sweep can be cut at its commas.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from flinknet import options as flink
from flinknet.config import (
    CUSTOM_PARTITIONER,
    FLOW_CONTROLS,
    PARTITION_TYPES,
    PARTITIONERS,
    RATE_MAX,
    SCHEDULINGS,
    RecordSize,
    Scenario,
    SlowConsumer,
    WorkloadConfig,
)
from flinknet.errors import ConfigError
from flinknet.results import Warning
from flinknet.units import format_duration_ns, parse_duration_ns, parse_rate_per_s, parse_size_bytes

from .exchange import with_exchange

DEFAULT_DURATION_NS = 3_000_000_000
RECORD_SIZE_MIN_BYTES = 8
"""A record's value begins with the 8 bytes by which the consumer knows it."""

RECORD_SIZE_MAX_BYTES = 1 << 30
"""On the wire a length has 31 bits; half of that already takes seconds for each record."""

PLACEMENTS = ("split", "spread")
ARRIVALS = ("constant", "poisson", "bursts")

NETWORK_OPTIONS: Mapping[str, tuple[str, str, str]] = {
    "buffer-timeout": (
        flink.BUFFER_TIMEOUT,
        "LIST",
        "How long a record may wait in a buffer that is not full: 0 sends each record, -1 full"
        " buffers only. [default: 100ms]",
    ),
    "exclusive-buffers": (flink.EXCLUSIVE_BUFFERS, "LIST", "Buffers per channel. [default: 2]"),
    "floating-buffers": (
        flink.FLOATING_BUFFERS,
        "LIST",
        "Buffers per gate, shared by its channels. [default: 8]",
    ),
    "segment-size": (flink.SEGMENT_SIZE, "LIST", "Size of a buffer. [default: 32kb]"),
    "checkpoint-interval": (
        flink.CHECKPOINT_INTERVAL,
        "LIST",
        "Send checkpoint barriers this often and measure how they travel; how they are aligned is"
        " up to Flink's execution.checkpointing keys. [default: never]",
    ),
}
"""Named option -> Flink's key, metavar, help."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user asked for, as texts: Flink's keys, and bench options by their long name.

    `origins` tells of each key of `network` where it was set.
    """

    network: Mapping[str, str] = field(default_factory=dict)
    workload: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[Warning, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)

    def over(self, base: Settings) -> Settings:
        """These settings on top of `base`."""
        return Settings(
            flink.merge(base.network, self.network),
            {**base.workload, **self.workload},
            (*base.warnings, *self.warnings),
            {**base.origins, **self.origins},
        )


def settings_from(assignments: Mapping[str, str], *, source: str) -> Settings:
    """Sort names into Flink's keys and bench options; `source` stands in errors."""
    network: dict[str, str] = {}
    workload: dict[str, str] = {}
    for name, text in assignments.items():
        option = name.replace("_", "-")
        if option in NETWORK_OPTIONS:
            network[NETWORK_OPTIONS[option][0]] = text
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
    """Take the shared options out of a command's parameters, in order of precedence."""
    conf: dict[str, str] = {}
    warnings: tuple[Warning, ...] = ()
    if values["flink_conf"] is not None:
        conf, warnings = flink.read_flink_conf(Path(values["flink_conf"]))
    defined = dict(flink.parse_assignment(text) for text in values["define"])
    named, workload = {}, {}
    for option, (key, _, _) in NETWORK_OPTIONS.items():
        text = values[_parameter(option)]
        if text is not None:
            named[key] = text
    for option in WORKLOAD_OPTIONS:
        text = values[_parameter(option)]
        if isinstance(text, tuple):
            text = ",".join(text) or None
        if text is not None:
            workload[option] = text
    layers = [(str(values["flink_conf"]), conf), ("-D", defined)]
    layers += [
        (f"--{option}", {key: named[key]})
        for option, (key, _, _) in NETWORK_OPTIONS.items()
        if key in named
    ]
    return Settings(
        flink.merge(conf, defined, named),
        workload,
        (*warnings, *flink.deprecated_keys(defined)),
        flink.origins_of(layers),
    )


def scenario_of(settings: Settings, seed: int) -> tuple[Scenario, tuple[Warning, ...]]:
    """The scenario of settings without comma lists, and what to know about it.

    Raises: ConfigError for a value that cannot be used, alone or beside the others.
    """
    from flinknet.tasks.deployment import deploy
    from flinknet.tasks.memory import check_memory

    network, warnings = flink.network_config(settings.network)
    fields = {name: WORKLOAD_OPTIONS[name].parse(t) for name, t in settings.workload.items()}
    placement = fields.pop("placement", Scenario().placement)
    stages = 2 + fields.get("relays", 0)
    task_managers = fields.pop("task-managers", stages if placement == "split" else 2)
    flow_control = fields.pop("flow-control", None) or flink.flow_control_of(settings.network)
    names = {name: WORKLOAD_OPTIONS[name].field for name in fields}
    workload = WorkloadConfig(**{names[name]: value for name, value in fields.items()})
    network, workload, doubts = with_exchange(
        network, workload, settings.network, settings.workload
    )
    if workload.records is None and workload.duration_ns is None:
        workload = replace(workload, duration_ns=DEFAULT_DURATION_NS)
    _check(workload)
    scenario = Scenario(
        network=network,
        workload=workload,
        task_managers=task_managers,
        seed=seed,
        flow_control=flow_control,
        placement=placement,
    )
    check_memory(deploy(scenario))
    return scenario, (*settings.warnings, *warnings, *doubts)


def _check(workload: WorkloadConfig) -> None:
    if workload.records is not None and workload.duration_ns is not None:
        raise ConfigError("--records and --duration both say where a run ends; give one of them")
    if workload.partitioner == "forward" and workload.producers != workload.consumers:
        raise ConfigError(
            "--partitioner: forward needs as many consumers as producers"
            f" ({workload.producers} and {workload.consumers}); use rebalance, or equal numbers"
        )
    if workload.is_max_rate and workload.arrivals != "constant":
        raise ConfigError(
            f"--arrivals: {workload.arrivals} needs a rate to vary; give one, such as --rate 1k/s"
        )
    if workload.relay_delay_ns_per_record and not workload.relays:
        raise ConfigError("--relay-delay: there is no relay to take it; give --relays 1 or more")
    for slow in workload.slow_consumers:
        if slow.slow_ns == 0:
            raise ConfigError("--slow-consumer: slow for no time is not slow; give a longer TIME")
        if slow.index >= workload.consumers:
            raise ConfigError(
                f"--slow-consumer: there is no consumer {slow.index}; they count from 0 to"
                f" {workload.consumers - 1}"
            )


def _record_size(text: str) -> RecordSize:
    low_text, dots, high_text = text.partition("..")
    low = parse_size_bytes(low_text, "--record-size")
    high = parse_size_bytes(high_text, "--record-size") if dots else low
    if low < RECORD_SIZE_MIN_BYTES:
        raise ConfigError(
            f"--record-size: {text!r} is too small; a record needs {RECORD_SIZE_MIN_BYTES}b at"
            " least, to be told from others"
        )
    if high > RECORD_SIZE_MAX_BYTES:
        raise ConfigError(f"--record-size: {text!r} is too large; a record can have 1gb at most")
    if low > high:
        raise ConfigError(f"--record-size: {text!r} runs backwards; write SMALLEST..LARGEST")
    return RecordSize(low, high)


def _slow_consumers(text: str) -> tuple[SlowConsumer, ...]:
    slow = []
    for part in text.split(","):
        index, _, delay = part.strip().partition(":")
        delay, colon, length = delay.partition(":")
        if not delay.strip() or not index.isdecimal() or (colon and not length.strip()):
            raise ConfigError(
                f"--slow-consumer: {part!r} is not of the form INDEX:DELAY or INDEX:DELAY:TIME;"
                " write 0:5ms, 0:pause or 0:5ms:10s"
            )
        parse = _duration("--slow-consumer")
        delay_ns = -1 if delay.strip() == "pause" else parse(delay)
        slow.append(SlowConsumer(int(index), delay_ns, parse(length) if colon else None))
    return tuple(slow)


def _duration(name: str) -> Callable[[str], int]:
    return lambda text: parse_duration_ns(text, name, bare_unit=None)


def _measured_part(text: str) -> int:
    duration_ns = _duration("--duration")(text)
    if not duration_ns:
        raise ConfigError("--duration: 0 measures nothing; give some seconds, such as 3s")
    return duration_ns


def _rate(text: str) -> float:
    rate_per_s = parse_rate_per_s(text, "--rate")
    return RATE_MAX if rate_per_s is None else rate_per_s


def _count(name: str) -> Callable[[str], int]:
    def parse(text: str) -> int:
        digits = text.replace("_", "")
        if not digits.isdecimal() or not int(digits):
            raise ConfigError(f"{name}: {text!r} is not a number of 1 or more")
        return int(digits)

    return parse


def _partitioner(text: str) -> str:
    if text in PARTITIONERS:
        return text
    if text.startswith(CUSTOM_PARTITIONER):
        from flinknet.tasks.partitioners import find_custom

        # As `python -m` has it; the processes of a run get the same path.
        if "" not in sys.path and os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        find_custom(text)
        return text
    raise ConfigError(
        f"--partitioner: {text!r} is none of {', '.join(PARTITIONERS)} and custom:MODULE:FUNCTION"
    )


def _number(name: str) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal():
            raise ConfigError(f"{name}: {text!r} is not a number of 0 or more")
        return int(text)

    return parse


def _choice(name: str, choices: tuple[str, ...]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ConfigError(f"{name}: {text!r} is none of {', '.join(choices)}")
        return text

    return parse


@dataclass(frozen=True, slots=True)
class _WorkloadOption:
    """A bench option: the WorkloadConfig field it sets, its parser, metavar and help."""

    field: str
    parse: Callable[[str], Any]
    metavar: str
    help: str


WORKLOAD_OPTIONS: Mapping[str, _WorkloadOption] = {
    "rate": _WorkloadOption(
        "rate_per_s",
        _rate,
        "RATE",
        "Records per second of each producer, such as 20000/s or 20k/s; max: as fast as it goes."
        " [default: max]",
    ),
    "record-size": _WorkloadOption(
        "record_size",
        _record_size,
        "SIZE",
        "Size of a record's value, or a range of sizes 100b..1kb (uniform). [default: 100b]",
    ),
    "producers": _WorkloadOption(
        "producers", _count("--producers"), "N", "Producing tasks. [default: 1]"
    ),
    "consumers": _WorkloadOption(
        "consumers", _count("--consumers"), "N", "Consuming tasks. [default: 1]"
    ),
    "task-managers": _WorkloadOption(
        "task_managers",
        _count("--task-managers"),
        "N",
        "Processes that the tasks are put on. [default: 2, and one more for each relay]",
    ),
    "placement": _WorkloadOption(
        "placement",
        _choice("--placement", PLACEMENTS),
        "|".join(PLACEMENTS),
        "split: producers and consumers have processes of their own, so that every channel crosses"
        " a connection. spread: task i of each sits on process i, in turns; channels within a"
        " process are local. [default: split]",
    ),
    "relays": _WorkloadOption(
        "relays",
        _number("--relays"),
        "N",
        "Stages between producers and consumers that pass records on. [default: 0]",
    ),
    "relay-delay": _WorkloadOption(
        "relay_delay_ns_per_record",
        _duration("--relay-delay"),
        "TIME",
        "Time each relay takes for a record. [default: 0]",
    ),
    "flow-control": _WorkloadOption(
        "flow_control",
        _choice("--flow-control", FLOW_CONTROLS),
        "|".join(FLOW_CONTROLS),
        "What keeps a producer from flooding its consumer: credit, or tcp as before Flink 1.5,"
        " where a slow channel stops its neighbours. [default: credit]",
    ),
    "partitioner": _WorkloadOption(
        "partitioner",
        _partitioner,
        "|".join((*PARTITIONERS, CUSTOM_PARTITIONER + "MODULE:FUNCTION")),
        "Which consumer gets a record. [default: rebalance]",
    ),
    "partition-type": _WorkloadOption(
        "partition_type",
        _choice("--partition-type", PARTITION_TYPES),
        "|".join(PARTITION_TYPES),
        "When consumers may read: while the producers write, or (blocking) when all is written."
        " [default: pipelined-bounded; with -D execution.runtime-mode=BATCH what"
        " execution.batch-shuffle-mode says]",
    ),
    "scheduling": _WorkloadOption(
        "scheduling",
        _choice("--scheduling", SCHEDULINGS),
        "|".join(SCHEDULINGS),
        "What consumers wait for before they start, as before Flink's pipelined regions. [default:"
        " complete-output for blocking exchanges, else all-at-once]",
    ),
    "arrivals": _WorkloadOption(
        "arrivals",
        _choice("--arrivals", ARRIVALS),
        "|".join(ARRIVALS),
        "How records of a given rate are spread over time. [default: constant]",
    ),
    "slow-consumer": _WorkloadOption(
        "slow_consumers",
        _slow_consumers,
        "INDEX:DELAY[:TIME]",
        "Let a consumer take DELAY for each record; `pause` stops it for the whole run. With TIME,"
        " for so long from the start of the measured part. May be repeated.",
    ),
    "records": _WorkloadOption(
        "records",
        _count("--records"),
        "N",
        "Records of each producer in the measured part, instead of a duration.",
    ),
    "duration": _WorkloadOption(
        "duration_ns",
        _measured_part,
        "TIME",
        f"Length of the measured part. [default: {format_duration_ns(DEFAULT_DURATION_NS)}]",
    ),
    "warmup": _WorkloadOption(
        "warmup_ns",
        _duration("--warmup"),
        "TIME",
        "Time before the measured part, recorded and left out. [default: 500ms]",
    ),
}
"""Bench option -> what it sets."""

_Command = TypeVar("_Command", bound=Callable[..., Any])


def load_options(command: _Command) -> _Command:
    """Add what flows (the workload) and how the network is set to a command."""
    decorators = [
        *(
            click.option(
                f"--{name}",
                metavar=option.metavar,
                multiple=name == "slow-consumer",
                help=option.help,
            )
            for name, option in WORKLOAD_OPTIONS.items()
        ),
        *(
            click.option(f"--{name}", metavar=metavar, help=text)
            for name, (_, metavar, text) in NETWORK_OPTIONS.items()
        ),
        click.option(
            "-D",
            "define",
            metavar="KEY=VALUE",
            multiple=True,
            help="Any of Flink's network keys. May be repeated; wins over --flink-conf.",
        ),
        click.option(
            "--flink-conf", metavar="FILE", help="Read keys from Flink's config.yaml first."
        ),
    ]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def output_options(command: _Command) -> _Command:
    """Add where results go, and the seed."""
    decorators = [
        click.option(
            "--seed",
            type=click.IntRange(0),
            default=1,
            show_default=True,
            help="The same seed gives the same arrivals, sizes and keys.",
        ),
        click.option(
            "--out",
            metavar="DIR",
            help="Where runs lie. [default: a new directory in flinknet-runs, if traces are kept]",
        ),
        click.option(
            "--json", metavar="FILE|-", help="Write the result as JSON; - for stdout, alone."
        ),
    ]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def _parameter(option: str) -> str:
    return option.replace("-", "_")
