"""The first rows of a window, by their instants, however large the blocks are."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from flinknet.predict.fit.window_rows import Window, read_window
from flinknet.trace import TraceFile
from tests.recorded_run import MS, START_NS, write_run

END_NS = START_NS + 1_000 * MS


def test_of_a_block_with_more_rows_than_are_wanted_the_first_ones_count(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", block_events=10_000)

    def read(rows_max: int) -> Window:
        return read_window(
            [TraceFile(str(run / "tm-0.fnt"))],
            None,
            START_NS,
            END_NS,
            until_ns=None,
            rows_max=rows_max,
            rows_to_ns=END_NS,
            with_arrivals=False,
        )

    whole, first = read(1_000_000), read(20)
    parts = [(whole.rows.sent, first.rows.sent)]
    parts.append((whole.rows.credit_received, first.rows.credit_received))
    at_ns = np.sort(np.concatenate([every["at_ns"] for every, _ in parts]))
    assert first.rows_to_ns == at_ns[19] < whole.rows_to_ns == END_NS
    for every, few in parts:
        wanted = every["at_ns"] <= first.rows_to_ns
        assert 0 < wanted.sum() < len(wanted)
        assert np.array_equal(few["at_ns"], every["at_ns"][wanted])
