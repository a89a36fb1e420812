"""Student's t distribution."""

from __future__ import annotations

import math
from functools import cache


@cache
def student_t_quantile(probability: float, degrees: int) -> float:
    """The quantile of Student's t distribution for 0.5 <= probability < 1, by bisection."""
    low, high = 0.0, 1.0
    while student_t_cdf(high, degrees) < probability:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        if student_t_cdf(middle, degrees) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def student_t_cdf(t: float, degrees: int) -> float:
    """Student's t distribution function for t >= 0 and whole degrees of freedom.

    The finite trigonometric sums of Abramowitz and Stegun, 26.7.3 and 26.7.4.
    """
    theta = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(theta), math.cos(theta)
    if degrees % 2:
        term = total = cosine if degrees > 1 else 0.0
        for k in range(2, degrees - 1, 2):
            term *= cosine**2 * k / (k + 1)
            total += term
        inside = 2 / math.pi * (theta + sine * total)
    else:
        term = total = 1.0
        for k in range(1, degrees - 2, 2):
            term *= cosine**2 * k / (k + 1)
            total += term
        inside = sine * total
    return (1 + inside) / 2
