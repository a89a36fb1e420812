"""flinknet: Flink's credit-based network stack, shown, measured and predicted."""

__version__ = "0.1.0"

from .compiled_core import use_compiled

interpreted_because = use_compiled()
"""Why the hot path runs as Python; None when it runs compiled."""
