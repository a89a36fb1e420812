"""Grid: which settings to predict a run under, as lists of values whose combinations are tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

from flinknet.config import BUFFER_TIMEOUT_NEVER_NS, FLOW_CONTROLS, NetworkConfig
from flinknet.errors import ConfigError

from .recorded import Setting

MS = 1_000_000
DEFAULT_TIMEOUTS_NS = (0, 1 * MS, 5 * MS, 10 * MS, 100 * MS, BUFFER_TIMEOUT_NEVER_NS)

FINE_TIMEOUTS_NS = (
    *(0, 1 * MS, 2 * MS, 3 * MS, 5 * MS, 7 * MS, 10 * MS, 15 * MS, 20 * MS, 25 * MS),
    *(30 * MS, 40 * MS, 50 * MS, 70 * MS, 100 * MS, 150 * MS, 200 * MS, 300 * MS, 500 * MS),
    *(1000 * MS, BUFFER_TIMEOUT_NEVER_NS),
)
"""For a target: steps between which a better one would be no surer than the model."""

SETTINGS_MAX = 512
"""Settings of a run that are predicted at once at most."""

FACTOR_MIN, FACTOR_MAX = 0.001, 1000.0
"""Bounds of a factor: at a thousandth of its rate ten seconds of a run are hours of beats."""

ALIGNED_NS = -1
"""Aligned timeout of checkpoints that never become unaligned."""

NO_CHECKPOINTS = (
    "how checkpoints align matters only with checkpoints, and the trace has none: give an interval"
    " (--checkpoint-interval)"
)

_NETWORK = {
    "buffer_timeouts_ns": "buffer_timeout_ns",
    "exclusive_buffers": "exclusive_buffers",
    "floating_buffers": "floating_buffers",
    "segment_sizes_bytes": "segment_size_bytes",
    "debloatings": "debloating_enabled",
    "debloating_targets_ns": "debloating_target_ns",
    "checkpoint_intervals_ns": "checkpoint_interval_ns",
}
_AROUND = {
    "flow_controls": "flow_control",
    "round_trips_ns": "round_trip_ns",
    "consumer_speeds": "consumer_speed",
    "rate_factors": "rate_factor",
}


@dataclass(frozen=True, slots=True)
class Grid:
    """Lists of values; an empty one keeps what was recorded.

    Attributes:
        debloatings: whether buffers are debloated.
        debloating_targets_ns: of these the time in which what is in flight is to be consumed;
            without `debloatings` they are debloated.
        checkpoint_intervals_ns: between the beginnings of two checkpoints; None: without any.
        aligned_timeouts_ns: after which a checkpoint becomes unaligned; 0: it begins so;
            ALIGNED_NS: it never does.
        round_trips_ns: network round trips on top of the recorded way.
        consumer_speeds: factors of the consumers' speed, from FACTOR_MIN to FACTOR_MAX.
        rate_factors: factors of the arrival rate, likewise.
    """

    buffer_timeouts_ns: Sequence[int] = ()
    exclusive_buffers: Sequence[int] = ()
    floating_buffers: Sequence[int] = ()
    segment_sizes_bytes: Sequence[int] = ()
    debloatings: Sequence[bool] = ()
    debloating_targets_ns: Sequence[int] = ()
    checkpoint_intervals_ns: Sequence[int | None] = ()
    aligned_timeouts_ns: Sequence[int] = ()
    flow_controls: Sequence[str] = ()
    round_trips_ns: Sequence[int] = ()
    consumer_speeds: Sequence[float] = ()
    rate_factors: Sequence[float] = ()

    def __post_init__(self) -> None:
        """Raises: ConfigError for a factor out of its bounds."""
        for name in ("consumer_speeds", "rate_factors"):
            for factor in getattr(self, name):
                check_factor(name, factor)

    @property
    def is_empty(self) -> bool:
        """Whether no list was given."""
        return not any(getattr(self, each.name) for each in fields(self))

    @property
    def combinations(self) -> int:
        """How many settings the lists make, without the recorded one."""
        count = 1
        for each in fields(self):
            count *= max(len(set(getattr(self, each.name))), 1)
        return count

    def check(self) -> None:
        """Raises: ConfigError for more settings than are predicted at once."""
        if self.combinations > SETTINGS_MAX:
            lists = " x ".join(
                str(len(set(values)))
                for each in fields(self)
                if len(values := getattr(self, each.name)) > 1
            )
            raise ConfigError(
                f"a grid of {lists} = {self.combinations:,} settings is too large; at most"
                f" {SETTINGS_MAX} are predicted at once: shorten the lists, or ask twice"
            )

    def of_run(self, recorded: Setting, interval_ns: int | None) -> Grid:
        """The grid for one run: where it is asked how checkpoints align, and neither the grid nor
        the settings of the run say how often there are any, as often as they were recorded.

        Args:
            interval_ns: between recorded checkpoints; None where there are none.
        """
        is_known = recorded.network.checkpoint_interval_ns is not None
        if not self.aligned_timeouts_ns or self.checkpoint_intervals_ns or is_known:
            return self
        return replace(self, checkpoint_intervals_ns=() if interval_ns is None else (interval_ns,))

    def settings(self, recorded: Setting, *, is_max_rate: bool) -> list[Setting]:
        """All combinations, the recorded setting among them; ascending, a timeout of -1 last.

        Args:
            is_max_rate: the run had no arrival rate, so that its factors mean nothing.
        """
        asked = self.asked(recorded, is_max_rate=is_max_rate)
        return sorted({recorded, *asked}, key=ascending)

    def asked(self, recorded: Setting, *, is_max_rate: bool) -> set[Setting]:
        """All combinations; the recorded setting only if it is one of them.

        Raises: ConfigError for aligned timeouts without checkpoints.
        """
        names = [*_NETWORK, *_AROUND, "aligned_timeouts_ns"]
        choices: list[Sequence[Any]] = []
        for name in names:
            values = getattr(self, name)
            if name == "rate_factors" and is_max_rate:
                values = ()
            if name == "debloatings" and not values and self.debloating_targets_ns:
                values = (True,)
            choices.append(values or (_recorded(recorded, name),))
        found = set()
        for combination in product(*choices):
            given = dict(zip(names, combination, strict=True))
            network = replace(
                recorded.network, **{field: given[name] for name, field in _NETWORK.items()}
            )
            network = _with_what_acts(network, given["aligned_timeouts_ns"], recorded.network)
            around = {field: given[name] for name, field in _AROUND.items()}
            found.add(replace(recorded, network=network, **around))
        if self.aligned_timeouts_ns and not any(
            each.network.checkpoint_interval_ns is not None for each in found
        ):
            raise ConfigError(NO_CHECKPOINTS)
        return found


def _with_what_acts(
    network: NetworkConfig, aligned_timeout_ns: int, recorded: NetworkConfig
) -> NetworkConfig:
    """Settings whose checkpoints align so; what does not act stays as recorded, so that no setting
    is predicted twice.
    """
    if not network.debloating_enabled:
        network = replace(network, debloating_target_ns=recorded.debloating_target_ns)
    if network.checkpoint_interval_ns is None:
        return network
    if aligned_timeout_ns == aligned_timeout_of(network):
        return network
    return replace(
        network,
        unaligned_checkpoints=aligned_timeout_ns != ALIGNED_NS,
        aligned_checkpoint_timeout_ns=max(aligned_timeout_ns, 0),
    )


def aligned_timeout_of(network: NetworkConfig) -> int:
    """After how long checkpoints become unaligned."""
    if not network.unaligned_checkpoints:
        return ALIGNED_NS
    return network.aligned_checkpoint_timeout_ns


def check_factor(name: str, factor: float) -> None:
    """Raises: ConfigError for a factor out of its bounds; `name` is what the user calls it."""
    if not FACTOR_MIN <= factor <= FACTOR_MAX:
        raise ConfigError(f"{name}: {factor} is out of range: use {FACTOR_MIN:g} to {FACTOR_MAX:g}")


def _recorded(setting: Setting, name: str) -> Any:
    if name == "aligned_timeouts_ns":
        return aligned_timeout_of(setting.network)
    if name in _NETWORK:
        return getattr(setting.network, _NETWORK[name])
    return getattr(setting, _AROUND[name])


def _checkpoints_in_order(network: NetworkConfig) -> tuple[Any, ...]:
    """Without checkpoints first, then the rarest, and of each interval the aligned ones."""
    interval_ns = network.checkpoint_interval_ns
    timeout_ns = aligned_timeout_of(network)
    return (
        interval_ns is not None,
        -(interval_ns or 0),
        timeout_ns != ALIGNED_NS,
        -timeout_ns,
    )


def ascending(setting: Setting) -> tuple[Any, ...]:
    """Key that puts settings in their order: a timeout of -1 is the longest."""
    network = setting.network
    return (
        setting.rate_factor,
        setting.consumer_speed,
        setting.round_trip_ns,
        FLOW_CONTROLS.index(setting.flow_control),
        network.debloating_enabled,
        network.debloating_target_ns,
        *_checkpoints_in_order(network),
        network.segment_size_bytes,
        network.exclusive_buffers,
        network.floating_buffers,
        network.buffer_timeout_ns < 0,
        network.buffer_timeout_ns,
    )
