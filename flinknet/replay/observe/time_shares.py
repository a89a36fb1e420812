"""Where the time of a run's channels went, in ns and as shares that sum to 1."""

from __future__ import annotations

from .observed import ObservedRows
from .regimes import REGIMES


def shares_of(rows: ObservedRows, channel: int) -> dict[str, float] | None:
    """Share of each regime in the time of one channel; None where nobody knows, as between
    processes."""
    return _shares(spent_ns(rows, {channel}))


def shares_of_all(rows: ObservedRows) -> dict[str, float] | None:
    """The same of all channels together."""
    return _shares(spent_ns(rows, None))


def spent_ns(rows: ObservedRows, channels: set[int] | None) -> dict[str, int]:
    """Time in each regime, of some channels or of all together."""
    spent = dict.fromkeys(REGIMES, 0)
    for row in rows.regimes:
        if channels is None or row["channel"] in channels:
            spent[row["regime"]] += row["ns"]
    return spent


def _shares(spent: dict[str, int]) -> dict[str, float] | None:
    total = sum(spent.values())
    if not total:
        return None
    return {name: ns / total for name, ns in spent.items()}
