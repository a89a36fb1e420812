"""One run has one verdict: that of bench, from what its tasks measured, is that of a replay."""

from __future__ import annotations
