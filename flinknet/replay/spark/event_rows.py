"""Events as Arrow rows of the data source: the selected rows and columns.

Conditions of a query on instants, channels and kinds can select rows, too, so that blocks without
such rows are not read. Spark 4.1 and later offer them
(`spark.sql.python.filterPushdown.enabled`). Up to Spark 4.3, Spark keeps the remaining conditions
with the source and not with the query: the next query of the same DataFrame, or the other side of a
self-join, silently lacks rows. So conditions are only taken on request:

- option `pushdown` = `true`: where Spark keeps them with the query; refused elsewhere.
- `one-query`: also elsewhere, if each `load` serves one query with one reference.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flinknet.arrays import EventColumns
from flinknet.errors import ConfigError, TraceFormatError
from flinknet.predict.measured_part import FOREVER_NS
from flinknet.storage import AnyPath
from flinknet.trace import RunManifest, TraceReader
from flinknet.trace.arrow import DERIVED, EVENT_SCHEMA, NAMES, STORED_FOR, event_array
from flinknet.trace.schema import COLUMNS, TIME_COLUMNS

RUN = "run"
"""The column that names the run directory; a trace file alone has none."""

SOURCE_SCHEMA = EVENT_SCHEMA.append(pa.field(RUN, pa.string()))
"""All columns of the data source, in their order."""

_OF_RUN = "name of the run directory; of several of that name with the directories above it"

MEANINGS = {each.name: each.meaning for each in (*COLUMNS, *TIME_COLUMNS)} | {
    **{name: meaning for name, (meaning, _) in DERIVED.items()},
    RUN: _OF_RUN,
}
"""Meaning of each column."""

_BOUNDS = ("from_ns", "to_ns")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Conditions on rows: channels and kinds (ordinals of core.probe.MessageKind), None for all,
    and instants in [from_ns, to_ns)."""

    channels: tuple[int, ...] | None = None
    kinds: tuple[int, ...] | None = None
    from_ns: int = -FOREVER_NS
    to_ns: int = FOREVER_NS

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Wanted:
        """Read the options of the source; raises ConfigError."""
        kinds = _listed(options, "kinds")
        for kind in kinds or ():
            if kind not in NAMES["kind"]:
                raise ConfigError(
                    f"kinds: there is no {kind!r}; there are {', '.join(NAMES['kind'])}"
                )
        channels = _listed(options, "channels")
        bounds = {name: integer(name, options[name]) for name in _BOUNDS if name in options}
        return cls(
            None if channels is None else tuple(integer("channels", each) for each in channels),
            None if kinds is None else tuple(NAMES["kind"].index(each) for each in kinds),
            **bounds,
        )

    def of_channels(self, channels: Iterable[Any]) -> Wanted:
        """Restrict to some channels; -1 is null in a row and equals nothing."""
        own = {each for each in channels if isinstance(each, int) and each >= 0}
        return replace(self, channels=_both(self.channels, own))

    def of_kinds(self, names: Iterable[Any]) -> Wanted:
        """Restrict to some kinds; an unknown name selects no row."""
        own = {NAMES["kind"].index(each) for each in names if each in NAMES["kind"]}
        return replace(self, kinds=_both(self.kinds, own))

    def within(self, from_ns: int, to_ns: int = FOREVER_NS) -> Wanted:
        return replace(self, from_ns=max(from_ns, self.from_ns), to_ns=min(to_ns, self.to_ns))

    def may_lie_within(self, first_ns: Any, last_ns: Any) -> Any:
        """Whether events between two instants may be wanted; of arrays an array."""
        return (last_ns >= self.from_ns) & (first_ns < self.to_ns)

    def may_be_held(self, held: npt.NDArray[np.void]) -> bool:
        """Whether a block may hold wanted rows, by the channels in its index entry."""
        may = self.may_lie_within(held["first_ns"], held["last_ns"])
        if self.channels is not None:
            may &= np.isin(held["channel"], self.channels)
        return bool(may.any()) and self.kinds != ()

    @property
    def _is_bounded(self) -> bool:
        return (self.from_ns, self.to_ns) != (-FOREVER_NS, FOREVER_NS)

    @property
    def columns(self) -> set[str]:
        has_any = {
            "channel": self.channels is not None,
            "kind": self.kinds is not None,
            "at_ns": self._is_bounded,
        }
        return {name for name, is_asked in has_any.items() if is_asked}

    def filtered(self, rows: EventColumns) -> EventColumns:
        keep = np.ones(len(next(iter(rows.values()))), dtype=bool)
        if self.channels is not None:
            keep &= np.isin(rows["channel"], self.channels)
        if self.kinds is not None:
            keep &= np.isin(rows["kind"], self.kinds)
        if self._is_bounded:
            keep &= self.may_lie_within(rows["at_ns"], rows["at_ns"])
        return rows if keep.all() else {name: values[keep] for name, values in rows.items()}


