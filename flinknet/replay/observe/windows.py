"""Windows of time that observed answers are told in: how wide they are, and what data buffers add
up to in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from flinknet.arrays import IntArray
from flinknet.core.probe import MessageKind
from flinknet.trace.event_block import IS_BUFFER_BY_TYPE, EventBlock

from ..spark.units import Answer, WorkUnit

WINDOWS_MAX = 60
"""Windows that a run's measured part is cut into at most; their width is a round number."""


def window_width_ns(duration_ns: int) -> int:
    """The smallest of 1, 2, 5, 10, 20 … ns that cuts a duration into at most WINDOWS_MAX
    windows."""
    width_ns = 1
    while True:
        for factor in (1, 2, 5):
            if duration_ns <= factor * width_ns * WINDOWS_MAX:
                return factor * width_ns
        width_ns *= 10


def by_window(
    unit: WorkUnit,
    blocks: Iterator[EventBlock],
    point: int,
    kernel: Callable[..., IntArray],
    columns: Sequence[str],
    names: Sequence[str],
) -> Iterator[Answer]:
    """What data buffers at a point add up to, by channel and window.

    Args:
        kernel: of `sums_kernel`, which gives rows of span, window, and a figure for each name.
        columns: that it takes beside those of every such kernel.
        names: of the figures in the answer.
    """
    width_ns = window_width_ns(unit.to_ns - unit.from_ns)
    for block in blocks:
        spans = block.spans.of(MessageKind.BUFFER_RESPONSE, point)
        if not len(spans.starts):
            continue
        span, window, *figures = kernel(
            spans.starts,
            spans.ends,
            block["at_ns"],
            block["data_type"],
            IS_BUFFER_BY_TYPE,
            *(block[name] for name in columns),
            (unit.from_ns, unit.until_ns, width_ns),
        ).T
        yield {
            "run": np.full(len(span), unit.run),
            "channel": spans.channel[span],
            "from_ns": window * width_ns,
            "width_ns": np.full(len(span), width_ns),
            **dict(zip(names, figures, strict=True)),
        }
