"""Options that commands share: adds them to a command, collects their values, makes a scenario.

All values stay texts until a scenario is made, so that the command line, TOML files and `key=value`
sets use the same parsers, and a sweep can be split at its commas.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from flinknet import options as flink
from flinknet.config import PARTITIONERS, Scenario, WorkloadConfig
from flinknet.errors import ConfigError
from flinknet.options.link import SEPARATOR
from flinknet.results import RunWarning
from flinknet.units import counted

from .commands import WholeNumber, flink_keys
from .commands import words as completer_of
from .files import json_option
from .option_tables import DEFAULT_DURATION_NS, NETWORK_OPTIONS, WORKLOAD_OPTIONS, with_exchange

_DURATION_OPTIONS = frozenset(("buffer-timeout", "checkpoint-interval"))
_DEFAULT = " [default: "
_BARE_NUMBER = re.compile(r"\d+(\.\d+)?", re.ASCII)

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Settings:
    """The user's settings, as texts: Flink's keys, and bench options by their long name.

    `origins` has the place where each key of `network` was set.
    """

    network: Mapping[str, str] = field(default_factory=dict)
    workload: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[RunWarning, ...] = ()
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
    """Sort assignments into Flink's keys and bench options; `source` is named in errors."""
    network: dict[str, str] = {}
    workload: dict[str, str] = {}
    for name, text in assignments.items():
        option = name.replace("_", "-")
        if option in NETWORK_OPTIONS:
            where = source if source.startswith(f"{name}=") else f"{source}: {name}"
            network[NETWORK_OPTIONS[option][0]] = _with_unit(option, text, where)
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
    conf: dict[str, str] = {}
    warnings: tuple[RunWarning, ...] = ()
    if values["flink_conf"] is not None:
        conf, warnings = read_cluster_conf(values["flink_conf"])
    defined = dict(flink.parse_assignment(text) for text in values["define"])
    options = network_options(values)
    workload = {}
    for option in WORKLOAD_OPTIONS:
        text = values.get(_parameter(option))
        if isinstance(text, tuple):
            text = (SEPARATOR if option == "link" else ",").join(text) if text else None
        if text is not None:
            workload[option] = text
    flink.check_agreement(defined, options)
    layers = [(str(values["flink_conf"]), conf), ("-D", defined)]
    layers += [(option, {key: text}) for option, (key, text) in options.items()]
    merged = flink.merge(conf, defined, dict(options.values()))
    if values["flink_conf"] is not None:
        warnings += total_warning(values["flink_conf"], merged)
    return Settings(
        merged,
        workload,
        (*warnings, *flink.deprecated_keys(defined)),
        flink.origins_of(layers),
    )


def read_cluster_conf(file: str) -> tuple[dict[str, str], tuple[RunWarning, ...]]:
    """The settings in a cluster's file, without its ports and addresses, which TaskManagers on this
    machine do not use."""
    settings, warnings = flink.read_flink_conf(Path(file))
    of_cluster = [key for key in flink.ADDRESSES if settings.pop(key, None) is not None]
    if of_cluster:
        why = f"{file}: a cluster's addresses, not used here"
        named = ", ".join(of_cluster)
        text = f"{why}: {named}; set them with -D if the TaskManagers of this run need them"
        warnings += (RunWarning("keys-left-out", text, f"{why}: {named}"),)
    return settings, warnings


def total_warning(file: object, settings: Mapping[str, str]) -> tuple[RunWarning, ...]:
    """A warning if Flink would not start with a file, as it lacks a total size of memory; flinknet
    needs none."""
    try:
        flink.check_total(settings)
    except ConfigError as error:
        return (RunWarning("no-total-size", f"{file} {error}"),)
    return ()


def check_single_values(settings: Settings) -> None:
    """Check for single values. Raises: ConfigError for a comma list, which only a sweep takes."""
    if swept := flink.swept_keys(settings.network):
        raise ConfigError(f"{swept[0]} must be one value, not a list")


