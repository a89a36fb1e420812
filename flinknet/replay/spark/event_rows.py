"""Events as Arrow rows of the data source: the selected rows and columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
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
MEANINGS = {each.name: each.meaning for each in (*COLUMNS, *TIME_COLUMNS)} | {
    **{name: meaning for name, (meaning, _) in DERIVED.items()},
    RUN: "name of the run directory; of several of that name with the directories above it",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Conditions on rows: channels and kinds (ordinals), None for all; instants in [from_ns,
    to_ns)."""

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
        bounds = ("from_ns", "to_ns")
        return cls(
            None if channels is None else tuple(integer("channels", each) for each in channels),
            None if kinds is None else tuple(NAMES["kind"].index(each) for each in kinds),
            **{name: integer(name, options[name]) for name in bounds if name in options},
        )

    def may_lie_within(self, first_ns: Any, last_ns: Any) -> Any:
        """Whether events between two instants may be wanted; of arrays an array."""
        return (last_ns >= self.from_ns) & (first_ns < self.to_ns)

    def may_be_held(self, held: npt.NDArray[np.void]) -> bool:
        """Whether a block may hold wanted rows, by the channels in its index entry."""
        may = self.may_lie_within(held["first_ns"], held["last_ns"])
        if self.channels is not None:
            may &= np.isin(held["channel"], self.channels)
        return bool(may.any())

    @property
    def columns(self) -> set[str]:
        is_bounded = (self.from_ns, self.to_ns) != (-FOREVER_NS, FOREVER_NS)
        lists = {"channel": self.channels, "kind": self.kinds, "at_ns": () if is_bounded else None}
        return {name for name, wanted in lists.items() if wanted is not None}

    def filtered(self, rows: EventColumns) -> EventColumns:
        keep = np.ones(len(next(iter(rows.values()))), dtype=bool)
        if self.channels is not None:
            keep &= np.isin(rows["channel"], self.channels)
        if self.kinds is not None:
            keep &= np.isin(rows["kind"], self.kinds)
        if "at_ns" in self.columns:
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
    for name in names:
        if name not in SOURCE_SCHEMA.names:
            raise ConfigError(
                f"columns: there is no {name!r}; there are {', '.join(SOURCE_SCHEMA.names)}"
            )


def integer(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{name}: {text!r} is not a whole number") from None


def _listed(options: Mapping[str, str], name: str) -> list[str] | None:
    return [each.strip() for each in options[name].split(",")] if name in options else None


def _connections(run: AnyPath) -> dict[int, str]:
    try:
        manifest, _ = RunManifest.load_with_fault(run)
    except TraceFormatError:  # not there yet
        return {}
    return {each.index: each.connection for each in manifest.channels}
