"""The distribution of the latency, as a plot wants it.

{"low_ns": […], "high_ns": […], "records": […], "percentiles": [[q, ns], …]}
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flinknet.histogram import LogLinearHistogram, bucket_bounds_ns

from .sums import sum_by_group

RANGES_PER_OCTAVE = 8
"""Ranges of the latency's distribution in each power of two; equally wide on a logarithmic axis."""

PERCENTILES = (
    *(0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95),
    *(0.975, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999, 0.99995, 0.99999),
)


def distribution(histogram: LogLinearHistogram) -> dict[str, Any]:
    """Ranges that hold something, and the percentiles that enough samples support."""
    bounds = np.array(
        [bucket_bounds_ns(index) for index in np.flatnonzero(histogram.counts).tolist()]
    )
    middles_ns = np.maximum((bounds.reshape(-1, 2).sum(axis=1) - 1) / 2, 1)
    number, inverse = np.unique(
        np.floor(np.log2(middles_ns) * RANGES_PER_OCTAVE), return_inverse=True
    )
    counts = histogram.counts[histogram.counts > 0]
    return {
        "low_ns": np.exp2(number / RANGES_PER_OCTAVE).round(1).tolist(),
        "high_ns": np.exp2((number + 1) / RANGES_PER_OCTAVE).round(1).tolist(),
        "records": sum_by_group(inverse, counts, len(number)).tolist(),
        "percentiles": [
            [q, value]
            for q in PERCENTILES
            if (value := histogram.supported_percentile(q)) is not None
        ],
    }
