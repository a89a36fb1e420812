"""Conditions of a query that the data source applies itself, so that blocks without such rows are
not read: instants, channels, kinds.

Spark 4.1 and later offer them (`spark.sql.python.filterPushdown.enabled`). Up to 4.3 Spark keeps
what came of them with the source, and not with the query: the next query of the same DataFrame, or
the other side of a self-join, silently lacks rows. So nothing is taken unless it is asked for:

- option `pushdown` = `true`: where Spark keeps it with the query; refused elsewhere.
- `one-query`: also elsewhere, by who knows that each `load` serves one query with one reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flinknet.errors import ConfigError

from .event_rows import EventRows, Wanted

NEVER, ALWAYS, ONE_QUERY = "false", "true", "one-query"

_NEVER_NULL = ("at_ns", "kind")


def is_pushdown_asked(options: Mapping[str, str]) -> bool:
    """Whether conditions shall be taken. Raises: ConfigError where they cannot be."""
    import pyspark
    from pyspark.sql.datasource import DataSourceReader

    asked = options.get("pushdown", NEVER).lower()
    if asked == NEVER:
        return False
    if asked not in (ALWAYS, ONE_QUERY):
        raise ConfigError(f"pushdown: {asked!r} is none of {NEVER}, {ALWAYS}, {ONE_QUERY}")
    instead = "use the options channels, kinds, from_ns and to_ns"
    if not hasattr(DataSourceReader, "pushFilters"):
        raise ConfigError(f"pushdown: it needs Spark 4.1, this is {pyspark.__version__}; {instead}")
    is_kept_with_query = hasattr(DataSourceReader, "pushLimit")  # came with the correction
    if asked == ALWAYS and not is_kept_with_query:
        raise ConfigError(
            f"pushdown: Spark {pyspark.__version__} would apply the conditions of one query to the"
            f" next one of the same DataFrame; {instead}, or {ONE_QUERY} if there is no next one"
        )
    return True


def take_filters(rows: EventRows, filters: Sequence[Any]) -> tuple[EventRows, list[Any]]:
    """The rows with the conditions that are taken, and the conditions that are not.

    Args:
        filters: of pyspark.sql.datasource, all of which must hold.
    """
    wanted, rest = rows.wanted, []
    for each in filters:
        narrowed = _narrowed(wanted, each)
        if narrowed is None:
            rest.append(each)
        else:
            wanted = narrowed
    return replace(rows, wanted=wanted), rest


def _narrowed(wanted: Wanted, condition: Any) -> Wanted | None:
    """Those rows for which a condition holds; None if that cannot be said of rows as they are
    stored."""
    kind = type(condition).__name__
    column, *inner = getattr(condition, "attribute", ("",))
    value = getattr(condition, "value", None)
    if inner:
        return None
    if kind == "IsNotNull":
        return wanted if column in _NEVER_NULL else None
    if value is None:
        return None
    if kind in ("EqualTo", "EqualNullSafe", "In"):
        values = value if kind == "In" else (value,)
        if column == "channel":
            return wanted.of_channels(values)
        if column == "kind":
            return wanted.of_kinds(values)
    if column != "at_ns" or not isinstance(value, int):
        return None
    if kind in ("EqualTo", "EqualNullSafe"):
        return wanted.since(value).before(value + 1)
    if kind in ("GreaterThan", "GreaterThanOrEqual"):
        return wanted.since(value + (kind == "GreaterThan"))
    if kind in ("LessThan", "LessThanOrEqual"):
        return wanted.before(value + (kind == "LessThanOrEqual"))
    return None
