"""Types of numpy arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
"""Instants in ns, counts, indices."""

FloatArray = NDArray[np.float64]
"""Measured values, rates and shares."""