@dataclass(frozen=True, slots=True)
class EventRows:
    """Requested columns of SOURCE_SCHEMA, in the requested order, of wanted rows."""

    names: tuple[str, ...]
    wanted: Wanted

    def batches(
        self, reader: TraceReader, process: str, run: AnyPath | None, name_of_run: str | None
    ) -> Iterator[pa.RecordBatch]:
        """A batch for each block of the reader that may hold wanted rows; `run` is the directory of
        the file, None for a trace file alone."""
        connections = _connections(run) if run is not None and "connection" in self.names else {}
        made_from = (STORED_FOR.get(each, (each,)) for each in self.names if each != RUN)
        # at least one, for the number of rows
        stored = sorted(self.wanted.columns.union(*made_from) or {"point"})
        about = process, connections
        for number, block in enumerate(reader.blocks()):
            if not self.wanted.may_be_held(block.channels):
                continue
            rows = self.wanted.filtered(reader.read_block(number, stored))
            count = len(next(iter(rows.values())))
            arrays = [
                pa.repeat(pa.scalar(name_of_run, pa.string()), count)
                if name == RUN
                else event_array(name, rows, *about)
                for name in self.names
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=list(self.names))


def check_columns(names: Collection[str]) -> None:
    """Raises: ConfigError for an unknown column."""
    for name in names:
        if name not in SOURCE_SCHEMA.names:
            raise ConfigError(
                f"columns: there is no {name!r}; there are {', '.join(SOURCE_SCHEMA.names)}"
            )


def integer(name: str, text: str) -> int:
    """The value of an option. Raises: ConfigError."""
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{name}: {text!r} is not a whole number") from None


def _both(known: tuple[int, ...] | None, own: set[int]) -> tuple[int, ...]:
    return tuple(sorted(own if known is None else own.intersection(known)))


def _listed(options: Mapping[str, str], name: str) -> list[str] | None:
    return [each.strip() for each in options[name].split(",")] if name in options else None


def _connections(run: AnyPath) -> dict[int, str]:
    """Connection of each channel, as far as the manifest names it yet."""
    try:
        manifest, _ = RunManifest.load_with_fault(run)
    except TraceFormatError:  # not there yet
        return {}
    return {each.index: each.connection for each in manifest.channels}


NEVER, ALWAYS, ONE_QUERY = "false", "true", "one-query"

_NEVER_NULL = ("at_ns", "kind")


def is_pushdown_asked(options: Mapping[str, str]) -> bool:
    """Whether conditions are taken. Raises: ConfigError where they cannot be."""
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
    """Take conditions of pyspark.sql.datasource, all of which must hold, into the rows. Returns:
    the rows, and the conditions that were not taken."""
    wanted, rest = rows.wanted, []
    for each in filters:
        narrowed = _narrowed(wanted, each)
        if narrowed is None:
            rest.append(each)
        else:
            wanted = narrowed
    return replace(rows, wanted=wanted), rest


def _narrowed(wanted: Wanted, condition: Any) -> Wanted | None:
    """Restrict to rows for which a condition holds; None if stored rows do not show that."""
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
    bounds = {
        "EqualTo": (value, value + 1),
        "EqualNullSafe": (value, value + 1),
        "GreaterThan": (value + 1, FOREVER_NS),
        "GreaterThanOrEqual": (value, FOREVER_NS),
        "LessThan": (-FOREVER_NS, value),
        "LessThanOrEqual": (-FOREVER_NS, value + 1),
    }
    return wanted.within(*bounds[kind]) if kind in bounds else None
