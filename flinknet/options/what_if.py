"""Settings that a what-if can change, each described once: the options of `flinknet trace replay`,
lists of a grid and of notebooks, columns of predictions, and words in tables come from this table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from types import NoneType
from typing import Any

from flinknet import units
from flinknet.config import BUFFER_TIMEOUT_NEVER_NS, CREDIT, FLOW_CONTROLS, NetworkConfig
from flinknet.errors import ConfigError

from .keys import BUFFER_TIMEOUT_ENABLED, options
from .network import network_config
from .values import parse_value

FACTOR_MIN, FACTOR_MAX = 0.001, 1000.0
"""Bounds of a factor: at a thousandth of its rate, ten seconds of a run are hours of beats."""

ALIGNED_NS = -1
"""Aligned timeout of checkpoints that never become unaligned."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting to predict: the network's configuration, and the situation around it, which no key
    of Flink changes.

    Attributes:
        round_trip_ns: round trip between TaskManagers, on top of that of the recording; negative
            for less.
        consumer_speed: factor of the consumers' speed; 2 halves their time for each buffer.
        rate_factor: factor of the arrival rate; 2 brings the same records in half the time.
    """

    network: NetworkConfig
    flow_control: str = CREDIT
    round_trip_ns: int = 0
    consumer_speed: float = 1.0
    rate_factor: float = 1.0


SITUATION = tuple(each.name for each in fields(Setting) if each.name != "network")
"""Names of the values that no key of Flink changes; results of predictions have them, too."""


def situation_of(holder: Any) -> dict[str, Any]:
    """The situation of a Setting, or of a result that has the values of SITUATION."""
    return {name: getattr(holder, name) for name in SITUATION}


def aligned_timeout_of(network: NetworkConfig) -> int:
    """Time after which checkpoints become unaligned, in ns: 0 at once, ALIGNED_NS never."""
    return network.aligned_checkpoint_timeout_ns if network.unaligned_checkpoints else ALIGNED_NS


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of values.

    Attributes:
        read: the value of a text; the second argument names it in a ConfigError.
        show: a value as tables have it.
        types: types of values that are not written as text.
        meaning: description of such values.
        order: key by which values are sorted.
        check: raises ConfigError for a value that is out of bounds; arguments as of `read`.
    """

    read: Callable[[str, str], Any]
    show: Callable[[Any], str]
    types: tuple[type, ...]
    meaning: str
    order: Callable[[Any], Any] = lambda value: value
    check: Callable[[Any, str], None] = lambda value, name: None


@dataclass(frozen=True, slots=True)
class Asked:
    """A setting that can be asked.

    Attributes:
        name: heading in tables; two settings with one name share a column, which shows the second
            where it acts.
        option: option of `flinknet trace replay`, without dashes.
        values: name of its list in a grid.
        field: name of its value, in NetworkConfig or Setting and in rows of predictions.
        help: text of the option.
    """

    name: str
    option: str
    values: str
    field: str
    help: str

    @property
    def kind(self) -> Kind:
        """The kind of its values."""
        return _KINDS[self.field]

    def value(self, setting: Setting) -> Any:
        """The value in a setting."""
        if self.field in SITUATION:
            return getattr(setting, self.field)
        if self is ALIGNMENT:
            return aligned_timeout_of(setting.network)
        return getattr(setting.network, self.field)

    def put(self, setting: Setting, value: Any) -> Setting:
        """The setting with another value; unchanged where that does not act, so that no setting is
        predicted twice."""
        if value == self.value(setting) or not self.acts_in(setting):
            return setting
        if self.field in SITUATION:
            return replace(setting, **{self.field: value})
        changed = {self.field: value}
        if self is ALIGNMENT:
            changed = {"unaligned_checkpoints": value != ALIGNED_NS}
            changed["aligned_checkpoint_timeout_ns"] = max(value, 0)
        return replace(setting, network=replace(setting.network, **changed))

    def acts_in(self, setting: Setting) -> bool:
        """Whether the value makes a difference."""
        needed = _NEEDED.get(self.field)
        return needed is None or bool(needed.value(setting))

    def checked(self, value: Any, name: str) -> Any:
        """A value of a list, which may be text. Raises: ConfigError that names the list."""
        if isinstance(value, str):
            value = self.kind.read(value, name)
        is_unwanted_bool = isinstance(value, bool) and bool not in self.kind.types
        if not isinstance(value, self.kind.types) or is_unwanted_bool:
            raise ConfigError(f"{name}: {value!r} cannot be used; give {self.kind.meaning}")
        self.kind.check(value, name)
        return value


_read_duration = partial(units.parse_duration_ns, bare_unit=None)


