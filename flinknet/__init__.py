"""flinknet: Flink's credit-based network stack, shown, measured and predicted."""

__version__ = "0.1.0"

from .starting import end_at_interrupt

end_at_interrupt()

from .compiled_core import use_compiled  # noqa: E402 - a Ctrl-C may come during this import

interpreted_because = use_compiled()
"""Why the hot path runs as Python; None when it runs compiled."""
