"""Grid: which settings to predict a run under, as lists of values whose combinations are tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from flinknet.config import BUFFER_TIMEOUT_NEVER_NS
from flinknet.errors import ConfigError
from flinknet.options import what_if
from flinknet.options.what_if import Setting

MS = 1_000_000
DEFAULT_TIMEOUTS_NS = (0, 1 * MS, 5 * MS, 10 * MS, 100 * MS, BUFFER_TIMEOUT_NEVER_NS)

FINE_TIMEOUTS_NS = (
    *(0, 1 * MS, 2 * MS, 3 * MS, 5 * MS, 7 * MS, 10 * MS, 15 * MS, 20 * MS, 25 * MS),
    *(30 * MS, 40 * MS, 50 * MS, 70 * MS, 100 * MS, 150 * MS, 200 * MS, 300 * MS, 500 * MS),
    *(1000 * MS, BUFFER_TIMEOUT_NEVER_NS),
)
"""Timeouts for a target: steps between which a better one would be no surer than the model."""

SETTINGS_MAX = 512
"""Settings of a run that are predicted at once at most."""

NO_CHECKPOINTS = (
    "how checkpoints align matters only with checkpoints, and the trace has none: give an interval"
    f" (--{what_if.CHECKPOINTS.option})"
)


@dataclass(frozen=True, slots=True, init=False)
class Grid:
    """Lists of values; settings without a list stay as recorded."""

    lists: Mapping[str, tuple[Any, ...]]  # by `Asked.values`, such as buffer_timeouts_ns

    def __init__(self, **lists: Sequence[Any]) -> None:
        """Values may be text, as on the command line. Raises: ConfigError for a list that does not
        exist, or a value that cannot be used."""
        known = {each.values: each for each in what_if.SETTINGS}
        given = {}
        for name, values in lists.items():
            if name not in known:
                raise ConfigError(f"{name}: there is no such list; there are {', '.join(known)}")
            if isinstance(values, str) or not isinstance(values, Sequence):
                raise ConfigError(f"{name}: {values!r} is not a list; write {name}=[…]")
            if values:
                given[name] = tuple(known[name].checked(each, name) for each in values)
        object.__setattr__(self, "lists", given)

    def check(self) -> None:
        """Raises: ConfigError for more settings than are predicted at once."""
        asked = [each.values for each in what_if.SETTINGS if each.values in self.lists]
        lengths = [len({*self.lists[name]}) for name in asked]
        if (combinations := prod(lengths)) > SETTINGS_MAX:
            lists = " x ".join(str(length) for length in lengths if length > 1)
            raise ConfigError(
                f"a grid of {lists} = {combinations:,} settings is too large; at most"
                f" {SETTINGS_MAX} are predicted at once: shorten the lists, or ask twice"
            )

    def of_run(self, recorded: Setting, interval_ns: int | None) -> Grid:
        """The grid for one run: a question how checkpoints align, where neither the grid nor the
        settings of the run state their interval, is asked at the recorded interval; None where
        there are no recorded checkpoints."""
        interval = what_if.CHECKPOINTS
        is_known = interval.values in self.lists or interval.value(recorded) is not None
        if what_if.ALIGNMENT.values not in self.lists or is_known or interval_ns is None:
            return self
        return Grid(**{**self.lists, interval.values: (interval_ns,)})

    def settings(self, recorded: Setting, *, is_max_rate: bool) -> list[Setting]:
        """All combinations, the recorded setting among them; ascending, a timeout of -1 last. Of a
        run at the highest rate, which had no rate of arrivals, factors of the rate mean nothing."""
        asked = self.asked(recorded, is_max_rate=is_max_rate)
        return sorted({recorded, *asked}, key=what_if.ascending)

    def asked(self, recorded: Setting, *, is_max_rate: bool) -> set[Setting]:
        """All combinations; the recorded setting only if it is one of them. Raises: ConfigError for
        aligned timeouts without checkpoints."""
        lists = dict(self.lists)
        if is_max_rate:
            lists.pop(what_if.RATE_FACTOR.values, None)
        if what_if.DEBLOAT_TARGET.values in lists:
            lists.setdefault(what_if.DEBLOATING.values, (True,))
        varied = [each for each in what_if.SETTINGS if each.values in lists]
        found = set()
        for combination in product(*(lists[each.values] for each in varied)):
            setting = recorded
            for each, value in zip(varied, combination, strict=True):
                setting = each.put(setting, value)
            found.add(setting)
        if what_if.ALIGNMENT.values in lists and not any(map(what_if.ALIGNMENT.acts_in, found)):
            raise ConfigError(NO_CHECKPOINTS)
        return found