def _read_some_time(text: str, name: str) -> int:
    time_ns = _read_duration(text, name)
    if not time_ns:
        raise ConfigError(f"{name}: 0 is too short; give a time such as 500ms")
    return time_ns


def _read_alignment(text: str, name: str) -> int:
    for timeout_ns in (ALIGNED_NS, 0):
        if text == _show_alignment(timeout_ns):
            return timeout_ns
    try:
        return _read_duration(text, name)
    except ConfigError:
        raise ConfigError(
            f"{name}: {text!r} is not aligned, unaligned or a time such as 30ms"
        ) from None


def _read_word(text: str, name: str, words: Sequence[str] = FLOW_CONTROLS) -> str:
    if text not in words:
        raise ConfigError(f"{name}: {text!r} is not one of {', '.join(words)}")
    return text


def _read_factor(text: str, name: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        raise ConfigError(f"{name}: {text!r} is not a factor; write a number, such as 2") from None
    _check_factor(factor, name)
    return factor


def _check_factor(factor: float, name: str) -> None:
    if not FACTOR_MIN <= factor <= FACTOR_MAX:
        raise ConfigError(f"{name}: {factor} is out of range: use {FACTOR_MIN:g} to {FACTOR_MAX:g}")


def _reader_of(field: str) -> Callable[[str, str], Any]:
    """A reader of values of a key of Flink, by Flink's rules."""

    def read(text: str, name: str) -> Any:
        return getattr(network_config({key_of(field): text})[0], field)

    return read


def key_of(field: str) -> str:
    """The key of Flink that sets a field of NetworkConfig."""
    key: str = NetworkConfig.__dataclass_fields__[field].metadata["key"]
    return key


def _show_alignment(timeout_ns: int) -> str:
    return {ALIGNED_NS: "aligned", 0: "unaligned"}.get(timeout_ns) or units.format_duration_ns(
        timeout_ns
    )


_TIME = 'whole numbers of ns, or text such as "5ms"'
_COUNT = "whole numbers"
_FACTOR = Kind(
    _read_factor, "x{:g}".format, (int, float), "factors such as 0.5", check=_check_factor
)
_KINDS = {
    "buffer_timeout_ns": Kind(
        partial(units.parse_duration_ns, bare_unit=None, allow_never=True),
        units.format_duration_ns,
        (int,),
        _TIME,
        order=lambda value: (value < 0, value),
    ),
    "segment_size_bytes": Kind(
        _reader_of("segment_size_bytes"), units.format_size_bytes, (int,), _COUNT
    ),
    "exclusive_buffers": Kind(_reader_of("exclusive_buffers"), str, (int,), _COUNT),
    "floating_buffers": Kind(_reader_of("floating_buffers"), str, (int,), _COUNT),
    "debloating_enabled": Kind(
        lambda text, name: _read_word(text, name, ("on", "off")) == "on",
        lambda is_on: "on" if is_on else "off",
        (bool,),
        "True or False",
    ),
    "debloating_target_ns": Kind(_read_some_time, units.format_duration_ns, (int,), _TIME),
    "checkpoint_interval_ns": Kind(
        lambda text, name: None if text == "off" else _read_some_time(text, name),
        lambda value: "off" if value is None else units.format_duration_ns(value),
        (int, NoneType),
        _TIME,
        order=lambda value: (value is not None, -(value or 0)),  # rare ones first
    ),
    "aligned_timeout_ns": Kind(
        _read_alignment,
        _show_alignment,
        (int,),
        _TIME,
        order=lambda value: (value != ALIGNED_NS, -value),
    ),
    "flow_control": Kind(_read_word, str, (str,), " or ".join(FLOW_CONTROLS), FLOW_CONTROLS.index),
    "round_trip_ns": Kind(
        _read_duration, lambda ns: f"+{units.human_duration(ns)}" if ns else "+0", (int,), _TIME
    ),
    "consumer_speed": _FACTOR,
    "rate_factor": _FACTOR,
}

_TABLE = f"""
buffer timeout | buffer-timeout | buffer_timeouts_ns | buffer_timeout_ns | Timeouts, such as 0,5ms,100ms,-1. [default, if no list is given: 0,1ms,5ms,10ms,100ms,-1]
segment size | segment-size | segment_sizes_bytes | segment_size_bytes | Sizes of a buffer, such as 8kb,32kb.
exclusive | exclusive-buffers | exclusive_buffers | exclusive_buffers | Exclusive buffers of a channel, such as 1,2,4.
floating | floating-buffers | floating_buffers | floating_buffers | Floating buffers of a gate, such as 0,8,32.
debloating | debloating | debloatings | debloating_enabled | on,off: buffer debloating, with its keys as recorded.
debloating | debloat-target | debloating_targets_ns | debloating_target_ns | Buffer debloating with these targets, such as 100ms,1s.
checkpoints | checkpoint-interval | checkpoint_intervals_ns | checkpoint_interval_ns | Times between checkpoints, such as 500ms,10s; off: no checkpoints.
alignment | alignment | aligned_timeouts_ns | aligned_timeout_ns | How checkpoints align: aligned,unaligned, or the time after which an aligned one becomes unaligned, such as 30ms. Without --checkpoint-interval, at the recorded interval.
flow control | flow-control | flow_controls | flow_control | credit,tcp; tcp is the flow control of Flink before 1.5.
round trip | round-trip | round_trips_ns | round_trip_ns | Network round-trip times on top of the recorded one, such as 0,1ms.
consumer speed | consumer-speed | consumer_speeds | consumer_speed | Factors for the consumers' speed, such as 0.5,2; from {FACTOR_MIN:g} to {FACTOR_MAX:g}.
rate | rate-factor | rate_factors | rate_factor | Factors for the arrival rate, such as 1,2,4; from {FACTOR_MIN:g} to {FACTOR_MAX:g}.
"""  # noqa: E501 - one line for each setting

SETTINGS = tuple(Asked(*line.split(" | ")) for line in _TABLE.strip().splitlines())
"""Settings that can be asked, in the order of tables, each after the one that it needs."""

TIMEOUT, SEGMENT_SIZE, EXCLUSIVE, FLOATING, DEBLOATING, DEBLOAT_TARGET = SETTINGS[:6]
CHECKPOINTS, ALIGNMENT, FLOW_CONTROL, ROUND_TRIP, CONSUMER_SPEED, RATE_FACTOR = SETTINGS[6:]

WORDS = {
    DEBLOATING.option: ("on", "off"),
    ALIGNMENT.option: ("aligned", "unaligned"),
    FLOW_CONTROL.option: FLOW_CONTROLS,
}
"""Values of options that a shell completes."""

_NEEDED = {DEBLOAT_TARGET.field: DEBLOATING, ALIGNMENT.field: CHECKPOINTS}
"""The setting without which another one does not act."""

_ORDER = (
    *(RATE_FACTOR, CONSUMER_SPEED, ROUND_TRIP, FLOW_CONTROL, DEBLOATING, DEBLOAT_TARGET),
    *(CHECKPOINTS, ALIGNMENT, SEGMENT_SIZE, EXCLUSIVE, FLOATING, TIMEOUT),
)
"""Settings by their weight when settings are sorted."""


def ascending(setting: Setting) -> tuple[Any, ...]:
    """Key by which settings are sorted: a timeout of -1 is the longest; settings without
    checkpoints come first, then those with rare ones, and at each interval aligned ones."""
    return tuple(each.kind.order(each.value(setting)) for each in _ORDER)


def columns_of(setting: Setting) -> dict[str, Any]:
    """The values of a setting by field, as rows of predictions have them; None for those that do
    not act."""
    return {
        each.field: each.value(setting) if each.acts_in(setting) else None
        for each in SETTINGS
        if each is not DEBLOATING  # without it there is no target
    }


def words_of(setting: Setting) -> dict[str, str]:
    """Everything that can be varied, by name, as tables show it; MISSING where it does not act."""
    words: dict[str, str] = {}
    for each in SETTINGS:
        if each.acts_in(setting):
            words[each.name] = each.kind.show(each.value(setting))
        else:
            words.setdefault(each.name, units.MISSING)
    return words


def network_of(config: Mapping[str, str]) -> NetworkConfig:
    """The configuration as far as it can be asked, from Flink's keys; defaults for the others."""
    return _network_of(tuple(config.get(key) for key in _keys()))


@cache
def _keys() -> tuple[str, ...]:
    derived = ("unaligned_checkpoints", "aligned_checkpoint_timeout_ns")
    own = [each.field for each in SETTINGS if each.field not in (*SITUATION, ALIGNMENT.field)]
    return (*(key_of(field) for field in (*own, *derived)), BUFFER_TIMEOUT_ENABLED)


@cache
def _network_of(texts: tuple[str | None, ...]) -> NetworkConfig:
    found = {key: text for key, text in zip(_keys(), texts, strict=True) if text is not None}
    is_enabled = found.pop(BUFFER_TIMEOUT_ENABLED, "true") != "false"
    values = {options()[key].field or "": parse_value(options()[key], found[key]) for key in found}
    network = NetworkConfig(**values)
    if not is_enabled:
        network = replace(network, buffer_timeout_ns=BUFFER_TIMEOUT_NEVER_NS)
    return network
