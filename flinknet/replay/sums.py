"""Rows added up by their keys, as Arrow tables."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Sums:
    """Makes one row of all that have the same keys, sorted by them. What is added up in parts adds
    up to the same."""

    keys: tuple[str, ...]
    sums: tuple[str, ...]
    largest: tuple[str, ...] = ()

    def __call__(self, rows: pa.Table) -> pa.Table:
        """The table with keys, sums and largest values, in this order."""
        asked = [(name, "sum") for name in self.sums] + [(name, "max") for name in self.largest]
        found = rows.group_by(list(self.keys), use_threads=False).aggregate(asked)
        names = {f"{name}_{how}": name for name, how in asked}
        found = found.rename_columns([names.get(name, name) for name in found.column_names])
        found = found.select([*self.keys, *self.sums, *self.largest])
        return found.sort_by([(name, "ascending") for name in self.keys])