def network_options(values: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The given options that set one of Flink's keys, each with the key and the text."""
    return {
        f"--{option}": (key, _with_unit(option, text, f"--{option}"))
        for option, (key, _, _) in NETWORK_OPTIONS.items()
        if (text := values.get(_parameter(option))) is not None
    }


def _with_unit(option: str, text: str, where: str) -> str:
    """The text of an option. Raises: ConfigError, beginning with `where`, for a duration without a
    unit: only Flink's keys may omit it, and mean milliseconds.
    """
    if option in _DURATION_OPTIONS:
        for part in map(str.strip, text.split(",")):
            if _BARE_NUMBER.fullmatch(part) and float(part):
                raise ConfigError(f"{where}: {part!r} has no unit; write {part}ms or {part}s")
    return text


def scenario_of(settings: Settings, seed: int) -> tuple[Scenario, tuple[RunWarning, ...]]:
    """The scenario of settings without comma lists, and warnings about it.

    Raises: ConfigError for an invalid value or an invalid combination.
    """
    from flinknet.job.load.plan import load_plan_of

    network, warnings = flink.network_config(settings.network)
    fields = {name: WORKLOAD_OPTIONS[name].parse(t) for name, t in settings.workload.items()}
    placement = fields.pop("placement", Scenario().placement)
    stages = 2 + fields.get("relays", 0)
    task_managers = fields.pop("task-managers", stages if placement == "split" else 2)
    link = fields.pop("link", None)
    if link is not None and task_managers == 1:
        raise ConfigError("--link: there is one TaskManager, so no channel crosses a link")
    flow_control = fields.pop("flow-control", None) or flink.flow_control_of(settings.network)
    names = {name: WORKLOAD_OPTIONS[name].field for name in fields}
    workload = WorkloadConfig(**{names[name]: value for name, value in fields.items()})
    network, workload, doubts = with_exchange(
        network, workload, settings.network, settings.workload
    )
    if workload.records is None and workload.duration_ns is None:
        workload = replace(workload, duration_ns=DEFAULT_DURATION_NS)
    _check(workload, settings.workload)
    scenario = Scenario(
        network=network,
        workload=workload,
        task_managers=task_managers,
        seed=seed,
        flow_control=flow_control,
        placement=placement,
        link=link,
    )
    load_plan_of(scenario).check_memory()
    return scenario, (*settings.warnings, *warnings, *doubts)


def _check(workload: WorkloadConfig, given: Mapping[str, str]) -> None:
    if workload.records is not None and workload.duration_ns is not None:
        raise ConfigError("--records and --duration both say where a run ends; give one of them")
    if workload.partitioner in PARTITIONERS and workload.partitioner != "hash":
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
        if slow.slow_ns == 0:
            raise ConfigError("--slow-consumer: slow for no time is not slow; give a longer TIME")
        if slow.index >= workload.consumers:
            raise ConfigError(
                f"--slow-consumer: there is no consumer {slow.index}; they count from 0 to"
                f" {workload.consumers - 1}"
            )


def named_options(
    names: Iterable[str],
    *,
    defaults: Mapping[str, str] | None = None,
    helps: Mapping[str, str] | None = None,
    is_sweep: bool = False,
) -> Callable[[_Command], _Command]:
    """Add options of the tables to a command.

    Args:
        names: names in WORKLOAD_OPTIONS and NETWORK_OPTIONS.
        defaults: defaults to show in the help instead of the tables'.
        helps: help texts of workload options to use instead of the tables'.
        is_sweep: network options may be comma lists.
    """
    defaults, helps = defaults or {}, helps or {}
    decorators = []
    for name in names:
        if name in WORKLOAD_OPTIONS:
            option = WORKLOAD_OPTIONS[name]
            default = defaults.get(name, option.default)
            metavar, text, words = option.metavar, helps.get(name, option.help), option.words
            text += f"{_DEFAULT}{default}]" if default else ""
        else:
            (_, metavar, text), words = NETWORK_OPTIONS[name], ()
            if name in defaults:
                text = f"{text.rpartition(_DEFAULT)[0]}{_DEFAULT}{defaults[name]}]"
            metavar = metavar if is_sweep else "VALUE"
        decorators.append(
            click.option(
                f"--{name}",
                metavar=metavar,
                multiple=name in ("slow-consumer", "link"),
                help=text,
                shell_complete=completer_of(words),
            )
        )
    return _together(decorators)


def load_options(
    names: Iterable[str] = tuple(WORKLOAD_OPTIONS),
    *,
    defaults: Mapping[str, str] | None = None,
    helps: Mapping[str, str] | None = None,
    is_sweep: bool = False,
) -> Callable[[_Command], _Command]:
    """Add some workload options and all network options to a command; see `named_options`."""
    return _together(
        [
            named_options(
                (*names, *NETWORK_OPTIONS), defaults=defaults, helps=helps, is_sweep=is_sweep
            ),
            click.option(
                "-D",
                "define",
                metavar="KEY=VALUE",
                multiple=True,
                shell_complete=flink_keys,
                help="Any of Flink's network keys; overrides --flink-conf. May be repeated.",
            ),
            click.option(
                "--flink-conf",
                metavar="FILE",
                help="Take keys from a config.yaml or FlinkDeployment.",
            ),
        ]
    )


seed_option = click.option(
    "--seed",
    metavar="N",
    type=WholeNumber(0),
    default=1,
    show_default=True,
    help="The same seed gives the same arrivals, sizes and keys.",
)
out_option = click.option(
    "--out",
    metavar="DIR",
    help="Directory for the runs. [default: a new one in flinknet-runs, if traces are kept]",
)
trace_option = click.option(
    "--trace/--no-trace", default=True, help="Record every message, for `trace`. [default: trace]"
)
details_option = click.option(
    "--details", is_flag=True, help="Show all figures, not only those that decide."
)
explain_option = click.option(
    "--explain", is_flag=True, help="Print warnings in full: why, and what to do."
)


def output_options(command: _Command) -> _Command:
    """Add the seed and the options for results to a command."""
    return _together([seed_option, out_option, json_option])(command)


def _together(decorators: Sequence[Callable[..., Any]]) -> Callable[[_Command], _Command]:
    """Combine decorators into one that adds their options in this order."""

    def decorate(command: _Command) -> _Command:
        for each in reversed(decorators):
            command = each(command)
        return command

    return decorate


def _parameter(option: str) -> str:
    return option.replace("-", "_")
